//! `fieldSelector` in a query, and which fields each kind can be selected by.
//!
//! Source: `k8s.io/apimachinery/pkg/fields/selector.go`; fields from `pkg/apis/*/v1/conversion.go` and
//! `pkg/registry/*/*/strategy.go`.

use serde_json::Value;

use crate::object::{Object, ObjectExt};
use crate::resource::{Origin, Resource};

/// What fields must be like. Without terms it matches everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Reads a field selector.
    ///
    /// # Errors
    /// Upstream's sentence about what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let (field, value, equal) =
                split_term(part).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            terms.push(Term { field: field.to_owned(), value: unescape(value)?, equal });
        }
        Ok(Self { terms })
    }

    /// Checks that the resource can be selected by these fields.
    ///
    /// # Errors
    /// Upstream's sentence about the first field that it cannot be selected by.
    pub fn check(&self, resource: &Resource) -> Result<(), String> {
        for term in &self.terms {
            let field = term.field.as_str();
            if matches!(field, "metadata.name" | "metadata.namespace") {
                continue;
            }
            let known = match &resource.origin {
                Origin::Definition(definition) => definition
                    .is_selectable(&resource.kind.version, field)
                    .then_some(())
                    .ok_or_else(|| unsupported(field)),
                Origin::BuiltIn => known(resource, field),
            };
            known?;
        }
        Ok(())
    }

    /// Does it match everything?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that `metadata.name` must have, when the selector says so.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == "metadata.name").map(|term| term.value.as_str())
    }

    /// Does the object satisfy it?
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.terms.iter().all(|term| (field(object, &term.field) == term.value) == term.equal)
    }
}

fn unsupported(field: &str) -> String {
    format!("field label not supported: {field}")
}

fn known(resource: &Resource, field: &str) -> Result<(), String> {
    let of = &resource.group_resource;
    let (fields, refusal): (&[&str], fn(&str) -> String) = match (&*of.group, &*of.resource) {
        ("", "pods") => (
            &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ],
            unsupported,
        ),
        ("", "nodes") => (&["spec.unschedulable"], unsupported),
        ("", "namespaces") => (&["status.phase"], unsupported),
        ("", "secrets") => (&["type"], unsupported),
        ("", "services") => (&["spec.clusterIP", "spec.type"], unsupported),
        ("", "replicationcontrollers") => (&["status.replicas"], unsupported),
        ("", "events") => (&EVENT_FIELDS, unsupported),
        ("events.k8s.io", "events") => (
            &[
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ],
            unsupported,
        ),
        ("batch", "jobs") => (&["status.successful"], |field| format!("field label {field:?} not supported for Job")),
        ("apps", "replicasets") => (&["status.replicas"], unsupported),
        ("certificates.k8s.io", "certificatesigningrequests") => (&["spec.signerName"], unsupported),
        _ => (&[], |field| {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }),
    };
    if fields.contains(&field) { Ok(()) } else { Err(refusal(field)) }
}

const EVENT_FIELDS: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The value of a selectable field as text; what is not set reads as upstream's zero value.
fn field(object: &Object, path: &str) -> String {
    let at = |path: &str| path.split('.').fold(&**object, |value, field| &value[field]);
    match path {
        "metadata.name" => object.name().to_owned(),
        "metadata.namespace" => object.namespace().to_owned(),
        "spec.hostNetwork" | "spec.unschedulable" => at(path).as_bool().unwrap_or_default().to_string(),
        "status.successful" => at("status.succeeded").as_i64().unwrap_or_default().to_string(),
        "status.replicas" => at(path).as_i64().unwrap_or_default().to_string(),
        "status.podIPs" => at("status.podIP").as_str().unwrap_or_default().to_owned(),
        "source" | "reportingComponent" | "reportingController" if object.kind() == "Event" => {
            let named = if path == "source" { at("source.component") } else { at(path) };
            let fallback = if path == "source" { at("reportingComponent") } else { at("source.component") };
            named.as_str().filter(|name| !name.is_empty()).or(fallback.as_str()).unwrap_or_default().to_owned()
        }
        _ if path.starts_with("regarding.") => text(at(&path.replacen("regarding", "involvedObject", 1))),
        _ => text(at(path)),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Splits at commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Splits at the first operator: `!=` before `==` before `=`.
fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], value, equal));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {c}")),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_compared_as_text_and_absent_ones_as_zero() {
        let pod = Arc::new(json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n,1"}}));
        for (selector, chosen) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("spec.nodeName=n\\,1,spec.hostNetwork=false", true),
            ("status.phase=", true),
            ("status.phase==Running", false),
        ] {
            assert_eq!(FieldSelector::parse(selector).map(|parsed| parsed.matches(&pod)), Ok(chosen), "{selector}");
        }
    }
}
