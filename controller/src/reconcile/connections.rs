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
    /// Another cluster: what matters is who its members are. (KubeDirector looks at its generation, which also
    /// counts what *it* is connected to: two clusters connected to each other would never come to rest.) One
    /// without a status has no members yet.
    pub fn cluster(name: &str, found: Option<&KubeDirectorCluster>) -> Self {
        let members = |cluster: &KubeDirectorCluster| {
            let status = cluster.status.clone().unwrap_or_default();
            let roles = status.roles.iter().map(|role| {
                let staying = role.members.iter().filter(|member| !member.state.leaving());
                (role.id.clone(), staying.map(|member| member.pod.clone()).collect::<Vec<String>>())
            });
            digest(&(&status.cluster_service, roles.collect::<Vec<_>>()))
        };
        let unsettled = found.is_some_and(|cluster| {
            let progress = cluster.status.as_ref().and_then(|status| status.restore_progress.as_ref());
            cluster.labels().contains_key(names::RESTORING) && progress.is_none_or(|progress| progress.awaiting_status)
        });
        Self { kind: kinds::CLUSTER.kind, name: name.to_owned(), content: found.map(members), unsettled, about: None }
    }

    /// A ConfigMap: its data, and what its user says it is about.
    pub fn config_map(name: &str, found: Option<&ConfigMap>) -> Self {
        let about = found.and_then(|object| object.labels().get(names::CONFIG_MAP_TYPE).cloned());
        let content = found.map(|object| digest(&(&object.data, &object.binary_data, &about)));
        Self { kind: kinds::CONFIG_MAP.kind, name: name.to_owned(), content, unsettled: false, about }
    }

    /// A Secret, likewise.
    pub fn secret(name: &str, found: Option<&Secret>) -> Self {
        let about = found.and_then(|object| object.labels().get(names::SECRET_TYPE).cloned());
        let content = found.map(|object| digest(&(&object.data, &object.type_, &about)));
        Self { kind: kinds::SECRET.kind, name: name.to_owned(), content, unsettled: false, about }
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
