//! `KubeDirectorStatusBackup`: a cluster's status as an ordinary object, which backup tools keep.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterStatus;

/// The copy. Name and namespace are the cluster's.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubedirector.hpe.com",
    version = "v1beta1",
    kind = "KubeDirectorStatusBackup",
    plural = "kubedirectorstatusbackups",
    singular = "kubedirectorstatusbackup",
    shortname = "kdstatusbackup",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct StatusBackupSpec {
    /// The status as it was written to the cluster.
    #[serde(default)]
    pub status_backup: Option<ClusterStatus>,
}
