//! Defaults of custom resources, and what becomes of nulls.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/defaulting`.

use serde_json::{Map, Value};

use super::{Node, SchemaRef, SchemaSet};

/// Fills in defaults, and drops nulls where the schema neither allows nor replaces them.
///
/// Idempotent. Done on every decoding, of requests and of stored objects.
pub fn apply(object: &mut Value, schema: &SchemaRef) {
    if schema.set.defaults || has_null(object) {
        fill(object, schema.node(), &schema.set);
    }
}

/// Would [`apply`] change nothing?
#[must_use]
pub fn is_complete(object: &Value, schema: &SchemaRef) -> bool {
    !schema.set.defaults && !has_null(object) || is_filled(object, schema.node(), &schema.set)
}

fn is_filled(value: &Value, node: &Node, set: &SchemaSet) -> bool {
    match value {
        Value::Object(members) => {
            let missing = node
                .properties
                .iter()
                .any(|(name, id)| set.nodes[*id as usize].default.is_some() && !members.contains_key(name));
            !missing
                && members.iter().all(|(name, value)| match place(node, name, set) {
                    Some(node) => (node.nullable || !value.is_null()) && is_filled(value, node, set),
                    None => true,
                })
        }
        Value::Array(items) => node.items.is_none_or(|id| {
            let node = &set.nodes[id as usize];
            items.iter().all(|item| is_filled(item, node, set))
        }),
        _ => true,
    }
}

/// The schema of a member.
fn place<'a>(node: &Node, name: &str, set: &'a SchemaSet) -> Option<&'a Node> {
    node.properties.get(name).copied().or(node.additional).map(|id| &set.nodes[id as usize])
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

fn fill(value: &mut Value, node: &Node, set: &SchemaSet) {
    match value {
        Value::Object(members) => fill_object(members, node, set),
        Value::Array(items) => {
            if let Some(id) = node.items {
                let node = &set.nodes[id as usize];
                for item in items {
                    if item.is_null()
                        && !node.nullable
                        && let Some(default) = &node.default
                    {
                        *item = default.clone();
                    }
                    fill(item, node, set);
                }
            }
        }
        _ => {}
    }
}

fn fill_object(members: &mut Map<String, Value>, node: &Node, set: &SchemaSet) {
    members.retain(|name, value| {
        !value.is_null() || place(node, name, set).is_none_or(|node| node.nullable || node.default.is_some())
    });
    for (name, id) in &node.properties {
        let property = &set.nodes[*id as usize];
        if let Some(default) = &property.default
            && members.get(name).is_none_or(|value| value.is_null() && !property.nullable)
        {
            members.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in members.iter_mut() {
        if let Some(node) = place(node, name, set) {
            if value.is_null()
                && !node.nullable
                && let Some(default) = &node.default
            {
                *value = default.clone();
            }
            fill(value, node, set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_what_is_missing_and_nulls_that_may_not_be() {
        let schema = SchemaSet::single(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "b": {"type": "string", "nullable": true},
                "c": {"type": "string", "default": "x"},
                "d": {"type": "string", "nullable": true, "default": "y"},
                "e": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "integer", "default": 1}}}},
                "f": {"type": "object", "default": {}, "properties": {"size": {"type": "string", "default": "10Gi"}}},
                "g": {"type": "object", "properties": {"keep": {"type": "integer", "default": 7}}},
            }}}}),
        );
        let mut object = json!({"spec": {"a": null, "b": null, "c": null, "d": null, "e": [{}, {"w": 5}]}});
        let expected =
            json!({"spec": {"b": null, "c": "x", "d": null, "e": [{"w": 1}, {"w": 5}], "f": {"size": "10Gi"}}});
        apply(&mut object, &schema);
        assert_eq!(object, expected);
        apply(&mut object, &schema);
        assert_eq!(object, expected, "idempotent");
        assert!(is_complete(&object, &schema));
        assert!(!is_complete(&json!({"spec": {}}), &schema));
        let mut empty = json!({});
        apply(&mut empty, &schema);
        assert_eq!(empty, json!({}), "no parent, no defaults");
    }
}
