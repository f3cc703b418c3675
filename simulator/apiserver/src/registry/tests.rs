//! The rules of the pipeline, through the public face of the core.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ControlPlane;
use crate::control_plane::{Config, Progress};
use crate::request::{Answer, Request, Response, User, Verb};
use crate::watch::WatchId;

struct Cluster {
    plane: ControlPlane,
    now: Timestamp,
}

impl Cluster {
    fn new() -> Self {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        Self { plane: ControlPlane::new(&Config::default(), now), now }
    }

    fn send(&mut self, request: Request) -> Response {
        match self.plane.begin(request, self.now) {
            Progress::Done(response) => response,
            Progress::Ask(call, _) => panic!("asks {}", call.name),
        }
    }

    fn config_map(verb: Verb, name: &str) -> Request {
        Request::new(verb, User::admin("admin"), "v1", "configmaps", "default", name)
    }

    fn create(&mut self, object: Value) -> Response {
        self.send(Self::config_map(Verb::Create, "").json(object))
    }

    fn watch(&mut self, request: Request) -> WatchId {
        match self.send(request).body {
            Answer::Watch(watch) => watch,
            other => panic!("no watch but {other:?}"),
        }
    }

    fn events(&mut self, watch: WatchId) -> Vec<&'static str> {
        self.plane.poll_watch(watch, self.now).expect("open").into_iter().map(|event| event.type_).collect()
    }
}

fn version(response: &Response) -> &str {
    response.json()["metadata"]["resourceVersion"].as_str().expect("a version")
}

#[test]
fn a_write_that_changes_nothing_keeps_the_version_and_sends_no_event() {
    let mut cluster = Cluster::new();
    let created = cluster.create(json!({ "metadata": { "name": "a" }, "data": { "x": "1" } }));
    assert_eq!(created.code, 201, "{}", created.json());
    let watch = cluster.watch(Cluster::config_map(Verb::Watch, "").option("resourceVersion", version(&created)));
    let same = cluster.send(Cluster::config_map(Verb::Patch, "a").merge_patch(json!({ "data": { "x": "1" } })));
    assert_eq!(version(&same), version(&created));
    assert!(cluster.events(watch).is_empty());
    let other = cluster.send(Cluster::config_map(Verb::Patch, "a").merge_patch(json!({ "data": { "x": "2" } })));
    assert_ne!(version(&other), version(&created));
    assert_eq!(cluster.events(watch), ["MODIFIED"]);
}

#[test]
fn a_stale_version_is_a_conflict_and_no_version_is_not() {
    let mut cluster = Cluster::new();
    let created = cluster.create(json!({ "metadata": { "name": "a" } }));
    let put = |data: &str, version: Option<&str>| {
        let mut object = json!({ "metadata": { "name": "a" }, "data": { "x": data } });
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = version.into();
        }
        Cluster::config_map(Verb::Update, "a").json(object)
    };
    assert_eq!(cluster.send(put("1", Some(version(&created)))).code, 200);
    assert_eq!(cluster.send(put("2", Some(version(&created)))).json()["reason"], "Conflict");
    assert_eq!(cluster.send(put("2", None)).code, 200);
}

#[test]
fn an_object_with_a_finalizer_goes_when_the_finalizer_goes() {
    let mut cluster = Cluster::new();
    cluster.create(json!({ "metadata": { "name": "a", "finalizers": ["example.com/hold"] } }));
    let marked = cluster.send(Cluster::config_map(Verb::Delete, "a"));
    assert_eq!(marked.json()["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    let finalizers = json!({ "metadata": { "finalizers": null } });
    assert_eq!(cluster.send(Cluster::config_map(Verb::Patch, "a").merge_patch(finalizers)).code, 200);
    assert_eq!(cluster.send(Cluster::config_map(Verb::Get, "a")).code, 404);
}

#[test]
fn a_continued_list_shows_the_state_of_its_first_page() {
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        cluster.create(json!({ "metadata": { "name": name } }));
    }
    let page = cluster.send(Cluster::config_map(Verb::List, "").option("limit", "1"));
    assert_eq!(page.json()["metadata"]["remainingItemCount"], 2);
    let token = page.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
    cluster.create(json!({ "metadata": { "name": "b2" } }));
    cluster.send(Cluster::config_map(Verb::Delete, "c"));
    let rest = cluster.send(Cluster::config_map(Verb::List, "").option("continue", &token));
    let items = rest.json()["items"].as_array().expect("items");
    let names: Vec<_> = items.iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "c"]);
    cluster.plane.compact();
    let expired = cluster.send(Cluster::config_map(Verb::List, "").option("continue", token));
    assert_eq!(expired.json()["reason"], "Expired");
}

#[test]
fn a_watch_with_a_selector_sees_objects_come_and_go() {
    let mut cluster = Cluster::new();
    let watch = cluster.watch(Cluster::config_map(Verb::Watch, "").option("labelSelector", "x=1"));
    cluster.create(json!({ "metadata": { "name": "a" } }));
    for value in ["1", "2", "1"] {
        let label = json!({ "metadata": { "labels": { "x": value } } });
        cluster.send(Cluster::config_map(Verb::Patch, "a").merge_patch(label));
    }
    cluster.send(Cluster::config_map(Verb::Delete, "a"));
    assert_eq!(cluster.events(watch), ["ADDED", "DELETED", "ADDED", "DELETED"]);
}

#[test]
fn forks_go_their_own_way() {
    let mut cluster = Cluster::new();
    cluster.create(json!({ "metadata": { "name": "a" } }));
    let mut fork = Cluster { plane: cluster.plane.clone(), now: cluster.now };
    let other = json!({ "metadata": { "name": "b" } });
    // The same draws, the same uid: a fork is a copy of the future too.
    let (one, two) = (cluster.create(other.clone()), fork.create(other));
    assert_eq!(one.json()["metadata"]["uid"], two.json()["metadata"]["uid"]);
    fork.send(Cluster::config_map(Verb::Delete, "a"));
    assert_eq!(cluster.send(Cluster::config_map(Verb::Get, "a")).code, 200);
}
