//! The life of a namespace's end: its content is deleted, what remains is told in conditions, and when
//! nothing remains the `kubernetes` finalizer goes.
//!
//! After upstream's `pkg/controller/namespace/deletion`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, Response, User, Verb};
use crate::resource::{GroupResource, Resource};
use crate::watch::{LogEntry, LogKind};

/// How soon a namespace that still has content is looked at again when no change of the content tells.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(15);

/// The namespace controller.
#[derive(Clone, Default)]
pub struct Namespaces {
    mailbox: Mailbox<String>,
    current: Option<String>,
}

impl ControlLoop for Namespaces {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        let object = &entry.object;
        let name = if entry.resource == namespaces() { object.name() } else { object.namespace() };
        if name.is_empty() {
            return;
        }
        let is_ending = view.get(&namespaces(), "", name).is_some_and(ObjectExt::is_deleting);
        // Only what makes progress possible: the namespace itself, and content that has gone.
        if is_ending && (entry.resource == namespaces() || entry.kind == LogKind::Deleted) {
            self.mailbox.add(name.to_owned(), now);
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(name) = self.mailbox.take(now) else { return Work::default() };
        let item = format!("namespace {name}");
        let Some(namespace) = view.get(&namespaces(), "", &name) else { return Work { item, ..Work::default() } };
        self.current = Some(name.clone());
        let requests = if namespace.is_deleting() { end(namespace, view, now) } else { Vec::new() };
        if !requests.is_empty() {
            self.mailbox.add(name, now + LOOK_AGAIN);
        }
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

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn request(verb: Verb, api_version: &str, resource: &str, namespace: &str, name: &str) -> Request {
    let mut user = User::service_account("kube-system", "namespace-controller");
    user.groups.push("system:masters".to_owned());
    Request::new(verb, user, api_version, resource, namespace, name).agent("kube-controller-manager")
}

fn end(namespace: &Object, view: &View<'_>, now: Timestamp) -> Vec<Request> {
    let name = namespace.name();
    let content: Vec<(&Resource, Vec<&Object>)> = view
        .store()
        .resources()
        .filter_map(|resource| view.by_resource(resource))
        .filter(|resource| resource.namespaced)
        .map(|resource| (resource, view.store().list(&resource.group_resource, name).collect::<Vec<_>>()))
        .filter(|(_, objects)| !objects.is_empty())
        .collect();
    let mut requests = Vec::new();
    // Upstream deletes pods last among the rest, so that what they use is not made again by others.
    for (resource, objects) in &content {
        if objects.iter().any(|object| !object.is_deleting()) {
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
            requests.push(
                request(Verb::DeleteCollection, &resource.api_version(), &resource.group_resource.resource, name, "")
                    .json(options),
            );
        }
    }
    // What goes at once leaves nothing to be told.
    let remaining: Vec<(&Resource, Vec<&Object>)> = content
        .into_iter()
        .map(|(resource, objects)| (resource, objects.into_iter().filter(|object| stays(object)).collect::<Vec<_>>()))
        .filter(|(_, objects)| !objects.is_empty())
        .collect();
    requests.extend(conditions(namespace, &remaining, now));
    if remaining.is_empty() {
        requests.extend(finalize(namespace));
    }
    requests
}

/// Does the object outlive a delete request?
fn stays(object: &Object) -> bool {
    let graceful = object.kind() == "Pod" && object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let finished = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    object.finalizers().next().is_some() || (graceful && !finished)
}

fn conditions(namespace: &Object, remaining: &[(&Resource, Vec<&Object>)], now: Timestamp) -> Option<Request> {
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for object in remaining.iter().flat_map(|(_, objects)| objects) {
        for finalizer in object.finalizers() {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    let resources: Vec<String> = remaining
        .iter()
        .map(|(resource, objects)| {
            let kind = &resource.group_resource;
            format!("{}.{} has {} resource instances", kind.resource, kind.group, objects.len())
        })
        .collect();
    let holders: Vec<String> =
        finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let content = if resources.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {}", resources.join(", ")))
    };
    let held = if holders.is_empty() {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
    } else {
        let message = format!("Some content in the namespace has finalizers remaining: {}", holders.join(", "));
        ("True", "SomeFinalizersRemain", message)
    };
    let told = [
        (
            "NamespaceDeletionDiscoveryFailure",
            ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned()),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
        ),
        (
            "NamespaceDeletionContentFailure",
            ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization".to_owned()),
        ),
        ("NamespaceContentRemaining", content),
        ("NamespaceFinalizersRemaining", held),
    ];
    let before = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let time = format!("{now:.0}");
    let after: Vec<Value> = told
        .into_iter()
        .map(|(type_, (status, reason, message))| {
            let old = before.iter().find(|condition| condition["type"] == type_);
            let since =
                old.filter(|old| old["status"] == status && old["reason"] == reason && old["message"] == message);
            let time = since.map_or_else(|| time.as_str().into(), |old| old["lastTransitionTime"].clone());
            json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
        })
        .collect();
    if before == after || (before.is_empty() && remaining.is_empty()) {
        return None;
    }
    let patch = json!({"status": {"conditions": after}});
    Some(request(Verb::Patch, "v1", "namespaces", "", namespace.name()).subresource("status").merge_patch(patch))
}

/// Takes the finalizer off; the namespace itself then goes unless another one holds it.
fn finalize(namespace: &Object) -> Option<Request> {
    let finalizers = namespace["spec"]["finalizers"].as_array()?;
    let rest: Vec<&Value> = finalizers.iter().filter(|finalizer| *finalizer != "kubernetes").collect();
    if rest.len() == finalizers.len() {
        return None;
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": namespace["metadata"], "spec": {"finalizers": rest},
        "status": namespace["status"],
    });
    let mut object = object;
    // The version may have moved on by the conditions written just before.
    crate::object::set_meta(&mut object, "resourceVersion", Value::Null);
    Some(request(Verb::Update, "v1", "namespaces", "", namespace.name()).subresource("finalize").json(object))
}
