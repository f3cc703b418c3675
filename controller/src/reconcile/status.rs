//! Status: what is in force, and how a new one is written.

use crate::api::{ClusterStatus, KubeDirectorCluster, KubeDirectorStatusBackup};

/// The status that names the cluster's objects: its own or, while that is still awaited, the backup's.
pub(super) fn status_in_force(
    cluster: &KubeDirectorCluster,
    backup: Option<&KubeDirectorStatusBackup>,
) -> ClusterStatus {
    let own = cluster.status.clone().unwrap_or_default();
    let awaiting = own.restore_progress.as_ref().is_some_and(|progress| progress.awaiting_status);
    match backup.and_then(|backup| backup.spec.status_backup.clone()) {
        Some(backed_up) if awaiting || cluster.status.is_none() => backed_up,
        _ => own,
    }
}
