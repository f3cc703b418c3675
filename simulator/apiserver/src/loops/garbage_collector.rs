//! The garbage collector: deletes what no live owner holds, by owner **uid**.
//!
//! As upstream (`pkg/controller/garbagecollector`): an owner is judged by what lives under its
//! (apiVersion, kind, name) in the dependent's namespace; another uid there means that it is absent.
//! A kind that is not served gives no verdict, and the dependent is looked at again later.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::events::Event;
use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, Response, User, Verb};
use crate::resource::{GroupResource, Resource};
use crate::watch::{LogEntry, LogKind};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// How long until a dependent whose owner's kind is not served is looked at again: upstream learns of
/// new kinds this often.
const UNKNOWN_KIND_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// The garbage collector.
#[derive(Clone, Default)]
pub struct GarbageCollector {
    mailbox: Mailbox<Item>,
    /// Who names which owner, by the owner's uid.
    dependents: OrdMap<Arc<str>, OrdSet<Key>>,
    /// Owners whose deletion was seen: absent, also when their kind is not served any more.
    deleted: Vector<Coordinates>,
    /// The item at work, for [`ControlLoop::done`].
    current: Option<Item>,
}

type Key = (GroupResource, Arc<str>, Arc<str>);

/// An owner as references name it: apiVersion, kind, namespace, name, uid.
type Coordinates = [Arc<str>; 5];

/// Deleted owners that are remembered (size of upstream's absent-owner cache).
const DELETED_MAX: usize = 500;

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Item {
    /// An object may have lost its owners, or waits for its dependents.
    Collect(Key),
    /// An owner asks that its dependents be orphaned.
    Orphan(Key),
}

/// What is known of one owner reference.
enum Owner {
    Solid,
    /// Live, but being deleted in the foreground: it waits for its dependents.
    Waiting,
    Absent,
    /// Namespaced, named by a cluster-scoped object: upstream cannot tell where to look, and leaves
    /// the object alone.
    Nowhere,
}

/// The owner's kind is not served.
struct UnknownKind;

impl GarbageCollector {
    fn link(&mut self, object: &Object, key: &Key, add: bool) {
        for uid in object.owner_references().filter_map(|owner| owner["uid"].as_str()) {
            let mut keys = self.dependents.get(uid).cloned().unwrap_or_default();
            if add {
                keys.insert(key.clone());
            } else {
                keys.remove(key);
            }
            if keys.is_empty() {
                self.dependents.remove(uid);
            } else {
                self.dependents.insert(uid.into(), keys);
            }
        }
    }

