//! Events, in the core group and in `events.k8s.io`: one stored object with two faces.
//!
//! Source: `pkg/apis/core/validation/events.go`, `pkg/apis/events/v1/conversion.go`.

use serde_json::Value;

use super::at::{At, Errors};
use super::names;
use super::names::NameRule;
use super::{OnUpdate, Status, Strategy};
use crate::object::ObjectExt;

pub(super) static EVENTS: Strategy = Strategy {
    // Events of the core group are only asked for a name that fits into a URL.
    name: NameRule::PathSegment,
    create_on_update: true,
    status: Status::Keep,
    validate: |event, errors| {
        common(event, errors);
        if event.api_version() != "v1" {
            new_style(event, errors);
        }
    },
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

/// Longest `action`, `reason` and `reportingInstance`, in bytes.
const WORD_BYTES_MAX: usize = 128;

fn either(event: &Value, core: &'static str, new: &'static str) -> &'static str {
    if event.api_version() == "v1" { core } else { new }
}

fn common(event: &Value, errors: &mut Errors) {
    let root = At::root(event);
    // Upstream names the fields of the core kind, but for the reporter.
    let subject = &event[either(event, "involvedObject", "regarding")]["namespace"];
    let place = At::named("involvedObject.namespace", subject);
    let own = event.namespace();
    let agrees = if place.is_empty() { own.is_empty() || own == "default" } else { place.text() == own };
    if !agrees {
        place.text_error(errors, "does not match event.namespace");
    }
    if event["eventTime"].is_null() {
        return;
    }
    let reporter = root.get(either(event, "reportingComponent", "reportingController"));
    reporter.required(errors);
    for wrong in names::qualified_name(reporter.text()) {
        reporter.text_error(errors, wrong);
    }
    for field in ["reportingInstance", "action", "reason"] {
        let word = root.get(field);
        word.required(errors);
        if word.text().len() > WORD_BYTES_MAX {
            word.invalid_as(errors, "\"\"", format!("can have at most {WORD_BYTES_MAX} characters"));
        }
    }
}

fn new_style(event: &Value, errors: &mut Errors) {
    let root = At::root(event);
    let time = root.get("eventTime");
    if time.is_absent() {
        time.missing(errors, "");
    }
    let kind = root.get("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        kind.invalid_as(errors, "\"\"", format!("has invalid value: {}", kind.text()));
    }
    for (field, name) in [("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp")]
    {
        if !root.get(field).is_absent() {
            At::named(name, &event[field]).invalid_as(errors, "\"\"", "needs to be unset");
        }
    }
}

/// Names of one field in the core group and in `events.k8s.io`.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An event as `api_version` (`v1` or `events.k8s.io/v1`) shows it.
pub(super) fn convert(event: &Value, api_version: &str) -> Value {
    let mut converted = event.clone();
    let Some(map) = converted.as_object_mut() else { return converted };
    for (core, new) in FIELDS {
        let (from, to) = if api_version == "v1" { (new, core) } else { (core, new) };
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), api_version.into());
    // `reportingComponent` and `reportingInstance` are always written in core, never when empty here.
    for field in ["reportingController", "reportingInstance"] {
        if api_version != "v1" && map.get(field).is_some_and(|value| value == "") {
            map.remove(field);
        }
    }
    if api_version == "v1" {
        for field in ["reportingComponent", "reportingInstance"] {
            map.entry(field).or_insert_with(|| "".into());
        }
    }
    converted
}
