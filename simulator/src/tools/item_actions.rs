//! Velero's restore item actions: what it edits in an object of a certain type, and what it restores
//! before it (`pkg/restore/actions`).

use std::collections::BTreeMap;

use rewake_apiserver::object::{ObjectExt, metadata_mut};
use rewake_apiserver::resource::GroupResource;
use serde_json::Value;

use super::archive::ItemKey;

/// What the actions say about an object.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// The object is not restored; why.
    pub skip: Option<&'static str>,
    /// Items to restore first.
    pub first: Vec<ItemKey>,
}

/// Annotations of a claim that describe its old binding.
const CLAIM_BINDING: &[&str] = &[
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "velero.io/volume-snapshot-name",
    "velero.io/data-upload-name",
];

/// Applies the actions for the type of `object`, which still carries its old namespace.
/// `archived` is the object as it was backed up.
pub fn apply(
    resource: &GroupResource,
    object: &mut Value,
    archived: &Value,
    mapping: &BTreeMap<String, String>,
) -> Verdict {
    match (&*resource.group, &*resource.resource) {
        ("", "pods") => pod(object, archived),
        ("", "persistentvolumeclaims") => claim(object, archived),
        ("", "persistentvolumes") => volume(object, mapping),
        ("", "services") => service(object),
        ("", "serviceaccounts") => service_account(object),
        ("", "secrets") => secret(object),
        ("batch", "jobs") => job(object, archived),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(object, mapping),
        ("admissionregistration.k8s.io", _) => webhooks(object),
        ("apiregistration.k8s.io", "apiservices") => {
            let managed = object.label("kube-aggregator.kubernetes.io/automanaged").is_some();
            Verdict { skip: managed.then_some("the aggregator manages it"), ..Verdict::default() }
        }
        _ => Verdict::default(),
    }
}

fn pod(object: &mut Value, archived: &Value) -> Verdict {
    let skip = if archived.annotation("kubernetes.io/config.mirror").is_some() {
        Some("it is a mirror pod")
    } else if matches!(archived["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        Some("it had finished")
    } else {
        None
    };
    let account = object["spec"]["serviceAccountName"].as_str().unwrap_or("default").to_owned();
    let is_token = |name: &Value| name.as_str().is_some_and(|name| name.starts_with(&format!("{account}-token-")));
    let namespace = object.namespace().to_owned();
    let mut first = Vec::new();
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("nodeName");
        spec.remove("priority");
        if let Some(class) = spec.get("priorityClassName").and_then(Value::as_str) {
            first.push(ItemKey::new(GroupResource::new("scheduling.k8s.io", "priorityclasses"), "", class));
        }
        if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
            volumes.retain(|volume| !is_token(&volume["name"]));
            let claims = volumes.iter().filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
            first.extend(
                claims.map(|claim| ItemKey::new(GroupResource::new("", "persistentvolumeclaims"), &namespace, claim)),
            );
        }
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                    mounts.retain(|mount| !is_token(&mount["name"]));
                }
            }
        }
    }
    Verdict { skip, first }
}

fn claim(object: &mut Value, archived: &Value) -> Verdict {
    remove_annotations(object, CLAIM_BINDING);
    let first = archived["spec"]["volumeName"]
        .as_str()
        .map(|volume| ItemKey::new(GroupResource::new("", "persistentvolumes"), "", volume));
    Verdict { skip: None, first: first.into_iter().collect() }
}

fn volume(object: &mut Value, mapping: &BTreeMap<String, String>) -> Verdict {
    remove_annotations(object, &["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"]);
    if let Some(claim) = object["spec"]["claimRef"].as_object_mut() {
        claim.remove("uid");
        claim.remove("resourceVersion");
        if let Some(target) =
            claim.get("namespace").and_then(Value::as_str).and_then(|namespace| mapping.get(namespace))
        {
            claim.insert("namespace".to_owned(), target.as_str().into());
        }
    }
    Verdict::default()
}

