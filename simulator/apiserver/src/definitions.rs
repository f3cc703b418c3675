//! `CustomResourceDefinition`s: what one means for the API server.

/// A definition as the server uses it, made once when the definition changes.
#[derive(Debug)]
pub struct Definition {
    /// `metadata.name`.
    pub name: String,
}
