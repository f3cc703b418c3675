//! `CustomResourceDefinition`s: what one means for the API server.

use std::sync::Arc;

use crate::object::Object;
use crate::resource::Resource;

/// A definition as the server uses it, made once when the definition changes.
#[derive(Debug)]
pub struct Definition {
    /// `metadata.name`.
    pub name: String,
    /// Version in which objects are stored.
    pub storage: String,
}

impl Definition {
    /// Version in which objects are stored.
    #[must_use]
    pub fn storage_version(&self) -> &str {
        &self.storage
    }

    /// Can objects be selected by this field (`selectableFields`)?
    #[must_use]
    pub fn is_selectable(&self, _version: &str, _field: &str) -> bool {
        false
    }
}

/// The resources that a committed definition makes the server serve: one for each served version,
/// once it is established.
#[must_use]
pub fn served(_definition: &Object) -> Vec<Arc<Resource>> {
    Vec::new()
}
