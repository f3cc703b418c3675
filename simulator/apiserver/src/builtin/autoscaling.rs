//! HorizontalPodAutoscalers, in `autoscaling/v1` and `autoscaling/v2`.
//!
//! Source: `pkg/apis/autoscaling/v2/defaults.go`, `pkg/apis/autoscaling/v1/conversion.go`,
//! `pkg/apis/autoscaling/validation/validation.go`.

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::fill::{fill, fill_with, is_empty, put, within};
use super::{OnUpdate, Strategy, names};
use crate::object::ObjectExt;

pub(super) static AUTOSCALERS: Strategy = Strategy {
    default,
    validate: |autoscaler, errors| validate(&At::root(autoscaler).get("spec"), errors),
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

/// The processor use, in percent, that is aimed at when no metric is named.
const TARGET_PERCENT: i64 = 80;

fn default(autoscaler: &mut Value) {
    let version = autoscaler.api_version().to_owned();
    within(autoscaler, "spec", |spec| {
        fill(spec, "minReplicas", 1);
        if version == "autoscaling/v1" {
            fill(spec, "targetCPUUtilizationPercentage", TARGET_PERCENT);
        } else if is_empty(&spec["metrics"]) {
            put(spec, "metrics", json!([cpu_metric(&TARGET_PERCENT.into())]));
        }
        within(spec, "behavior", |behavior| {
            scaling_rules(behavior, "scaleUp", Some(0), &[("Pods", 4), ("Percent", 100)]);
            scaling_rules(behavior, "scaleDown", None, &[("Percent", 100)]);
        });
    });
}

fn cpu_metric(percent: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn scaling_rules(behavior: &mut Value, direction: &str, window: Option<i64>, policies: &[(&str, i64)]) {
    fill_with(behavior, direction, || json!({}));
    within(behavior, direction, |rules| {
        if let Some(window) = window {
            fill(rules, "stabilizationWindowSeconds", window);
        }
        fill(rules, "selectPolicy", "Max");
        let list = || {
            policies.iter().map(|(kind, value)| json!({"type": kind, "value": value, "periodSeconds": 15})).collect()
        };
        fill_with(rules, "policies", list);
    });
}

fn validate(spec: &At<'_, '_>, errors: &mut Errors) {
    let (min, max) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    if !min.is_absent() && min.int() < 1 {
        min.invalid(errors, "must be greater than or equal to 1");
    }
    if max.int() < 1 {
        max.int_error(errors, "must be greater than 0");
    }
    if !min.is_absent() && max.int() < min.int() {
        max.int_error(errors, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.get("scaleTargetRef");
    for field in ["kind", "name"] {
        let place = target.get(field);
        if place.required(errors) {
            place.all(errors, names::path_segment(place.text(), false));
        }
    }
}

/// An autoscaler as `api_version` shows it. What version 1 has no field for is left out of it.
pub(super) fn convert(autoscaler: &Value, api_version: &str) -> Value {
    let mut converted = autoscaler.clone();
    put(&mut converted, "apiVersion", api_version.into());
    let to_v1 = api_version == "autoscaling/v1";
    within(&mut converted, "spec", |spec| {
        if to_v1 {
            let metrics = super::fill::take(spec, "metrics");
            let is_cpu = |metric: &&Value| metric["resource"]["name"] == "cpu";
            if let Some(cpu) = metrics.as_array().into_iter().flatten().find(is_cpu) {
                put(spec, "targetCPUUtilizationPercentage", cpu["resource"]["target"]["averageUtilization"].clone());
            }
            put(spec, "behavior", Value::Null);
        } else {
            let percent = super::fill::take(spec, "targetCPUUtilizationPercentage");
            if !percent.is_null() {
                put(spec, "metrics", json!([cpu_metric(&percent)]));
            }
        }
    });
    within(&mut converted, "status", |status| {
        if to_v1 {
            put(status, "currentMetrics", Value::Null);
            put(status, "conditions", Value::Null);
            fill(status, "currentReplicas", 0);
        } else {
            put(status, "currentCPUUtilizationPercentage", Value::Null);
            if let Some(map) = status.as_object_mut() {
                map.entry("currentMetrics").or_insert(Value::Null);
            }
        }
    });
    converted
}
