//! Nodes.
//!
//! Source: `pkg/registry/core/node/strategy.go`, `pkg/apis/core/validation/validation.go`
//! (`ValidateNode`, `ValidateNodeUpdate`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{fill, fill_with, is_empty, within};
use super::{OnUpdate, Status, Strategy, names, pod_spec};

pub(super) static NODES: Strategy = Strategy {
    status: Status::Keep,
    prepare_for_update: |node, old, context| {
        // A kubelet creates its node with its status; later writes of the node itself leave it alone.
        if context.subresource.is_empty() {
            super::fill::put(node, "status", old["status"].clone());
        }
        Ok(())
    },
    default,
    validate: |node, errors| taints(node, errors),
    validate_update,
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

fn default(node: &mut Value) {
    fill_with(node, "status", || json!({}));
    within(node, "status", |status| {
        fill_with(status, "daemonEndpoints", || json!({"kubeletEndpoint": {"Port": 0}}));
        fill_with(status, "nodeInfo", || json!({}));
        within(status, "nodeInfo", |info| {
            for field in [
                "architecture",
                "bootID",
                "containerRuntimeVersion",
                "kernelVersion",
                "kubeProxyVersion",
                "kubeletVersion",
                "machineID",
                "operatingSystem",
                "osImage",
                "systemUUID",
            ] {
                fill(info, field, "");
            }
        });
    });
}

/// Upstream hands down the path of the metadata.
fn taints(node: &Value, errors: &mut Errors) {
    let taints = At::named("metadata.taints", &node["spec"]["taints"]);
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.get("key"), taint.get("value"), taint.get("effect"));
        key.all(errors, names::qualified_name(key.text()));
        if !value.is_empty() {
            value.all(errors, names::label_value(value.text()));
        }
        if effect.is_empty() {
            effect.missing(errors, "");
        } else {
            pod_spec::taint_effect(&effect, errors);
        }
        if !seen.insert((key.text(), effect.text())) {
            taint.error(
                crate::error::FieldErrorKind::Duplicate,
                errors,
                "taints must be unique by key and effect pair",
            );
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    taints(new, errors);
    let root = At::root(new);
    let spec = root.get("spec");
    for (field, place, what) in [("podCIDRs", "podCIDRs", "podCIDR"), ("providerID", "providerID", "providerID")] {
        let before = &old["spec"][field];
        if !is_empty(before) && !same(spec.get(field).value(), before) {
            spec.get(place).forbidden(errors, format!("node updates may not change {what} except from \"\" to valid"));
        }
    }
}
