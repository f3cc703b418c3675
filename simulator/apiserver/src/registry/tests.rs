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

/// Bodies that no client would send, at every door: each is answered, none panics.
#[test]
fn whatever_is_sent_is_answered() {
    let pod = json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!(1),
        json!({}),
        json!({ "metadata": [] }),
        json!({ "metadata": { "name": 1 } }),
        json!({ "metadata": { "name": "a", "labels": [], "annotations": 1, "finalizers": {}, "ownerReferences": "x" } }),
        json!({ "metadata": { "name": "a", "managedFields": [[], 1, { "fieldsV1": 1 }] } }),
        json!({ "metadata": { "name": "a", "ownerReferences": [1, {}], "creationTimestamp": {} }, "spec": [], "status": 1 }),
        json!({ "metadata": { "name": "a", "generateName": "b", "resourceVersion": "-1", "uid": 1 }, "spec": null }),
        json!({ "kind": 1, "apiVersion": [], "metadata": { "name": "a", "namespace": {} } }),
        json!([{ "op": "replace", "path": "", "value": 1 }]),
        json!([{ "op": "remove", "path": "/metadata" }, { "op": "add", "path": "/spec", "value": [] }]),
        json!([{ "op": "replace", "path": "/metadata/labels", "value": 1 }]),
    ];
    let doors = [
        ("v1", "pods", ""),
        ("v1", "pods", "status"),
        ("v1", "pods", "eviction"),
        ("v1", "pods", "binding"),
        ("apps/v1", "statefulsets", ""),
        ("apps/v1", "statefulsets", "scale"),
        ("v1", "services", ""),
        ("v1", "events", ""),
        ("autoscaling/v1", "horizontalpodautoscalers", ""),
        ("rbac.authorization.k8s.io/v1", "roles", ""),
    ];
    let content_types = [
        "application/json",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    let mut cluster = Cluster::new();
    let admin = || User::admin("admin");
    for resource in ["pods", "services"] {
        cluster.send(Request::new(Verb::Create, admin(), "v1", resource, "default", "").json(pod.clone()));
    }
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod["spec"] });
    let spec = json!({ "serviceName": "a", "selector": { "matchLabels": { "a": "b" } }, "template": template });
    let set = json!({ "metadata": { "name": "a" }, "spec": spec });
    let created = cluster.send(Request::new(Verb::Create, admin(), "apps/v1", "statefulsets", "default", "").json(set));
    assert_eq!(created.code, 201, "{}", created.json());
    for (api_version, resource, subresource) in doors {
        for value in &odd {
            for verb in [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete] {
                for content_type in content_types.iter().skip(usize::from(verb == Verb::Patch)) {
                    let name = if verb == Verb::Create && subresource.is_empty() { "" } else { "a" };
                    let mut request = Request::new(verb, admin(), api_version, resource, "default", name)
                        .subresource(subresource)
                        .option("fieldManager", "m")
                        .option("dryRun", "All");
                    request.body = crate::request::Body::Bytes {
                        content_type: (*content_type).to_owned(),
                        bytes: value.to_string().into(),
                    };
                    let response = cluster.send(request);
                    assert!((200..600).contains(&response.code), "{resource} {verb:?} {value}");
                    if verb != Verb::Patch {
                        break;
                    }
                }
            }
        }
    }
}
