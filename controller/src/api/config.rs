//! `KubeDirectorConfig`: the settings of the controller that users may change.

use std::collections::BTreeMap;

use kube::CustomResource;
use kube::core::DynamicObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NamingScheme, ServiceType};

/// Settings. Only the object `kd-global-config` in the controller's namespace counts.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubedirector.hpe.com",
    version = "v1beta1",
    kind = "KubeDirectorConfig",
    plural = "kubedirectorconfigs",
    singular = "kubedirectorconfig",
    shortname = "kdconfig",
    namespaced,
    status = "ConfigStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigSpec {
    /// Mirror every cluster's status into a KubeDirectorStatusBackup. False unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_cluster_status: Option<bool>,
    /// Let a restored cluster resume although objects it is connected to are absent. False unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_restore_without_connections: Option<bool>,
    /// StorageClass of roles that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub default_storage_class_name: Option<String>,
    /// Service type of clusters that name none: LoadBalancer unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_service_type: Option<ServiceType>,
    /// Naming scheme of clusters that name none: UID unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_naming_scheme: Option<NamingScheme>,
    /// The nodes run systemd. Accepted and not acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_systemd_support: Option<bool>,
    /// Prefix that names of mounted Secrets must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_secret_prefix: Option<String>,
    /// Suffix of Service names in DNS: `.svc.cluster.local` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_svc_domain_base: Option<String>,
    /// Key for secret values. Accepted and not acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_encryption_key: Option<String>,
    /// Labels of all member pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_labels: Option<BTreeMap<String, String>>,
    /// Annotations of all member pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_annotations: Option<BTreeMap<String, String>>,
    /// Labels of all Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_labels: Option<BTreeMap<String, String>>,
    /// Annotations of all Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_annotations: Option<BTreeMap<String, String>>,
    /// Sizes of `/dev/shm` are supported. Accepted and not acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_shared_memory_size_support: Option<bool>,
}

/// Whether the settings are in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigStatus {
    /// Changes with every status write.
    #[serde(rename = "generationUID")]
    pub generation_uid: String,
    /// `creating`, then `ready`.
    pub state: String,
}

impl TryFrom<DynamicObject> for KubeDirectorConfig {
    type Error = serde_json::Error;

    /// A config may lack a spec altogether, or say null: it sets nothing then.
    fn try_from(object: DynamicObject) -> Result<Self, Self::Error> {
        let spec = Option::<ConfigSpec>::deserialize(&object.data["spec"])?.unwrap_or_default();
        let status = Option::<ConfigStatus>::deserialize(&object.data["status"])?;
        Ok(Self { metadata: object.metadata, spec, status })
    }
}
