//! What a Service has to do with pods: which it selects, at which ports and addresses, and when that
//! last changed. Shared by the loops for Endpoints and for EndpointSlices.

use std::collections::BTreeMap;

use imbl::OrdMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::mailbox::Mailbox;
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;
use crate::watch::LogEntry;

/// Annotation of Endpoints and slices: the earliest of the changes that they answer to.
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Label of what belongs to a headless Service.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Namespace and name of a Service.
pub(super) type Key = (String, String);

pub(super) fn services() -> GroupResource {
    GroupResource::new("", "services")
}

/// Does a control loop make endpoints for this Service?
pub(super) fn has_selector(service: &Object) -> bool {
    service["spec"]["type"] != "ExternalName"
        && service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

fn selects(service: &Object, pod: &Object) -> bool {
    let selector = service["spec"]["selector"].as_object();
    has_selector(service) && selector.into_iter().flatten().all(|(key, value)| pod["metadata"]["labels"][key] == *value)
}

/// The pods that a Service selects, in whatever state they are.
pub(super) fn selected<'a>(service: &Object, view: &View<'a>) -> Vec<&'a Object> {
    let pods = view.store().list(&GroupResource::new("", "pods"), service.namespace());
    pods.filter(|pod| selects(service, pod)).collect()
}

/// May traffic ever go to this pod? (`ShouldPodBeInEndpoints`)
pub(super) fn can_serve(pod: &Object, include_terminating: bool) -> bool {
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    !finished && !addresses(pod).is_empty() && (include_terminating || !pod.is_deleting())
}

fn addresses(pod: &Object) -> Vec<&str> {
    let all = pod["status"]["podIPs"].as_array().into_iter().flatten();
    let mut all: Vec<&str> = all.filter_map(|address| address["ip"].as_str()).collect();
    if all.is_empty() {
        all.extend(pod["status"]["podIP"].as_str().filter(|address| !address.is_empty()));
    }
    all
}

/// The pod's address of a family (`IPv4`, `IPv6`).
pub(super) fn address<'a>(pod: &'a Object, family: &str) -> Option<&'a str> {
    addresses(pod).into_iter().find(|address| address.contains(':') == (family == "IPv6"))
}

/// Families of a Service's addresses, the first one first.
pub(super) fn families(service: &Object) -> Vec<&str> {
    let families = service["spec"]["ipFamilies"].as_array().into_iter().flatten();
    let families: Vec<&str> = families.filter_map(Value::as_str).collect();
    if families.is_empty() { vec!["IPv4"] } else { families }
}

pub(super) fn is_ready(pod: &Object) -> bool {
    ready_condition(pod).is_some_and(|ready| ready["status"] == "True")
}

fn ready_condition(pod: &Object) -> Option<&Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Ready")
}

pub(super) fn is_headless(service: &Object) -> bool {
    matches!(service["spec"]["clusterIP"].as_str(), None | Some("" | "None"))
}

pub(super) fn publishes_not_ready(service: &Object) -> bool {
    service["spec"]["publishNotReadyAddresses"] == true
}

/// The host name under which the pod is known within the Service's name, if it has one.
pub(super) fn hostname<'a>(pod: &'a Object, service: &Object) -> Option<&'a str> {
    let name = pod["spec"]["hostname"].as_str().filter(|name| !name.is_empty());
    name.filter(|_| pod["spec"]["subdomain"] == service.name())
}

pub(super) fn target(pod: &Object) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

/// The ports of a Service at this pod; ports that the pod does not name are left out.
///
/// `named` writes the empty name too, as slices have it.
pub(super) fn ports(service: &Object, pod: &Object, named: bool) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| {
            let mut at_pod = json!({"port": target_port(port, pod)?, "protocol": port["protocol"]});
            let name = port["name"].as_str().unwrap_or_default();
            if named || !name.is_empty() {
                at_pod["name"] = name.into();
            }
            if !port["appProtocol"].is_null() {
                at_pod["appProtocol"] = port["appProtocol"].clone();
            }
            Some(at_pod)
        })
        .collect()
}

