//! What a decision is based on: plain values, as the API server gave them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};

use crate::api::{ConfigSpec, KubeDirectorApp, KubeDirectorCluster, KubeDirectorConfig, KubeDirectorStatusBackup};
use crate::guest::SetupRecord;

/// What was seen of a target.
#[derive(Clone, Debug)]
pub enum Observed {
    /// Nothing need be known: what the controller needs around it is applied as it should be.
    Installation,
    /// A cluster and all that is around it.
    Cluster(Box<ClusterFacts>),
    /// A config.
    Config(Box<ConfigFacts>),
}

/// A cluster and all that is around it.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The cluster, unless it is gone.
    pub cluster: Option<KubeDirectorCluster>,
    /// Its app, if there is one where the cluster's catalogue says.
    pub app: Option<KubeDirectorApp>,
    /// The config; none when there is no config, which is not the same as one that says nothing.
    pub config: Option<ConfigSpec>,
    /// The backup of its name.
    pub backup: Option<KubeDirectorStatusBackup>,
    /// Why the backup could not be read, if it could not: that must not hold up anything else (B29).
    pub backup_unreadable: Option<String>,
    /// StatefulSets, by name: those with the cluster's label, and those its status names.
    pub sets: BTreeMap<String, StatefulSet>,
    /// Services, likewise.
    pub services: BTreeMap<String, Service>,
    /// Pods with the cluster's label.
    pub pods: BTreeMap<String, Pod>,
    /// Claims with the cluster's label.
    pub claims: BTreeMap<String, PersistentVolumeClaim>,
    /// What the cluster is connected to, in the order of its spec.
    pub connections: Vec<Connection>,
    /// By pod: setup records of the guests that something is about to be asked of, or why they cannot be reached.
    pub guests: BTreeMap<String, Result<SetupRecord, String>>,
    /// What the server would say if the label `restoring` were removed now. Asked only when nothing else is awaited.
    pub resume: Option<Result<(), String>>,
}

/// One object a cluster is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// `KubeDirectorCluster`, `ConfigMap` or `Secret`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Digest of what matters in it; none when it is absent.
    pub content: Option<String>,
    /// It is a cluster that is being restored and does not know its members yet.
    pub unsettled: bool,
    /// The label by which users say what it is about.
    pub about: Option<String>,
}

/// A config and whether anybody uses it.
#[derive(Clone, Debug, Default)]
pub struct ConfigFacts {
    /// The config, unless it is gone.
    pub config: Option<KubeDirectorConfig>,
}
