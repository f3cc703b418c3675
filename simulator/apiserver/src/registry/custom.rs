//! What its definition says about a custom object.

use serde_json::Value;

use crate::error::FieldError;
use crate::object::Object;
use crate::resource::Resource;

/// Everything in a custom object that its definition refuses; `old` for updates.
pub(crate) fn validate(resource: &Resource, object: &Value, old: Option<&Object>) -> Vec<FieldError> {
    if resource.is_custom() {
        crate::definitions::validate(object, old.map(|old| &**old), resource)
    } else {
        Vec::new()
    }
}
