//! Which clusters an event is about.
//!
//! Plain data, fed with watch events. Owned objects name their cluster in a label (also when their owner
//! reference is lost or stale); connected objects, apps and the config are found by who mentions them. An
//! event that changes nothing a decision looks at concerns nobody: a look costs a dozen requests.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use serde_json::Value;

use crate::{kinds, names};

/// One thing to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// What the controller itself needs around it; looked after at each start.
    Installation,
    /// A KubeDirectorCluster.
    Cluster {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A KubeDirectorConfig.
    Config {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Installation => write!(f, "installation"),
            Target::Cluster { namespace, name } => write!(f, "kdcluster {namespace}/{name}"),
            Target::Config { namespace, name } => write!(f, "kdconfig {namespace}/{name}"),
        }
    }
}

/// A kind to watch in all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// `group/version`, or `v1`.
    pub api_version: &'static str,
    /// Its name in objects.
    pub kind: &'static str,
    /// Its name in URLs.
    pub plural: &'static str,
    /// Only objects that match; none means all.
    pub label_selector: Option<&'static str>,
}

const fn all_of(kind: &kinds::Kind) -> Watched {
    Watched { api_version: kind.api_version, kind: kind.kind, plural: kind.plural, label_selector: None }
}

const fn owned(kind: &kinds::Kind) -> Watched {
    Watched {
        api_version: kind.api_version,
        kind: kind.kind,
        plural: kind.plural,
        label_selector: Some(names::CLUSTER),
    }
}

static WATCHED: [Watched; 10] = [
    all_of(&kinds::CLUSTER),
    all_of(&kinds::APP),
    all_of(&kinds::CONFIG),
    all_of(&kinds::STATUS_BACKUP),
    owned(&kinds::STATEFUL_SET),
    owned(&kinds::SERVICE),
    owned(&kinds::POD),
    owned(&kinds::CLAIM),
    all_of(&kinds::CONFIG_MAP),
    all_of(&kinds::SECRET),
];

/// What the controller watches. All of it is namespaced.
pub fn watched() -> &'static [Watched] {
    &WATCHED
}

type Key = (String, String);

/// What each cluster mentions, and what its objects last looked like.
#[derive(Clone, Debug, Default)]
pub struct Index {
    clusters: BTreeMap<Key, Mentions>,
    /// Fingerprints of owned objects, by kind, namespace and name.
    seen: BTreeMap<(String, String, String), u64>,
}

#[derive(Clone, Debug, Default)]
struct Mentions {
    app: String,
    /// It is being restored: nothing is decided by its pods and claims.
    restoring: bool,
    /// Objects of the cluster's namespace, as (kind, name).
    objects: BTreeSet<(&'static str, String)>,
}

impl Index {
    /// Takes in one watch event (`ADDED`, `MODIFIED` or `DELETED`) and names what it concerns.
    pub fn notice(&mut self, event: &str, object: &Value) -> Vec<Target> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default().to_owned();
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        match kind {
            "KubeDirectorCluster" => {
                let key = (namespace, name);
                let mut concerned = self.mentioning(&key.0, kinds::CLUSTER.kind, &key.1);
                if event == "DELETED" {
                    self.clusters.remove(&key);
                } else {
                    self.clusters.insert(key.clone(), mentions(object));
                }
                concerned.insert(key);
                targets(concerned)
            }
            "KubeDirectorApp" => targets(
                self.clusters.iter().filter(|(_, mentions)| mentions.app == name).map(|(key, _)| key.clone()).collect(),
            ),
            "KubeDirectorConfig" => {
                let mut concerned = vec![Target::Config { namespace, name }];
                concerned.extend(targets(self.clusters.keys().cloned().collect()));
                concerned
            }
            "KubeDirectorStatusBackup" => targets(BTreeSet::from([(namespace, name)])),
            "ConfigMap" => targets(self.mentioning(&namespace, kinds::CONFIG_MAP.kind, &name)),
            "Secret" => targets(self.mentioning(&namespace, kinds::SECRET.kind, &name)),
            _ => {
                if !self.is_news(event, kind, &namespace, &name, object) {
                    return Vec::new();
                }
                // The label says it; the owner too, should somebody have taken the label away.
                let label = metadata["labels"][names::CLUSTER].as_str();
                let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                let owning = owners
                    .filter(|owner| owner["kind"] == kinds::CLUSTER.kind)
                    .filter_map(|owner| owner["name"].as_str());
                let named = owning.chain(label).map(|cluster| (namespace.clone(), cluster.to_owned()));
                // A cluster that is not known yet will be looked at when it comes.
                let awaited = |mentions: &Mentions| !(mentions.restoring && is_made_by_sets(kind));
                targets(named.filter(|key| self.clusters.get(key).is_some_and(awaited)).collect())
            }
        }
    }

    /// Forgets everything, before a new list.
    pub fn clear(&mut self) {
        self.clusters.clear();
        self.seen.clear();
    }

    /// The event changes something of an owned object that a decision looks at.
    fn is_news(&mut self, event: &str, kind: &str, namespace: &str, name: &str, object: &Value) -> bool {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        if event == "DELETED" {
            self.seen.remove(&key);
            return true;
        }
        let now = fingerprint(kind, object);
        self.seen.insert(key, now) != Some(now)
    }

