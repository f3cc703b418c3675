//! Owner references: who owns an object, and what the right list would be.
//!
//! A reference is *lost* when a tool stripped it, *stale* when it names an earlier life of the same
//! cluster. Kubernetes deletes an object all of whose owners are absent, and an owner under another uid
//! counts as absent.

use json_patch::Patch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::ObjectMeta;
use serde_json::json;

use super::plan::{Act, ObjectRef, Plan};
use super::status::{add, test};
use super::view::View;
use crate::api::{KubeDirectorCluster, api_version};
use crate::kinds::{self, Kind};

/// How an object stands to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The cluster is its controller.
    Owned,
    /// It has no controller, or an earlier life of the cluster is its controller.
    Free,
    /// Something else is its controller.
    Foreign,
}

/// The one reference every child carries. `blockOwnerDeletion` is false: nothing waits for children.
pub(crate) fn reference(cluster: &KubeDirectorCluster) -> OwnerReference {
    OwnerReference {
        api_version: api_version(),
        kind: kinds::CLUSTER.kind.to_owned(),
        name: cluster.metadata.name.clone().unwrap_or_default(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

/// The reference names a KubeDirectorCluster.
pub(crate) fn names_a_cluster(reference: &OwnerReference) -> bool {
    reference.kind == kinds::CLUSTER.kind && reference.api_version == api_version()
}

/// How an object with these references stands to `cluster`.
pub(super) fn standing(metadata: &ObjectMeta, cluster: &KubeDirectorCluster) -> Standing {
    let ours = reference(cluster);
    let Some(controller) = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    else {
        return Standing::Free;
    };
    if controller.uid == ours.uid {
        Standing::Owned
    } else if names_a_cluster(controller) && controller.name == ours.name {
        Standing::Free
    } else {
        Standing::Foreign
    }
}

/// The right list: our reference, and what others added that is neither a controller nor stale.
fn repaired(metadata: &ObjectMeta, cluster: &KubeDirectorCluster) -> Vec<OwnerReference> {
    let ours = reference(cluster);
    let kept = metadata.owner_references.iter().flatten().filter(|owner| {
        owner.controller != Some(true) && owner.uid != ours.uid && !(names_a_cluster(owner) && owner.name == ours.name)
    });
    let kept: Vec<OwnerReference> = kept.cloned().collect();
    [ours].into_iter().chain(kept).collect()
}

/// Gives a child its owner back, if it is free.
pub(super) fn repair<K: Resource>(view: &View<'_>, plan: &mut Plan, kind: &'static Kind, object: &K) {
    let allowed =
        if *kind == kinds::CLAIM { view.safeguards().repair_claim_owners } else { view.safeguards().repair_owners };
    let going = object.meta().deletion_timestamp.is_some();
    if !allowed || going || standing(object.meta(), view.cluster) != Standing::Free {
        return;
    }
    let mut operations = vec![test(["metadata", "uid"], json!(object.meta().uid))];
    if let Some(seen) = object.meta().owner_references.as_ref().filter(|seen| !seen.is_empty()) {
        operations.push(test(["metadata", "ownerReferences"], json!(seen)));
    }
    operations.push(add(["metadata", "ownerReferences"], json!(repaired(object.meta(), view.cluster))));
    plan.push(ObjectRef::observed(kind, object), Act::Patch(Patch(operations)), "give it back its owner");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn cluster() -> KubeDirectorCluster {
        serde_json::from_value(json!({
            "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorCluster",
            "metadata": {"name": "c", "uid": "now"}, "spec": {"app": "a", "roles": []}
        }))
        .unwrap()
    }

    fn owner(kind: &str, name: &str, uid: &str, controller: bool) -> Value {
        let version = if kind == "KubeDirectorCluster" { "kubedirector.hpe.com/v1beta1" } else { "v1" };
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": controller, "blockOwnerDeletion": true})
    }

    /// Covers: KD-60, KD-72
    #[test]
    fn lost_and_stale_owners_are_free_and_foreign_ones_are_not() {
        for (owners, expected) in [
            (json!([]), Standing::Free),
            (json!([owner("KubeDirectorCluster", "c", "before", true)]), Standing::Free),
            (json!([owner("KubeDirectorCluster", "c", "now", true)]), Standing::Owned),
            (json!([owner("KubeDirectorCluster", "other", "x", true)]), Standing::Foreign),
            (json!([owner("ConfigMap", "m", "x", true)]), Standing::Foreign),
            (json!([owner("ConfigMap", "m", "x", false)]), Standing::Free),
        ] {
            let metadata: ObjectMeta = serde_json::from_value(json!({"ownerReferences": owners})).unwrap();
            assert_eq!(standing(&metadata, &cluster()), expected, "{owners}");
        }
    }

    #[test]
    fn repair_keeps_what_others_added_and_drops_earlier_lives() {
        let owners = json!([owner("ConfigMap", "m", "x", false), owner("KubeDirectorCluster", "c", "before", true)]);
        let metadata: ObjectMeta = serde_json::from_value(json!({"ownerReferences": owners})).unwrap();
        let names: Vec<String> = repaired(&metadata, &cluster()).into_iter().map(|owner| owner.uid).collect();
        assert_eq!(names, ["now", "x"]);
    }
}
