//! `KubeDirectorCluster`: one instance of an app, as members grouped in roles.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::QUANTITY_PATTERN;
use super::{Affinity, Catalog, ClusterStatus, Requirements};

/// What a user asks for: an app and how many members of each of its roles.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubedirector.hpe.com",
    version = "v1beta1",
    kind = "KubeDirectorCluster",
    plural = "kubedirectorclusters",
    singular = "kubedirectorcluster",
    shortname = "kdcluster",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"KDApp","type":"string","description":"Resource name of the instantiated kdapp","jsonPath":".spec.app"}"#,
    printcolumn = r#"{"name":"State","type":"string","description":"Overall state of kdcluster configuration","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Any Down","type":"string","description":"Whether any member containers are down","jsonPath":".status.memberStateRollup.membersDown"}"#,
    printcolumn = r#"{"name":"Any ConfigError","type":"string","description":"Whether any member configuration returned error status","jsonPath":".status.memberStateRollup.configErrors"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Name of the KubeDirectorApp to instantiate.
    #[schemars(length(min = 1))]
    pub app: String,
    /// Where the app is looked up: `local` is this namespace, `system` the controller's. Filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_catalog: Option<Catalog>,
    /// Type of the members' Services. Filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_type: Option<ServiceType>,
    /// How object names are made. Filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming_scheme: Option<NamingScheme>,
    /// Secret mounted into every role that names none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_secret: Option<SecretMount>,
    /// Other objects of this namespace whose content the members are told about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The roles to run.
    pub roles: Vec<Role>,
}

/// Objects of the cluster's own namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Other KubeDirectorClusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// ConfigMaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configmaps: Vec<String>,
    /// Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

/// Type of the members' Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Reachable inside only.
    ClusterIP,
    /// A port on every node.
    NodePort,
    /// An address from the platform.
    LoadBalancer,
}

impl ServiceType {
    /// The value of a Service's `spec.type`.
    pub fn as_str(self) -> &'static str {
        match self {
            ServiceType::ClusterIP => "ClusterIP",
            ServiceType::NodePort => "NodePort",
            ServiceType::LoadBalancer => "LoadBalancer",
        }
    }
}

/// How object names are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamingScheme {
    /// Generated names with a fixed prefix.
    #[serde(rename = "UID")]
    Uid,
    /// Generated names that start with the cluster's and the role's name.
    CrNameRole,
}

/// One role and its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// Id of a role of the app.
    #[schemars(length(min = 1, max = 63), regex(pattern = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"))]
    pub id: String,
    /// How many members. Filled in at admission with the least the app allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub members: Option<i64>,
    /// Compute resources of each member.
    pub resources: Requirements,
    /// Persistent storage of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Raw block devices of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_storage: Option<BlockStorage>,
    /// Further labels of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_labels: Option<BTreeMap<String, String>>,
    /// Further annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_annotations: Option<BTreeMap<String, String>>,
    /// Further labels of the members' Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_labels: Option<BTreeMap<String, String>>,
    /// Further annotations of the members' Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_annotations: Option<BTreeMap<String, String>>,
    /// Secret mounted into each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretMount>,
    /// Environment of each member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Placement rules of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Size of `/dev/shm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub shared_memory: Option<String>,
    /// Files to fetch into each member. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_injections: Vec<FileInjection>,
    /// ServiceAccount of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub service_account_name: Option<String>,
    /// Secret values for the guest. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_keys: Vec<SecretKey>,
    /// Claims of the user to mount. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_projections: Vec<VolumeProjection>,
}

/// Persistent storage of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Size of the claim.
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub size: String,
    /// StorageClass of the claim. Filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub storage_class_name: Option<String>,
}

/// Raw block devices of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockStorage {
    /// How many devices.
    #[schemars(range(min = 1))]
    pub num_devices: i64,
    /// Where they appear: this path and a number.
    #[schemars(length(min = 1), regex(pattern = "^/.*$"))]
    pub path_prefix: String,
    /// StorageClass of the claims.
    #[schemars(length(min = 1))]
    pub storage_class_name: String,
    /// Size of each device, `1Gi` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub size: Option<String>,
}

/// A Secret and where it is mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretMount {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Absolute path in the container.
    #[schemars(length(min = 1), regex(pattern = r"^/[a-zA-Z0-9\/-_]*"))]
    pub mount_path: String,
    /// Mode of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 511))]
    pub default_mode: Option<i32>,
    /// Whether the mount is read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

/// One environment variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvVar {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A file to fetch into each member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileInjection {
    /// Where it comes from.
    #[serde(rename = "srcURL")]
    #[schemars(regex(pattern = "^https?://.+$"))]
    pub src_url: String,
    /// The folder it goes to.
    #[schemars(length(min = 1), regex(pattern = "^/.*$"))]
    pub dest_dir: String,
    /// Mode and owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<FilePermissions>,
}

/// Mode and owner of an injected file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePermissions {
    /// Mode bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<i32>,
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_owner: Option<String>,
    /// Group name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_group: Option<String>,
}

/// A secret value for the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The plain value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value as KubeDirector encrypts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub encrypted_value: Option<String>,
}

/// A claim of the user's to mount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeProjection {
    /// Name of the claim.
    #[schemars(length(min = 1))]
    pub pvc_name: String,
    /// Absolute path in the container.
    #[schemars(length(min = 2), regex(pattern = r"^/[a-zA-Z0-9\/-_]*"))]
    pub mount_path: String,
    /// Whether the mount is read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}