fn service(object: &mut Value) -> Verdict {
    let Some(spec) = object["spec"].as_object_mut() else { return Verdict::default() };
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return Verdict::default();
    }
    if spec.get("clusterIP").and_then(Value::as_str) != Some("None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
    Verdict::default()
}

fn service_account(object: &mut Value) -> Verdict {
    let token = format!("{}-token-", object.name());
    if let Some(secrets) = object["secrets"].as_array_mut()
        && let Some(at) =
            secrets.iter().position(|secret| secret["name"].as_str().is_some_and(|name| name.starts_with(&token)))
    {
        secrets.remove(at);
    }
    Verdict::default()
}

fn secret(object: &mut Value) -> Verdict {
    if object["type"] != "kubernetes.io/service-account-token" {
        return Verdict::default();
    }
    remove_annotations(object, &["kubernetes.io/service-account.uid"]);
    if let Some(data) = object["data"].as_object_mut() {
        data.remove("token");
        data.remove("ca.crt");
    }
    Verdict::default()
}

fn job(object: &mut Value, archived: &Value) -> Verdict {
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        if let Some(labels) = object.pointer_mut(labels).and_then(Value::as_object_mut) {
            labels.remove("controller-uid");
            labels.remove("batch.kubernetes.io/controller-uid");
        }
    }
    let finished = archived["status"]["completionTime"].is_string();
    Verdict { skip: finished.then_some("it had finished"), ..Verdict::default() }
}

fn binding(object: &mut Value, mapping: &BTreeMap<String, String>) -> Verdict {
    for subject in object["subjects"].as_array_mut().into_iter().flatten() {
        if let Some(target) = subject["namespace"].as_str().and_then(|namespace| mapping.get(namespace)) {
            subject["namespace"] = target.as_str().into();
        }
    }
    Verdict::default()
}

fn webhooks(object: &mut Value) -> Verdict {
    for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
        if !matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")) {
            webhook["sideEffects"] = "None".into();
        }
    }
    Verdict::default()
}

fn remove_annotations(object: &mut Value, keys: &[&str]) {
    if let Some(annotations) = metadata_mut(object).get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(resource: &str, group: &str, mut object: Value) -> (Value, Verdict) {
        let archived = object.clone();
        let verdict = apply(&GroupResource::new(group, resource), &mut object, &archived, &BTreeMap::new());
        (object, verdict)
    }

    #[test]
    fn a_pod_comes_back_unbound_with_its_claims_first() {
        let (pod, verdict) = run(
            "pods",
            "",
            json!({
            "metadata": {"name": "web-0", "namespace": "team"},
            "spec": {"nodeName": "n", "volumes": [
                {"name": "p", "persistentVolumeClaim": {"claimName": "p-web-0"}}, {"name": "default-token-x"}]}}),
        );
        assert_eq!(pod["spec"], json!({"volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "p-web-0"}}]}));
        assert_eq!(verdict.first[0].to_string(), "persistentvolumeclaims team/p-web-0");
    }

    #[test]
    fn finished_work_is_not_restored_but_a_failed_job_is() {
        let (_, done) = run("jobs", "batch", json!({"metadata": {"name": "j"}, "status": {"completionTime": "t"}}));
        let (_, failed) = run("jobs", "batch", json!({"metadata": {"name": "j"}, "status": {"failed": 1}}));
        let (_, pod) = run("pods", "", json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Failed"}}));
        assert!(done.skip.is_some() && failed.skip.is_none() && pod.skip.is_some());
    }

    #[test]
    fn a_service_loses_its_addresses_unless_it_is_headless() {
        let service = |ip: &str| json!({"metadata": {"name": "s"}, "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80, "nodePort": 30000}]}});
        assert_eq!(run("services", "", service("10.0.0.1")).0["spec"], json!({"ports": [{"port": 80}]}));
        assert_eq!(run("services", "", service("None")).0["spec"]["clusterIP"], "None");
    }
}
