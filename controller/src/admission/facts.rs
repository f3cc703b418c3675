//! The only reader of admission: what a verdict needs to know beside the request. Read live, and only what
//! this request calls for.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::request::{Operation, Request};
use super::{claim, cluster};
use crate::api::{ClusterSpec, ConfigSpec, KubeDirectorApp, KubeDirectorCluster};
use crate::error::Error;
use crate::kinds;
use crate::names;
use crate::reconcile::observe;
use crate::settings::Settings;

/// What a verdict may look at beside the request.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The app a cluster names.
    pub(super) app: Option<KubeDirectorApp>,
    /// The settings in force.
    pub(super) config: Option<ConfigSpec>,
    /// StorageClasses, and whether each is the platform's default.
    pub(super) storage_classes: BTreeMap<String, bool>,
    /// Those of the Secrets the cluster mounts that exist.
    pub(super) secrets: BTreeSet<String>,
    /// All clusters.
    pub(super) clusters: Vec<KubeDirectorCluster>,
    /// The cluster a child's label names.
    pub(super) owner: Option<KubeDirectorCluster>,
    /// The request's namespace is being deleted.
    pub(super) namespace_terminating: bool,
}

/// Reads the facts for one request.
///
/// # Errors
/// The API server could not be asked.
pub(super) async fn read(client: &Client, settings: &Settings, request: &Request) -> Result<Facts, Error> {
    let mut facts = Facts::default();
    let resource = request.resource.as_str();
    if resource == kinds::CLUSTER.plural {
        if cluster::needs_namespace(request, settings) {
            facts.namespace_terminating = is_terminating(client, &request.namespace).await?;
        }
        if let Some(spec) = cluster::to_validate(request, settings) {
            facts.app = observe::app_of(client, &settings.namespace, &request.namespace, &spec).await?;
            facts.config = observe::config_in_force(client, &settings.namespace).await?;
            if spec.roles.iter().any(|role| role.storage.is_some() || role.block_storage.is_some()) {
                facts.storage_classes = storage_classes(client).await?;
            }
            facts.secrets = secrets(client, &request.namespace, &spec).await?;
        }
    } else if resource == kinds::APP.plural || resource == kinds::CONFIG.plural {
        if request.operation != Operation::Create {
            facts.clusters = clusters(client).await?;
        }
        if request.operation == Operation::Delete {
            facts.namespace_terminating = is_terminating(client, &request.namespace).await?;
        } else if resource == kinds::CONFIG.plural {
            facts.storage_classes = storage_classes(client).await?;
        }
    } else if let Some(owner) = claim::named_cluster(request) {
        facts.owner = observe::get::<KubeDirectorCluster>(client, &request.namespace, &owner).await?;
    }
    Ok(facts)
}

async fn clusters(client: &Client) -> Result<Vec<KubeDirectorCluster>, Error> {
    let list = Api::<KubeDirectorCluster>::all(client.clone()).list(&ListParams::default()).await;
    Ok(list.map_err(Error::api("list KubeDirectorClusters"))?.items)
}

async fn storage_classes(client: &Client) -> Result<BTreeMap<String, bool>, Error> {
    let list = Api::<StorageClass>::all(client.clone()).list(&ListParams::default()).await;
    let classes = list.map_err(Error::api("list StorageClasses"))?.items;
    let is_default = |class: &StorageClass| {
        let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
        marks.iter().any(|mark| class.annotations().get(*mark).is_some_and(|value| value == "true"))
    };
    Ok(classes.iter().map(|class| (class.name_any(), is_default(class))).collect())
}

async fn secrets(client: &Client, namespace: &str, spec: &ClusterSpec) -> Result<BTreeSet<String>, Error> {
    let mounted = spec.roles.iter().filter_map(|role| role.secret.as_ref()).chain(&spec.default_secret);
    let names: BTreeSet<&String> = mounted.map(|secret| &secret.name).collect();
    let mut found = BTreeSet::new();
    for name in names {
        if observe::get::<Secret>(client, namespace, name).await?.is_some() {
            found.insert(name.clone());
        }
    }
    Ok(found)
}

async fn is_terminating(client: &Client, namespace: &str) -> Result<bool, Error> {
    let found = Api::<Namespace>::all(client.clone()).get_opt(namespace).await;
    let found = found.map_err(Error::api(format!("get Namespace {namespace}")))?;
    Ok(found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
}

/// Clusters that use an app. Those that are being restored do not yet.
pub(super) fn users(facts: &Facts, settings: &Settings, namespace: &str, app: &str) -> Vec<String> {
    use crate::api::Catalog;
    let uses = |cluster: &&KubeDirectorCluster| {
        let local = cluster.namespace().as_deref() == Some(namespace);
        let system = namespace == settings.namespace;
        let in_reach = match cluster.spec.app_catalog {
            Some(Catalog::Local) => local,
            Some(Catalog::System) => system,
            None => local || system,
        };
        cluster.spec.app == app && in_reach && !cluster.labels().contains_key(names::RESTORING)
    };
    let described =
        |cluster: &KubeDirectorCluster| format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any());
    facts.clusters.iter().filter(uses).map(described).collect()
}
