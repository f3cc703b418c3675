//! What the schema of a definition says about a custom object.

use serde_json::Value;

use crate::error::FieldError;
use crate::object::Object;
use crate::resource::Resource;

/// Everything in a custom object that its schema refuses; `old` for updates.
pub(crate) fn validate(_resource: &Resource, _object: &Value, _old: Option<&Object>) -> Vec<FieldError> {
    Vec::new()
}
