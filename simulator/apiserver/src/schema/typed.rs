//! Built-in objects as upstream's Go types read and write them.
//!
//! Upstream decodes a body into Go structs and encodes those again: unknown fields are gone, zero values
//! are left out or written as the type says, quantities and times are in canonical form. [`decode`] does the
//! same to JSON in place, in one walk along the schema; doing it again changes nothing.
//!
//! Source: `encoding/json` and `sigs.k8s.io/json`, the types of `k8s.io/api`.

use serde_json::{Map, Value};

use super::go::{self, Shape};
use super::{Node, SchemaRef, SchemaSet, prepend};
use crate::quantity::Quantity;

mod bytes;
mod times;

/// What [`decode`] found besides the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// Paths of fields that the type does not have, for example `spec.replica`.
    pub unknown: Vec<String>,
}

/// Makes `object` what upstream would have after decoding it and would write back.
///
/// # Errors
/// The first value that does not fit its type, in Go's words: `json: cannot unmarshal string into Go
/// struct field PodSpec.spec.hostNetwork of type bool`.
pub fn decode(object: &mut Value, schema: &SchemaRef) -> Result<Decoded, String> {
    let mut walk = Walk { set: &schema.set, unknown: Vec::new(), mismatch: None };
    walk.value(object, schema.id)?;
    match walk.mismatch {
        Some(mismatch) => Err(mismatch.sentence()),
        None => Ok(Decoded { unknown: walk.unknown }),
    }
}

/// A value of the wrong type. Go goes on after the first one and reports it at the end.
struct Mismatch {
    got: String,
    wanted: String,
    /// The struct that has the field, once known.
    holder: Option<String>,
    /// The field's path, list indexes and map keys left out.
    path: String,
}

impl Mismatch {
    fn sentence(&self) -> String {
        let Self { got, wanted, holder, path } = self;
        match holder {
            Some(holder) => {
                format!("json: cannot unmarshal {got} into Go struct field {holder}.{path} of type {wanted}")
            }
            None => format!("json: cannot unmarshal {got} into Go value of type {wanted}"),
        }
    }
}

struct Walk<'a> {
    set: &'a SchemaSet,
    unknown: Vec<String>,
    mismatch: Option<Mismatch>,
}

/// A sentence that ends decoding at once, as an error of a type's own `UnmarshalJSON` does.
type Walked = Result<(), String>;