/// The number of a Service's port in this pod: a named one is looked up in its containers, sidecars last.
fn target_port(port: &Value, pod: &Object) -> Option<i64> {
    let Some(name) = port["targetPort"].as_str() else {
        return port["targetPort"].as_i64().filter(|number| *number != 0).or_else(|| port["port"].as_i64());
    };
    let list = |field: &str| pod["spec"][field].as_array().into_iter().flatten();
    let sidecars = list("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let mut ports = list("containers").chain(sidecars).flat_map(|it| it["ports"].as_array().into_iter().flatten());
    let found = ports.find(|found| found["name"] == name && found["protocol"] == port["protocol"])?;
    found["containerPort"].as_i64()
}

/// Puts the Services that a change concerns into a mailbox: the Service itself, or those that select a
/// pod before or after.
pub(super) fn enqueue(mailbox: &mut Mailbox<Key>, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
    let object = &entry.object;
    if !entry.resource.group.is_empty() {
        return;
    }
    match &*entry.resource.resource {
        "services" => mailbox.add((object.namespace().to_owned(), object.name().to_owned()), now),
        "pods" => match &entry.previous {
            Some(previous) => enqueue_selecting(mailbox, &[object, previous], view, now),
            None => enqueue_selecting(mailbox, &[object], view, now),
        },
        _ => {}
    }
}

/// Puts the Services that select one of these states of a pod into a mailbox.
pub(super) fn enqueue_selecting(mailbox: &mut Mailbox<Key>, states: &[&Object], view: &View<'_>, now: Timestamp) {
    let namespace = states.first().map_or("", |pod| pod.namespace());
    for service in view.store().list(&services(), namespace) {
        if states.iter().any(|pod| selects(service, pod)) {
            mailbox.add((service.namespace().to_owned(), service.name().to_owned()), now);
        }
    }
}

/// Finds what triggered a change of endpoints (`pkg/controller/util/endpoint/trigger_time_tracker.go`).
#[derive(Clone, Debug, Default)]
pub(super) struct TriggerTimes {
    seen: OrdMap<Key, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    service: String,
    /// When the readiness of each pod last changed.
    pods: BTreeMap<String, String>,
}

impl TriggerTimes {
    /// The earliest change since the last call; the Service's creation at the first one.
    pub(super) fn next(&mut self, service: &Object, pods: &[&Object]) -> Option<String> {
        let key = (service.namespace().to_owned(), service.name().to_owned());
        let known = self.seen.get(&key).cloned();
        let created = service.meta("creationTimestamp").to_owned();
        let times: BTreeMap<String, String> = pods
            .iter()
            .filter_map(|pod| {
                Some((pod.name().to_owned(), ready_condition(pod)?["lastTransitionTime"].as_str()?.to_owned()))
            })
            .collect();
        let changed = match &known {
            None => Some(created.clone()),
            Some(known) => {
                // Times of one format compare as text.
                let moved = times.iter().filter(|(pod, time)| known.pods.get(*pod).is_none_or(|then| *time > then));
                moved.map(|(_, time)| time.clone()).chain(Some(created.clone()).filter(|at| *at > known.service)).min()
            }
        };
        self.seen.insert(key, Seen { service: created, pods: times });
        changed
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.seen.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pod(containers: Value, ready_since: &str) -> Object {
        Arc::new(json!({
            "metadata": {"name": "db-0"},
            "spec": {
                "containers": containers,
                "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always", "ports": [{"name": "admin", "containerPort": 9901, "protocol": "TCP"}]},
                    {"name": "setup", "ports": [{"name": "once", "containerPort": 1, "protocol": "TCP"}]},
                ],
            },
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ready_since}]},
        }))
    }

    #[test]
    fn a_port_leads_to_a_number_or_to_a_named_port_of_a_container_or_sidecar() {
        let ports = json!([{"name": "sql", "containerPort": 6432, "protocol": "TCP"}]);
        let pod = pod(json!([{"name": "db", "ports": ports}]), "2026-01-01T00:00:00Z");
        for (port, number) in [
            (json!({"port": 5432, "protocol": "TCP"}), Some(5432)),
            (json!({"port": 5432, "protocol": "TCP", "targetPort": 6000}), Some(6000)),
            (json!({"port": 5432, "protocol": "TCP", "targetPort": "sql"}), Some(6432)),
            (json!({"port": 5432, "protocol": "UDP", "targetPort": "sql"}), None),
            (json!({"port": 5432, "protocol": "TCP", "targetPort": "admin"}), Some(9901)),
            (json!({"port": 5432, "protocol": "TCP", "targetPort": "once"}), None),
        ] {
            assert_eq!(target_port(&port, &pod), number, "{port}");
        }
    }

    #[test]
    fn a_trigger_is_the_earliest_change_not_seen_before() {
        let service: Object = Arc::new(
            json!({"metadata": {"name": "db", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:05Z"}}),
        );
        let (early, late) = (pod(json!([]), "2026-01-01T00:00:01Z"), pod(json!([]), "2026-01-01T00:00:09Z"));
        let mut triggers = TriggerTimes::default();
        let first = triggers.next(&service, &[&early]);
        assert_eq!(first.as_deref(), Some("2026-01-01T00:00:05Z"), "the Service is new");
        assert_eq!(triggers.next(&service, &[&early]), None);
        assert_eq!(triggers.next(&service, &[&late]).as_deref(), Some("2026-01-01T00:00:09Z"));
        assert_eq!(triggers.next(&service, &[]), None);
        assert_eq!(triggers.next(&service, &[&early]).as_deref(), Some("2026-01-01T00:00:01Z"), "it was away");
    }
}
