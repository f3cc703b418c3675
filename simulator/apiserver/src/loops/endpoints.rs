//! Endpoints: for each Service with a selector, the addresses and ports of its pods.
//!
//! After upstream's `pkg/controller/endpoint`. The cut at 1000 addresses is not here.

use std::collections::BTreeMap;

use imbl::OrdMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::events::Event;
use super::mailbox::Mailbox;
use super::service_pods::{
    self, HEADLESS, Key, TRIGGER_TIME, TriggerTimes, address, can_serve, families, has_selector, hostname, is_headless,
    is_ready, ports, publishes_not_ready, selected, services, target,
};
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt, metadata_mut};
use crate::request::{Request, Response, User, Verb};
use crate::resource::GroupResource;
use crate::watch::{LogEntry, LogKind};

const NAME: &str = "endpoint-controller";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// The Endpoints controller.
#[derive(Clone, Default)]
pub struct Endpoints {
    mailbox: Mailbox<Key>,
    triggers: TriggerTimes,
    /// Writes that were refused and not yet told in an event.
    refused: OrdMap<Key, String>,
    current: Option<Key>,
}

impl ControlLoop for Endpoints {
    fn name(&self) -> &'static str {
        "endpoints-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        service_pods::enqueue(&mut self.mailbox, entry, view, now);
        // Somebody deleted what this loop made: it comes again.
        if entry.resource == resource() && entry.kind == LogKind::Deleted {
            self.mailbox.add((entry.object.namespace().to_owned(), entry.object.name().to_owned()), now);
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(key) = self.mailbox.take(now) else { return Work::default() };
        let item = format!("service {}/{}", key.0, key.1);
        let existing = view.get(&resource(), &key.0, &key.1);
        let requests = match view.get(&services(), &key.0, &key.1) {
            None => {
                self.triggers.forget(&key);
                existing.map(|_| request(Verb::Delete, &key.0, &key.1)).into_iter().collect()
            }
            Some(service) if !has_selector(service) => Vec::new(),
            Some(service) => {
                let told = self.refused.remove(&key).map(|message| tell(service, existing, &message, view, now));
                let pods = selected(service, view);
                let trigger = self.triggers.next(service, &pods);
                told.into_iter().chain(write(service, &pods, existing, trigger)).collect()
            }
        };
        self.current = Some(key);
        Work { item, requests, keep_going: true }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(key) = self.current.take() else { return };
        let refusal = responses.last().filter(|response| !response.is_success() && response.code != 404);
        let Some(refusal) = refusal else { return self.mailbox.succeeded(&key) };
        let message = refusal.json()["message"].as_str().unwrap_or_default().to_owned();
        self.refused.insert(key.clone(), message);
        self.mailbox.retry(key, now);
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn resource() -> GroupResource {
    GroupResource::new("", "endpoints")
}

fn user() -> User {
    super::controller_user(NAME)
}

fn request(verb: Verb, namespace: &str, name: &str) -> Request {
    Request::new(verb, user(), "v1", "endpoints", namespace, name).agent(super::AGENT)
}

fn tell(service: &Object, existing: Option<&Object>, message: &str, view: &View<'_>, now: Timestamp) -> Request {
    let (reason, doing) = match existing {
        None => ("FailedToCreateEndpoint", "create"),
        Some(_) => ("FailedToUpdateEndpoint", "update"),
    };
    let message = format!("Failed to {doing} endpoint {}/{}: {message}", service.namespace(), service.name());
    let object = existing.unwrap_or(service);
    let event = Event {
        component: NAME,
        user: user(),
        object,
        kind: ("v1", "Endpoints"),
        type_: "Warning",
        reason,
        message: &message,
    };
    event.record(view, now)
}

/// The write that brings the Endpoints in line, when they are not.
fn write(service: &Object, pods: &[&Object], existing: Option<&Object>, trigger: Option<String>) -> Option<Request> {
    let subsets = subsets(service, pods);
    let mut labels = service["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    labels[MANAGED_BY] = NAME.into();
    if is_headless(service) {
        labels[HEADLESS] = "".into();
    } else if let Some(labels) = labels.as_object_mut() {
        labels.remove(HEADLESS);
    }
    let is_same = |existing: &Object| {
        let has = existing["subsets"].as_array().cloned().unwrap_or_default();
        has == subsets && existing["metadata"]["labels"] == labels
    };
    if existing.is_some_and(is_same) {
        return None;
    }
    let mut object = existing.map_or_else(
        || {
            json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"name": service.name(), "namespace": service.namespace()},
            })
        },
        |existing| (**existing).clone(),
    );
    object["subsets"] = if subsets.is_empty() { Value::Null } else { subsets.into() };
    let metadata = metadata_mut(&mut object);
    metadata.insert("labels".to_owned(), labels);
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove(TRIGGER_TIME);
        annotations.extend(trigger.map(|time| (TRIGGER_TIME.to_owned(), time.into())));
    }
    Some(match existing {
        None => request(Verb::Create, service.namespace(), "").json(object),
        Some(_) => request(Verb::Update, service.namespace(), service.name()).json(object),
    })
}

/// An address with the ports that it offers.
struct Offer {
    address: Value,
    is_ready: bool,
    ports: Vec<Value>,
}

/// The addresses that offer the same ports.
#[derive(Default)]
struct Subset {
    ports: Vec<Value>,
    ready: Vec<Value>,
    not_ready: Vec<Value>,
}

/// One subset for each set of ports, addresses in order (`RepackSubsets`).
fn subsets(service: &Object, pods: &[&Object]) -> Vec<Value> {
    let publish_all = publishes_not_ready(service);
    let family = families(service)[0];
    let mut offers: BTreeMap<(&str, &str), Offer> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| can_serve(pod, publish_all)) {
        let Some(ip) = address(pod, family) else { continue };
        let ports = ports(service, pod, false);
        let portless = service["spec"]["ports"].as_array().is_none_or(Vec::is_empty) && is_headless(service);
        if ports.is_empty() && !portless {
            continue;
        }
        let mut address = json!({"ip": ip, "nodeName": pod["spec"]["nodeName"].as_str().unwrap_or_default(), "targetRef": target(pod)});
        if let Some(hostname) = hostname(pod, service) {
            address["hostname"] = hostname.into();
        }
        offers.insert((ip, pod.uid()), Offer { address, is_ready: publish_all || is_ready(pod), ports });
    }
    let mut by_ports: BTreeMap<String, Subset> = BTreeMap::new();
    for Offer { address, is_ready, ports } in offers.into_values() {
        let subset = by_ports.entry(json!(ports).to_string()).or_default();
        subset.ports = ports;
        if is_ready { subset.ready.push(address) } else { subset.not_ready.push(address) }
    }
    by_ports
        .into_values()
        .map(|Subset { ports, ready, not_ready }| {
            let fields = [("addresses", ready), ("notReadyAddresses", not_ready), ("ports", ports)];
            let given = fields.into_iter().filter(|(_, list)| !list.is_empty());
            given.map(|(field, list)| (field.to_owned(), Value::from(list))).collect()
        })
        .collect()
}
