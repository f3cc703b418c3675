//! StatefulSets: pods by ordinal, claims from templates, revisions, rolling updates.
//!
//! After upstream's `pkg/controller/statefulset`. [`plan`] is pure: what is there goes in, the requests
//! of one pass come out. A pass does what upstream does before it waits for the next change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::events::Event;
use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, Response, Verb};
use crate::resource::GroupResource;
use crate::selector::LabelSelector;
use crate::watch::LogEntry;

mod claims;
mod failures;
mod plan;
mod pods;
mod revisions;

use failures::Failure;

type Key = (String, String);

/// The StatefulSet controller.
#[derive(Clone, Default)]
pub struct StatefulSets {
    mailbox: Mailbox<Key>,
    current: Option<Key>,
    /// Failures that are yet to be told.
    failed: BTreeMap<Key, Failure>,
    /// Does the current pass only tell of one?
    telling: bool,
}

/// One set and what belongs to it, in one pass.
struct Pass<'a> {
    set: &'a Object,
    view: &'a View<'a>,
    now: Timestamp,
    requests: Vec<Request>,
    /// Names of revisions that were found taken (`status.collisionCount`).
    collisions: i64,
    /// Look again at this time although nothing may have changed (`minReadySeconds`).
    again: Option<Timestamp>,
}

impl ControlLoop for StatefulSets {
    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        let object = &entry.object;
        match (&*entry.resource.group, &*entry.resource.resource) {
            ("apps", "statefulsets") => self.enqueue(object.namespace(), object.name(), now),
            ("", "pods") | ("apps", "controllerrevisions") => {
                let states = [Some(object), entry.previous.as_ref()].into_iter().flatten();
                let owners: Vec<String> = states.filter_map(|state| owning_set(state)).map(str::to_owned).collect();
                for owner in &owners {
                    self.enqueue(object.namespace(), owner, now);
                }
                if owners.is_empty() {
                    self.enqueue_matching(object, view, now);
                }
            }
            ("", "persistentvolumeclaims") => self.enqueue_claimants(object, view, now),
            _ => {}
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(key) = self.mailbox.take(now) else { return Work::default() };
        let item = format!("statefulset {}/{}", key.0, key.1);
        let failure = self.failed.remove(&key);
        let Some(set) = view.get(&sets(), &key.0, &key.1) else { return Work { item, ..Work::default() } };
        let collisions = set["status"]["collisionCount"].as_i64().unwrap_or_default();
        let mut pass = Pass { set, view, now, requests: Vec::new(), collisions, again: None };
        self.telling = failure.is_some();
        match &failure {
            Some(failure) => pass.tell(failure),
            None => pass.run(),
        }
        if let Some(again) = pass.again {
            self.mailbox.add(key.clone(), again);
        }
        let requests = pass.requests;
        self.current = Some(key);
        Work { item, requests, keep_going: self.telling }
    }

    fn done(&mut self, work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(key) = self.current.take() else { return };
        if self.telling {
            // Then it is tried again, later each time.
            self.mailbox.retry(key, now);
        } else if let Some(failure) = Failure::of(work, responses) {
            self.failed.insert(key.clone(), failure);
            self.mailbox.add(key, now);
        } else if responses.iter().any(|response| !response.is_success()) {
            self.mailbox.retry(key, now);
        } else {
            self.mailbox.succeeded(&key);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

impl StatefulSets {
    fn enqueue(&mut self, namespace: &str, name: &str, now: Timestamp) {
        self.mailbox.add((namespace.to_owned(), name.to_owned()), now);
    }

    /// A pod or revision without a controller concerns every set that selects it.
    fn enqueue_matching(&mut self, object: &Object, view: &View<'_>, now: Timestamp) {
        if object.controller_reference().is_some() {
            return;
        }
        for set in view.store().list(&sets(), object.namespace()) {
            if selector(set).matches(&object["metadata"]["labels"]) {
                self.enqueue(set.namespace(), set.name(), now);
            }
        }
    }

    /// A claim concerns the sets of which a pod waits for it. Upstream does not look at claims at all (it
    /// tries again later and later); a pod that is there does not get a lost claim back until something
    /// else happens.
    fn enqueue_claimants(&mut self, claim: &Object, view: &View<'_>, now: Timestamp) {
        let pods = GroupResource::new("", "pods");
        for set in view.store().list(&sets(), claim.namespace()) {
            let mut templates = set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
            let is_awaited = templates.any(|template| {
                let prefix = format!("{}-", template.name());
                let pod = claim.name().strip_prefix(&prefix).filter(|pod| pod.starts_with(&format!("{}-", set.name())));
                pod.is_some_and(|pod| view.get(&pods, set.namespace(), pod).is_none())
            });
            if is_awaited {
                self.enqueue(set.namespace(), set.name(), now);
            }
        }
    }
}

fn sets() -> GroupResource {
    GroupResource::new("apps", "statefulsets")
}

fn selector(set: &Object) -> LabelSelector {
    LabelSelector::from_object(&set["spec"]["selector"])
}

fn owning_set(object: &Object) -> Option<&str> {
    let owner = object.controller_reference()?;
    (owner["kind"] == "StatefulSet").then(|| owner["name"].as_str()).flatten()
}

/// The reference by which a set controls what it makes.
fn controller_of(set: &Object) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set.name(), "uid": set.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn request(verb: Verb, api_version: &str, resource: &str, namespace: &str, name: &str) -> Request {
    let user = super::controller_user("statefulset-controller");
    Request::new(verb, user, api_version, resource, namespace, name).agent(super::AGENT)
}

/// Number of replicas wanted.
fn replicas(set: &Object) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// First ordinal.
fn first_ordinal(set: &Object) -> i64 {
    set["spec"]["ordinals"]["start"].as_i64().unwrap_or_default()
}

impl Pass<'_> {
    fn namespace(&self) -> &str {
        self.set.namespace()
    }

    /// Records what was done, as upstream's event recorder does.
    fn event(&mut self, type_: &str, reason: &str, message: String) {
        let event = Event {
            component: "statefulset-controller",
            user: super::controller_user("statefulset-controller"),
            object: self.set,
            kind: ("apps/v1", "StatefulSet"),
            type_,
            reason,
            message: &message,
        };
        self.requests.push(event.record(self.view, self.now));
    }

    fn look_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |earlier| earlier.min(at)));
    }

    /// Time until a ready pod counts as available, for `minReadySeconds`.
    fn min_ready(&self) -> SignedDuration {
        SignedDuration::from_secs(self.set["spec"]["minReadySeconds"].as_i64().unwrap_or_default())
    }
}
