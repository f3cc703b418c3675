//! Subresources that are actions: `pods/eviction`, `pods/binding`, `bindings`, `serviceaccounts/token`.
//!
//! An action reads the store and yields what to write; the pipeline writes it.

use serde_json::Value;

use super::Context;
use crate::error::ApiError;
use crate::resource::GroupResource;

/// What an action does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Writes, in order; the first that fails ends the action with its answer.
    pub writes: Vec<Write>,
    /// HTTP status code of the answer.
    pub code: u16,
    /// The answer.
    pub answer: Value,
}

/// One write of an action. Its stages are those of an ordinary write without admission: the action
/// itself has been admitted.
#[derive(Clone, Debug)]
pub enum Write {
    /// Replace an object, which carries the version that was read.
    Update(GroupResource, Value),
    /// Delete `namespace`/`name` with these `DeleteOptions`.
    Delete(GroupResource, String, String, Value),
}

/// Is this subresource (or, with an empty `subresource`, this resource) an action?
#[must_use]
pub fn is_action(resource: &str, subresource: &str) -> bool {
    matches!(
        (resource, subresource),
        ("pods", "eviction" | "binding") | ("bindings", "") | ("serviceaccounts", "token")
    )
}

/// Plans an action. `name` is the name in the path (for `bindings`, that in the body); `body` is
/// decoded and defaulted.
///
/// # Errors
/// As upstream refuses it.
pub fn plan(_namespace: &str, _name: &str, _body: &Value, _context: &mut Context<'_>) -> Result<Plan, ApiError> {
    Err(ApiError::no_such_path())
}
