//! StatefulSets, Deployments, ReplicaSets, DaemonSets, ReplicationControllers, ControllerRevisions.
//!
//! Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`,
//! `pkg/registry/apps/*/strategy.go`.

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_with, fill_zero, put, within};
use super::go;
use super::names::NameRule;
use super::pod_spec;
use super::{Context, OnUpdate, Status, Strategy, claims, pod_defaults};
use crate::object::set_meta;
use crate::selector::LabelSelector;

pub(super) static STATEFUL_SETS: Strategy = Strategy {
    name: NameRule::Label,
    generation: &["/spec"],
    default: |object| within(object, "spec", default_stateful_set),
    validate: |object, errors| stateful_set(&At::root(object).get("spec"), errors),
    validate_update: stateful_set_update,
    validate_status_update: |new, old, errors| replica_counts(new, old, &STATEFUL_SET_COUNTS, errors),
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

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

pub(super) static CONTROLLER_REVISIONS: Strategy = Strategy {
    status: Status::Keep,
    validate: |object, errors| {
        let root = At::root(object);
        if root.get("data").is_absent() {
            root.get("data").missing(errors, "data is mandatory");
        }
        root.get("revision").non_negative(errors);
    },
    validate_update: |new, old, errors| {
        let data = At::root(new);
        let data = data.get("data");
        // Upstream compares decoded extensions together with the revision they came from, so that a
        // changed revision is reported as changed data.
        if new["data"] != old["data"] || new["revision"] != old["revision"] {
            data.invalid(errors, "field is immutable");
        }
    },
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

fn default_stateful_set(spec: &mut Value) {
    pod_defaults::template(spec);
    fill_zero(spec, "podManagementPolicy", "OrderedReady");
    fill_with(spec, "updateStrategy", || json!({}));
    within(spec, "updateStrategy", |strategy| {
        fill_zero(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            fill_with(strategy, "rollingUpdate", || json!({}));
            within(strategy, "rollingUpdate", |rolling| fill(rolling, "partition", 0));
        }
    });
    fill_with(spec, "persistentVolumeClaimRetentionPolicy", || json!({}));
    within(spec, "persistentVolumeClaimRetentionPolicy", |policy| {
        fill_zero(policy, "whenDeleted", "Retain");
        fill_zero(policy, "whenScaled", "Retain");
    });
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    each(spec, "volumeClaimTemplates", |template| {
        put(template, "apiVersion", "v1".into());
        put(template, "kind", "PersistentVolumeClaim".into());
        claims::default(template);
    });
}

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

/// `spec.selector`, and that the template's labels match it.
fn selector_and_template(spec: &At<'_, '_>, kind: &str, errors: &mut Errors) {
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
fn template_labels(spec: &At<'_, '_>, errors: &mut Errors) {
    let selector = spec.get("selector");
    let template = spec.get("template");
    let metadata = template.get("metadata");
    let labels = metadata.get("labels");
    let matched = !selector.is_absent() && LabelSelector::from_object(selector.value()).matches(labels.value());
    if !matched {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

fn template_runs_always(spec: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let template = spec.get("template");
    let pod = template.get("spec");
    pod.get("restartPolicy").one_of(errors, &["Always"]);
    let deadline = pod.get("activeDeadlineSeconds");
    if !deadline.is_absent() {
        deadline.forbidden(errors, format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

fn stateful_set(spec: &At<'_, '_>, errors: &mut Errors) {
    let policy = spec.get("podManagementPolicy");
    match policy.text() {
        "" => policy.missing(errors, ""),
        "OrderedReady" | "Parallel" => {}
        _ => policy.invalid(errors, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "" => strategy.missing(errors, ""),
        "OnDelete" if !rolling.is_absent() => {
            rolling.invalid_as(
                errors,
                go::STATEFUL_SET_ROLLING_UPDATE.print(rolling.value()),
                "only allowed for updateStrategy 'RollingUpdate'",
            );
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.get("partition").non_negative(errors);
            let unavailable = rolling.get("maxUnavailable");
            if !unavailable.is_absent() {
                count_or_percent(&unavailable, errors);
                if scaled(unavailable.value()) == Some(0) {
                    unavailable.invalid(errors, "cannot be 0");
                }
            }
        }
        _ => strategy.invalid_as(
            errors,
            go::STATEFUL_SET_UPDATE_STRATEGY.print(strategy.value()),
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
    let retention = spec.get("persistentVolumeClaimRetentionPolicy");
    if !retention.is_absent() {
        retention.get("whenDeleted").one_of(errors, &["Retain", "Delete"]);
        retention.get("whenScaled").one_of(errors, &["Retain", "Delete"]);
    }
    spec.get("replicas").non_negative(errors);
    spec.get("minReadySeconds").non_negative(errors);
    spec.get("ordinals").get("start").non_negative(errors);
    selector_and_template(spec, "statefulset", errors);
    template_labels(spec, errors);
    let templates = spec.get("volumeClaimTemplates");
    let claims: Vec<&str> = templates.items().map(|claim| claim.get("metadata").get("name").text()).collect();
    let template = spec.get("template");
    claim_volumes(&template, &claims, errors);
    let metadata = template.get("metadata");
    metadata.get("labels").labels(errors);
    super::metadata::annotations(&metadata.get("annotations").path(), metadata.get("annotations").value(), errors);
    pod_spec::spec(&template.get("spec"), &claims, errors);
    template_runs_always(spec, "StatefulSet", errors);
    for claim in templates.items() {
        claims::spec(&claim.get("spec"), errors);
    }
}

/// Claim templates are judged as volumes of the template, where the pods will have them.
fn claim_volumes(template: &At<'_, '_>, claims: &[&str], errors: &mut Errors) {
    let spec = template.get("spec");
    let volumes = spec.get("volumes");
    for (index, claim) in claims.iter().enumerate() {
        let path = format!("{}[{index}].name", volumes.path());
        let wrong = if claim.is_empty() { Vec::new() } else { super::names::label(claim) };
        errors.extend(
            wrong
                .into_iter()
                .map(|sentence| crate::error::FieldError::invalid(path.clone(), &Value::from(*claim), sentence)),
        );
        if claim.is_empty() {
            errors.push(crate::error::FieldError::required(path, ""));
        }
    }
}

/// Fields of a StatefulSet's spec that an update may change.
const STATEFUL_SET_CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn stateful_set_update(new: &Value, old: &Value, errors: &mut Errors) {
    let mut comparable = new["spec"].clone();
    for field in STATEFUL_SET_CHANGEABLE {
        put(&mut comparable, field, old["spec"][field].clone());
    }
    if !same(&comparable, &old["spec"]) {
        let root = At::root(new);
        root.get("spec").forbidden(
            errors,
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

fn deployment(spec: &At<'_, '_>, errors: &mut Errors) {
    spec.get("replicas").non_negative(errors);
    selector_and_template(spec, "deployment", errors);
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
    selector_and_template(spec, "replicaset", errors);
    template_labels(spec, errors);
    pod_spec::template(&spec.get("template"), errors);
    template_runs_always(spec, "ReplicaSet", errors);
}

fn daemon_set(spec: &At<'_, '_>, errors: &mut Errors) {
    selector_and_template(spec, "daemonset", errors);
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

fn selector_is_immutable(new: &Value, old: &Value, errors: &mut Errors) {
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
fn scaled(value: &Value) -> Option<i64> {
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
struct Counts {
    not_negative: &'static [&'static str],
    /// `(smaller, larger)`.
    bounded: &'static [(&'static str, &'static str)],
}

const STATEFUL_SET_COUNTS: Counts = Counts {
    not_negative: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    bounded: &[
        ("readyReplicas", "replicas"),
        ("currentReplicas", "replicas"),
        ("updatedReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ],
};

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

fn replica_counts(new: &Value, old: &Value, counts: &Counts, errors: &mut Errors) {
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