impl<'a> Walk<'a> {
    fn node(&self, id: u32) -> &'a Node {
        let here = &self.set.nodes[id as usize];
        here.target.map_or(here, |id| &self.set.nodes[id as usize])
    }

    fn wrong(&mut self, value: &Value, id: u32) {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.mismatched(got.to_owned(), id);
    }

    fn mismatched(&mut self, got: String, id: u32) {
        if self.mismatch.is_none() {
            self.mismatch = Some(Mismatch { got, wanted: self.type_name(id), holder: None, path: String::new() });
        }
    }

    /// How Go prints the type at this place.
    fn type_name(&self, id: u32) -> String {
        let node = self.node(id);
        match node.go {
            Shape::Text => "string".to_owned(),
            Shape::Int32 | Shape::IntOrString => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Float => "float64".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::List => node.items.map_or("[]interface {}".to_owned(), |id| format!("[]{}", self.type_name(id))),
            Shape::Map => node
                .additional
                .map_or("map[string]interface {}".to_owned(), |id| format!("map[string]{}", self.type_name(id))),
            _ => node.name.as_deref().map_or("interface {}", go::printed).to_owned(),
        }
    }

    fn value(&mut self, value: &mut Value, id: u32) -> Walked {
        let node = self.node(id);
        match (node.go, &mut *value) {
            (Shape::Any, _) => {}
            (Shape::Struct, Value::Object(fields)) => return self.structure(fields, node),
            (Shape::Struct, Value::Null) => {
                let mut fields = Map::new();
                self.fill(&mut fields, node);
                *value = Value::Object(fields);
            }
            (Shape::Map, Value::Object(members)) => {
                if let Some(id) = node.additional {
                    for (name, member) in members.iter_mut() {
                        let before = self.unknown.len();
                        self.element(member, id)?;
                        prepend(&mut self.unknown[before..], || name.clone());
                    }
                }
            }
            (Shape::List, Value::Array(items)) => {
                if let Some(id) = node.items {
                    for (index, item) in items.iter_mut().enumerate() {
                        let before = self.unknown.len();
                        self.element(item, id)?;
                        prepend(&mut self.unknown[before..], || format!("[{index}]"));
                    }
                }
            }
            (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Float, Value::Number(_)) => {}
            (Shape::Int32 | Shape::Int64, Value::Number(number)) => {
                let fits = match node.go {
                    Shape::Int32 => number.as_i64().is_some_and(|integer| i32::try_from(integer).is_ok()),
                    _ => number.is_i64(),
                };
                if !fits {
                    let got = format!("number {number}");
                    self.mismatched(got, id);
                }
            }
            (Shape::Bytes, Value::String(text)) => *text = bytes::canonical(text)?,
            (Shape::Quantity, Value::String(text)) => *text = quantity(text)?,
            (Shape::Quantity, Value::Number(number)) => *value = Value::String(quantity(&number.to_string())?),
            (Shape::Quantity, Value::Null) => *value = Value::from("0"),
            (Shape::Quantity, _) => return Err(crate::quantity::ParseQuantityError::Format.to_string()),
            (Shape::IntOrString, Value::String(_)) => {}
            (Shape::IntOrString, Value::Number(number)) => {
                if number.as_i64().and_then(|integer| i32::try_from(integer).ok()).is_none() {
                    let got = format!("number {number}");
                    self.mismatched(got, id);
                }
            }
            (Shape::Time | Shape::MicroTime, Value::String(text)) => {
                *text = if node.go == Shape::Time { times::second(text)? } else { times::micro(text)? };
            }
            (Shape::Duration, Value::String(text)) => *text = times::duration(text)?,
            (Shape::SchemaOr, Value::Object(_)) => {
                if let Some(id) = self.set.named.get(JSON_SCHEMA) {
                    return self.value(value, *id);
                }
            }
            (Shape::SchemaOr, Value::Array(items)) => {
                if let Some(id) = self.set.named.get(JSON_SCHEMA) {
                    for item in items.iter_mut().filter(|item| item.is_object()) {
                        self.value(item, *id)?;
                    }
                }
            }
            (Shape::SchemaOr, _) | (_, Value::Null) => {}
            _ => self.wrong(value, id),
        }
        Ok(())
    }

    /// A member of a list or map, where `null` is the zero value of the type.
    fn element(&mut self, value: &mut Value, id: u32) -> Walked {
        if value.is_null() {
            match self.node(id).go {
                Shape::Text | Shape::Time | Shape::MicroTime => *value = Value::from(""),
                Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Float => *value = Value::from(0),
                Shape::Bool => *value = Value::Bool(false),
                _ => {}
            }
            if matches!(self.node(id).go, Shape::Time | Shape::MicroTime) {
                *value = Value::Null;
                return Ok(());
            }
        }
        self.value(value, id)
    }

    fn structure(&mut self, fields: &mut Map<String, Value>, node: &'a Node) -> Walked {
        let mut stop = None;
        fields.retain(|name, value| {
            if stop.is_some() {
                return true;
            }
            let Some(id) = node.properties.get(name) else {
                if node.preserve_unknown {
                    return true;
                }
                self.unknown.push(name.clone());
                return false;
            };
            // Null leaves a field as it is.
            if value.is_null() {
                return false;
            }
            let before = self.unknown.len();
            let sound = self.mismatch.is_none();
            if let Err(sentence) = self.value(value, *id) {
                stop = Some(sentence);
                return true;
            }
            prepend(&mut self.unknown[before..], || name.clone());
            if sound && let Some(mismatch) = &mut self.mismatch {
                // The innermost struct is the one that Go names; the path leads there from the root.
                if mismatch.holder.is_none() {
                    mismatch.holder = node.name.as_deref().map(|name| go::short(name).to_owned());
                    mismatch.path.clone_from(name);
                } else {
                    mismatch.path = format!("{name}.{}", mismatch.path);
                }
            }
            !is_zero(value) || self.set.nodes[*id as usize].keeps_zero
        });
        if let Some(sentence) = stop {
            return Err(sentence);
        }
        self.fill(fields, node);
        Ok(())
    }

    /// Adds what the type always writes, and its defaults.
    fn fill(&mut self, fields: &mut Map<String, Value>, node: &'a Node) {
        for (name, id) in &node.written {
            if fields.contains_key(name) {
                continue;
            }
            let mut value = self.set.nodes[*id as usize].default.clone().unwrap_or_default();
            if let (Value::Object(inner), Shape::Struct) = (&mut value, self.node(*id).go) {
                self.fill(inner, self.node(*id));
            }
            fields.insert(name.clone(), value);
        }
    }
}

