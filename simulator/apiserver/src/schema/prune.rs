//! Dropping what a custom resource's schema does not know.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/pruning` and `.../schema/objectmeta`.

use serde_json::{Map, Value};

use super::typed::{self, Decoded};
use super::{Node, SchemaRef, SchemaSet, builtin, prepend};

/// Drops unknown fields of a whole custom object; its metadata is read as every object's is.
///
/// # Errors
/// Metadata of the wrong type, in Go's words.
pub fn prune(object: &mut Value, schema: &SchemaRef) -> Result<Decoded, String> {
    let mut pruning = Pruning { set: &schema.set, unknown: Vec::new() };
    if let Value::Object(members) = object {
        pruning.metadata(members)?;
        pruning.object(members, schema.node(), true)?;
    }
    Ok(Decoded { unknown: pruning.unknown })
}

/// Would [`prune`] drop nothing outside of the metadata?
#[must_use]
pub fn is_known(object: &Value, schema: &SchemaRef) -> bool {
    has_only_known(object, schema.node(), &schema.set, true)
}

/// Does the schema know every field of a value that is no object of its own, such as a default?
#[must_use]
pub(crate) fn is_known_value(value: &Value, schema: &SchemaRef) -> bool {
    has_only_known(value, schema.node(), &schema.set, schema.node().embedded_resource)
}

fn has_only_known(value: &Value, node: &Node, set: &SchemaSet, is_resource: bool) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(name, value)| {
            if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            match node.properties.get(name).copied().or(node.additional) {
                Some(id) => {
                    let node = &set.nodes[id as usize];
                    has_only_known(value, node, set, node.embedded_resource)
                }
                None => node.preserve_unknown || node.additional_any,
            }
        }),
        Value::Array(items) => node.items.is_none_or(|id| {
            let node = &set.nodes[id as usize];
            items.iter().all(|item| has_only_known(item, node, set, node.embedded_resource))
        }),
        _ => true,
    }
}

struct Pruning<'a> {
    set: &'a SchemaSet,
    unknown: Vec<String>,
}

impl<'a> Pruning<'a> {
    fn node(&self, id: u32) -> &'a Node {
        &self.set.nodes[id as usize]
    }

    fn metadata(&mut self, members: &mut Map<String, Value>) -> Result<(), String> {
        let (Some(metadata), Some(schema)) = (members.get_mut("metadata"), builtin::object_meta()) else {
            return Ok(());
        };
        if metadata.is_null() {
            return Ok(());
        }
        let mut found = typed::decode(metadata, schema)?.unknown;
        prepend(&mut found, || "metadata".to_owned());
        self.unknown.append(&mut found);
        Ok(())
    }

    fn value(&mut self, value: &mut Value, node: &'a Node) -> Result<(), String> {
        match value {
            Value::Object(members) => {
                if node.embedded_resource {
                    self.metadata(members)?;
                }
                self.object(members, node, node.embedded_resource)
            }
            Value::Array(items) => {
                let Some(id) = node.items else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    let before = self.unknown.len();
                    self.value(item, self.node(id))?;
                    prepend(&mut self.unknown[before..], || format!("[{index}]"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, members: &mut Map<String, Value>, node: &'a Node, is_resource: bool) -> Result<(), String> {
        let mut stop = Ok(());
        members.retain(|name, value| {
            if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let Some(id) = node.properties.get(name).copied().or(node.additional) else {
                let known = node.preserve_unknown || node.additional_any;
                if !known {
                    self.unknown.push(name.clone());
                }
                return known;
            };
            let before = self.unknown.len();
            if let Err(sentence) = self.value(value, self.node(id)) {
                stop = Err(sentence);
            }
            prepend(&mut self.unknown[before..], || name.clone());
            true
        });
        stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_go_at_every_level_and_known_ones_stay() {
        let schema =
            SchemaSet::single(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "members": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "known": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true},
            }}}}));
        let mut object = json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "odd": 1}, "notes": "z",
            "spec": {
                "extra": 1, "members": 1,
                "free": {"x": {"y": null}, "known": {"a": 1, "b": 2}},
                "list": [{"a": 1}, {"b": 2}],
                "labels": {"x": "y"},
                "template": {"kind": "Pod", "metadata": {"name": "ok", "odd": 1}, "spec": {}},
            },
        });
        let found = prune(&mut object, &schema).expect("sound metadata");
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "X", "metadata": {"name": "a"},
                "spec": {
                    "members": 1,
                    "free": {"x": {"y": null}, "known": {"a": 1}},
                    "list": [{"a": 1}, {}],
                    "labels": {"x": "y"},
                    "template": {"kind": "Pod", "metadata": {"name": "ok"}},
                },
            })
        );
        assert_eq!(
            found.unknown,
            [
                "metadata.odd",
                "notes",
                "spec.extra",
                "spec.free.known.b",
                "spec.list[1].b",
                "spec.template.metadata.odd",
                "spec.template.spec"
            ]
        );
    }
}
