//! `scale` subresources: an `autoscaling/v1` `Scale` read from an object and written back into it.

use serde_json::Value;

use crate::error::FieldError;

/// Where the parts of a `Scale` stand in an object, as paths with dots (`spec.replicas`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ScalePaths {
    /// Wanted replicas.
    pub spec_replicas: String,
    /// Observed replicas.
    pub status_replicas: String,
    /// Selector: a `LabelSelector` or its string form.
    pub label_selector: Option<String>,
}

/// Where a resource has the parts of its `Scale`; `None` when it has none.
#[must_use]
pub fn paths(_resource: &crate::resource::Resource) -> Option<ScalePaths> {
    None
}

/// The `Scale` of an object.
#[must_use]
pub fn read(_object: &Value, _paths: &ScalePaths) -> Value {
    Value::Null
}

/// Writes a `Scale` into its object.
pub fn write(_object: &mut Value, _scale: &Value, _paths: &ScalePaths) {}

/// Everything wrong with a `Scale`.
#[must_use]
pub fn validate(_scale: &Value) -> Vec<FieldError> {
    Vec::new()
}
