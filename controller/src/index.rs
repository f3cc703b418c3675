//! Which clusters an event is about.
//!
//! Plain data, fed with watch events. Owned objects name their cluster in a label (also when their owner
//! reference is lost or stale); connected objects, apps and the config are found by who mentions them.

use std::collections::{BTreeMap, BTreeSet};

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

/// What each cluster mentions.
#[derive(Clone, Debug, Default)]
pub struct Index {
    clusters: BTreeMap<Key, Mentions>,
}

#[derive(Clone, Debug, Default)]
struct Mentions {
    app: String,
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
                    self.clusters.insert(key.clone(), mentions(&object["spec"]));
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
                // The label says it; the owner too, should somebody have taken the label away.
                let label = metadata["labels"][names::CLUSTER].as_str();
                let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                let owning = owners
                    .filter(|owner| owner["kind"] == kinds::CLUSTER.kind)
                    .filter_map(|owner| owner["name"].as_str());
                targets(owning.chain(label).map(|cluster| (namespace.clone(), cluster.to_owned())).collect())
            }
        }
    }

    /// Forgets everything, before a new list.
    pub fn clear(&mut self) {
        self.clusters.clear();
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

fn mentions(spec: &Value) -> Mentions {
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
    Mentions { app: spec["app"].as_str().unwrap_or_default().to_owned(), objects }
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
}