    fn dependents_of<'a>(&self, owner: &Object, view: &'a View<'_>) -> Vec<(Key, &'a Object)> {
        let keys = self.dependents.get(owner.uid()).into_iter().flatten();
        keys.filter_map(|key| Some((key.clone(), view.get(&key.0, &key.1, &key.2)?))).collect()
    }

    fn remember_deleted(&mut self, owner: &Object) {
        let fields = [owner.api_version(), owner.kind(), owner.namespace(), owner.name(), owner.uid()];
        self.deleted.push_back(fields.map(Into::into));
        if self.deleted.len() > DELETED_MAX {
            self.deleted.pop_front();
        }
    }

    fn was_deleted(&self, owner: &Value, dependent: &Object) -> bool {
        let is = |field: &str, text: &str| owner[field] == text;
        self.deleted.iter().any(|[api_version, kind, namespace, name, uid]| {
            is("uid", uid)
                && is("name", name)
                && is("kind", kind)
                && is("apiVersion", api_version)
                && (namespace.is_empty() || &**namespace == dependent.namespace())
        })
    }

    fn collect(&mut self, key: &Key, view: &View<'_>, now: Timestamp) -> Vec<Request> {
        let Some(object) = view.get(&key.0, &key.1, &key.2) else { return Vec::new() };
        let Some(resource) = view.by_resource(&key.0) else { return Vec::new() };
        let waits = has_finalizer(object, FOREGROUND);
        if object.is_deleting() && !waits {
            return Vec::new();
        }
        if object.is_deleting() {
            return self.finish_foreground(object, resource, view, now);
        }
        let (mut solid, mut absent, mut waiting) = (0, Vec::new(), Vec::new());
        let mut requests = Vec::new();
        for owner in object.owner_references() {
            match judge(owner, object, resource, view) {
                Ok(Owner::Solid) => solid += 1,
                Ok(Owner::Nowhere) => {
                    requests.extend(elsewhere(owner, object, resource, view, now));
                    return requests;
                }
                Ok(Owner::Waiting) => waiting.push(owner),
                Ok(Owner::Absent) => {
                    requests.extend(elsewhere(owner, object, resource, view, now));
                    absent.push(owner);
                }
                Err(UnknownKind) if self.was_deleted(owner, object) => absent.push(owner),
                Err(UnknownKind) => {
                    self.mailbox.add(Item::Collect(key.clone()), now + UNKNOWN_KIND_RETRY);
                    return Vec::new();
                }
            }
        }
        if absent.is_empty() && waiting.is_empty() {
            return requests;
        }
        if solid > 0 {
            let gone: Vec<&Value> = absent.into_iter().chain(waiting).collect();
            requests.push(drop_owners(object, resource, &gone));
            return requests;
        }
        let dependents = self.dependents_of(object, view);
        if !waiting.is_empty() && !dependents.is_empty() {
            // Its own dependents go first. In a circle somebody must stop blocking, or nobody moves.
            if dependents.iter().any(|(_, dependent)| dependent.is_deleting() && has_finalizer(dependent, FOREGROUND)) {
                requests.push(stop_blocking(object, resource));
            }
            requests.push(delete(object, resource, "Foreground"));
            return requests;
        }
        let policy = if has_finalizer(object, ORPHAN) {
            "Orphan"
        } else if waits {
            "Foreground"
        } else {
            "Background"
        };
        requests.push(delete(object, resource, policy));
        requests
    }

    /// An owner that waits for its dependents: they go first, those that block it hold it.
    fn finish_foreground(
        &mut self,
        owner: &Object,
        resource: &Resource,
        view: &View<'_>,
        now: Timestamp,
    ) -> Vec<Request> {
        let blocks = |dependent: &Object| {
            dependent
                .owner_references()
                .any(|reference| reference["uid"] == owner.uid() && reference["blockOwnerDeletion"] == true)
        };
        let dependents = self.dependents_of(owner, view);
        let mut blocked = false;
        for (key, dependent) in &dependents {
            if !(dependent.is_deleting() && has_finalizer(dependent, FOREGROUND)) {
                self.mailbox.add(Item::Collect(key.clone()), now);
            }
            blocked |= blocks(dependent);
        }
        if blocked { Vec::new() } else { vec![drop_finalizer(owner, resource, FOREGROUND)] }
    }

    fn orphan(&self, key: &Key, view: &View<'_>) -> Vec<Request> {
        let Some(owner) = view.get(&key.0, &key.1, &key.2) else { return Vec::new() };
        let Some(resource) = view.by_resource(&key.0) else { return Vec::new() };
        if !owner.is_deleting() || !has_finalizer(owner, ORPHAN) {
            return Vec::new();
        }
        let mut requests = Vec::new();
        for (key, dependent) in self.dependents_of(owner, view) {
            let references: Vec<&Value> =
                dependent.owner_references().filter(|reference| reference["uid"] == owner.uid()).collect();
            if let (Some(resource), false) = (view.by_resource(&key.0), references.is_empty()) {
                requests.push(drop_owners(dependent, resource, &references));
            }
        }
        requests.push(drop_finalizer(owner, resource, ORPHAN));
        requests
    }
}

