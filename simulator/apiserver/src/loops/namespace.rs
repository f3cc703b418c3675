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
///
/// A namespace is ended in two steps, so that a refusal can be told: its content is deleted, then its
/// conditions are written and, when nothing is left, its finalizer is taken off.
#[derive(Clone, Default)]
pub struct Namespaces {
    mailbox: Mailbox<String>,
    current: Option<Step>,
    /// Namespaces whose content has been deleted in this round, and what was refused.
    emptied: BTreeMap<String, Vec<String>>,
}

/// What was last asked for.
#[derive(Clone, Debug)]
enum Step {
    /// Delete the content of this namespace.
    Empty(String),
    /// Tell how this namespace stands; was something refused?
    Tell(String, bool),
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
        let namespace = view.get(&namespaces(), "", &name).filter(|namespace| namespace.is_deleting());
        let Some(namespace) = namespace else {
            self.emptied.remove(&name);
            return Work { item, ..Work::default() };
        };
        let content = content(namespace, view);
        let deletions = if self.emptied.contains_key(&name) { Vec::new() } else { delete(namespace, &content) };
        if !deletions.is_empty() {
            self.current = Some(Step::Empty(name));
            return Work { item, requests: deletions, keep_going: true };
        }
        let refused = self.emptied.remove(&name).unwrap_or_default();
        let requests = tell(namespace, content, &refused, now);
        if !requests.is_empty() {
            self.mailbox.add(name.clone(), now + LOOK_AGAIN);
        }
        self.current = Some(Step::Tell(name, !refused.is_empty()));
        Work { item, requests, ..Work::default() }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let refused = responses.iter().filter(|response| !response.is_success() && response.code != 404);
        match self.current.take() {
            Some(Step::Empty(name)) => {
                let message = |response: &Response| response.json()["message"].as_str().unwrap_or_default().to_owned();
                self.emptied.insert(name.clone(), refused.map(message).collect());
                self.mailbox.add(name, now);
            }
            Some(Step::Tell(name, content_refused)) => {
                if content_refused || refused.count() > 0 {
                    self.mailbox.retry(name, now);
                } else {
                    self.mailbox.succeeded(&name);
                }
            }
            None => {}
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

/// Resources with objects in a namespace.
type Content<'a> = Vec<(&'a Resource, Vec<&'a Object>)>;

fn content<'a>(namespace: &'a Object, view: &'a View<'_>) -> Content<'a> {
    let store = view.store();
    let resources = store.resources().filter_map(|resource| view.by_resource(resource));
    resources
        .filter(|resource| resource.namespaced)
        .map(|resource| {
            let objects = store.list(&resource.group_resource, namespace.name());
            (resource, objects.collect::<Vec<_>>())
        })
        .filter(|(_, objects)| !objects.is_empty())
        .collect()
}

/// Requests that delete what is not yet being deleted.
fn delete(namespace: &Object, content: &Content<'_>) -> Vec<Request> {
    let pending = content.iter().filter(|(_, objects)| objects.iter().any(|object| !object.is_deleting()));
    pending
        .map(|(resource, _)| {
            let plural = &resource.group_resource.resource;
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
            request(Verb::DeleteCollection, &resource.api_version(), plural, namespace.name(), "").json(options)
        })
        .collect()
}

/// Requests that tell how far the deletion has come, and end it when nothing is left.
fn tell(namespace: &Object, content: Content<'_>, refused: &[String], now: Timestamp) -> Vec<Request> {
    // What goes at once leaves nothing to be told.
    let remaining: Content<'_> = content
        .into_iter()
        .map(|(resource, objects)| (resource, objects.into_iter().filter(|object| stays(object)).collect::<Vec<_>>()))
        .filter(|(_, objects)| !objects.is_empty())
        .collect();
    let mut requests: Vec<Request> = conditions(namespace, &remaining, refused, now).into_iter().collect();
    if remaining.is_empty() && refused.is_empty() {
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

fn conditions(
    namespace: &Object,
    remaining: &[(&Resource, Vec<&Object>)],
    refused: &[String],
    now: Timestamp,
) -> Option<Request> {
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
    let failure = match refused {
        [] => {
            ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization".to_owned())
        }
        _ => {
            let sentences = if let [one] = refused { one.clone() } else { format!("[{}]", refused.join(", ")) };
            let message = format!("Failed to delete all resource types, {} remaining: {sentences}", refused.len());
            ("True", "ContentDeletionFailed", message)
        }
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
        ("NamespaceDeletionContentFailure", failure),
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
    if before == after || (before.is_empty() && remaining.is_empty() && refused.is_empty()) {
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
