//! Verdicts on StatefulSets, Services and status backups about to be created: a tool that keeps owner
//! references brings those of an earlier life back, and the garbage collector would take the objects away.

use json_patch::Patch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde_json::{Value, json};

use super::facts::Facts;
use super::request::Request;
use super::verdict::Verdict;
use crate::api::KubeDirectorCluster;
use crate::reconcile::owners;
use crate::reconcile::status::add;
use crate::settings::Settings;

/// The verdict on a child about to be created.
pub(super) fn judge(request: &Request, facts: &Facts, settings: &Settings) -> Verdict {
    match super::claim::named_cluster(request) {
        Some(name) if settings.safeguards.children_webhook => {
            without_absent_owners(&request.object["metadata"], &name, facts.owner.as_ref())
        }
        _ => Verdict::allow(),
    }
}

/// Replaces references to earlier lives of the cluster `name` by one to this life, or drops them if there is none.
pub(super) fn without_absent_owners(metadata: &Value, name: &str, cluster: Option<&KubeDirectorCluster>) -> Verdict {
    let Ok(Some(held)) = Option::<Vec<OwnerReference>>::deserialize(&metadata["ownerReferences"]) else {
        return Verdict::allow();
    };
    let current = cluster.map(owners::reference);
    let is_absent = |owner: &OwnerReference| {
        owners::names_a_cluster(owner)
            && owner.name == name
            && current.as_ref().is_none_or(|current| current.uid != owner.uid)
    };
    if !held.iter().any(is_absent) {
        return Verdict::allow();
    }
    let mut kept: Vec<OwnerReference> = held.iter().filter(|owner| !is_absent(owner)).cloned().collect();
    let controlled = kept.iter().any(|owner| owner.controller == Some(true));
    if let Some(current) = current.filter(|_| !controlled) {
        kept.insert(0, current);
    }
    Verdict::Allow(Patch(vec![add(["metadata", "ownerReferences"], json!(kept))]))
}
