//! `scale` subresources: an `autoscaling/v1` `Scale` read from an object and written back into it.
//!
//! Source: `pkg/registry/apps/*/storage/storage.go` (`ScaleREST`),
//! `apiextensions-apiserver/pkg/registry/customresource/etcd.go`.

use serde_json::{Map, Value, json};

use super::at::At;
use super::fill::put;
use crate::error::FieldError;
use crate::resource::{Origin, Resource};
use crate::selector::{LabelSelector, Operator};

/// Where the parts of a `Scale` stand in an object, as paths with dots (`spec.replicas`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ScalePaths {
    /// Wanted replicas.
    pub spec_replicas: String,
    /// Observed replicas.
    pub status_replicas: String,
    /// Selector: a `LabelSelector`, a map of labels or its string form.
    pub label_selector: Option<String>,
}

/// Where a resource has the parts of its `Scale`; `None` when it has none.
#[must_use]
pub fn paths(resource: &Resource) -> Option<ScalePaths> {
    resource.subresource("scale")?;
    match &resource.origin {
        Origin::BuiltIn => Some(ScalePaths {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            label_selector: Some("spec.selector".to_owned()),
        }),
        Origin::Definition(definition) => definition.version(&resource.kind.version)?.scale.clone(),
    }
}

/// A path as its parts; a definition's path begins with a dot.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.is_empty())
}

fn value_at<'a>(object: &'a Value, path: &str) -> &'a Value {
    parts(path).fold(object, |value, part| &value[part])
}

/// The `Scale` of an object.
#[must_use]
pub fn read(object: &Value, paths: &ScalePaths) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !object["metadata"][field].is_null() {
            metadata.insert(field.to_owned(), object["metadata"][field].clone());
        }
    }
    let number = |path: &str| value_at(object, path).as_i64().unwrap_or_default();
    let mut spec = json!({});
    // Go leaves a zero out of the spec, but not out of the status.
    if number(&paths.spec_replicas) != 0 {
        spec["replicas"] = number(&paths.spec_replicas).into();
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector =
        paths.label_selector.as_deref().map(|path| selector_text(value_at(object, path))).unwrap_or_default();
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status})
}

/// Writes a `Scale` into its object.
pub fn write(object: &mut Value, scale: &Value, paths: &ScalePaths) {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    let all: Vec<&str> = parts(&paths.spec_replicas).collect();
    let Some((last, path)) = all.split_last() else { return };
    let mut place = object;
    for part in path {
        let Some(inner) = super::fill::object_in(place, part) else { return };
        place = inner;
    }
    put(place, last, replicas.into());
}

/// Everything wrong with a `Scale` of a built-in resource; that of a custom one is judged in its object.
#[must_use]
pub fn validate(scale: &Value, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !resource.is_custom() {
        At::root(scale).get("spec").get("replicas").non_negative(&mut errors);
    }
    errors
}

/// A selector as queries write it, sorted by key.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let is_map = selector.as_object().is_some_and(|map| map.values().all(Value::is_string));
    let structured = if is_map { json!({"matchLabels": selector}) } else { selector.clone() };
    let parsed = LabelSelector::from_object(&structured);
    let mut requirements: Vec<(&str, String)> = parsed
        .requirements()
        .iter()
        .map(|requirement| {
            let (key, values) = (requirement.key.as_str(), requirement.values.join(","));
            let from_label = structured["matchLabels"][key].is_string();
            let text = match requirement.operator {
                Operator::In if from_label => format!("{key}={values}"),
                Operator::In => format!("{key} in ({values})"),
                Operator::NotIn => format!("{key} notin ({values})"),
                Operator::Exists => key.to_owned(),
                Operator::DoesNotExist => format!("!{key}"),
                Operator::GreaterThan => format!("{key}>{values}"),
                Operator::LessThan => format!("{key}<{values}"),
            };
            (key, text)
        })
        .collect();
    requirements.sort();
    requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_queries() {
        for (selector, text) in [
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (json!({"a": "1"}), "a=1"),
            (json!({"matchExpressions": [{"key": "x", "operator": "In", "values": ["2", "1"]}]}), "x in (1,2)"),
            (json!("a=b"), "a=b"),
            (Value::Null, ""),
        ] {
            assert_eq!(selector_text(&selector), text);
        }
    }

    #[test]
    fn a_scale_is_written_where_its_path_leads() {
        let paths = ScalePaths {
            spec_replicas: ".spec.members".to_owned(),
            status_replicas: ".status.members".to_owned(),
            label_selector: None,
        };
        let mut object = json!({"metadata": {"name": "a"}});
        write(&mut object, &json!({"spec": {"replicas": 3}}), &paths);
        assert_eq!(object["spec"]["members"], 3);
        assert_eq!(read(&object, &paths)["spec"]["replicas"], 3);
    }
}
