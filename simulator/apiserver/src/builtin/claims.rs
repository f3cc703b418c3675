//! PersistentVolumeClaims, and the claim templates of StatefulSets.
//!
//! Source: `pkg/apis/core/v1/defaults.go`, `pkg/registry/core/persistentvolumeclaim/strategy.go`,
//! `pkg/apis/core/validation/validation.go` (`ValidatePersistentVolumeClaim…`).

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{fill, fill_with, fill_zero, is_empty, put, within};
use super::{OnUpdate, Status, Strategy, go, names, pod_spec};
use crate::error::FieldErrorKind;
use crate::quantity::Quantity;

pub(super) static CLAIMS: Strategy = Strategy {
    status: Status::Reset(|| json!({"phase": "Pending"})),
    default,
    prepare_for_create: |claim, _| {
        within(claim, "spec", mirror_data_sources);
        Ok(())
    },
    prepare_for_update: |claim, _, context| {
        if context.subresource.is_empty() {
            within(claim, "spec", mirror_data_sources);
        }
        Ok(())
    },
    validate: |claim, errors| spec(&At::root(claim).get("spec"), errors),
    validate_update,
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

/// Access modes, sorted as upstream lists them.
pub(super) const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Defaults of a claim, also inside a StatefulSet.
pub(super) fn default(claim: &mut Value) {
    within(claim, "spec", |spec| fill(spec, "volumeMode", "Filesystem"));
    fill_with(claim, "status", || json!({}));
    within(claim, "status", |status| fill_zero(status, "phase", "Pending"));
}

/// `dataSource` and `dataSourceRef` are two names of one thing. A `dataSource` of a kind that the older
/// field never supported is dropped.
fn mirror_data_sources(spec: &mut Value) {
    let group = spec["dataSource"]["apiGroup"].as_str().unwrap_or_default();
    let kind = spec["dataSource"]["kind"].as_str().unwrap_or_default();
    let supported =
        matches!((group, kind), ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"));
    if !spec["dataSource"].is_null() && !supported && spec["dataSourceRef"].is_null() {
        put(spec, "dataSource", Value::Null);
    }
    let copy = |source: &Value| json!({"apiGroup": source["apiGroup"], "kind": source["kind"], "name": source["name"]});
    match (spec["dataSource"].is_null(), spec["dataSourceRef"].is_null()) {
        (false, true) => {
            let copy = copy(&spec["dataSource"]);
            put(spec, "dataSourceRef", copy);
        }
        (true, false) if is_empty(&spec["dataSourceRef"]["namespace"]) => {
            let copy = copy(&spec["dataSourceRef"]);
            put(spec, "dataSource", copy);
        }
        _ => {}
    }
    for field in ["dataSource", "dataSourceRef"] {
        // A pointer without `omitempty`: an absent group is written as null.
        within(spec, field, |source| fill(source, "apiGroup", Value::Null));
    }
}

/// Everything wrong with the access modes of a claim or volume; `missing` is what is said when there
/// are none.
pub(super) fn access_modes(at: &At<'_, '_>, missing: &str, errors: &mut Errors) {
    if at.is_empty() {
        at.missing(errors, missing);
    }
    for mode in at.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            let place = At::named("", mode.value());
            errors.push(crate::error::FieldError::not_supported(at.path(), place.value(), &ACCESS_MODES));
        }
    }
    let exclusive = at.items().any(|mode| mode.text() == "ReadWriteOncePod");
    if exclusive && at.items().count() > 1 {
        at.forbidden(errors, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Everything wrong with a claim's spec.
pub(super) fn spec(at: &At<'_, '_>, errors: &mut Errors) {
    pod_spec::label_selector(&at.get("selector"), errors);
    access_modes(&at.get("accessModes"), "at least 1 access mode is required", errors);
    let resources = at.get("resources");
    let requests = resources.get("requests");
    let asked = requests.get("storage");
    let storage = at.get("resources");
    let place = storage.key("storage");
    if asked.is_absent() {
        place.missing(errors, "");
    } else if asked.quantity().is_some_and(|size| size <= Quantity::ZERO) {
        place.invalid_as(errors, asked.value().to_string(), "must be greater than zero");
    }
    let class = at.get("storageClassName");
    if !class.is_empty() {
        class.all(errors, names::subdomain(class.text()));
    }
    at.get("volumeMode").optional_one_of(errors, &["Block", "Filesystem"]);
    let (source, reference) = (at.get("dataSource"), at.get("dataSourceRef"));
    for place in [&source, &reference] {
        if !place.is_absent() {
            place.get("name").required(errors);
            place.get("kind").required(errors);
            let group = place.get("apiGroup");
            if group.is_empty() && place.get("kind").text() != "PersistentVolumeClaim" && !place.get("kind").is_empty()
            {
                place.invalid_as(
                    errors,
                    place.get("kind").value().to_string(),
                    "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                );
            }
        }
    }
    let differs = |field: &str| !same(&source.value()[field], &reference.value()[field]);
    let both = !source.is_absent() && !reference.is_absent();
    if both && ["apiGroup", "kind", "name"].iter().any(|field| differs(field)) {
        // Upstream passes a path where a value is meant, and Go prints it as an empty object.
        at.invalid_as(errors, "{}", "must match dataSourceRef");
    }
}

fn storage(spec: &Value) -> Option<Quantity> {
    spec["resources"]["requests"]["storage"].as_str()?.parse().ok()
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.get("spec");
    let before = &old["spec"];
    let mut comparable = new["spec"].clone();
    if is_empty(&before["volumeName"]) {
        // The binder writes the name of the volume.
        put(&mut comparable, "volumeName", before["volumeName"].clone());
    }
    if before["storageClassName"].is_null() {
        // A default class may come after the claim.
        put(&mut comparable, "storageClassName", Value::Null);
    }
    if new["status"]["phase"] == "Bound" {
        within(&mut comparable, "resources", |resources| {
            within(resources, "requests", |requests| {
                put(requests, "storage", before["resources"]["requests"]["storage"].clone());
            });
        });
        put(&mut comparable, "volumeAttributesClassName", before["volumeAttributesClassName"].clone());
    }
    if !same(&comparable, before) {
        let difference = go::diff(&go::CLAIM_SPEC.print_lines(before), &go::CLAIM_SPEC.print_lines(&comparable));
        spec.forbidden(
            errors,
            format!(
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                 claims\n{difference}"
            ),
        );
    }
    let (now, was) = (storage(&new["spec"]), storage(before));
    let given = old["status"]["capacity"]["storage"].as_str().and_then(|text| text.parse::<Quantity>().ok());
    if let (Some(now), Some(was)) = (now, was)
        && now < was
        && now <= given.unwrap_or(Quantity::ZERO)
    {
        let resources = spec.get("resources");
        let requests = resources.get("requests");
        requests.get("storage").forbidden(errors, "field can not be less than status.capacity");
    }
    let mode = spec.get("volumeMode");
    if !same(mode.value(), &before["volumeMode"]) {
        At::named("volumeMode", mode.value()).error(FieldErrorKind::Invalid, errors, "field is immutable");
    }
}
