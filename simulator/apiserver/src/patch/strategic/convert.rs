//! Whether a patched object still fits the types of its kind.
//!
//! Upstream turns the result of a strategic patch into a Go object without going through JSON, with
//! errors of its own. Source: `k8s.io/apimachinery/pkg/runtime/converter.go`.

use serde_json::Value;

use crate::schema::SchemaRef;

/// The first member, in the order of names, whose type does not fit, in upstream's words.
#[must_use]
pub fn conversion_error(schema: &SchemaRef, value: &Value) -> Option<String> {
    let node = schema.node();
    match (node.type_.as_str(), value) {
        (_, Value::Null) => None,
        ("object", Value::Object(members)) => members
            .iter()
            .find_map(|(name, value)| schema.member(name).and_then(|member| conversion_error(&member, value))),
        ("object", other) if node.properties.is_empty() && schema.additional().is_some() => {
            Some(format!("cannot restore map from {}", go_kind(other)))
        }
        ("object", other) if !node.properties.is_empty() => {
            Some(format!("cannot restore struct from: {}", go_kind(other)))
        }
        ("array", Value::Array(items)) => {
            let item = schema.items()?;
            items.iter().find_map(|value| conversion_error(&item, value))
        }
        ("array", other) => Some(format!("cannot restore slice from {}", go_kind(other))),
        ("string", Value::Number(_)) if node.format.is_empty() => {
            Some(format!("cannot convert {} to string", go_type(value)))
        }
        ("string", Value::Bool(_) | Value::Array(_) | Value::Object(_)) if node.format.is_empty() => {
            Some("unrecognized type: string".to_owned())
        }
        ("integer", Value::Number(number)) if number.is_f64() => {
            Some(format!("cannot convert float64 to {}", integer_type(&node.format)))
        }
        ("integer", other) if !other.is_number() => Some(format!("unrecognized type: {}", integer_type(&node.format))),
        ("boolean", other) if !other.is_boolean() => Some("unrecognized type: bool".to_owned()),
        _ => None,
    }
}

fn integer_type(format: &str) -> &'static str {
    if format == "int64" { "int64" } else { "int32" }
}

/// Go's kind of a decoded JSON value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        scalar => go_type(scalar),
    }
}

/// Go's type of a decoded JSON value.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
