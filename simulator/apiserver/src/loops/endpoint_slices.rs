//! EndpointSlices: for each Service with a selector, its pods in slices of at most 100; for a Service
//! without one, a mirror of the Endpoints that a client wrote.
//!
//! After upstream's `staging/src/k8s.io/endpointslice` and `pkg/controller/endpointslicemirroring`.
//! Topology hints are not here.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
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

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const SLICE_ENDPOINTS_MAX: usize = 100;
/// How soon a Service is looked at again whose pods are on nodes that are not there.
const MISSING_NODE_RETRY: SignedDuration = SignedDuration::from_secs(1);

/// Who makes a slice.
#[derive(Clone, Copy, PartialEq)]
struct Maker {
    /// Value of the label that tells slices of one maker from those of another.
    managed_by: &'static str,
    account: &'static str,
    /// What owns the slices.
    owner_kind: &'static str,
}

const FROM_PODS: Maker =
    Maker { managed_by: "endpointslice-controller.k8s.io", account: "endpointslice-controller", owner_kind: "Service" };
const MIRROR: Maker = Maker {
    managed_by: "endpointslicemirroring-controller.k8s.io",
    account: "endpointslicemirroring-controller",
    owner_kind: "Endpoints",
};

/// The EndpointSlice controller, and the one that mirrors Endpoints.
#[derive(Clone, Default)]
pub struct EndpointSlices {
    mailbox: Mailbox<Key>,
    triggers: TriggerTimes,
    current: Option<Key>,
}

/// Ports and the endpoints that offer just these, by the ports' text.
type Wanted = BTreeMap<String, (Vec<Value>, Vec<Value>)>;

