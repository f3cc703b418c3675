//! The only reader: collects what a decision needs, and judges nothing.
//!
//! Everything is read live. A decision about a restore that rests on a cache may take an object that is
//! on its way for one that is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::members::needs_guest;
use super::observed::{ClusterFacts, ConfigFacts, Connection, Observed};
use super::status::status_in_force;
use crate::api::{
    Catalog, ClusterSpec, ClusterStatus, ConfigSpec, KubeDirectorApp, KubeDirectorCluster, KubeDirectorConfig,
    KubeDirectorStatusBackup,
};
use crate::error::Error;
use crate::guest::{self, Guest, GuestError, PodRef, SetupRecord};
use crate::index::Target;
use crate::names::{self, CONFIG_NAME, CONTAINER, NO_SERVICE, RESTORING};
use crate::settings::Settings;

/// Reads what is known of a target.
///
/// # Errors
/// The API server could not be asked.
pub(super) async fn observe(
    client: &Client,
    guest: &dyn Guest,
    settings: &Settings,
    target: &Target,
) -> Result<Observed, Error> {
    match target {
        Target::Cluster { namespace, name } => {
            let reader = Reader { client, namespace };
            Ok(Observed::Cluster(Box::new(reader.cluster(guest, settings, name).await?)))
        }
        Target::Installation => Ok(Observed::Installation),
        Target::Config { namespace, name } => {
            let reader = Reader { client, namespace };
            Ok(Observed::Config(Box::new(ConfigFacts { config: reader.config(name).await? })))
        }
    }
}

/// Reads the app a cluster names: `local` in its own namespace, `system` in the controller's, otherwise
/// whichever is found first.
pub(crate) async fn app_of(
    client: &Client,
    own_namespace: &str,
    namespace: &str,
    spec: &ClusterSpec,
) -> Result<Option<KubeDirectorApp>, Error> {
    let local = Reader { client, namespace };
    let system = Reader { client, namespace: own_namespace };
    match spec.app_catalog {
        Some(Catalog::Local) => local.get(&spec.app).await,
        Some(Catalog::System) => system.get(&spec.app).await,
        None => match local.get(&spec.app).await? {
            Some(app) => Ok(Some(app)),
            None => system.get(&spec.app).await,
        },
    }
}

/// Reads the settings users made; none when there is no config.
pub(crate) async fn config_in_force(client: &Client, own_namespace: &str) -> Result<Option<ConfigSpec>, Error> {
    let reader = Reader { client, namespace: own_namespace };
    Ok(reader.config(CONFIG_NAME).await?.map(|config| config.spec))
}

/// Reads one object.
pub(crate) async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    Reader { client, namespace }.get(name).await
}

/// Most objects that are looked up because a status names them; a cluster has at most 1000 members. Those beyond
/// count as missing.
const NAMED_MAX: usize = 2000;