/// The schema of schemas.
const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

fn quantity(text: &str) -> Result<String, String> {
    text.trim().parse::<Quantity>().map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}

/// A value that `omitempty` leaves out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;
    use serde_json::json;

    fn decoded(kind: &str, mut object: Value) -> Result<(Value, Vec<String>), String> {
        let schema = builtin::named(kind).expect(kind);
        decode(&mut object, &schema).map(|found| (object, found.unknown))
    }

    #[test]
    fn objects_come_back_as_their_go_types_write_them() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {}, "annotations": null, "creationTimestamp": null},
            "spec": {
                "hostNetwork": false, "priority": 0, "runtimeClassName": "", "hostname": "",
                "securityContext": {},
                "containers": [{
                    "ports": [{"containerPort": 80, "hostPort": 0}],
                    "resources": {"limits": {"cpu": "1000m", "memory": 1024}},
                    "env": [{"name": "A", "value": ""}],
                }],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {
                "priority": 0, "runtimeClassName": "", "securityContext": {},
                "containers": [{
                    "name": "",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "1", "memory": "1024"}},
                    "env": [{"name": "A"}],
                }],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "status": {},
        });
        let (once, unknown) = decoded("io.k8s.api.core.v1.Pod", pod).expect("a pod");
        assert_eq!(once, expected);
        assert!(unknown.is_empty());
        assert_eq!(decoded("io.k8s.api.core.v1.Pod", once).expect("the same").0, expected);
    }

    #[test]
    fn what_a_type_does_not_have_is_dropped_and_named() {
        let set = json!({"spec": {"replica": 1, "template": {"spec": {"containers": [{"name": "a"}, {"imag": "x"}]}}}});
        let (object, unknown) = decoded("io.k8s.api.apps.v1.StatefulSet", set).expect("a StatefulSet");
        assert_eq!(unknown, ["spec.replica", "spec.template.spec.containers[1].imag"]);
        assert_eq!(object["spec"]["template"]["spec"]["containers"][1], json!({"name": "", "resources": {}}));
    }

    #[test]
    fn values_of_the_wrong_type_are_refused_in_the_words_of_go() {
        let cases = [
            (
                "io.k8s.api.core.v1.ConfigMap",
                json!({"data": {"a": 200}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "io.k8s.api.core.v1.ConfigMap",
                json!({"metadata": {"labels": ["x"]}}),
                "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            ),
            (
                "io.k8s.api.core.v1.Pod",
                json!({"spec": {"containers": [{"ports": "80"}]}}),
                "json: cannot unmarshal string into Go struct field Container.spec.containers.ports of type []v1.ContainerPort",
            ),
            (
                "io.k8s.api.apps.v1.StatefulSet",
                json!({"spec": {"replicas": 1.5}}),
                "json: cannot unmarshal number 1.5 into Go struct field StatefulSetSpec.spec.replicas of type int32",
            ),
            (
                "io.k8s.api.core.v1.ConfigMap",
                json!({"binaryData": {"key": "not base64!"}}),
                "illegal base64 data at input byte 3",
            ),
            (
                "io.k8s.api.coordination.v1.Lease",
                json!({"spec": {"renewTime": "2026-01-02T03:04:05Z"}}),
                "parsing time \"2026-01-02T03:04:05Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
            ),
        ];
        for (kind, object, expected) in cases {
            assert_eq!(decoded(kind, object).expect_err(kind), expected);
        }
    }

    #[test]
    fn nulls_are_zero_values_in_maps_and_nothing_in_fields() {
        let map = json!({"data": {"a": null}, "immutable": null});
        let (object, _) = decoded("io.k8s.api.core.v1.ConfigMap", map).expect("a ConfigMap");
        assert_eq!(object, json!({"data": {"a": ""}, "metadata": {}}));
        let (role, _) = decoded("io.k8s.api.rbac.v1.Role", json!({"rules": []})).expect("a Role");
        assert_eq!(role["rules"], Value::Null);
        assert!(role.get("rules").is_some());
    }
}
