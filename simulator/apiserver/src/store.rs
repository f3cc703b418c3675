//! Committed objects, the version counter and the event log. Cloning is cheap (shared structure).
//!
//! Only this module mints a version, and [`Store::commit`] is its only writer.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde_json::Value;

use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;
use crate::watch::{LogEntry, LogKind};

/// A version of the store; `resourceVersion` outside. Strictly increases with each commit.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub u64);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an object lies within its resource: `NAMESPACE/NAME`, or the name alone when cluster-scoped.
/// This is the tail of upstream's storage keys, so lists come in upstream's order: byte by byte, with
/// the namespace's slash among the bytes.
pub type Key = Arc<str>;

/// The key of an object.
#[must_use]
pub fn key(namespace: &str, name: &str) -> Key {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// The objects of one resource, in the order of lists.
pub type Objects = OrdMap<Key, Object>;

/// Entries of the event log that are kept before the oldest are compacted; a watch from before the
/// window is answered with 410.
pub const LOG_ENTRIES_MAX: usize = 200_000;

/// How far [`Store::roll_back`] moves the version counter past what was handed out: the figure that
/// etcd's documentation advises for `etcdutl snapshot restore --bump-revision`.
pub const ROLL_BACK_BUMP: u64 = 1_000_000_000;

/// The state of a control plane. A clone is a fork.
#[derive(Clone, Debug, Default)]
pub struct Store {
    resources: OrdMap<GroupResource, Table>,
    revision: Revision,
    /// Ascending revisions; everything at or below `compacted` is gone.
    log: Vector<Arc<LogEntry>>,
    compacted: Revision,
}

/// One resource: its objects and its part of the log, so that a watch looks only at what concerns it.
#[derive(Clone, Debug, Default)]
struct Table {
    objects: Objects,
    log: Vector<Arc<LogEntry>>,
}

/// What to do to one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// Create it or replace it.
    Put(Object),
    /// Remove it; the object is its last state.
    Remove(Object),
}

impl Store {
    /// The version of the last commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Versions at or below this one are no longer in the log.
    #[must_use]
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// One object.
    #[must_use]
    pub fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<&Object> {
        let objects = &self.resources.get(resource)?.objects;
        if namespace.is_empty() { objects.get(name) } else { objects.get(format!("{namespace}/{name}").as_str()) }
    }

    /// The objects of a resource by namespace and name; all namespaces when `namespace` is empty.
    pub fn list<'a>(&'a self, resource: &GroupResource, namespace: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let from: Key = prefix.as_str().into();
        let objects = self.resources.get(resource).map(|table| &table.objects);
        objects
            .into_iter()
            .flat_map(move |objects| objects.range(from.clone()..))
            .take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(_, object)| object)
    }

    /// The objects of a resource as they were at `revision`, worked out from the log.
    ///
    /// `None` when the log no longer reaches back so far.
    #[must_use]
    pub fn objects_at(&self, resource: &GroupResource, revision: Revision) -> Option<Objects> {
        if revision < self.compacted {
            return None;
        }
        let Some(table) = self.resources.get(resource) else { return Some(Objects::new()) };
        let mut objects = table.objects.clone();
        for entry in table.log.iter().rev().take_while(|entry| entry.revision > revision) {
            let key = key(entry.object.namespace(), entry.object.name());
            match &entry.previous {
                Some(previous) => objects.insert(key, Arc::clone(previous)),
                None => objects.remove(&key),
            };
        }
        Some(objects)
    }

    /// The objects of a resource now.
    #[must_use]
    pub fn objects(&self, resource: &GroupResource) -> Objects {
        self.resources.get(resource).map(|table| table.objects.clone()).unwrap_or_default()
    }

    /// How many objects a resource has.
    #[must_use]
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.resources.get(resource).map_or(0, |table| table.objects.len())
    }

    /// Resources that have objects.
    pub fn resources(&self) -> impl Iterator<Item = &GroupResource> {
        self.resources.iter().filter(|(_, table)| !table.objects.is_empty()).map(|(resource, _)| resource)
    }

    /// Makes one change at a new version, writes that version into the object and appends to the log.
    /// Answers the object as committed.
    pub fn commit(&mut self, resource: &GroupResource, change: Change, by: &Arc<str>) -> Object {
        self.revision.0 += 1;
        let revision = self.revision;
        let (removed, mut object) = match change {
            Change::Put(object) => (false, object),
            Change::Remove(object) => (true, object),
        };
        crate::object::set_meta(Arc::make_mut(&mut object), "resourceVersion", revision.to_string());
        let key = key(object.namespace(), object.name());
        let table = self.resources.entry(resource.clone()).or_default();
        let previous =
            if removed { table.objects.remove(&key) } else { table.objects.insert(key, Arc::clone(&object)) };
        let kind = match (removed, &previous) {
            (true, _) => LogKind::Deleted,
            (false, Some(_)) => LogKind::Modified,
            (false, None) => LogKind::Added,
        };
        let entry = Arc::new(LogEntry {
            revision,
            resource: resource.clone(),
            kind,
            object: Arc::clone(&object),
            previous,
            by: Arc::clone(by),
        });
        table.log.push_back(Arc::clone(&entry));
        self.log.push_back(entry);
        if self.log.len() > LOG_ENTRIES_MAX
            && let Some(oldest) = self.log.front().map(|entry| entry.revision)
        {
            self.compact(oldest);
        }
        object
    }

    /// The last change that was committed, unless it has been compacted.
    #[must_use]
    pub fn last(&self) -> Option<&LogEntry> {
        self.log.back().map(|entry| &**entry)
    }

    /// The log after `revision`, oldest first.
    pub fn log_after(&self, revision: Revision) -> impl Iterator<Item = &LogEntry> {
        after(&self.log, revision)
    }

    /// The log of one resource after `revision`, oldest first.
    pub fn log_of(&self, resource: &GroupResource, revision: Revision) -> impl Iterator<Item = &LogEntry> {
        self.resources.get(resource).into_iter().flat_map(move |table| after(&table.log, revision))
    }

    /// Forgets the log up to and with `revision`: watches from before it end with 410.
    pub fn compact(&mut self, revision: Revision) {
        while let Some(entry) = self.log.front()
            && entry.revision <= revision
        {
            if let Some(table) = self.resources.get_mut(&entry.resource) {
                table.log.pop_front();
            }
            self.log.pop_front();
        }
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Goes back to an earlier state, as an etcd snapshot restore does: objects, versions and uids
    /// are those of `snapshot`; no DELETED events are sent. With `bump`, the version counter moves on
    /// past every version handed out so far and older versions are compacted (etcd's recommended
    /// restore); without it, it goes back too.
    pub fn roll_back(&mut self, snapshot: &Self, bump: bool) {
        let newest = self.revision;
        *self = snapshot.clone();
        if bump {
            self.revision = Revision(newest.0 + ROLL_BACK_BUMP);
            self.compact(self.revision);
        }
    }
}

