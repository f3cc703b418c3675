//! Connections: what matters in the objects a cluster is connected to, as digests.
//!
//! KubeDirector compares resource versions, which a restore changes although nothing happened (B3). We
//! compare content.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::observed::Connection;
use crate::api::KubeDirectorCluster;
use crate::{kinds, names};

impl Connection {
    /// Another cluster: what matters is which membership it has reached. One without a status has reached none.
    pub fn cluster(name: &str, found: Option<&KubeDirectorCluster>) -> Self {
        let reached = |cluster: &KubeDirectorCluster| {
            let status = cluster.status.as_ref();
            status.and_then(|status| status.spec_generation_to_process).unwrap_or_default().to_string()
        };
        Self { kind: kinds::CLUSTER.kind, name: name.to_owned(), content: found.map(reached), about: None }
    }

    /// A ConfigMap: its data, and what its user says it is about.
    pub fn config_map(name: &str, found: Option<&ConfigMap>) -> Self {
        let about = found.and_then(|object| object.labels().get(names::CONFIG_MAP_TYPE).cloned());
        let content = found.map(|object| digest(&(&object.data, &object.binary_data, &about)));
        Self { kind: kinds::CONFIG_MAP.kind, name: name.to_owned(), content, about }
    }

    /// A Secret, likewise.
    pub fn secret(name: &str, found: Option<&Secret>) -> Self {
        let about = found.and_then(|object| object.labels().get(names::SECRET_TYPE).cloned());
        let content = found.map(|object| digest(&(&object.data, &object.type_, &about)));
        Self { kind: kinds::SECRET.kind, name: name.to_owned(), content, about }
    }
}

/// Digest of all connections, in the order of the spec.
pub(super) fn hash(connections: &[Connection]) -> String {
    let parts: Vec<_> = connections.iter().map(|c| (c.kind, c.name.as_str(), c.content.as_deref())).collect();
    digest(&parts)
}

/// 32 hexadecimal digits over the JSON of a value.
fn digest(value: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    Sha256::digest(&bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