struct Reader<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl Reader<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    async fn get<K>(&self, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        if !is_object_name(name) {
            return Ok(None);
        }
        let what = || format!("get {} {}/{name}", K::kind(&()), self.namespace);
        self.api::<K>().get_opt(name).await.map_err(|error| Error::api(what())(error))
    }

    async fn config(&self, name: &str) -> Result<Option<KubeDirectorConfig>, Error> {
        let what = || format!("get KubeDirectorConfig {}/{name}", self.namespace);
        let resource = ApiResource::erase::<KubeDirectorConfig>(&());
        let configs = Api::<DynamicObject>::namespaced_with(self.client.clone(), self.namespace, &resource);
        let found = configs.get_opt(name).await.map_err(|error| Error::api(what())(error))?;
        found
            .map(KubeDirectorConfig::try_from)
            .transpose()
            .map_err(|error| Error::Malformed { what: what(), reason: error.to_string() })
    }

    async fn labelled<K>(&self, cluster: &str) -> Result<BTreeMap<String, K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params = ListParams::default().labels(&format!("{}={cluster}", names::CLUSTER));
        let what = || format!("list {} of kdcluster {}/{cluster}", K::plural(&()), self.namespace);
        let list = self.api::<K>().list(&params).await.map_err(|error| Error::api(what())(error))?;
        Ok(list.items.into_iter().map(|object| (object.name_any(), object)).collect())
    }

    /// Adds objects that are named but do not carry the label.
    async fn add_named<K>(&self, objects: &mut BTreeMap<String, K>, named: BTreeSet<String>) -> Result<(), Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        for name in named.into_iter().take(NAMED_MAX) {
            if !objects.contains_key(&name)
                && let Some(object) = self.get::<K>(&name).await?
            {
                objects.insert(name, object);
            }
        }
        Ok(())
    }

    async fn cluster(&self, guest: &dyn Guest, settings: &Settings, name: &str) -> Result<ClusterFacts, Error> {
        let Some(cluster) = self.get::<KubeDirectorCluster>(name).await? else {
            return Ok(ClusterFacts::default());
        };
        let (backup, backup_unreadable) = match self.get::<KubeDirectorStatusBackup>(name).await {
            Ok(found) => (found, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut facts = ClusterFacts {
            app: app_of(self.client, &settings.namespace, self.namespace, &cluster.spec).await?,
            config: config_in_force(self.client, &settings.namespace).await?,
            backup,
            backup_unreadable,
            sets: self.labelled::<StatefulSet>(name).await?,
            services: self.labelled::<Service>(name).await?,
            connections: self.connections(&cluster.spec).await?,
            ..ClusterFacts::default()
        };
        let status = status_in_force(&cluster, facts.backup.as_ref());
        self.add_named(&mut facts.sets, named_sets(&status)).await?;
        self.add_named(&mut facts.services, named_services(&status)).await?;
        let paused = cluster.labels().contains_key(RESTORING) && settings.safeguards.pause_while_restoring;
        if !paused {
            facts.claims = self.labelled::<PersistentVolumeClaim>(name).await?;
        }
        match (cluster.metadata.deletion_timestamp.is_some(), paused) {
            (false, true) => facts.resume = self.ask_to_resume(&cluster).await?,
            (false, false) => {
                facts.pods = self.labelled::<Pod>(name).await?;
                facts.guests = self.guests(guest, &status, &facts.pods).await?;
            }
            (true, _) => {}
        }
        facts.cluster = Some(cluster);
        Ok(facts)
    }

    async fn connections(&self, spec: &ClusterSpec) -> Result<Vec<Connection>, Error> {
        let mut found = Vec::new();
        let Some(connections) = &spec.connections else { return Ok(found) };
        for name in &connections.clusters {
            found.push(Connection::cluster(name, self.get(name).await?.as_ref()));
        }
        for name in &connections.configmaps {
            found.push(Connection::config_map(name, self.get::<ConfigMap>(name).await?.as_ref()));
        }
        for name in &connections.secrets {
            found.push(Connection::secret(name, self.get::<Secret>(name).await?.as_ref()));
        }
        Ok(found)
    }

    /// Asks the guests that something is about to be asked of for their records.
    async fn guests(
        &self,
        guest: &dyn Guest,
        status: &ClusterStatus,
        pods: &BTreeMap<String, Pod>,
    ) -> Result<BTreeMap<String, Result<SetupRecord, String>>, Error> {
        let mut records = BTreeMap::new();
        for member in status.roles.iter().flat_map(|role| &role.members) {
            if !needs_guest(status, member, pods.get(&member.pod)) {
                continue;
            }
            let pod = PodRef { namespace: self.namespace.to_owned(), name: member.pod.clone() };
            let record = guest::record(guest, &pod, CONTAINER).await;
            records.insert(member.pod.clone(), record.map_err(|error: GuestError| error.to_string()));
        }
        Ok(records)
    }

    /// Asks the server, by a dry run, whether the label `restoring` may be removed. The answer is worth more
    /// than our own judgement: it includes every webhook's.
    async fn ask_to_resume(&self, cluster: &KubeDirectorCluster) -> Result<Option<Result<(), String>>, Error> {
        let progress = cluster.status.as_ref().and_then(|status| status.restore_progress.as_ref());
        let nothing_awaited = progress.is_some_and(|progress| {
            !progress.awaiting_app && !progress.awaiting_status && !progress.awaiting_resources
        });
        if !nothing_awaited {
            return Ok(None);
        }
        let name = cluster.name_any();
        let patch: Value = json!({"metadata": {"labels": {RESTORING: null}}});
        let params =
            PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..PatchParams::default() }.dry_run();
        let asked = self.api::<KubeDirectorCluster>().patch(&name, &params, &Patch::Merge(&patch)).await;
        match asked {
            Ok(_) => Ok(Some(Ok(()))),
            Err(kube::Error::Api(status)) => Ok(Some(Err(status.message.clone()))),
            Err(error) => Err(Error::api(format!("ask whether kdcluster {}/{name} may resume", self.namespace))(error)),
        }
    }
}

/// A name out of a status or a backup is only text: one that is no name cannot name an object, and must not
/// become part of a URL.
fn is_object_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(allowed)
}

fn named_sets(status: &ClusterStatus) -> BTreeSet<String> {
    status.roles.iter().map(|role| role.stateful_set.clone()).filter(|name| !name.is_empty()).collect()
}

fn named_services(status: &ClusterStatus) -> BTreeSet<String> {
    let members = status.roles.iter().flat_map(|role| &role.members).map(|member| member.service.clone());
    members.chain([status.cluster_service.clone()]).filter(|name| !name.is_empty() && name != NO_SERVICE).collect()
}
