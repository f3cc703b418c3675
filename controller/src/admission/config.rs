//! Verdicts on KubeDirectorConfigs.

use json_patch::Patch;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::facts::Facts;
use super::request::{Operation, Request};
use super::validate::bad_labels;
use super::verdict::Verdict;
use crate::api::{ConfigSpec, KubeDirectorConfig};
use crate::names;
use crate::reconcile::status::add;
use crate::settings::Settings;

/// The verdict on a request for a config.
pub(super) fn judge(request: &Request, facts: &Facts, settings: &Settings) -> Verdict {
    if request.operation == Operation::Delete {
        let in_use = facts.clusters.iter().any(|cluster| !cluster.labels().contains_key(names::RESTORING));
        if in_use && !facts.namespace_terminating {
            return Verdict::refuse("cannot be deleted while there are kdclusters");
        }
        return Verdict::allow();
    }
    if request.namespace != settings.namespace {
        return Verdict::refuse(format!("a KubeDirectorConfig counts only in namespace {}", settings.namespace));
    }
    let read = request.new_as::<DynamicObject>().and_then(|object| {
        KubeDirectorConfig::try_from(object).map_err(|error| format!("spec cannot be read: {error}"))
    });
    let new = match read {
        Ok(new) => new,
        Err(reason) => return Verdict::refuse(reason),
    };
    if request.operation == Operation::Create && new.status.is_some() {
        return Verdict::refuse("status is read-only: leave it out");
    }
    Verdict::of(complaints(&new.spec, facts), defaults(&request.object["spec"]))
}

fn complaints(spec: &ConfigSpec, facts: &Facts) -> Vec<String> {
    let mut complaints = Vec::new();
    let class = spec.default_storage_class_name.as_ref();
    if let Some(class) = class.filter(|class| !facts.storage_classes.contains_key(*class)) {
        complaints.push(format!("spec.defaultStorageClassName: StorageClass {class} does not exist"));
    }
    for (field, map, is_label) in [
        ("podLabels", &spec.pod_labels, true),
        ("serviceLabels", &spec.service_labels, true),
        ("podAnnotations", &spec.pod_annotations, false),
        ("serviceAnnotations", &spec.service_annotations, false),
    ] {
        complaints.extend(bad_labels(map.as_ref(), is_label).map(|key| format!("spec.{field}: {key:?} is not valid")));
    }
    complaints
}

/// Writes in what the user left out, so that it can be read off the object.
fn defaults(spec: &Value) -> Patch {
    let mut patch = Vec::new();
    if !spec.is_object() {
        patch.push(add(["spec"], json!({})));
    }
    for (field, value) in [
        ("backupClusterStatus", json!(false)),
        ("allowRestoreWithoutConnections", json!(false)),
        ("defaultServiceType", json!("LoadBalancer")),
        ("defaultNamingScheme", json!("UID")),
        ("clusterSvcDomainBase", json!(".svc.cluster.local")),
        ("nativeSystemdSupport", json!(false)),
    ] {
        if spec[field].is_null() {
            patch.push(add(["spec", field], value));
        }
    }
    Patch(patch)
}
