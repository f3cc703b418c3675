//! StorageClasses, and the storage kinds without rules of their own.
//!
//! Source: `pkg/apis/storage/v1/defaults.go`, `pkg/apis/storage/validation/validation.go`.

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{fill, fill_with, within};
use super::{OnUpdate, Strategy, names};

pub(super) static STORAGE_CLASSES: Strategy = Strategy {
    default: |class| {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    },
    validate,
    validate_update,
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

pub(super) static DRIVERS: Strategy = Strategy {
    default: |driver| {
        within(driver, "spec", |spec| {
            fill(spec, "attachRequired", true);
            fill(spec, "podInfoOnMount", false);
            fill(spec, "storageCapacity", false);
            fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            fill_with(spec, "volumeLifecycleModes", || json!(["Persistent"]));
            fill(spec, "requiresRepublish", false);
            fill(spec, "seLinuxMount", false);
        });
    },
    ..VERSIONED
};

const VERSIONED: Strategy = Strategy { unconditional_update: false, ..Strategy::PLAIN };

/// CSINodes, VolumeAttachments and their like: an update names the version it is based on.
pub(super) static OTHERS: Strategy = VERSIONED;

fn validate(class: &Value, errors: &mut Errors) {
    let root = At::root(class);
    let provisioner = root.get("provisioner");
    if provisioner.required(errors) {
        provisioner.all(errors, names::qualified_name(&provisioner.text().to_lowercase()));
    }
    for (key, value) in root.get("parameters").entries() {
        if key.is_empty() {
            value.invalid(errors, "field can not be empty.");
        }
    }
    root.get("reclaimPolicy").optional_one_of(errors, &["Delete", "Retain"]);
    let mode = root.get("volumeBindingMode");
    if mode.required(errors) {
        mode.one_of(errors, &["Immediate", "WaitForFirstConsumer"]);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        let place = root.get(field);
        if !same(place.value(), &old[field]) {
            place.invalid(errors, "field is immutable");
        }
    }
}