fn after(log: &Vector<Arc<LogEntry>>, revision: Revision) -> impl Iterator<Item = &LogEntry> {
    let start = match log.binary_search_by(|entry| entry.revision.cmp(&revision)) {
        Ok(at) => at + 1,
        Err(at) => at,
    };
    // A focus begins where it is told to; `skip` would walk there.
    log.focus().narrow(start..).into_iter().map(|entry| &**entry)
}

/// Are two states of an object the same but for the version? Such a write changes nothing.
#[must_use]
pub fn same_but_version(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return one == other };
    one.len() == other.len()
        && one.iter().all(|(field, value)| match (field.as_str(), other.get(field)) {
            (_, None) => false,
            ("metadata", Some(theirs)) => same_metadata(value, theirs),
            (_, Some(theirs)) => value == theirs,
        })
}

fn same_metadata(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return one == other };
    let fields = |metadata: &serde_json::Map<String, Value>| {
        metadata.len() - usize::from(metadata.contains_key("resourceVersion"))
    };
    fields(one) == fields(other)
        && one.iter().all(|(field, value)| field == "resourceVersion" || other.get(field) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(store: &mut Store, namespace: &str, name: &str, data: i32) -> Object {
        let resource = GroupResource::new("", "configmaps");
        let object = json!({"metadata": {"namespace": namespace, "name": name}, "data": data});
        store.commit(&resource, Change::Put(Arc::new(object)), &"test".into())
    }

    #[test]
    fn an_earlier_state_of_a_resource_is_worked_out_from_the_log() {
        let resource = GroupResource::new("", "configmaps");
        let mut store = Store::default();
        let first = put(&mut store, "a", "x", 1);
        put(&mut store, "a", "y", 1);
        let then = store.revision();
        put(&mut store, "a", "x", 2);
        store.commit(&resource, Change::Remove(put(&mut store.clone(), "a", "y", 1)), &"test".into());
        put(&mut store, "b", "z", 1);
        let names = |objects: Objects| objects.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(store.objects(&resource)), ["a/x", "b/z"]);
        let earlier = store.objects_at(&resource, then).expect("kept");
        assert_eq!(earlier.get("a/x"), Some(&first));
        assert_eq!(names(earlier), ["a/x", "a/y"]);
        store.compact(Revision(then.0 + 1));
        assert!(store.objects_at(&resource, then).is_none());
    }

    #[test]
    fn lists_are_in_the_order_of_upstreams_keys() {
        let mut store = Store::default();
        put(&mut store, "a", "x", 1);
        put(&mut store, "a-b", "x", 1);
        let resource = GroupResource::new("", "configmaps");
        let namespaces: Vec<_> = store.list(&resource, "").map(|object| object.namespace().to_owned()).collect();
        // '-' sorts before the slash that ends the namespace.
        assert_eq!(namespaces, ["a-b", "a"]);
        assert_eq!(store.list(&resource, "a").count(), 1);
    }

    #[test]
    fn rolling_back_with_a_bump_never_hands_out_a_version_twice() {
        let mut store = Store::default();
        put(&mut store, "a", "x", 1);
        let snapshot = store.clone();
        let lost = put(&mut store, "a", "y", 1);
        store.roll_back(&snapshot, true);
        assert_eq!(store.count(&GroupResource::new("", "configmaps")), 1);
        let next = put(&mut store, "a", "y", 2);
        assert!(next.resource_version().parse::<u64>().ok() > lost.resource_version().parse().ok());
        assert_eq!(store.log_after(store.compacted()).count(), 1);
    }

    #[test]
    fn only_the_version_may_differ_in_a_write_that_changes_nothing() {
        let one = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"a": "1"}});
        for (other, same) in [
            (json!({"metadata": {"name": "a", "resourceVersion": "2"}, "data": {"a": "1"}}), true),
            (json!({"metadata": {"name": "a"}, "data": {"a": "1"}}), true),
            (json!({"metadata": {"name": "a", "labels": {}}, "data": {"a": "1"}}), false),
            (json!({"metadata": {"name": "a"}, "data": {"a": "2"}}), false),
            (json!({"metadata": {"name": "a"}}), false),
        ] {
            assert_eq!(same_but_version(&one, &other), same, "{other}");
        }
    }
}