impl ControlLoop for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        let object = &entry.object;
        let key: Key = (entry.resource.clone(), object.namespace().into(), object.name().into());
        if let Some(previous) = &entry.previous {
            self.link(previous, &key, false);
        }
        if entry.kind == LogKind::Deleted {
            if let Some(dependents) = self.dependents.get(object.uid()).cloned() {
                self.remember_deleted(object);
                for dependent in dependents {
                    self.mailbox.add(Item::Collect(dependent), now);
                }
            }
        } else {
            self.link(object, &key, true);
            if object.is_deleting() && has_finalizer(object, ORPHAN) {
                self.mailbox.add(Item::Orphan(key.clone()), now);
            }
            if object.owner_references().next().is_some() || object.is_deleting() {
                self.mailbox.add(Item::Collect(key), now);
            }
        }
        // Owners that wait for this one may go on: it is gone, or does not name them any more.
        for owner in entry.previous.iter().flat_map(ObjectExt::owner_references) {
            let namespace = object.namespace();
            let Some(resource) = owner_resource(owner, view) else { continue };
            let namespace = if resource.namespaced { namespace } else { "" };
            let name = owner["name"].as_str().unwrap_or_default();
            if view.get(&resource.group_resource, namespace, name).is_some_and(ObjectExt::is_deleting) {
                self.mailbox.add(Item::Collect((resource.group_resource.clone(), namespace.into(), name.into())), now);
            }
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(item) = self.mailbox.take(now) else { return Work::default() };
        self.current = Some(item.clone());
        let (key, requests) = match &item {
            Item::Collect(key) => (key, self.collect(key, view, now)),
            Item::Orphan(key) => (key, self.orphan(key, view)),
        };
        Work { item: format!("{} {}/{}", key.0, key.1, key.2), requests, ..Work::default() }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(item) = self.current.take() else { return };
        // Not found means that somebody else was faster, which is as good.
        if responses.iter().any(|response| !response.is_success() && response.code != 404) {
            self.mailbox.retry(item, now);
        } else {
            self.mailbox.succeeded(&item);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.finalizers().any(|has| has == finalizer)
}

fn owner_resource<'a>(owner: &Value, view: &'a View<'_>) -> Option<&'a Resource> {
    view.by_kind(owner["apiVersion"].as_str().unwrap_or_default(), owner["kind"].as_str().unwrap_or_default())
}

fn judge(owner: &Value, object: &Object, resource: &Resource, view: &View<'_>) -> Result<Owner, UnknownKind> {
    let kind = owner_resource(owner, view).ok_or(UnknownKind)?;
    if kind.namespaced && !resource.namespaced {
        return Ok(Owner::Nowhere);
    }
    let namespace = if kind.namespaced { object.namespace() } else { "" };
    let live = view.get(&kind.group_resource, namespace, owner["name"].as_str().unwrap_or_default());
    Ok(match live {
        Some(live) if live.uid() == owner["uid"].as_str().unwrap_or_default() => {
            if live.is_deleting() && has_finalizer(live, FOREGROUND) { Owner::Waiting } else { Owner::Solid }
        }
        _ => Owner::Absent,
    })
}

/// The event for an owner that lives in another namespace.
fn elsewhere(owner: &Value, object: &Object, resource: &Resource, view: &View<'_>, now: Timestamp) -> Option<Request> {
    let kind = owner_resource(owner, view)?;
    let uid = owner["uid"].as_str()?;
    let lives_elsewhere = view
        .store()
        .list(&kind.group_resource, "")
        .any(|live| live.uid() == uid && live.namespace() != object.namespace());
    if !lives_elsewhere {
        return None;
    }
    let namespace = object.namespace();
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let message = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {uid}] does not exist in namespace \"{namespace}\"",
        text("apiVersion"),
        text("kind"),
        text("name"),
    );
    let api_version = resource.api_version();
    let event = Event {
        component: "garbage-collector-controller",
        user: user(),
        object,
        kind: (&api_version, &resource.kind.kind),
        type_: "Warning",
        reason: "OwnerRefInvalidNamespace",
        message: &message,
    };
    // Upstream tells once, when the reference comes into its graph.
    (!event.is_recorded(view)).then(|| event.record(view, now))
}

fn user() -> User {
    super::controller_user("generic-garbage-collector")
}

fn request(verb: Verb, object: &Object, resource: &Resource) -> Request {
    Request::new(
        verb,
        user(),
        &resource.api_version(),
        &resource.group_resource.resource,
        object.namespace(),
        object.name(),
    )
    .agent(super::AGENT)
}

fn delete(object: &Object, resource: &Resource, policy: &str) -> Request {
    request(Verb::Delete, object, resource).json(json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
        "preconditions": {"uid": object.uid(), "resourceVersion": object.resource_version()},
    }))
}

fn drop_owners(object: &Object, resource: &Resource, gone: &[&Value]) -> Request {
    let rest: Vec<&Value> =
        object.owner_references().filter(|owner| !gone.iter().any(|gone| gone["uid"] == owner["uid"])).collect();
    let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
    request(Verb::Patch, object, resource).merge_patch(json!({"metadata": {
        "uid": object.uid(), "resourceVersion": object.resource_version(), "ownerReferences": rest,
    }}))
}

fn stop_blocking(object: &Object, resource: &Resource) -> Request {
    let owners: Vec<Value> = object
        .owner_references()
        .map(|owner| {
            let mut owner = owner.clone();
            owner["blockOwnerDeletion"] = false.into();
            owner
        })
        .collect();
    request(Verb::Patch, object, resource)
        .merge_patch(json!({"metadata": {"uid": object.uid(), "ownerReferences": owners}}))
}

fn drop_finalizer(object: &Object, resource: &Resource, finalizer: &str) -> Request {
    let rest: Vec<&str> = object.finalizers().filter(|has| *has != finalizer).collect();
    let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
    request(Verb::Patch, object, resource).merge_patch(json!({"metadata": {
        "uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": rest,
    }}))
}
