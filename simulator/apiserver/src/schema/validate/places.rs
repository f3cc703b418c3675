//! List types and embedded resources: what a schema says beyond JSON Schema.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/listtype` and `.../schema/objectmeta`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Earlier, field, join};
use crate::error::FieldError;
use crate::schema::{ListType, Node, SchemaRef, SchemaSet};

/// Embedded resources first, then duplicates in sets and maps.
pub(super) fn validate(object: &Value, old: Option<&Value>, schema: &SchemaRef) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.set.embeds {
        let mut walk = Walk { set: &schema.set, errors: &mut errors, check: embedded };
        walk.value(object, old, schema.node(), "");
    }
    if schema.set.keyed_lists {
        let mut walk = Walk { set: &schema.set, errors: &mut errors, check: duplicates };
        walk.value(object, old, schema.node(), "");
    }
    errors
}

struct Walk<'a> {
    set: &'a SchemaSet,
    errors: &'a mut Vec<FieldError>,
    check: fn(&Value, &Node, &str, &mut Vec<FieldError>),
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, old: Option<&Value>, node: &Node, path: &str) {
        if old == Some(value) {
            return;
        }
        (self.check)(value, node, path, self.errors);
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if let Some(id) = node.properties.get(name).copied().or(node.additional) {
                        let old = old.and_then(|old| old.get(name));
                        self.value(member, old, &self.set.nodes[id as usize], &join(path, name));
                    }
                }
            }
            Value::Array(items) => {
                let Some(id) = node.items else { return };
                let earlier = Earlier::new(old, node);
                for (index, item) in items.iter().enumerate() {
                    self.value(item, earlier.of(item), &self.set.nodes[id as usize], &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }
}

fn embedded(value: &Value, node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let Value::Object(members) = value else { return };
    if !node.embedded_resource {
        return;
    }
    match members.get("apiVersion") {
        Some(Value::String(version)) if version.is_empty() => {
            errors.push(FieldError::required(join(path, "apiVersion"), "must not be empty"));
        }
        Some(version @ Value::String(text)) if text.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(join(path, "apiVersion"), version, detail));
        }
        None | Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(join(path, "apiVersion"), other, "must be a string")),
    }
    match members.get("kind") {
        Some(Value::String(kind)) if kind.is_empty() => {
            errors.push(FieldError::required(join(path, "kind"), "must not be empty"));
        }
        None | Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(join(path, "kind"), other, "must be a string")),
    }
}

fn duplicates(value: &Value, node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let (Value::Array(items), Some(list_type)) = (value, node.list_type) else { return };
    let mut seen = BTreeSet::new();
    let mut told = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = match list_type {
            ListType::Atomic => return,
            ListType::Set => item.clone(),
            ListType::Map => {
                let key = |name: &String| item.get(name).map(|value| (name.clone(), value.clone()));
                Value::Object(node.list_map_keys.iter().filter_map(key).collect::<Map<_, _>>())
            }
        };
        let text = key.to_string();
        if !seen.insert(text.clone()) && told.insert(text) {
            errors.push(FieldError::duplicate(field(&format!("{path}[{index}]")), &key));
        }
    }
}
