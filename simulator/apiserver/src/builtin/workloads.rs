//! Deployments, ReplicaSets, DaemonSets, ReplicationControllers.
//!
//! Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`,
//! `pkg/registry/apps/*/strategy.go`.

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{fill, fill_with, fill_zero, put, within};
use super::workload_rules::{
    Counts, count_or_percent, not_above_hundred_percent, replica_counts, scaled, selector, selector_is_immutable,
    template_labels, template_runs_always,
};
use super::{Context, OnUpdate, Strategy, pod_defaults, pod_spec};
use crate::object::set_meta;

pub(super) static DEPLOYMENTS: Strategy = Strategy {
    generation: &["/spec", "/metadata/annotations"],
    status_keeps: &["labels"],
    default: |object| within(object, "spec", default_deployment),
    validate: |object, errors| deployment(&At::root(object).get("spec"), errors),
    validate_update: selector_is_immutable,
    validate_status_update: |new, old, errors| replica_counts(new, old, &DEPLOYMENT_COUNTS, errors),
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static REPLICA_SETS: Strategy = Strategy {
    generation: &["/spec"],
    default: |object| {
        within(object, "spec", |spec| {
            fill(spec, "replicas", 1);
            pod_defaults::template(spec);
        });
    },
    validate: |object, errors| replica_set(&At::root(object).get("spec"), errors),
    validate_update: selector_is_immutable,
    validate_status_update: |new, old, errors| replica_counts(new, old, &REPLICA_SET_COUNTS, errors),
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static DAEMON_SETS: Strategy = Strategy {
    generation: &["/spec"],
    default: |object| within(object, "spec", default_daemon_set),
    prepare_for_create: |object, _| {
        set_template_generation(object, 1);
        Ok(())
    },
    prepare_for_update: |new, old, context| {
        keep_template_generation(new, old, context);
        Ok(())
    },
    validate: |object, errors| daemon_set(&At::root(object).get("spec"), errors),
    validate_update: selector_is_immutable,
    validate_status_update: |new, old, errors| replica_counts(new, old, &DAEMON_SET_COUNTS, errors),
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static REPLICATION_CONTROLLERS: Strategy = Strategy {
    generation: &["/spec"],
    default_propagation: Some("Orphan"),
    default: default_replication_controller,
    validate: |object, errors| replication_controller(&At::root(object).get("spec"), errors),
    validate_status_update: |new, old, errors| replica_counts(new, old, &REPLICA_SET_COUNTS, errors),
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

fn default_deployment(spec: &mut Value) {
    fill(spec, "replicas", 1);
    fill_with(spec, "strategy", || json!({}));
    within(spec, "strategy", |strategy| {
        fill_zero(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            fill_with(strategy, "rollingUpdate", || json!({}));
            within(strategy, "rollingUpdate", |rolling| {
                fill(rolling, "maxUnavailable", "25%");
                fill(rolling, "maxSurge", "25%");
            });
        }
    });
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    pod_defaults::template(spec);
}

fn default_daemon_set(spec: &mut Value) {
    fill_with(spec, "updateStrategy", || json!({}));
    within(spec, "updateStrategy", |strategy| {
        fill_zero(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            fill_with(strategy, "rollingUpdate", || json!({}));
            within(strategy, "rollingUpdate", |rolling| {
                fill(rolling, "maxUnavailable", 1);
                fill(rolling, "maxSurge", 0);
            });
        }
    });
    fill(spec, "revisionHistoryLimit", 10);
    pod_defaults::template(spec);
}

fn default_replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    within(object, "spec", |spec| {
        fill(spec, "replicas", 1);
        if labels.is_object() && super::fill::is_empty(&spec["selector"]) {
            put(spec, "selector", labels.clone());
        }
        pod_defaults::template(spec);
    });
    if labels.is_object() && super::fill::is_empty(&object["metadata"]["labels"]) {
        set_meta(object, "labels", labels);
    }
}

/// The annotation under which `apps/v1` keeps the generation of a DaemonSet's template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(object: &mut Value, generation: i64) {
    let mut annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    set_meta(object, "annotations", annotations);
}

fn keep_template_generation(new: &mut Value, old: &Value, context: &Context<'_>) {
    let was = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().and_then(|text| text.parse::<i64>().ok());
    let moved = context.subresource.is_empty() && !same(&new["spec"]["template"], &old["spec"]["template"]);
    set_template_generation(new, was.unwrap_or_default() + i64::from(moved));
}

fn deployment(spec: &At<'_, '_>, errors: &mut Errors) {
    spec.get("replicas").non_negative(errors);
    selector(spec, "deployment", errors);
    template_labels(spec, errors);
    pod_spec::template(&spec.get("template"), errors);
    template_runs_always(spec, "ReplicaSet", errors);
    let strategy = spec.get("strategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "Recreate" if !rolling.is_absent() => {
            rolling.forbidden(errors, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_absent() => {
            rolling.missing(errors, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            count_or_percent(&unavailable, errors);
            count_or_percent(&surge, errors);
            if scaled(unavailable.value()) == Some(0) && scaled(surge.value()) == Some(0) {
                unavailable.invalid(errors, "may not be 0 when `maxSurge` is 0");
            }
            not_above_hundred_percent(&unavailable, errors);
        }
        _ => strategy.get("type").one_of(errors, &["Recreate", "RollingUpdate"]),
    }
    spec.get("minReadySeconds").non_negative(errors);
    spec.get("revisionHistoryLimit").non_negative(errors);
    let deadline = spec.get("progressDeadlineSeconds");
    if !deadline.is_absent() {
        deadline.non_negative(errors);
        if deadline.int() <= spec.get("minReadySeconds").int() {
            deadline.invalid(errors, "must be greater than minReadySeconds");
        }
    }
}

fn replica_set(spec: &At<'_, '_>, errors: &mut Errors) {
    spec.get("replicas").non_negative(errors);
    spec.get("minReadySeconds").non_negative(errors);
    selector(spec, "replicaset", errors);
    template_labels(spec, errors);
    pod_spec::template(&spec.get("template"), errors);
    template_runs_always(spec, "ReplicaSet", errors);
}

fn daemon_set(spec: &At<'_, '_>, errors: &mut Errors) {
    selector(spec, "daemonset", errors);
    template_labels(spec, errors);
    pod_spec::template(&spec.get("template"), errors);
    template_runs_always(spec, "DaemonSet", errors);
    spec.get("minReadySeconds").non_negative(errors);
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_absent() => rolling.missing(errors, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            count_or_percent(&unavailable, errors);
            count_or_percent(&surge, errors);
            match (scaled(unavailable.value()), scaled(surge.value())) {
                (Some(0), Some(0)) => unavailable.invalid(errors, "cannot be 0 when maxSurge is 0"),
                (Some(u), Some(s)) if u > 0 && s > 0 => {
                    surge.invalid(errors, "may not be set when maxUnavailable is non-zero");
                }
                _ => {}
            }
            not_above_hundred_percent(&unavailable, errors);
            not_above_hundred_percent(&surge, errors);
        }
        _ => strategy.get("type").one_of(errors, &["RollingUpdate", "OnDelete"]),
    }
    spec.get("revisionHistoryLimit").non_negative(errors);
}

fn replication_controller(spec: &At<'_, '_>, errors: &mut Errors) {
    spec.get("minReadySeconds").non_negative(errors);
    let selector = spec.get("selector");
    selector.required(errors);
    spec.get("replicas").non_negative(errors);
    let template = spec.get("template");
    if template.is_absent() {
        template.missing(errors, "");
        return;
    }
    let metadata = template.get("metadata");
    let labels = metadata.get("labels");
    let matched = selector.entries().all(|(key, value)| labels.get(key).value() == value.value());
    if !selector.is_empty() && !matched {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
    pod_spec::template(&template, errors);
    template_runs_always(spec, "ReplicationController", errors);
}

const DEPLOYMENT_COUNTS: Counts = Counts {
    not_negative: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    bounded: &[
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ],
};

const REPLICA_SET_COUNTS: Counts = Counts {
    not_negative: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    bounded: &[
        ("fullyLabeledReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ],
};

const DAEMON_SET_COUNTS: Counts = Counts {
    not_negative: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    bounded: &[],
};
