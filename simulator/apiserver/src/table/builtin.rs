//! Columns of built-in kinds. Source: `pkg/printers/internalversion/printers.go`.

mod cluster;
mod pod;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE_DESCRIPTION, Column, NAME_DESCRIPTION, age};
use crate::object::ObjectExt;

/// Makes the cells of one object.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// One row of the tables below: name, type, description, priority. An empty name ends in `Name`, and so on:
/// see [`columns`].
type Definition = (&'static str, &'static str, &'static str, i64);

const NAME: Definition = ("Name", "string", NAME_DESCRIPTION, 0);
const AGE: Definition = ("Age", "string", AGE_DESCRIPTION, 0);

/// Columns and cells of a kind that has its own.
pub(super) fn printer(group: &str, kind: &str) -> Option<(Vec<Column>, Cells)> {
    let (definitions, cells) = cluster::printer(group, kind)
        .or_else(|| workload::printer(group, kind))
        .or_else(|| storage::printer(group, kind))
        .or_else(|| pod::printer(group, kind))?;
    let column = |(name, type_, description, priority): &Definition| Column {
        name: (*name).to_owned(),
        type_: (*type_).to_owned(),
        format: if *name == "Name" { "name".to_owned() } else { String::new() },
        description: (*description).to_owned(),
        priority: *priority,
    };
    Some((definitions.iter().map(column).collect(), cells))
}

/// Conditions of a pod's row: finished pods are marked so that clients can fade them.
pub(super) fn pod_conditions(object: &Value) -> Vec<Value> {
    let condition = |reason: &str, message: &str| json!({"type": "Completed", "status": "True", "reason": reason, "message": message});
    match object["status"]["phase"].as_str() {
        Some("Succeeded") => vec![condition("Succeeded", "The pod has completed successfully.")],
        Some("Failed") => vec![condition("Failed", "The pod failed.")],
        _ => Vec::new(),
    }
}

fn name(object: &Value) -> Value {
    object.name().into()
}

fn created(object: &Value, now: Timestamp) -> Value {
    age(&object["metadata"]["creationTimestamp"], now).into()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text, or `<none>`.
fn text_or_none(value: &Value) -> Value {
    or_none(text(value).to_owned())
}

fn or_none(text: String) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `a=1,b=2`, or `<none>`.
fn labels(labels: &Value) -> Value {
    let pairs = labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value)));
    or_none(pairs.collect::<Vec<_>>().join(","))
}

/// A label selector as people write it: `a=1,b in (x,y),c,!d`; `<none>` for none.
/// Requirements are sorted by key, as upstream's `labels.Selector` prints them.
fn selector(selector: &Value) -> Value {
    if !selector.is_object() {
        return "<none>".into();
    }
    let mut parts: Vec<(String, String)> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", text(value))))
        .collect();
    for requirement in items(&selector["matchExpressions"]) {
        let key = text(&requirement["key"]);
        let mut values: Vec<&str> = items(&requirement["values"]).map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(&requirement["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        parts.push((key.to_owned(), shown));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    or_none(parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(","))
}

/// Names and images of the containers of a pod spec.
fn containers(pod_spec: &Value) -> (Value, Value) {
    let joined = |field: &str| -> String {
        items(&pod_spec["containers"]).map(|container| text(&container[field])).collect::<Vec<_>>().join(",")
    };
    (joined("name").into(), joined("image").into())
}
