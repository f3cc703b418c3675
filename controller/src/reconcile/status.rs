//! Status: what is in force, and how a new one is written.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::plan::{Act, Change, ObjectRef};
use super::view::View;
use crate::api::{ClusterStatus, KubeDirectorCluster, KubeDirectorStatusBackup};
use crate::kinds;

/// The status that names the cluster's objects: its own or, while that is still awaited, the backup's.
pub(super) fn status_in_force(
    cluster: &KubeDirectorCluster,
    backup: Option<&KubeDirectorStatusBackup>,
) -> ClusterStatus {
    let own = cluster.status.clone().unwrap_or_default();
    let awaiting = own.restore_progress.as_ref().is_none_or(|progress| progress.awaiting_status);
    let incarnation_now = cluster.metadata.uid.as_deref().map(incarnation);
    let own_is_ours = own.incarnation.is_some() && own.incarnation == incarnation_now;
    match backup.and_then(|backup| backup.spec.status_backup.clone()) {
        Some(backed_up) if !own_is_ours || (awaiting && own.restore_progress.is_some()) => backed_up,
        _ => own,
    }
}

/// The statuses say the same. Their `generationUID` says nothing.
pub(super) fn same(a: &ClusterStatus, b: &ClusterStatus) -> bool {
    let mut a = a.clone();
    a.generation_uid.clone_from(&b.generation_uid);
    a == *b
}

/// Digest of a uid, 16 hexadecimal digits.
pub(super) fn incarnation(uid: &str) -> String {
    Sha256::digest(uid).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A new `generationUID` for a status that replaces one with `previous`. It follows from both, so that the
/// same decision makes the same name.
fn stamp(cluster_uid: &str, previous: &str, status: &ClusterStatus) -> String {
    let mut hash = Sha256::new();
    hash.update(cluster_uid);
    hash.update(previous);
    let unstamped = ClusterStatus { generation_uid: String::new(), ..status.clone() };
    hash.update(serde_json::to_vec(&unstamped).unwrap_or_default());
    let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-8{}-8{}-{}", &digest[..8], &digest[8..12], &digest[13..16], &digest[17..20], &digest[20..])
}

/// Stamps `next` and makes the write that puts it in the place of `stored`. The write is refused if the object
/// is another one or somebody wrote a status in between.
pub(super) fn write(view: &View<'_>, stored: &ClusterStatus, next: &mut ClusterStatus, purpose: &str) -> Change {
    next.generation_uid = stamp(view.uid(), &stored.generation_uid, next);
    let mut operations = vec![test(["metadata", "uid"], json!(view.uid()))];
    if !stored.generation_uid.is_empty() {
        operations.push(test(["status", "generationUID"], json!(stored.generation_uid)));
    }
    operations.push(add(["status"], json!(next)));
    Change {
        on: ObjectRef {
            uid: Some(view.uid().to_owned()),
            ..ObjectRef::new(&kinds::CLUSTER, view.namespace(), view.name())
        },
        act: Act::PatchStatus(Patch(operations)),
        purpose: purpose.to_owned(),
    }
}

/// A `test` operation of a JSON patch.
pub(super) fn test<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path: PointerBuf::from_tokens(path), value })
}

/// An `add` operation of a JSON patch. It also replaces.
pub(crate) fn add<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path), value })
}
