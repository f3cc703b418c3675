//! Rules for `metadata`, common to every kind, custom ones too.
//!
//! Source: `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`.

use serde_json::Value;

use super::names::{self, NameRule};
use crate::error::{FieldError, FieldErrorKind};
use crate::object::ObjectExt;

/// Keys and values of all annotations together, in bytes.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Everything wrong with the metadata of a new object.
#[must_use]
pub fn validate(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_at("metadata", &object["metadata"], Some(namespaced), rule, &mut errors);
    errors
}

/// Everything wrong with metadata at a path. `namespaced` is `None` for objects inside others, whose
/// namespace is not judged.
pub fn validate_at(
    path: &str,
    metadata: &Value,
    namespaced: Option<bool>,
    rule: NameRule,
    errors: &mut Vec<FieldError>,
) {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let generate_name = text("generateName");
    if !generate_name.is_empty() {
        for wrong in rule.check(generate_name, true) {
            errors.push(FieldError::invalid(format!("{path}.generateName"), &metadata["generateName"], wrong));
        }
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), "name or generateName is required"));
    } else {
        for wrong in rule.check(text("name"), false) {
            errors.push(FieldError::invalid(format!("{path}.name"), &metadata["name"], wrong));
        }
    }
    match namespaced {
        Some(true) if text("namespace").is_empty() => {
            errors.push(FieldError::required(format!("{path}.namespace"), ""));
        }
        Some(true) => {
            for wrong in NameRule::Namespace.check(text("namespace"), false) {
                errors.push(FieldError::invalid(format!("{path}.namespace"), &metadata["namespace"], wrong));
            }
        }
        Some(false) if !text("namespace").is_empty() => {
            errors.push(FieldError::forbidden(format!("{path}.namespace"), "not allowed on this type"));
        }
        _ => {}
    }
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation < 0) {
        errors.push(FieldError::invalid(
            format!("{path}.generation"),
            &generation.into(),
            "must be greater than or equal to 0",
        ));
    }
    labels(&format!("{path}.labels"), &metadata["labels"], errors);
    annotations(&format!("{path}.annotations"), &metadata["annotations"], errors);
    owner_references(&format!("{path}.ownerReferences"), &metadata["ownerReferences"], errors);
    finalizers(&format!("{path}.finalizers"), &metadata["finalizers"], errors);
}

/// Everything wrong with a change of metadata.
#[must_use]
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_deleting() {
        let added: Vec<String> = new
            .finalizers()
            .filter(|finalizer| !old.finalizers().any(|known| known == *finalizer))
            .map(|finalizer| format!("{finalizer:?}"))
            .collect();
        if !added.is_empty() {
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    if new.resource_version().is_empty() {
        errors.push(FieldError::invalid("metadata.resourceVersion", &"".into(), "must be specified for an update"));
    }
    if new.generation() < old.generation() {
        errors.push(FieldError::invalid("metadata.generation", &new.generation().into(), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (is, was) = (&new["metadata"][field], &old["metadata"][field]);
        let absent = |value: &Value| value.is_null() || value == "";
        if is != was && !(absent(is) && absent(was)) {
            errors.push(FieldError::invalid(format!("metadata.{field}"), is, "field is immutable"));
        }
    }
    let metadata = &new["metadata"];
    labels("metadata.labels", &metadata["labels"], &mut errors);
    annotations("metadata.annotations", &metadata["annotations"], &mut errors);
    owner_references("metadata.ownerReferences", &metadata["ownerReferences"], &mut errors);
    errors
}

/// Labels: qualified keys, short values.
pub fn labels(path: &str, labels: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        label_key(path, key, errors);
        for wrong in names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path, value, wrong));
        }
    }
}

/// The key of a label.
pub fn label_key(path: &str, key: &str, errors: &mut Vec<FieldError>) {
    for wrong in names::qualified_name(key) {
        errors.push(FieldError::invalid(path, &key.into(), wrong));
    }
}

/// Annotations: qualified keys (case is ignored), a bounded total.
pub fn annotations(path: &str, annotations: &Value, errors: &mut Vec<FieldError>) {
    let mut total = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        for wrong in names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, &key.as_str().into(), wrong));
        }
        total += key.len() + value.as_str().unwrap_or_default().len();
    }
    if total > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            path,
            &Value::Null,
            format!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes"),
        ));
    }
}

