//! A node stand-in: scheduler and kubelet in one, for clusters that have neither.
//!
//! It binds pods, "runs" their containers (ids, readiness, addresses) after a delay on the run's
//! clock, waits for claims to be bound and for mounted Secrets and ConfigMaps as a kubelet would, and
//! confirms deletions after the pod has been asked to stop. Nothing is executed; what containers hold
//! is [`crate::guest`]'s business.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, Response, User, Verb};
use crate::resource::GroupResource;
use crate::watch::{LogEntry, LogKind};

/// Name of the one node.
pub const NODE: &str = "node-1";

/// Time from binding to running containers.
const START: SignedDuration = SignedDuration::from_millis(1500);
/// Time a container takes to stop when asked to.
const STOP: SignedDuration = SignedDuration::from_millis(500);
/// Time after which a refused write is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(1);

/// The node stand-in.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Pods to look at, and when.
    queue: BTreeMap<Item, Timestamp>,
    /// When each pod (by uid) was bound.
    bound_at: BTreeMap<String, Timestamp>,
    registered: bool,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Item {
    /// The Node object itself.
    Register,
    Pod {
        namespace: String,
        name: String,
    },
}

impl Node {
    fn enqueue(&mut self, namespace: &str, name: &str, due: Timestamp) {
        let item = Item::Pod { namespace: namespace.to_owned(), name: name.to_owned() };
        let entry = self.queue.entry(item).or_insert(due);
        *entry = (*entry).min(due);
    }

    fn look(&mut self, pod: &Object, view: &View<'_>, now: Timestamp) -> Vec<Request> {
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if pod.is_deleting() {
            return self.stop(pod, now);
        }
        if node.is_empty() {
            let waiting = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            return if waiting || !claims_are_bound(pod, view) { Vec::new() } else { vec![bind(pod)] };
        }
        if node != NODE || finished || pod["status"]["phase"] == "Running" {
            return Vec::new();
        }
        let bound_at = *self.bound_at.entry(pod.uid().to_owned()).or_insert(now);
        if bound_at + START > now {
            self.enqueue(pod.namespace(), pod.name(), bound_at + START);
            return Vec::new();
        }
        if !mounts_exist(pod, view) {
            return Vec::new();
        }
        vec![run(pod, now)]
    }

    fn stop(&mut self, pod: &Object, now: Timestamp) -> Vec<Request> {
        let deadline: Timestamp = pod.meta("deletionTimestamp").parse().unwrap_or(now);
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        // Pods that a finalizer holds, without a grace period, are not the kubelet's any more.
        if grace == 0 && pod.finalizers().next().is_some() {
            return Vec::new();
        }
        let asked = deadline - SignedDuration::from_secs(grace);
        let stopped = (asked + STOP).min(deadline);
        if stopped > now {
            self.enqueue(pod.namespace(), pod.name(), stopped);
            return Vec::new();
        }
        self.bound_at.remove(pod.uid());
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid()},
        });
        vec![request(Verb::Delete, pod, "").json(options)]
    }
}

impl ControlLoop for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        if !self.registered {
            self.registered = true;
            self.queue.insert(Item::Register, now);
        }
        if !entry.resource.group.is_empty() {
            return;
        }
        match &*entry.resource.resource {
            "pods" if entry.kind != LogKind::Deleted => {
                self.enqueue(entry.object.namespace(), entry.object.name(), now);
            }
            // Pods may have waited for it.
            "persistentvolumeclaims" | "secrets" | "configmaps" if entry.kind != LogKind::Deleted => {
                let namespace = entry.object.namespace();
                let waiting = view.store().list(&pods(), namespace).filter(|pod| pod["status"]["phase"] != "Running");
                let names: Vec<String> = waiting.map(|pod| pod.name().to_owned()).collect();
                for name in names {
                    self.enqueue(namespace, &name, now);
                }
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.queue.values().min().copied()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let next = self.queue.iter().filter(|(_, due)| **due <= now).min_by_key(|(item, due)| (**due, (*item).clone()));
        let Some(item) = next.map(|(item, _)| item.clone()) else { return Work::default() };
        self.queue.remove(&item);
        match item {
            Item::Register => {
                let exists = view.get(&GroupResource::new("", "nodes"), "", NODE).is_some();
                let requests = if exists { Vec::new() } else { register(now) };
                Work { item: format!("node {NODE}"), requests, ..Work::default() }
            }
            Item::Pod { namespace, name } => {
                let requests = match view.get(&pods(), &namespace, &name) {
                    Some(pod) => self.look(&pod.clone(), view, now),
                    None => Vec::new(),
                };
                Work { item: format!("pod {namespace}/{name}"), requests, ..Work::default() }
            }
        }
    }

    fn done(&mut self, work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let refused = responses.iter().any(|response| !response.is_success() && response.code != 404);
        let place = work.item.strip_prefix("pod ").and_then(|place| place.split_once('/'));
        if let Some((namespace, name)) = place.filter(|_| refused) {
            self.enqueue(namespace, name, now + RETRY);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

/// How the kubelet is known to the API server.
fn kubelet() -> User {
    User {
        name: format!("system:node:{NODE}"),
        groups: vec!["system:nodes".to_owned(), "system:masters".to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    }
}

fn request(verb: Verb, pod: &Object, subresource: &str) -> Request {
    Request::new(verb, kubelet(), "v1", "pods", pod.namespace(), pod.name()).subresource(subresource).agent("kubelet")
}

fn register(now: Timestamp) -> Vec<Request> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NODE, "labels": {
            "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
    });
    let capacity = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
    let time = format!("{now:.0}");
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastTransitionTime": time, "lastHeartbeatTime": time,
    });
    let status = json!({"status": {
        "capacity": capacity, "allocatable": capacity,
        "conditions": [condition],
        "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}, {"type": "Hostname", "address": NODE}],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
            "bootID": "", "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.1.0", "machineID": "",
            "osImage": "a stand-in", "systemUUID": "",
        },
    }});
    vec![
        Request::new(Verb::Create, kubelet(), "v1", "nodes", "", "").agent("kubelet").json(node),
        Request::new(Verb::Patch, kubelet(), "v1", "nodes", "", NODE)
            .subresource("status")
            .agent("kubelet")
            .merge_patch(status),
    ]
}

