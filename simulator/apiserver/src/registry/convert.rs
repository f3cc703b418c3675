//! Built-in kinds that are served in two forms, of which one is stored: Events under two groups, and
//! HorizontalPodAutoscalers in two versions.
//!
//! Source: `pkg/apis/events/v1/conversion.go` and `pkg/apis/autoscaling/v1/conversion.go`.

use serde_json::{Map, Value, json};

use crate::resource::{GroupVersionKind, Resource, split_api_version};
use crate::schema::typed;

/// Fields of an Event: in the core group, and in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Turns an object into the form of `resource`, in place.
pub(crate) fn convert(object: &mut Value, resource: &Resource) {
    let from = object["apiVersion"].as_str().map(|version| split_api_version(version).1.to_owned());
    let to = &resource.kind;
    if let Some(fields) = object.as_object_mut() {
        match (&*to.group, &*to.version, &*to.kind) {
            ("events.k8s.io", _, "Event") => rename(fields, EVENT_FIELDS.into_iter()),
            ("", _, "Event") => rename(fields, EVENT_FIELDS.into_iter().map(|(core, events)| (events, core))),
            ("autoscaling", "v1", "HorizontalPodAutoscaler") if from.as_deref() == Some("v2") => {
                autoscaler_to_v1(fields);
            }
            ("autoscaling", "v2", "HorizontalPodAutoscaler") if from.as_deref() == Some("v1") => {
                autoscaler_to_v2(fields);
            }
            _ => {}
        }
    }
    label(object, to);
    // What was decoded once decodes again; the walk writes the zero values of the other form.
    let _ = typed::decode(object, &resource.schema);
}

/// Gives an object this kind.
pub(crate) fn label(object: &mut Value, kind: &GroupVersionKind) {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = (*kind.kind).into();
}

fn rename<'a>(fields: &mut Map<String, Value>, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["averageUtilization"].is_number()
}

fn autoscaler_to_v1(fields: &mut Map<String, Value>) {
    let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(Value::Array(metrics)) = spec.remove("metrics")
        && let Some(cpu) = metrics.iter().find(|metric| is_cpu_utilization(metric))
    {
        let target = cpu["resource"]["target"]["averageUtilization"].clone();
        spec.insert("targetCPUUtilizationPercentage".to_owned(), target);
    }
    spec.remove("behavior");
    let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut) else { return };
    status.remove("currentMetrics");
    status.remove("conditions");
}

fn autoscaler_to_v2(fields: &mut Map<String, Value>) {
    let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(target) = spec.remove("targetCPUUtilizationPercentage") {
        let metric = json!({
            "type": "Resource",
            "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": target } },
        });
        spec.insert("metrics".to_owned(), json!([metric]));
    }
}
