//! A world of plain objects for decisions to act on: just enough of an API server, a garbage collector, a
//! StatefulSet loop and guests for a cluster to live and to be restored. It is deliberately crude; how
//! Kubernetes really behaves is the embedded control plane's business.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rewake_controller::guest::{GuestAction, SetupRecord};
use rewake_controller::{Act, Change, ClusterFacts, Connection, Observed, Plan, Settings, decide};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const CLUSTER: &str = "db";

type Key = (String, String);

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    objects: BTreeMap<Key, Value>,
    /// By storage (claim uid, or container id): what guests keep.
    guests: BTreeMap<String, GuestFiles>,
    /// Pods whose guests cannot be reached.
    pub(crate) unreachable: Vec<String>,
    /// Pods whose guests answer, and fail whatever they are asked to do.
    pub(crate) failing: Vec<String>,
    /// Kinds that may not be written.
    pub(crate) refused_kinds: Vec<&'static str>,
    /// Changes made so far.
    pub(crate) log: Vec<String>,
    clock: i64,
    made: u64,
    /// Answer to the question whether the label may go.
    pub(crate) refusal: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GuestFiles {
    pub(crate) record: String,
    pub(crate) configured: usize,
    pub(crate) notified: Vec<String>,
    pub(crate) uploads: usize,
}

fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// All documents of a YAML text.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| <Value as serde::Deserialize>::deserialize(document).expect("test YAML"))
        .collect()
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::new("kd"),
            objects: BTreeMap::new(),
            guests: BTreeMap::new(),
            unreachable: Vec::new(),
            failing: Vec::new(),
            refused_kinds: Vec::new(),
            log: Vec::new(),
            clock: 1_800_000_000,
            made: 0,
            refusal: None,
        }
    }

    pub(crate) fn with(yaml: &str) -> Self {
        let mut world = Self::new();
        for object in documents(yaml) {
            world.create(object).expect("test object");
        }
        world
    }

    fn unique(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}{}", self.made)
    }

    pub(crate) fn create(&mut self, mut object: Value) -> Result<(), String> {
        if object["metadata"]["name"].is_null() {
            let prefix = object["metadata"]["generateName"].as_str().unwrap_or("x-").to_owned();
            object["metadata"]["name"] = json!(self.unique(&prefix));
        }
        let key = key(&object);
        if self.objects.contains_key(&key) {
            return Err(format!("{key:?} already exists"));
        }
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(if key.0 == "KubeDirectorConfig" { "kd" } else { NAMESPACE });
        metadata["generation"] = json!(1);
        metadata["uid"] = json!(self.unique("uid-"));
        if key.0 == "KubeDirectorCluster"
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        self.store(key, object);
        Ok(())
    }

    fn store(&mut self, key: Key, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!(self.unique(""));
        self.objects.insert(key, object);
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.to_owned(), name.to_owned()))
    }

    pub(crate) fn cluster(&self) -> &Value {
        self.get("KubeDirectorCluster", CLUSTER).expect("the cluster exists")
    }

    pub(crate) fn status(&self) -> &Value {
        &self.cluster()["status"]
    }

    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.iter().filter(|(key, _)| key.0 == kind).map(|(_, object)| object).collect()
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        self.objects.keys().filter(|key| key.0 == kind).map(|key| key.1.clone()).collect()
    }

    /// Merges `patch` into an object, as a user would.
    pub(crate) fn merge(&mut self, kind: &str, name: &str, patch: &Value) {
        let key = (kind.to_owned(), name.to_owned());
        let mut object = self.objects[&key].clone();
        json_patch::merge(&mut object, patch);
        self.update(key, object);
    }

    /// Replaces an object.
    pub(crate) fn put(&mut self, kind: &str, name: &str, object: Value) {
        self.update((kind.to_owned(), name.to_owned()), object);
    }

    fn update(&mut self, key: Key, mut object: Value) {
        let generation = self.objects[&key]["metadata"]["generation"].as_i64().unwrap_or_default();
        if object["spec"] != self.objects[&key]["spec"] {
            object["metadata"]["generation"] = json!(generation + 1);
        }
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if !object["metadata"]["deletionTimestamp"].is_null() && !held {
            self.objects.remove(&key);
        } else {
            self.store(key, object);
        }
    }

    pub(crate) fn delete(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        let Some(mut object) = self.objects.get(&key).cloned() else { return };
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        self.update(key, object);
    }

    /// Everything of the shop, as a backup tool keeps it that strips status, finalizers and owners.
    pub(crate) fn backup(&self) -> Vec<Value> {
        let kept = [
            "KubeDirectorApp",
            "KubeDirectorCluster",
            "KubeDirectorStatusBackup",
            "StatefulSet",
            "Service",
            "PersistentVolumeClaim",
            "ConfigMap",
            "Secret",
        ];
        self.objects
            .values()
            .filter(|object| kept.contains(&object["kind"].as_str().unwrap_or_default()))
            .map(|object| {
                let mut copy = object.clone();
                let metadata = copy["metadata"].as_object_mut().expect("metadata");
                metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&field.as_str()));
                copy.as_object_mut().expect("object").remove("status");
                copy
            })
            .collect()
    }

    /// Everything of the shop is gone. What claims held is kept, as their volumes are.
    pub(crate) fn wipe(&mut self) {
        let volumes: BTreeMap<String, GuestFiles> = self
            .all("PersistentVolumeClaim")
            .iter()
            .filter_map(|claim| {
                let files = self.guests.get(claim["metadata"]["uid"].as_str()?)?.clone();
                Some((format!("volume of {}", claim["metadata"]["name"].as_str()?), files))
            })
            .collect();
        self.objects.retain(|key, _| key.0 == "KubeDirectorConfig");
        self.guests = volumes;
    }

    fn storage_of(&self, pod: &str) -> Option<String> {
        let pod_object = self.get("Pod", pod)?;
        match self.get("PersistentVolumeClaim", &format!("p-{pod}")) {
            Some(claim) => Some(claim["metadata"]["uid"].as_str()?.to_owned()),
            None => Some(pod_object["status"]["containerStatuses"][0]["containerID"].as_str()?.to_owned()),
        }
    }

    pub(crate) fn guest(&self, pod: &str) -> GuestFiles {
        self.storage_of(pod).and_then(|storage| self.guests.get(&storage).cloned()).unwrap_or_default()
    }

    fn parsed<T: DeserializeOwned>(&self, kind: &str) -> BTreeMap<String, T> {
        let of_cluster = |object: &&Value| object["metadata"]["labels"]["kubedirector.hpe.com/kdcluster"] == CLUSTER;
        self.all(kind).into_iter().filter(of_cluster).map(|object| (key(object).1, parse(object))).collect()
    }

    fn one<T: DeserializeOwned>(&self, kind: &str, name: &str) -> Option<T> {
        self.get(kind, name).map(parse)
    }

    pub(crate) fn facts(&self) -> ClusterFacts {
        let Some(cluster) = self.get("KubeDirectorCluster", CLUSTER) else { return ClusterFacts::default() };
        let list = |field: &str| -> Vec<String> {
            let names = cluster["spec"]["connections"][field].as_array().cloned().unwrap_or_default();
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let mut connections: Vec<Connection> = Vec::new();
        connections.extend(
            list("clusters").iter().map(|n| Connection::cluster(n, self.one("KubeDirectorCluster", n).as_ref())),
        );
        connections
            .extend(list("configmaps").iter().map(|n| Connection::config_map(n, self.one("ConfigMap", n).as_ref())));
        connections.extend(list("secrets").iter().map(|n| Connection::secret(n, self.one("Secret", n).as_ref())));
        let guests = self.names("Pod").into_iter().map(|pod| {
            let record = if self.unreachable.contains(&pod) {
                Err("no route to the guest".to_owned())
            } else {
                Ok(SetupRecord::parse(&self.guest(&pod).record))
            };
            (pod, record)
        });
        let progress = &cluster["status"]["restoreProgress"];
        let awaiting =
            ["awaitingApp", "awaitingStatus", "awaitingResources"].iter().any(|flag| progress[*flag] != json!(false));
        ClusterFacts {
            app: self.one("KubeDirectorApp", cluster["spec"]["app"].as_str().unwrap_or_default()),
            config: self.get("KubeDirectorConfig", "kd-global-config").map(|config| parse(&config["spec"])),
            backup: self.one("KubeDirectorStatusBackup", CLUSTER),
            backup_unreadable: None,
            sets: self.parsed("StatefulSet"),
            services: self.parsed("Service"),
            pods: self.parsed("Pod"),
            claims: self.parsed("PersistentVolumeClaim"),
            connections,
            guests: guests.collect(),
            resume: (!awaiting).then(|| self.refusal.clone().map_or(Ok(()), Err)),
            cluster: Some(parse(cluster)),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan_for(self.facts())
    }

    pub(crate) fn plan_for(&self, facts: ClusterFacts) -> Plan {
        let now = Timestamp::from_second(self.clock).expect("a time");
        decide(&Observed::Cluster(Box::new(facts)), &self.settings, now)
    }

    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), String> {
        let on = &change.on;
        let key = (on.kind.kind.to_owned(), on.name.clone());
        if key.0 != "Event" {
            self.log.push(change.to_string());
        }
        if self.refused_kinds.contains(&key.0.as_str()) {
            return Err(format!("{key:?} may not be written"));
        }
        if let Act::Create(object) = &change.act {
            return self.create((**object).clone());
        }
        let Some(stored) = self.objects.get(&key).cloned() else { return Err(format!("{key:?} not found")) };
        let differs = |field: &str, wanted: &Option<String>| {
            wanted.as_ref().is_some_and(|wanted| stored["metadata"][field] != **wanted)
        };
        if differs("uid", &on.uid) || differs("resourceVersion", &on.resource_version) {
            return Err(format!("{key:?} has changed"));
        }
        let mut object = stored.clone();
        match &change.act {
            Act::Merge(patch) => json_patch::merge(&mut object, patch),
            Act::Patch(patch) | Act::PatchStatus(patch) => {
                json_patch::patch(&mut object, patch).map_err(|error| error.to_string())?;
            }
            Act::Delete { orphan } => {
                if *orphan {
                    self.release(&stored);
                }
                self.delete(&key.0, &key.1);
                return Ok(());
            }
            Act::Guest { action, .. } => return self.act(&key.1, action),
            Act::Create(_) | Act::Apply(_) => return Err("not in this world".to_owned()),
        }
        self.update(key, object);
        Ok(())
    }

    fn release(&mut self, owner: &Value) {
        for object in self.objects.values_mut() {
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|reference| reference["uid"] != owner["metadata"]["uid"]);
            }
        }
    }

    fn act(&mut self, pod: &str, action: &GuestAction) -> Result<(), String> {
        if self.unreachable.contains(&pod.to_owned()) {
            return Err("no route to the guest".to_owned());
        }
        if self.failing.contains(&pod.to_owned()) {
            return Err("the guest fails".to_owned());
        }
        let storage = self.storage_of(pod).ok_or("no container")?;
        let files = self.guests.entry(storage).or_default();
        match action {
            GuestAction::Configure { container } => {
                files.record = format!("{container}=0");
                files.configured += 1;
            }
            GuestAction::Notify { arguments } => files.notified.push(arguments.join(" ")),
            GuestAction::Upload { .. } => files.uploads += 1,
        }
        Ok(())
    }

    /// One round of the garbage collector, the StatefulSet loop and the node. Answers whether anything happened.
    pub(crate) fn cluster_round(&mut self) -> bool {
        let before = self.objects.clone();
        let uids: Vec<Value> = self.objects.values().map(|object| object["metadata"]["uid"].clone()).collect();
        self.objects.retain(|_, object| match object["metadata"]["ownerReferences"].as_array() {
            Some(owners) if !owners.is_empty() => owners.iter().any(|owner| uids.contains(&owner["uid"])),
            _ => true,
        });
        let sets: Vec<Value> = self.all("StatefulSet").into_iter().cloned().collect();
        for set in &sets {
            self.run_set(set);
        }
        self.objects != before
    }

    fn run_set(&mut self, set: &Value) {
        let (name, uid) = (key(set).1, set["metadata"]["uid"].clone());
        let replicas = set["spec"]["replicas"].as_u64().unwrap_or_default();
        for pod in self.names("Pod") {
            let ordinal = pod.strip_prefix(&format!("{name}-")).and_then(|ordinal| ordinal.parse::<u64>().ok());
            if ordinal.is_some_and(|ordinal| ordinal >= replicas) {
                self.objects.remove(&("Pod".to_owned(), pod));
            }
        }
        for ordinal in 0..replicas {
            let pod = format!("{name}-{ordinal}");
            for template in set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
                let claim = format!("{}-{pod}", template["metadata"]["name"].as_str().unwrap_or_default());
                if self.get("PersistentVolumeClaim", &claim).is_none() {
                    let mut object = json!({"kind": "PersistentVolumeClaim", "metadata": template["metadata"], "spec": template["spec"]});
                    object["metadata"]["name"] = json!(claim);
                    object["metadata"]["labels"] = set["spec"]["selector"]["matchLabels"].clone();
                    self.create(object).expect("a new claim");
                }
                let claim_uid =
                    self.get("PersistentVolumeClaim", &claim).expect("just made")["metadata"]["uid"].clone();
                if let Some(files) = self.guests.remove(&format!("volume of {claim}")) {
                    self.guests.insert(claim_uid.as_str().unwrap_or_default().to_owned(), files);
                }
            }
            let owners =
                json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": true}]);
            if self.get("Pod", &pod).is_none() {
                let container = self.unique("containerd://");
                let mut object =
                    json!({"kind": "Pod", "metadata": {"name": pod}, "spec": {"containers": [{"name": "app"}]}});
                object["metadata"]["labels"] = set["spec"]["template"]["metadata"]["labels"].clone();
                object["status"] = json!({"phase": "Running", "containerStatuses": [{
                    "name": "app", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                    "containerID": container, "state": {"running": {}},
                }]});
                object["metadata"]["ownerReferences"] = owners;
                self.create(object).expect("a new pod");
            } else if self
                .get("Pod", &pod)
                .is_some_and(|object| object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty))
            {
                self.merge("Pod", &pod, &json!({"metadata": {"ownerReferences": owners}}));
            }
        }
    }

    /// Lets everybody work until nobody has anything left to do; `crash_after` interrupts the controller once,
    /// after that many changes. Answers how many changes it made.
    pub(crate) fn settle_with_crash(&mut self, crash_after: Option<usize>) -> usize {
        let mut made = 0;
        for _ in 0..200 {
            let plan = self.plan();
            let mut idle = true;
            let mut failed = false;
            for change in &plan.changes {
                if crash_after == Some(made) && idle_crash(&mut made) {
                    break;
                }
                idle = false;
                made += 1;
                if self.apply(change).is_err() {
                    failed = true;
                    break;
                }
            }
            if failed && self.log.iter().rev().take(8).collect::<std::collections::BTreeSet<_>>().len() == 1 {
                // Nothing is left but a write that is refused for ever.
                return made;
            }
            self.clock += 1;
            let moved = self.cluster_round();
            if idle && !moved && plan.changes.is_empty() {
                return made;
            }
        }
        panic!("does not settle; last changes:\n{}", self.log[self.log.len().saturating_sub(20)..].join("\n"));
    }

    pub(crate) fn settle(&mut self) {
        self.settle_with_crash(None);
    }

    /// What everything looks like, without what differs from life to life: one line for each object.
    pub(crate) fn picture(&self) -> BTreeMap<String, String> {
        let alive: Vec<&Value> = self.objects.values().map(|object| &object["metadata"]["uid"]).collect();
        let line = |object: &Value| {
            let metadata = &object["metadata"];
            let owners: Vec<String> = (metadata["ownerReferences"].as_array().into_iter().flatten())
                .map(|owner| {
                    let life = if alive.contains(&&owner["uid"]) { "alive" } else { "absent" };
                    format!("{}/{} {life}", owner["kind"], owner["name"])
                })
                .collect();
            let labels: Vec<String> = metadata["labels"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            format!(
                "state {} replicas {} finalizers {} owners {owners:?} labels {labels:?}",
                object["status"]["state"], object["spec"]["replicas"], metadata["finalizers"]
            )
        };
        self.objects
            .iter()
            .filter(|(key, _)| key.0 != "Event")
            .map(|(key, object)| (format!("{}/{}", key.0, key.1), line(object)))
            .collect()
    }
}

/// Fails with the objects that differ and the story that led there.
#[track_caller]
pub(crate) fn assert_same_picture(world: &World, expected: &BTreeMap<String, String>, when: &str) {
    let picture = world.picture();
    let names: std::collections::BTreeSet<&String> = picture.keys().chain(expected.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|name| picture.get(*name) != expected.get(*name))
        .map(|name| format!("{name}\n  is     {:?}\n  should {:?}", picture.get(name), expected.get(name)))
        .collect();
    assert!(differing.is_empty(), "{when}:\n{}\nstory:\n{}", differing.join("\n"), world.log.join("\n"));
}

/// Counts the interrupted change, so that there is one crash only.
fn idle_crash(made: &mut usize) -> bool {
    *made += 1;
    true
}

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_else(|error| panic!("{error} in {value}"))
}