impl ControlLoop for EndpointSlices {
    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        service_pods::enqueue(&mut self.mailbox, entry, view, now);
        let object = &entry.object;
        match (&*entry.resource.group, &*entry.resource.resource) {
            ("", "endpoints") => self.mailbox.add((object.namespace().to_owned(), object.name().to_owned()), now),
            ("discovery.k8s.io", "endpointslices") => {
                if let Some(service) = object.label(SERVICE_NAME) {
                    self.mailbox.add((object.namespace().to_owned(), service.to_owned()), now);
                }
            }
            ("", "nodes") if entry.kind == LogKind::Added => {
                for pod in view.store().list(&GroupResource::new("", "pods"), "") {
                    if pod["spec"]["nodeName"] == object.name() {
                        service_pods::enqueue_selecting(&mut self.mailbox, &[pod], view, now);
                    }
                }
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(key) = self.mailbox.take(now) else { return Work::default() };
        let item = format!("service {}/{}", key.0, key.1);
        let mut requests = Vec::new();
        let service = view.get(&services(), &key.0, &key.1);
        match service.filter(|service| !service.is_deleting()) {
            // The collector takes the slices of a Service that has gone.
            None => self.triggers.forget(&key),
            Some(service) if has_selector(service) => {
                let pods = selected(service, view);
                let trigger = self.triggers.next(service, &pods);
                let mut troubles = Vec::new();
                for family in families(service) {
                    let wanted = of_pods(service, &pods, family, view, &mut troubles);
                    let pass = Pass { maker: FROM_PODS, service, owner: service, family, trigger: trigger.clone() };
                    requests.extend(pass.reconcile(wanted, view));
                }
                if let Some(trouble) = troubles_text(&troubles) {
                    requests.push(tell(service, &trouble, view, now));
                    self.mailbox.add(key.clone(), now + MISSING_NODE_RETRY);
                }
            }
            Some(service) => {
                if let Some(endpoints) = view.get(&GroupResource::new("", "endpoints"), &key.0, &key.1)
                    && is_mirrored(endpoints)
                {
                    for family in ["IPv4", "IPv6"] {
                        let wanted = of_endpoints(endpoints, family);
                        let pass = Pass { maker: MIRROR, service, owner: endpoints, family, trigger: None };
                        if !wanted.is_empty() || !pass.existing(view).is_empty() {
                            requests.extend(pass.reconcile(wanted, view));
                        }
                    }
                }
            }
        }
        self.current = Some(key);
        Work { item, requests, keep_going: true }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(key) = self.current.take() else { return };
        if responses.iter().any(|response| !response.is_success() && response.code != 404) {
            self.mailbox.retry(key, now);
        } else {
            self.mailbox.succeeded(&key);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn troubles_text(troubles: &[String]) -> Option<String> {
    match troubles {
        [] => None,
        [one] => Some(one.clone()),
        // Go's aggregate of errors.
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn tell(service: &Object, trouble: &str, view: &View<'_>, now: Timestamp) -> Request {
    let place = format!("{}/{}", service.namespace(), service.name());
    let event = Event {
        component: "endpoint-slice-controller",
        user: user(FROM_PODS),
        object: service,
        kind: ("v1", "Service"),
        type_: "Warning",
        reason: "FailedToUpdateEndpointSlices",
        message: &format!("Error updating Endpoint Slices for Service {place}: {trouble}"),
    };
    event.record(view, now)
}

fn user(maker: Maker) -> User {
    super::controller_user(maker.account)
}

fn is_mirrored(endpoints: &Object) -> bool {
    endpoints.label(SKIP_MIRROR) != Some("true") && endpoints.annotation(LEADER).is_none() && !endpoints.is_deleting()
}

fn of_pods(service: &Object, pods: &[&Object], family: &str, view: &View<'_>, troubles: &mut Vec<String>) -> Wanted {
    let mut wanted = Wanted::new();
    for pod in pods.iter().filter(|pod| can_serve(pod, true)) {
        let node_name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = view.get(&GroupResource::new("", "nodes"), "", node_name);
        if node.is_none() && !publishes_not_ready(service) {
            let place = format!("{}/{}", service.namespace(), service.name());
            let trouble = format!("skipping Pod {} for Service {place}: Node {node_name} Not Found", pod.name());
            if !troubles.contains(&trouble) {
                troubles.push(trouble);
            }
            continue;
        }
        let Some(ip) = address(pod, family) else { continue };
        let (serving, terminating) = (is_ready(pod), pod.is_deleting());
        let mut endpoint = json!({
            "addresses": [ip],
            "conditions": {
                "ready": publishes_not_ready(service) || (serving && !terminating),
                "serving": serving, "terminating": terminating,
            },
            "targetRef": target(pod),
        });
        if !node_name.is_empty() {
            endpoint["nodeName"] = node_name.into();
        }
        if let Some(zone) = node.and_then(|node| node.label("topology.kubernetes.io/zone")) {
            endpoint["zone"] = zone.into();
        }
        if let Some(hostname) = hostname(pod, service) {
            endpoint["hostname"] = hostname.into();
        }
        want(&mut wanted, ports(service, pod, true), endpoint);
    }
    wanted
}

fn of_endpoints(endpoints: &Object, family: &str) -> Wanted {
    let mut wanted = Wanted::new();
    for subset in endpoints["subsets"].as_array().into_iter().flatten() {
        let mut ports = subset["ports"].as_array().cloned().unwrap_or_default();
        for port in &mut ports {
            if port["name"].is_null() {
                port["name"] = "".into();
            }
        }
        for (list, is_ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in subset[list].as_array().into_iter().flatten() {
                let Some(ip) = address["ip"].as_str() else { continue };
                if ip.contains(':') != (family == "IPv6") {
                    continue;
                }
                let mut endpoint = json!({"addresses": [ip], "conditions": {"ready": is_ready}});
                for field in ["hostname", "nodeName", "targetRef"] {
                    if !address[field].is_null() {
                        endpoint[field] = address[field].clone();
                    }
                }
                want(&mut wanted, ports.clone(), endpoint);
            }
        }
    }
    wanted
}

fn want(wanted: &mut Wanted, ports: Vec<Value>, endpoint: Value) {
    let key = json!(ports).to_string();
    wanted.entry(key).or_insert_with(|| (ports, Vec::new())).1.push(endpoint);
}

/// The slices of one family of one Service.
struct Pass<'a> {
    maker: Maker,
    service: &'a Object,
    owner: &'a Object,
    family: &'a str,
    trigger: Option<String>,
}

impl Pass<'_> {
    fn existing<'v>(&self, view: &View<'v>) -> Vec<&'v Object> {
        let slices = GroupResource::new("discovery.k8s.io", "endpointslices");
        view.store()
            .list(&slices, self.service.namespace())
            .filter(|slice| slice.label(SERVICE_NAME) == Some(self.service.name()))
            .filter(|slice| slice.label(MANAGED_BY) == Some(self.maker.managed_by))
            .filter(|slice| slice["addressType"] == self.family && !slice.is_deleting())
            .collect()
    }

    /// Keeps what is right, fills slices that have room, writes over those that nothing needs any more,
    /// and only then makes or deletes some.
    fn reconcile(&self, mut wanted: Wanted, view: &View<'_>) -> Vec<Request> {
        if wanted.is_empty() && self.maker == FROM_PODS {
            // A Service without pods has a slice that says so.
            wanted.insert("[]".to_owned(), (Vec::new(), Vec::new()));
        }
        let is_owned = |slice: &&Object| slice.owner_references().any(|owner| owner["uid"] == self.owner.uid());
        let (ours, strangers): (Vec<&Object>, Vec<&Object>) = self.existing(view).into_iter().partition(is_owned);
        let (mut contents, mut spare) = (Vec::new(), Vec::new());
        for slice in ours {
            match wanted.get_mut(&ports_of(slice)) {
                Some((ports, endpoints)) => contents.push((slice, ports.clone(), keep(slice, endpoints))),
                None => spare.push(slice),
            }
        }
        let mut made = Vec::new();
        for (key, (ports, mut rest)) in wanted {
            let mut is_there = false;
            for (slice, _, kept) in &mut contents {
                if ports_of(slice) == key {
                    is_there = true;
                    let room = SLICE_ENDPOINTS_MAX.saturating_sub(kept.len()).min(rest.len());
                    kept.extend(rest.drain(..room));
                }
            }
            if rest.is_empty() && !is_there {
                made.push((ports.clone(), Vec::new()));
            }
            made.extend(rest.chunks(SLICE_ENDPOINTS_MAX).map(|chunk| (ports.clone(), chunk.to_vec())));
        }
        let mut requests = Vec::new();
        for (slice, ports, endpoints) in contents {
            requests.extend(self.update(slice, &ports, endpoints));
        }
        for (ports, endpoints) in made {
            requests.push(match spare.pop() {
                Some(slice) => self.write_over(slice, &ports, endpoints),
                None => self.create(&ports, endpoints),
            });
        }
        requests.extend(spare.into_iter().chain(strangers).map(|slice| self.request(Verb::Delete, slice.name())));
        requests
    }

    fn request(&self, verb: Verb, name: &str) -> Request {
        let namespace = self.service.namespace();
        Request::new(verb, user(self.maker), "discovery.k8s.io/v1", "endpointslices", namespace, name)
            .agent(super::AGENT)
    }

    fn labels(&self) -> Value {
        let source = if self.maker == MIRROR { self.owner } else { self.service };
        let mut labels = source["metadata"]["labels"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        labels[SERVICE_NAME] = self.service.name().into();
        labels[MANAGED_BY] = self.maker.managed_by.into();
        if self.maker == FROM_PODS && is_headless(self.service) {
            labels[HEADLESS] = "".into();
        } else if let Some(labels) = labels.as_object_mut() {
            labels.remove(HEADLESS);
        }
        labels
    }

    fn update(&self, slice: &Object, ports: &[Value], endpoints: Vec<Value>) -> Option<Request> {
        let has = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let same = has == endpoints && slice["metadata"]["labels"] == self.labels();
        (!same).then(|| self.write_over(slice, ports, endpoints))
    }

    fn write_over(&self, slice: &Object, ports: &[Value], endpoints: Vec<Value>) -> Request {
        let mut object = (**slice).clone();
        self.fill(&mut object, ports, endpoints);
        self.request(Verb::Update, slice.name()).json(object)
    }

    fn create(&self, ports: &[Value], endpoints: Vec<Value>) -> Request {
        let mut object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": self.family,
            "metadata": {
                "generateName": format!("{}-", self.service.name()), "namespace": self.service.namespace(),
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": self.maker.owner_kind, "name": self.owner.name(),
                    "uid": self.owner.uid(), "controller": true, "blockOwnerDeletion": true,
                }],
            },
        });
        self.fill(&mut object, ports, endpoints);
        self.request(Verb::Create, "").json(object)
    }

    fn fill(&self, object: &mut Value, ports: &[Value], endpoints: Vec<Value>) {
        object["endpoints"] = if endpoints.is_empty() { Value::Null } else { endpoints.into() };
        object["ports"] = if ports.is_empty() { Value::Null } else { ports.to_vec().into() };
        let metadata = metadata_mut(object);
        metadata.insert("labels".to_owned(), self.labels());
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(TRIGGER_TIME);
            annotations.extend(self.trigger.clone().map(|time| (TRIGGER_TIME.to_owned(), time.into())));
        }
    }
}

/// The key of [`Wanted`] under which a slice lies.
fn ports_of(slice: &Object) -> String {
    slice["ports"].as_array().map_or_else(|| "[]".to_owned(), |ports| json!(ports).to_string())
}

/// Endpoints of a slice that are still wanted, as they are wanted now, in the slice's order; they are
/// taken out of `wanted`.
fn keep(slice: &Object, wanted: &mut Vec<Value>) -> Vec<Value> {
    let is_same =
        |a: &Value, b: &Value| a["addresses"] == b["addresses"] && a["targetRef"]["uid"] == b["targetRef"]["uid"];
    let has = slice["endpoints"].as_array().into_iter().flatten();
    has.filter_map(|endpoint| {
        let at = wanted.iter().position(|wanted| is_same(wanted, endpoint))?;
        Some(wanted.remove(at))
    })
    .collect()
}
