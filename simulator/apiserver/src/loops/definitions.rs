//! The life of definitions: names are accepted, the definition is established, and before it goes its objects
//! go.
//!
//! Upstream has these loops in the API server (`apiextensions-apiserver/pkg/controller/{status,establish,
//! finalizer,apiapproval}`).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::definitions::names;
use crate::definitions::strategy::{CLEANUP_FINALIZER, set_condition};
use crate::object::{Object, ObjectExt, set_meta};
use crate::request::{Request, Response, User, Verb};
use crate::resource::{GroupResource, Resource};
use crate::watch::{LogEntry, LogKind};

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const RESOURCE: &str = "customresourcedefinitions";

/// The loops about definitions, as one.
#[derive(Clone, Default)]
pub struct Definitions {
    mailbox: Mailbox<String>,
    current: Option<String>,
    /// Definitions whose objects are on their way out: what is deleted of them concerns us.
    emptying: BTreeSet<String>,
}

impl ControlLoop for Definitions {
    fn name(&self) -> &'static str {
        "customresourcedefinition-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        if entry.resource == definitions() {
            let group = &entry.object["spec"]["group"];
            if entry.kind == LogKind::Deleted {
                self.emptying.remove(entry.object.name());
                // Names became free.
                for other in all(view).filter(|other| other["spec"]["group"] == *group) {
                    self.mailbox.add(other.name().to_owned(), now);
                }
            } else {
                self.mailbox.add(entry.object.name().to_owned(), now);
            }
        } else if entry.kind == LogKind::Deleted && !self.emptying.is_empty() {
            let name = entry.resource.to_string();
            if self.emptying.contains(&name) {
                self.mailbox.add(name, now);
            }
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(name) = self.mailbox.take(now) else { return Work::default() };
        let item = format!("customresourcedefinition {name}");
        let Some(definition) = view.get(&definitions(), "", &name) else { return Work { item, ..Work::default() } };
        let requests = if definition.is_deleting() {
            self.emptying.insert(name.clone());
            empty(definition, view, now)
        } else {
            names::settled(definition, all(view), &seconds(now)).map(status).into_iter().collect()
        };
        self.current = Some(name);
        Work { item, requests, ..Work::default() }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(name) = self.current.take() else { return };
        if responses.iter().any(|response| !response.is_success() && response.code != 404) {
            self.mailbox.retry(name, now);
        } else {
            self.mailbox.succeeded(&name);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", RESOURCE)
}

fn all<'v>(view: &'v View<'_>) -> impl Iterator<Item = &'v Object> {
    view.store().list(&definitions(), "")
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn user() -> User {
    let mut user = User::admin("system:apiserver");
    user.groups.push("system:authenticated".to_owned());
    user
}

/// Writes a definition's status.
fn status(definition: Value) -> Request {
    let name = definition.name().to_owned();
    Request::new(Verb::Update, user(), API_VERSION, RESOURCE, "", &name)
        .subresource("status")
        .agent("kube-apiserver")
        .json(definition)
}

/// Deletes what is left of a definition's objects; with nothing left, lets the definition go.
fn empty(definition: &Object, view: &View<'_>, now: Timestamp) -> Vec<Request> {
    if !definition.finalizers().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        return Vec::new();
    }
    let accepted = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = GroupResource::new(&text(&definition["spec"]["group"]), &text(&accepted["plural"]));
    let objects: Vec<&Object> = view.store().list(&of, "").collect();
    if let (Some(resource), false) = (view.by_resource(&of), objects.is_empty()) {
        let mut requests = delete_all(resource, &objects);
        let mut new = Value::clone(definition);
        set_condition(
            &mut new,
            &seconds(now),
            "Terminating",
            true,
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        );
        if new["status"] != definition["status"] {
            requests.insert(0, status(new));
        }
        return requests;
    }
    let mut new = Value::clone(definition);
    let finalizers: Vec<&str> = definition.finalizers().filter(|finalizer| *finalizer != CLEANUP_FINALIZER).collect();
    set_meta(&mut new, "finalizers", json!(finalizers));
    vec![
        Request::new(Verb::Update, user(), API_VERSION, RESOURCE, "", definition.name())
            .agent("kube-apiserver")
            .json(new),
    ]
}

/// One request for each namespace that still has objects which nobody has deleted.
fn delete_all(resource: &Resource, objects: &[&Object]) -> Vec<Request> {
    let namespaces: BTreeSet<&str> =
        objects.iter().filter(|object| !object.is_deleting()).map(|object| object.namespace()).collect();
    let plural = &resource.group_resource.resource;
    namespaces
        .into_iter()
        .map(|namespace| {
            Request::new(Verb::DeleteCollection, user(), &resource.api_version(), plural, namespace, "")
                .agent("kube-apiserver")
        })
        .collect()
}
