//! Namespaces: the label with the name, spec finalizers, phases.
//!
//! Source: `pkg/registry/core/namespace/strategy.go`, `.../storage/storage.go`.

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::fill::{fill_with, fill_zero, is_empty, object_in, put, within};
use super::names::{self, NameRule};
use super::{Context, OnUpdate, Status, Strategy, metadata};
use crate::error::ApiError;
use crate::object::{ObjectExt, metadata_mut};

pub(super) static NAMESPACES: Strategy = Strategy {
    name: NameRule::Namespace,
    status: Status::Reset(|| json!({"phase": "Active"})),
    default: |namespace| {
        label_with_name(namespace);
        fill_with(namespace, "status", || json!({}));
        within(namespace, "status", |status| fill_zero(status, "phase", "Active"));
    },
    prepare_for_create: |namespace, _| {
        // Again, for names that were generated after defaulting.
        label_with_name(namespace);
        if let Some(spec) = object_in(namespace, "spec") {
            let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
            if !finalizers.contains(&"kubernetes".into()) {
                finalizers.push("kubernetes".into());
            }
            put(spec, "finalizers", finalizers.into());
        }
        Ok(())
    },
    prepare_for_update,
    validate: |namespace, errors| spec_finalizers(namespace, errors),
    begin_deletion,
    holds: |namespace| !is_empty(&namespace["spec"]["finalizers"]),
    validate_status_update,
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn label_with_name(namespace: &mut Value) {
    let name = namespace.name().to_owned();
    if name.is_empty() || !namespace.is_object() {
        return;
    }
    let labels = metadata_mut(namespace).entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    put(labels, NAME_LABEL, name.into());
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of a hook")]
fn prepare_for_update(namespace: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), ApiError> {
    let Some(spec) = object_in(namespace, "spec") else { return Ok(()) };
    if context.subresource != "finalize" {
        put(spec, "finalizers", old["spec"]["finalizers"].clone());
    } else if is_empty(&spec["finalizers"]) {
        put(spec, "finalizers", Value::Null);
    }
    Ok(())
}

fn spec_finalizers(namespace: &Value, errors: &mut Errors) {
    let root = At::root(namespace);
    let spec = root.get("spec");
    let finalizers = spec.get("finalizers");
    for finalizer in finalizers.items() {
        finalizer.all(errors, names::qualified_name(finalizer.text()));
    }
    metadata::builtin_finalizers(&finalizers.path(), finalizers.value(), errors);
}

fn validate_status_update(new: &Value, _old: &Value, errors: &mut Errors) {
    let phase = At::named("status.Phase", &new["status"]["phase"]);
    let (expected, empty) = if new.is_deleting() { ("Terminating", "not empty") } else { ("Active", "empty") };
    if phase.text() != expected {
        phase.text_error(errors, format!("may only be '{expected}' if `deletionTimestamp` is {empty}"));
    }
}

/// Deletion shows in the phase at once.
fn begin_deletion(namespace: &mut Value) {
    if let Some(status) = object_in(namespace, "status") {
        put(status, "phase", "Terminating".into());
    }
}