fn bind(pod: &Object) -> Request {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    });
    request(Verb::Create, pod, "binding").agent("kube-scheduler").json(binding)
}

/// Every claim a pod names exists and is bound; a scheduler waits for that.
fn claims_are_bound(pod: &Object, view: &View<'_>) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str()).all(|claim| {
        view.get(&GroupResource::new("", "persistentvolumeclaims"), pod.namespace(), claim)
            .is_some_and(|claim| claim["status"]["phase"] == "Bound" && !claim.is_deleting())
    })
}

/// Every Secret and ConfigMap that is mounted and not optional exists.
fn mounts_exist(pod: &Object, view: &View<'_>) -> bool {
    let exists = |resource: &str, source: &Value, field: &str| match source[field].as_str() {
        Some(name) if source["optional"] != true => {
            view.get(&GroupResource::new("", resource), pod.namespace(), name).is_some()
        }
        _ => true,
    };
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.all(|volume| {
        exists("secrets", &volume["secret"], "secretName") && exists("configmaps", &volume["configMap"], "name")
    })
}

/// The status a kubelet reports once all containers run.
fn run(pod: &Object, now: Timestamp) -> Request {
    let time = format!("{now:.0}");
    let statuses = |list: &str, finished: bool| -> Value {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.map(|container| container_status(pod, container, finished, now)).collect()
    };
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": time, "lastProbeTime": null});
    let ip = pod_ip(pod.uid());
    let mut status = json!({
        "phase": "Running", "startTime": time, "hostIP": "192.168.0.1", "hostIPs": [{"ip": "192.168.0.1"}],
        "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [
            condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"),
            condition("ContainersReady"), condition("PodScheduled"),
        ],
        "containerStatuses": statuses("containers", false),
    });
    if pod["spec"]["initContainers"].as_array().is_some_and(|containers| !containers.is_empty()) {
        status["initContainerStatuses"] = statuses("initContainers", true);
    }
    request(Verb::Patch, pod, "status").merge_patch(json!({"metadata": {"uid": pod.uid()}, "status": status}))
}

fn container_status(pod: &Object, container: &Value, finished: bool, now: Timestamp) -> Value {
    let time = format!("{now:.0}");
    let id = container_id(pod.uid(), container["name"].as_str().unwrap_or_default(), now);
    let state = if finished {
        json!({"terminated": {
            "containerID": id, "exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time,
        }})
    } else {
        json!({"running": {"startedAt": time}})
    };
    json!({
        "name": container["name"], "image": container["image"], "imageID": "", "containerID": id, "ready": true,
        "started": !finished, "restartCount": 0, "lastState": {}, "state": state,
    })
}

/// A container's id: new for each pod and each start, the same in each run.
fn container_id(pod_uid: &str, container: &str, now: Timestamp) -> String {
    let digest = Sha256::digest(format!("{pod_uid}/{container}/{now}"));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("containerd://{hex}")
}

/// An address in the pod network, derived from the pod's uid.
fn pod_ip(pod_uid: &str) -> String {
    let digest = Sha256::digest(pod_uid);
    format!("10.244.{}.{}", digest[0], digest[1].clamp(2, 254))
}
