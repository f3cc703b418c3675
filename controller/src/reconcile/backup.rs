//! The backup of the status: when there is one, what is in it, and whose it is.
//!
//! Status is written first, its backup second: a backup that cannot be written must never keep the
//! status from being written (B29).

use json_patch::Patch;
use serde_json::json;

use super::owners;
use super::plan::{Act, ObjectRef, Plan};
use super::status::{add, test};
use super::view::View;
use crate::api::{ClusterStatus, KubeDirectorStatusBackup};
use crate::kinds;
use crate::names::{ORIGIN, STATUS_BACKUP_EXISTS};

/// What is wanted of backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// There should be one.
    pub(super) exists: bool,
    /// One that should not exist may be deleted.
    pub(super) may_delete: bool,
    /// What the annotation should say; none leaves it as it is.
    pub(super) memo: Option<bool>,
}

/// What is wanted of backups. Without a config nothing is known: the annotation says what was last wanted.
pub(super) fn wanted(view: &View<'_>) -> Wanted {
    let safeguards = view.safeguards();
    if !safeguards.status_backup {
        return Wanted { exists: false, may_delete: false, memo: Some(false) };
    }
    let memo = view.annotation(STATUS_BACKUP_EXISTS);
    match &view.facts.config {
        Some(config) => {
            let exists = config.backup_cluster_status.unwrap_or(false);
            Wanted { exists, may_delete: true, memo: Some(exists) }
        }
        None if safeguards.backup_unknown_is_not_false => {
            let exists = memo == Some("true");
            Wanted { exists, may_delete: false, memo: memo.is_none().then_some(false) }
        }
        None => Wanted { exists: false, may_delete: true, memo: Some(false) },
    }
}

/// The annotations of a cluster that is not being restored, where they differ from what they should be.
pub(super) fn annotations(view: &View<'_>, wanted: Wanted, origin: Option<&str>) -> Option<serde_json::Value> {
    let memo = wanted.memo.map(|exists| if exists { "true" } else { "false" });
    let mut differing = serde_json::Map::new();
    for (key, value) in [(STATUS_BACKUP_EXISTS, memo), (ORIGIN, origin)] {
        if let Some(value) = value
            && view.annotation(key) != Some(value)
        {
            differing.insert(key.to_owned(), json!(value));
        }
    }
    (!differing.is_empty()).then(|| json!({"metadata": {"annotations": differing}}))
}

/// The backup belongs to the lineage of `status`. One that names no lineage was made by a KubeDirector.
pub(super) fn belongs(view: &View<'_>, backup: &KubeDirectorStatusBackup, origin: Option<&str>) -> bool {
    if !view.safeguards().match_origin {
        return true;
    }
    let theirs = backup.spec.status_backup.as_ref().and_then(|status| status.origin.as_deref());
    theirs.is_none() || origin.is_none() || theirs == origin
}

/// Whether the backup failed to follow the stored status. A first writing is no failure.
pub(super) fn is_behind(view: &View<'_>, wanted: Wanted, stored: &ClusterStatus) -> bool {
    if !wanted.exists || stored.generation_uid.is_empty() || view.annotation(STATUS_BACKUP_EXISTS) != Some("true") {
        return false;
    }
    // A resumed cluster's backup is the one it was restored from until the first ordinary write.
    let restored = stored.restore_progress.is_some();
    !restored
        && match &view.facts.backup {
            Some(backup) => backup.spec.status_backup.as_ref() != Some(stored),
            None => true,
        }
}

/// Brings the backup in line with `next`, which is about to be the stored status.
pub(super) fn follow(view: &View<'_>, plan: &mut Plan, wanted: Wanted, next: &ClusterStatus) {
    if view.facts.backup_unreadable.is_some() {
        plan.check_within(view.settings.retry);
        return;
    }
    let Some(backup) = &view.facts.backup else {
        if wanted.exists {
            create(view, plan, next);
        }
        return;
    };
    if backup.metadata.deletion_timestamp.is_some() || !belongs(view, backup, next.origin.as_deref()) {
        return;
    }
    if !wanted.exists {
        if wanted.may_delete {
            let on = ObjectRef::observed(&kinds::STATUS_BACKUP, backup);
            plan.push(on, Act::Delete { orphan: false }, "keep no status backups");
        }
        return;
    }
    if backup.spec.status_backup.as_ref() != Some(next) {
        let uid = json!(backup.metadata.uid);
        let patch = Patch(vec![test(["metadata", "uid"], uid), add(["spec", "statusBackup"], json!(next))]);
        plan.push(ObjectRef::observed(&kinds::STATUS_BACKUP, backup), Act::Patch(patch), "mirror the status");
    }
    owners::repair(view, plan, &kinds::STATUS_BACKUP, backup);
}

fn create(view: &View<'_>, plan: &mut Plan, next: &ClusterStatus) {
    let kind = &kinds::STATUS_BACKUP;
    let object = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "namespace": view.namespace(),
            "name": view.name(),
            "ownerReferences": [owners::reference(view.cluster)],
        },
        "spec": {"statusBackup": next},
    });
    let on = ObjectRef::new(kind, view.namespace(), view.name());
    plan.push(on, Act::Create(Box::new(object)), "mirror the status");
}
