//! StatefulSets, and the ControllerRevisions that they keep.
//!
//! Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`,
//! `pkg/registry/apps/statefulset/strategy.go`.

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_with, fill_zero, put, within};
use super::names::NameRule;
use super::workload_rules::{
    Counts, count_or_percent, replica_counts, scaled, selector, template_labels, template_runs_always,
};
use super::{OnUpdate, Status, Strategy, claims, go, pod_defaults, pod_spec};
use crate::error::{ApiError, FieldError};
use crate::object::ObjectExt;

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

pub(super) static CONTROLLER_REVISIONS: Strategy = Strategy {
    status: Status::Keep,
    validate: |object, errors| {
        let root = At::root(object);
        if root.get("data").is_absent() {
            root.get("data").missing(errors, "data is mandatory");
        }
        root.get("revision").non_negative(errors);
    },
    prepare_for_update: |new, old, context| {
        // Upstream compares data byte by byte, and a patch writes them anew: whatever it changes, the
        // data are reported as changed too.
        if context.is_patch && new["data"] == old["data"] && new["revision"] != old["revision"] {
            let error = FieldError::invalid("data", &new["data"], "field is immutable");
            return Err(ApiError::invalid("apps", "ControllerRevision", new.name(), &[error]));
        }
        Ok(())
    },
    validate_update: |new, old, errors| At::root(new).get("data").immutable(errors, &old["data"]),
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
    selector(spec, "statefulset", errors);
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
