//! Pods and PodTemplates.
//!
//! Source: `pkg/registry/core/pod/strategy.go`, `ValidatePodCreate` and `ValidatePodUpdate` of
//! `pkg/apis/core/validation/validation.go`, `pkg/apis/core/v1/helper/qos/qos.go`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{each, fill, put, within};
use super::metadata;
use super::pod_defaults;
use super::pod_spec;
use super::{Context, OnUpdate, Status, Strategy};
use crate::error::ApiError;
use crate::quantity::Quantity;

pub(super) static PODS: Strategy = Strategy {
    generation: &["/spec"],
    status: Status::Reset(|| json!({"phase": "Pending"})),
    // Old kubelets would corrupt owner references in a way that breaks garbage collection.
    status_keeps: &["deletionTimestamp", "ownerReferences"],
    grace_period: Some(grace_period),
    default: pod_defaults::pod,
    prepare_for_create,
    prepare_for_update,
    validate,
    validate_update,
    validate_status_update,
    ..Strategy::PLAIN
};

pub(super) static POD_TEMPLATES: Strategy = Strategy {
    create_on_update: true,
    generation: &["/template"],
    status: Status::Keep,
    default: pod_defaults::template,
    validate: |object, errors| pod_spec::template(&At::root(object).get("template"), errors),
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

#[expect(clippy::unnecessary_wraps, reason = "the signature of a hook")]
fn prepare_for_create(pod: &mut Value, _context: &mut Context<'_>) -> Result<(), ApiError> {
    let class = quality_of_service(pod);
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    put(&mut pod["status"], "qosClass", class.into());
    if gated {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": null,
        });
        put(&mut pod["status"], "conditions", json!([condition]));
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of a hook")]
fn prepare_for_update(pod: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), ApiError> {
    if context.subresource == "status" {
        // `podIP` and `podIPs[0]` are one value with two names (`Convert_core_PodStatus_To_v1_PodStatus`).
        let status = &mut pod["status"];
        if let Some(first) = status["podIPs"][0]["ip"].as_str().map(str::to_owned) {
            put(status, "podIP", first.into());
        } else if let Some(only) = status["podIP"].as_str().filter(|ip| !ip.is_empty()).map(str::to_owned) {
            put(status, "podIPs", json!([{"ip": only}]));
        }
        if let Some(first) = status["hostIPs"][0]["ip"].as_str().map(str::to_owned) {
            fill(status, "hostIP", first);
        }
    }
    if let Some(class) = old["status"]["qosClass"].as_str() {
        // The class of a pod is settled when it is made.
        let class = class.to_owned();
        fill(&mut pod["status"], "qosClass", class);
    }
    Ok(())
}

/// What a write of `pods/ephemeralcontainers` leaves of a pod: the stored one with other ephemeral
/// containers.
pub(super) fn keep_all_but_ephemeral_containers(new: &mut Value, old: &Value) {
    let (metadata, sent) = (new["metadata"].take(), new["spec"]["ephemeralContainers"].take());
    new.clone_from(old);
    new["metadata"] = metadata;
    put(&mut new["spec"], "ephemeralContainers", sent);
}

/// What a write of `pods/resize` leaves of a pod: the stored one with other resources.
pub(super) fn keep_all_but_resources(new: &mut Value, old: &Value) {
    let (metadata, sent) = (new["metadata"].take(), new["spec"].take());
    new.clone_from(old);
    new["metadata"] = metadata;
    put(&mut new["spec"], "resources", sent["resources"].clone());
    for list in ["containers", "initContainers"] {
        each(&mut new["spec"], list, |container| {
            let same_name = |other: &&Value| other["name"] == container["name"];
            let Some(other) = sent[list].as_array().into_iter().flatten().find(same_name) else { return };
            for field in ["resources", "resizePolicy"] {
                put(container, field, other[field].clone());
            }
        });
    }
}

/// Ephemeral containers can be added, and nothing else.
pub(super) fn validate_ephemeral_containers(new: &Value, old: &Value, errors: &mut Errors) {
    metadata_and_spec(new, errors);
    let root = At::root(new);
    let spec = root.get("spec");
    let list = spec.get("ephemeralContainers");
    for before in old["spec"]["ephemeralContainers"].as_array().into_iter().flatten() {
        let now = list.items().find(|container| container.value()["name"] == before["name"]);
        let name = &before["name"];
        match now {
            None => list.forbidden(errors, format!("existing ephemeral containers {name} may not be removed\n")),
            Some(now) if !same(now.value(), before) => {
                list.forbidden(errors, format!("existing ephemeral containers {name} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

/// A resize changes processor and memory, and leaves the class of the pod.
pub(super) fn validate_resize(new: &Value, old: &Value, errors: &mut Errors) {
    metadata_and_spec(new, errors);
    let root = At::root(new);
    let spec = root.get("spec");
    let class = quality_of_service(new);
    if class != quality_of_service(old) {
        let sentence = "Pod QOS Class may not change as a result of resizing";
        spec.invalid_as(errors, Value::from(class).to_string(), sentence);
    }
    if !same(&without_resizable(new), &without_resizable(old)) {
        spec.forbidden(errors, "only cpu and memory resources are mutable");
    }
}

/// A pod's spec without what a resize may change.
fn without_resizable(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    put(&mut spec, "resources", Value::Null);
    for list in ["containers", "initContainers"] {
        each(&mut spec, list, |container| {
            put(container, "resizePolicy", Value::Null);
            within(container, "resources", |resources| {
                for amounts in ["limits", "requests"] {
                    within(resources, amounts, |amounts| {
                        put(amounts, "cpu", Value::Null);
                        put(amounts, "memory", Value::Null);
                    });
                }
            });
        });
    }
    spec
}

/// Seconds until a deleted pod is removed: an unbound or finished pod goes at once
/// (`podStrategy.CheckGracefulDelete`).
fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let spec = &pod["spec"];
    let unbound = spec["nodeName"].as_str().is_none_or(str::is_empty);
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if unbound || finished {
        return 0;
    }
    let period = requested.or_else(|| spec["terminationGracePeriodSeconds"].as_i64()).unwrap_or_default();
    // A negative period means the shortest one.
    if period < 0 { 1 } else { period }
}

/// `BestEffort`, `Burstable` or `Guaranteed`.
#[must_use]
pub fn quality_of_service(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let mut requests: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut limits: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut guaranteed = true;
    let containers = || ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array()).flatten();
    let whole = spec["resources"].is_object().then(|| std::slice::from_ref(spec));
    let holders: Vec<&Value> = whole.map_or_else(|| containers().collect(), |pod| pod.iter().collect());
    for holder in holders {
        let mut limited = 0;
        for (list, totals) in [("requests", &mut requests), ("limits", &mut limits)] {
            for name in ["cpu", "memory"] {
                let Some(amount) = holder["resources"][list][name].as_str().and_then(|text| text.parse().ok()) else {
                    continue;
                };
                if amount > Quantity::ZERO {
                    let total = totals.entry(name).or_insert(Quantity::ZERO);
                    *total = total.plus(amount);
                    limited += usize::from(list == "limits");
                }
            }
        }
        guaranteed &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if guaranteed && requests == limits { "Guaranteed" } else { "Burstable" }
}

fn validate(pod: &Value, errors: &mut Errors) {
    metadata_and_spec(pod, errors);
    let root = At::root(pod);
    let spec = root.get("spec");
    let gates = spec.get("schedulingGates");
    let node = spec.get("nodeName");
    if !gates.is_empty() && !node.is_empty() {
        node.forbidden(errors, "cannot be set until all schedulingGates have been cleared");
    }
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden(errors, "cannot be set on create");
    }
}

fn metadata_and_spec(pod: &Value, errors: &mut Errors) {
    let root = At::root(pod);
    let spec = root.get("spec");
    pod_spec::spec(&spec, &[], errors);
    if spec.get("serviceAccountName").is_empty() {
        for volume in spec.get("volumes").items() {
            for source in volume.get("projected").get("sources").items() {
                let token = source.get("serviceAccountToken");
                if !token.is_absent() {
                    token.forbidden(errors, "must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
}

/// Fields that an update may change, as upstream's sentence lists them.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                          `spec.tolerations` (only additions to existing tolerations),\
                          `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    metadata_and_spec(new, errors);
    let root = At::root(new);
    let spec = root.get("spec");
    let before = &old["spec"];
    let count = |spec: &Value, list: &str| spec[list].as_array().map_or(0, Vec::len);
    for list in ["containers", "initContainers"] {
        if count(spec.value(), list) != count(before, list) {
            spec.get(list).forbidden(errors, "pod updates may not add or remove containers");
            return;
        }
    }
    active_deadline(&spec.get("activeDeadlineSeconds"), before["activeDeadlineSeconds"].as_i64(), errors);
    tolerations(&spec.get("tolerations"), &before["tolerations"], errors);
    scheduling_gates(&spec.get("schedulingGates"), &before["schedulingGates"], errors);
    let mut comparable = new["spec"].clone();
    restore_changeable(&mut comparable, before);
    if !same(&comparable, before) {
        spec.forbidden(errors, format!("pod updates may not change fields other than {CHANGEABLE}\n"));
    }
}

fn active_deadline(at: &At<'_, '_>, before: Option<i64>, errors: &mut Errors) {
    match (at.value().as_i64(), before) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            at.invalid(errors, format!("must be between 0 and {}, inclusive", i32::MAX));
        }
        (Some(now), Some(before)) if now > before => {
            at.invalid(errors, "must be less than or equal to previous value");
        }
        (None, Some(_)) => at.invalid_as(errors, "null", "must not update from a positive integer to nil value"),
        _ => {}
    }
}

/// Tolerations may be added; of those that were there only the seconds may change.
fn tolerations(at: &At<'_, '_>, before: &Value, errors: &mut Errors) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        put(&mut toleration, "tolerationSeconds", Value::Null);
        toleration
    };
    let now: Vec<Value> = at.items().map(|toleration| timeless(toleration.value())).collect();
    if before.as_array().into_iter().flatten().any(|toleration| !now.contains(&timeless(toleration))) {
        at.forbidden(errors, "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn scheduling_gates(at: &At<'_, '_>, before: &Value, errors: &mut Errors) {
    let known = |gate: &Value| before.as_array().into_iter().flatten().any(|old| old["name"] == gate["name"]);
    for gate in at.items() {
        if !known(gate.value()) {
            gate.forbidden(errors, "only deletion is allowed, but found new scheduling gate");
        }
    }
}

/// Sets what an update may change back to what it was, so that the rest can be compared.
fn restore_changeable(spec: &mut Value, before: &Value) {
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec[list].as_array_mut() else { continue };
        for (container, old) in containers.iter_mut().zip(before[list].as_array().into_iter().flatten()) {
            put(container, "image", old["image"].clone());
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put(spec, field, before[field].clone());
    }
    let was_negative = before["terminationGracePeriodSeconds"].as_i64().is_some_and(|period| period < 0);
    if was_negative && spec["terminationGracePeriodSeconds"] == 1 {
        put(spec, "terminationGracePeriodSeconds", before["terminationGracePeriodSeconds"].clone());
    }
    // While a pod is gated, its node selection may be narrowed.
    if !super::fill::is_empty(&before["schedulingGates"]) {
        for field in ["nodeSelector", "affinity"] {
            put(spec, field, before[field].clone());
        }
    }
    put(spec, "ephemeralContainers", before["ephemeralContainers"].clone());
}

fn validate_status_update(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let annotations = root.get("metadata");
    let annotations = annotations.get("annotations");
    metadata::annotations(&annotations.path(), annotations.value(), errors);
    let node = root.get("spec");
    node.get("nodeName").immutable(errors, &old["spec"]["nodeName"]);
    let status = root.get("status");
    let nominated = status.get("nominatedNodeName");
    if !nominated.is_empty() {
        nominated.all(errors, super::names::subdomain(nominated.text()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_of_service_follows_requests_and_limits() {
        let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        for (resources, class) in [
            (json!([{}]), "BestEffort"),
            (json!([both]), "Guaranteed"),
            (json!([both, {}]), "Burstable"),
            (json!([{"requests": {"cpu": "1"}}]), "Burstable"),
            (json!([{"requests": {"ephemeral-storage": "1Gi"}}]), "BestEffort"),
        ] {
            let containers: Vec<Value> =
                resources.as_array().unwrap().iter().map(|resources| json!({"resources": resources})).collect();
            assert_eq!(quality_of_service(&json!({"spec": {"containers": containers}})), class, "{resources}");
        }
    }

    #[test]
    fn a_pod_without_a_node_or_work_goes_at_once() {
        let bound = |phase: &str| json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
        assert_eq!(grace_period(&json!({"spec": {"terminationGracePeriodSeconds": 30}}), Some(5)), 0);
        assert_eq!(grace_period(&bound("Running"), None), 30);
        assert_eq!(grace_period(&bound("Running"), Some(5)), 5);
        assert_eq!(grace_period(&bound("Running"), Some(-3)), 1);
        assert_eq!(grace_period(&bound("Succeeded"), None), 0);
    }
}
