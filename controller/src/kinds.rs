//! The kinds the controller touches, and how their URLs are built.

/// A kind as requests need it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// `group/version`, or `v1`.
    pub api_version: &'static str,
    /// Its name in objects.
    pub kind: &'static str,
    /// Its name in URLs.
    pub plural: &'static str,
}

/// KubeDirectorCluster.
pub static CLUSTER: Kind =
    Kind { api_version: "kubedirector.hpe.com/v1beta1", kind: "KubeDirectorCluster", plural: "kubedirectorclusters" };
/// KubeDirectorApp.
pub static APP: Kind =
    Kind { api_version: "kubedirector.hpe.com/v1beta1", kind: "KubeDirectorApp", plural: "kubedirectorapps" };
/// KubeDirectorConfig.
pub static CONFIG: Kind =
    Kind { api_version: "kubedirector.hpe.com/v1beta1", kind: "KubeDirectorConfig", plural: "kubedirectorconfigs" };
/// KubeDirectorStatusBackup.
pub static STATUS_BACKUP: Kind = Kind {
    api_version: "kubedirector.hpe.com/v1beta1",
    kind: "KubeDirectorStatusBackup",
    plural: "kubedirectorstatusbackups",
};
/// StatefulSet.
pub static STATEFUL_SET: Kind = Kind { api_version: "apps/v1", kind: "StatefulSet", plural: "statefulsets" };
/// Service.
pub static SERVICE: Kind = Kind { api_version: "v1", kind: "Service", plural: "services" };
/// Pod.
pub static POD: Kind = Kind { api_version: "v1", kind: "Pod", plural: "pods" };
/// PersistentVolumeClaim.
pub static CLAIM: Kind = Kind { api_version: "v1", kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims" };
/// ConfigMap.
pub static CONFIG_MAP: Kind = Kind { api_version: "v1", kind: "ConfigMap", plural: "configmaps" };
/// Secret.
pub static SECRET: Kind = Kind { api_version: "v1", kind: "Secret", plural: "secrets" };
/// Event.
pub static EVENT: Kind = Kind { api_version: "v1", kind: "Event", plural: "events" };
/// MutatingWebhookConfiguration; cluster-scoped.
pub static MUTATING_WEBHOOKS: Kind = Kind {
    api_version: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
};

impl Kind {
    /// Path of the collection; without a namespace, of the whole cluster.
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        match namespace {
            Some(namespace) => format!("{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural),
            None => format!("{root}/{}/{}", self.api_version, self.plural),
        }
    }
}