    fn mentioning(&self, namespace: &str, kind: &'static str, name: &str) -> BTreeSet<Key> {
        self.clusters
            .iter()
            .filter(|(key, mentions)| key.0 == namespace && mentions.objects.contains(&(kind, name.to_owned())))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

fn targets(keys: BTreeSet<Key>) -> Vec<Target> {
    keys.into_iter().map(|(namespace, name)| Target::Cluster { namespace, name }).collect()
}

/// Pods and claims come and go as the StatefulSet loop pleases.
fn is_made_by_sets(kind: &str) -> bool {
    kind == kinds::POD.kind || kind == kinds::CLAIM.kind
}

/// Digest of what decisions look at in an owned object.
fn fingerprint(kind: &str, object: &Value) -> u64 {
    let mut hash = std::hash::DefaultHasher::new();
    let metadata = &object["metadata"];
    for field in ["uid", "labels", "ownerReferences", "deletionTimestamp"] {
        metadata[field].to_string().hash(&mut hash);
    }
    if kind == kinds::POD.kind {
        for field in ["conditions", "containerStatuses", "initContainerStatuses"] {
            object["status"][field].to_string().hash(&mut hash);
        }
    } else if kind != kinds::CLAIM.kind {
        object["spec"].to_string().hash(&mut hash);
    }
    hash.finish()
}

fn mentions(cluster: &Value) -> Mentions {
    let spec = &cluster["spec"];
    let mut objects = BTreeSet::new();
    let connections = &spec["connections"];
    for (field, kind) in
        [("clusters", &kinds::CLUSTER), ("configmaps", &kinds::CONFIG_MAP), ("secrets", &kinds::SECRET)]
    {
        let named = connections[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        objects.extend(named.map(|name| (kind.kind, name.to_owned())));
    }
    // Mounted Secrets are asked for when a restored cluster resumes.
    let roles = spec["roles"].as_array().into_iter().flatten();
    let mounted = roles.map(|role| &role["secret"]).chain([&spec["defaultSecret"]]);
    objects.extend(mounted.filter_map(|secret| Some((kinds::SECRET.kind, secret["name"].as_str()?.to_owned()))));
    let restoring = cluster["metadata"]["labels"][names::RESTORING].is_string();
    Mentions { app: spec["app"].as_str().unwrap_or_default().to_owned(), restoring, objects }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(targets: &[Target]) -> Vec<String> {
        targets.iter().map(ToString::to_string).collect()
    }

    /// Covers: B15, B34
    #[test]
    fn an_event_concerns_the_clusters_that_own_or_mention_its_object() {
        let mut index = Index::default();
        let cluster = |name: &str, spec: Value| json!({"kind": "KubeDirectorCluster", "metadata": {"namespace": "a", "name": name}, "spec": spec});
        index.notice(
            "ADDED",
            &cluster("one", json!({"app": "x", "connections": {"configmaps": ["cm"], "clusters": ["two"]}})),
        );
        index.notice("ADDED", &cluster("two", json!({"app": "y", "roles": [{"id": "r", "secret": {"name": "s"}}]})));
        let other = |kind: &str, name: &str, labels: Value| json!({"kind": kind, "metadata": {"namespace": "a", "name": name, "labels": labels}});
        for (object, concerned) in [
            (other("ConfigMap", "cm", json!({})), vec!["kdcluster a/one"]),
            (other("ConfigMap", "else", json!({})), vec![]),
            (other("Secret", "s", json!({})), vec!["kdcluster a/two"]),
            (other("KubeDirectorApp", "y", json!({})), vec!["kdcluster a/two"]),
            (other("KubeDirectorStatusBackup", "one", json!({})), vec!["kdcluster a/one"]),
            (other("Pod", "p", json!({"kubedirector.hpe.com/kdcluster": "one"})), vec!["kdcluster a/one"]),
            (other("KubeDirectorConfig", "c", json!({})), vec!["kdconfig a/c", "kdcluster a/one", "kdcluster a/two"]),
            (cluster("two", json!({"app": "y"})), vec!["kdcluster a/one", "kdcluster a/two"]),
        ] {
            assert_eq!(names(&index.notice("MODIFIED", &object)), concerned, "{object}");
        }
    }

    #[test]
    fn events_that_no_decision_looks_at_concern_nobody() {
        let mut index = Index::default();
        let owned = |kind: &str, spec: Value, status: Value| {
            json!({"kind": kind, "spec": spec, "status": status, "metadata": {
                "namespace": "a", "name": "x", "labels": {"kubedirector.hpe.com/kdcluster": "one"},
            }})
        };
        let cluster = |labels: Value| json!({"kind": "KubeDirectorCluster", "metadata": {"namespace": "a", "name": "one", "labels": labels}});
        let none: [&str; 0] = [];
        let one = ["kdcluster a/one"];
        let set = owned("StatefulSet", json!({"replicas": 1}), json!({}));
        assert_eq!(names(&index.notice("ADDED", &set)), none, "the cluster is not there yet");
        index.notice("ADDED", &cluster(json!({})));
        let reported = owned("StatefulSet", json!({"replicas": 1}), json!({"readyReplicas": 1}));
        assert_eq!(names(&index.notice("MODIFIED", &reported)), none);
        assert_eq!(names(&index.notice("MODIFIED", &owned("StatefulSet", json!({"replicas": 2}), json!({})))), one);
        assert_eq!(names(&index.notice("DELETED", &set)), one);
        let pod = |ready: bool| owned("Pod", json!({}), json!({"containerStatuses": [{"ready": ready}]}));
        assert_eq!(names(&index.notice("ADDED", &pod(false))), one);
        assert_eq!(names(&index.notice("MODIFIED", &pod(true))), one);
        index.notice("MODIFIED", &cluster(json!({"kubedirector.hpe.com/restoring": ""})));
        assert_eq!(names(&index.notice("MODIFIED", &pod(false))), none, "pods are not waited for");
    }
}
