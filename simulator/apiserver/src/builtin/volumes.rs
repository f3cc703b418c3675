//! PersistentVolumes.
//!
//! Source: `pkg/apis/core/v1/defaults.go`, `pkg/registry/core/persistentvolume/strategy.go`,
//! `pkg/apis/core/validation/validation.go` (`ValidatePersistentVolume…`).

use serde_json::{Map, Value, json};

use super::at::{At, Errors, same};
use super::claims;
use super::fill::{fill, fill_zero, put, within};
use super::pod_defaults;
use super::{Context, OnUpdate, Status, Strategy, go, names, pod_spec, volume_sources};
use crate::error::{ApiError, FieldErrorKind};
use crate::quantity::Quantity;

pub(super) static VOLUMES: Strategy = Strategy {
    status: Status::Reset(|| json!({"phase": "Pending"})),
    default,
    prepare_for_create: |volume, context| {
        put(&mut volume["status"], "lastPhaseTransitionTime", now(context));
        Ok(())
    },
    prepare_for_update,
    validate,
    validate_update,
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

/// Sources of PersistentVolumes, in the order in which upstream looks for them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn now(context: &Context<'_>) -> Value {
    context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

fn default(volume: &mut Value) {
    within(volume, "spec", |spec| {
        fill_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        pod_defaults::shared_volume_sources(spec);
    });
    within(volume, "status", |status| fill_zero(status, "phase", "Pending"));
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of a hook")]
fn prepare_for_update(volume: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), ApiError> {
    let moved = volume["status"]["phase"] != old["status"]["phase"];
    let untouched = volume["status"]["lastPhaseTransitionTime"] == old["status"]["lastPhaseTransitionTime"];
    if context.subresource == "status" && moved && untouched && volume["status"].is_object() {
        put(&mut volume["status"], "lastPhaseTransitionTime", now(context));
    }
    Ok(())
}

fn validate(volume: &Value, errors: &mut Errors) {
    let root = At::root(volume);
    let spec = root.get("spec");
    claims::access_modes(&spec.get("accessModes"), "", errors);
    let capacity = spec.get("capacity");
    let only_storage = !capacity.get("storage").is_absent() && capacity.entries().count() == 1;
    capacity.required(errors);
    if !only_storage {
        let value = if capacity.is_absent() { &EMPTY } else { capacity.value() };
        errors.push(crate::error::FieldError::not_supported(capacity.path(), value, &["storage"]));
    }
    for (_, amount) in capacity.entries() {
        if amount.quantity().is_some_and(|size| size <= Quantity::ZERO) {
            amount.invalid(errors, "must be greater than zero");
        }
    }
    let policy = spec.get("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        policy.one_of(errors, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.get("nodeAffinity");
    let required = affinity.get("required");
    if !affinity.is_absent() {
        if required.is_absent() {
            required.missing(errors, "must specify required node constraints");
        } else {
            pod_spec::node_selector(&required, errors);
        }
    }
    volume_sources::one_source(&spec, &SOURCES, errors);
    let csi = spec.get("csi");
    if !csi.is_absent() && SOURCES.iter().filter(|source| !spec.get(source).is_absent()).count() == 1 {
        volume_sources::persistent_csi(&csi, errors);
    }
    if !spec.get("local").is_absent() && affinity.is_absent() {
        let metadata = root.get("metadata");
        metadata.get("annotations").missing(errors, "Local volume requires node affinity");
    }
    if spec.get("hostPath").get("path").text() == "/" && policy.text() == "Recycle" {
        policy.forbidden(errors, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.get("storageClassName");
    if !class.is_empty() {
        class.all(errors, names::subdomain(class.text()));
    }
    spec.get("volumeMode").optional_one_of(errors, &["Block", "Filesystem"]);
}

static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({}));

/// The source alone, without what CSI may change (where its secrets are).
fn source(spec: &Value) -> Value {
    let mut source: Map<String, Value> = SOURCES
        .iter()
        .filter(|kind| !spec[**kind].is_null())
        .map(|kind| ((*kind).to_owned(), spec[*kind].clone()))
        .collect();
    if let Some(csi) = source.get_mut("csi") {
        for secret in ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef"] {
            put(csi, secret, Value::Null);
        }
        for secret in ["nodeExpandSecretRef", "nodeStageSecretRef"] {
            put(csi, secret, Value::Null);
        }
    }
    Value::Object(source)
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (is, was) = (source(&new["spec"]), source(&old["spec"]));
    if !same(&is, &was) {
        let difference = go::diff(&go::VOLUME_SOURCE.print_lines(&was), &go::VOLUME_SOURCE.print_lines(&is));
        At::named("spec.persistentvolumesource", &Value::Null)
            .forbidden(errors, format!("spec.persistentvolumesource is immutable after creation\n{difference}"));
    }
    let mode = &new["spec"]["volumeMode"];
    if !same(mode, &old["spec"]["volumeMode"]) {
        At::named("volumeMode", mode).error(FieldErrorKind::Invalid, errors, "field is immutable");
    }
    let affinity = &new["spec"]["nodeAffinity"];
    if !old["spec"]["nodeAffinity"].is_null() && !same(affinity, &old["spec"]["nodeAffinity"]) {
        At::named("nodeAffinity", affinity).error(
            FieldErrorKind::Invalid,
            errors,
            "field is immutable, except for updating from beta label to GA",
        );
    }
}
