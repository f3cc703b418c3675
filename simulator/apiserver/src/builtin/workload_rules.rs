//! Rules that workloads share: selector and template, counts and percentages, counters of a status.

use serde_json::Value;

use super::at::{At, Errors, same};
use super::go;
use super::pod_spec;
use crate::selector::LabelSelector;

/// `spec.selector`, and that the template's labels match it.
pub(super) fn selector(spec: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let selector = spec.get("selector");
    if selector.is_absent() {
        selector.missing(errors, "");
    } else {
        pod_spec::label_selector(&selector, errors);
        if selector.get("matchLabels").is_empty() && selector.get("matchExpressions").is_empty() {
            selector.invalid(errors, format!("empty selector is invalid for {kind}"));
        }
    }
}

/// An absent selector matches nothing, an empty one everything.
pub(super) fn template_labels(spec: &At<'_, '_>, errors: &mut Errors) {
    let selector = spec.get("selector");
    let template = spec.get("template");
    let metadata = template.get("metadata");
    let labels = metadata.get("labels");
    let matched = !selector.is_absent() && LabelSelector::from_object(selector.value()).matches(labels.value());
    if !matched {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

pub(super) fn template_runs_always(spec: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let template = spec.get("template");
    let pod = template.get("spec");
    pod.get("restartPolicy").one_of(errors, &["Always"]);
    let deadline = pod.get("activeDeadlineSeconds");
    if !deadline.is_absent() {
        deadline.forbidden(errors, format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

pub(super) fn selector_is_immutable(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.get("spec");
    let selector = spec.get("selector");
    if !same(selector.value(), &old["spec"]["selector"]) {
        selector.invalid_as(errors, go::LABEL_SELECTOR.print(selector.value()), "field is immutable");
    }
}

/// A number that is not negative, or a percentage.
pub(super) fn count_or_percent(at: &At<'_, '_>, errors: &mut Errors) {
    match at.value() {
        Value::String(text) => {
            if !is_percent(text) {
                at.invalid(
                    errors,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                     regex used for validation is '[0-9]+%')",
                );
            }
        }
        _ => at.non_negative(errors),
    }
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The number of a number or percentage.
pub(super) fn scaled(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.strip_suffix('%')?.parse().ok(),
        _ => Some(value.as_i64().unwrap_or_default()),
    }
}

pub(super) fn not_above_hundred_percent(at: &At<'_, '_>, errors: &mut Errors) {
    if at.text().ends_with('%') && scaled(at.value()).is_some_and(|percent| percent > 100) {
        at.invalid(errors, "must not be greater than 100%");
    }
}

/// Counters of a status: all not negative, and those that cannot exceed another.
pub(super) struct Counts {
    pub(super) not_negative: &'static [&'static str],
    /// `(smaller, larger)`.
    pub(super) bounded: &'static [(&'static str, &'static str)],
}

pub(super) fn replica_counts(new: &Value, old: &Value, counts: &Counts, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.get("status");
    for field in counts.not_negative {
        status.get(field).non_negative(errors);
    }
    for (smaller, larger) in counts.bounded {
        let small = status.get(smaller);
        if small.int() > status.get(larger).int() {
            let name = if *larger == "replicas" { "status.replicas" } else { larger };
            small.int_error(errors, format!("cannot be greater than {name}"));
        }
    }
    let collisions = status.get("collisionCount");
    if collisions.int() < old["status"]["collisionCount"].as_i64().unwrap_or_default() {
        collisions.int_error(errors, "cannot be decremented");
    }
}
