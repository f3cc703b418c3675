//! What its definition says about a custom object.

use serde_json::Value;

use crate::error::{ApiError, FieldError};
use crate::object::Object;
use crate::resource::{Origin, Resource};

/// Everything in a custom object that its definition refuses; `old` for updates.
pub(crate) fn validate(resource: &Resource, object: &Value, old: Option<&Object>) -> Vec<FieldError> {
    if resource.is_custom() {
        crate::definitions::validate(object, old.map(|old| &**old), resource)
    } else {
        Vec::new()
    }
}

/// May objects be made? Not while the definition is on its way out.
///
/// # Errors
/// 403.
pub(crate) fn check_open(resource: &Resource, name: &str) -> Result<(), ApiError> {
    match &resource.origin {
        Origin::Definition(definition) if definition.terminating => {
            let why = "create not allowed while custom resource definition is terminating";
            Err(ApiError::forbidden(&resource.group_resource, name, why))
        }
        _ => Ok(()),
    }
}

/// The warning of a deprecated version.
pub(crate) fn warning(resource: &Resource) -> Option<String> {
    match &resource.origin {
        Origin::Definition(definition) => definition.version(&resource.kind.version)?.warning.clone(),
        Origin::BuiltIn => None,
    }
}