fn owner_references(path: &str, references: &Value, errors: &mut Vec<FieldError>) {
    let Some(references) = references.as_array() else { return };
    for reference in references {
        owner_reference(path, reference, errors);
    }
    let text = |reference: &Value, field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let mut controllers = references.iter().filter(|reference| reference["controller"] == true);
    let Some(first) = controllers.next() else { return };
    for other in controllers {
        errors.push(FieldError {
            field: path.to_owned(),
            kind: FieldErrorKind::Invalid,
            value: format!("[{}]", references.iter().map(print_owner_reference).collect::<Vec<_>>().join(",")),
            detail: format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                text(first, "kind"),
                text(first, "name"),
                text(other, "kind"),
                text(other, "name"),
            ),
        });
    }
}

fn owner_reference(path: &str, reference: &Value, errors: &mut Vec<FieldError>) {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    // As Go's schema.ParseGroupVersion: more than one slash parses into nothing.
    let (group, version) = match text("apiVersion").split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    };
    if version.is_empty() {
        errors.push(FieldError::invalid(
            format!("{path}.apiVersion"),
            &text("apiVersion").into(),
            "version must not be empty",
        ));
    }
    for field in ["kind", "name", "uid"] {
        if text(field).is_empty() {
            errors.push(FieldError::invalid(format!("{path}.{field}"), &"".into(), "must not be empty"));
        }
    }
    if (group, version, text("kind")) == ("", "v1", "Event") {
        errors.push(FieldError {
            field: path.to_owned(),
            kind: FieldErrorKind::Invalid,
            value: print_owner_reference(reference),
            detail: "/v1, Kind=Event is disallowed from being an owner".to_owned(),
        });
    }
}

/// An owner reference as Go prints it: fields in the order of the type.
fn print_owner_reference(reference: &Value) -> String {
    print_in_order(
        reference,
        &[
            ("apiVersion", true),
            ("kind", true),
            ("name", true),
            ("uid", true),
            ("controller", false),
            ("blockOwnerDeletion", false),
        ],
    )
}

/// A JSON object with its fields in this order; `true` marks those that are printed although absent
/// (as an empty string).
#[must_use]
pub fn print_in_order(object: &Value, fields: &[(&str, bool)]) -> String {
    let parts: Vec<String> = fields
        .iter()
        .filter_map(|(field, always)| match &object[*field] {
            Value::Null if *always => Some(format!("\"{field}\":\"\"")),
            Value::Null => None,
            value => Some(format!("\"{field}\":{value}")),
        })
        .collect();
    format!("{{{}}}", parts.join(","))
}

/// Short finalizer names that Kubernetes itself uses
/// (`pkg/apis/core/helper/helpers.go`, `IsStandardFinalizerName`).
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

fn finalizers(path: &str, finalizers: &Value, errors: &mut Vec<FieldError>) {
    let Some(list) = finalizers.as_array() else { return };
    for finalizer in list {
        for wrong in names::qualified_name(finalizer.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path, finalizer, wrong));
        }
    }
    let has = |name: &str| list.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            finalizers,
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// The further rule of built-in kinds: a finalizer is qualified or one of Kubernetes' own
/// (`pkg/apis/core/validation`, `ValidateFinalizerName`).
pub fn builtin_finalizers(path: &str, finalizers: &Value, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in finalizers.as_array().into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            errors.push(FieldError::invalid(
                format!("{path}[{index}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deleting_object_takes_no_new_finalizer_but_may_lose_one() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/a", "x/b"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x/b"]);
        assert_eq!(validate_update(&new, &old), []);
        new["metadata"]["finalizers"] = json!(["x/b", "x/c"]);
        let errors = validate_update(&new, &old);
        assert!(errors[0].detail.ends_with(r#"found new finalizers []string{"x/c"}"#), "{errors:?}");
    }

    #[test]
    fn annotations_are_bounded_together() {
        let mut errors = Vec::new();
        annotations("a", &json!({"k": "x".repeat(ANNOTATIONS_BYTES_MAX - 1)}), &mut errors);
        assert_eq!(errors, []);
        annotations("a", &json!({"k": "x".repeat(ANNOTATIONS_BYTES_MAX)}), &mut errors);
        assert_eq!(errors[0].to_string(), "a: Too long: may not be more than 262144 bytes");
    }
}
