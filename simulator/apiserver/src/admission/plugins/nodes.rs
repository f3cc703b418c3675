//! `TaintNodesByCondition`.
//!
//! Source: `plugin/pkg/admission/nodetaint/admission.go`.

use serde_json::json;

use crate::admission::Attributes;

/// A new Node is not ready: nothing is scheduled on it until its conditions say otherwise.
pub(super) fn taint_not_ready(attributes: &mut Attributes) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let Some(node) = attributes.object_mut() else { return };
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    let taints = &mut node["spec"]["taints"];
    if !taints.is_array() {
        *taints = json!([]);
    }
    if let Some(taints) = taints.as_array_mut() {
        let same = |other: &serde_json::Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if !taints.iter().any(same) {
            taints.push(taint);
        }
    }
}
