//! Committed objects, the version counter and the event log. Cloning is cheap (shared structure).
//!
//! Only this module mints a version, and [`Store::commit`] is its only writer.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

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

/// Where an object lies within its resource: namespace (empty when cluster-scoped), then name, as
/// upstream's storage keys sort.
pub type Key = (Arc<str>, Arc<str>);

/// Entries of the event log that are kept before the oldest are compacted; a watch from before the
/// window is answered with 410.
pub const LOG_ENTRIES_MAX: usize = 200_000;

/// The state of a control plane. A clone is a fork.
#[derive(Clone, Debug, Default)]
pub struct Store {
    resources: OrdMap<GroupResource, OrdMap<Key, Object>>,
    revision: Revision,
    /// Ascending revisions; everything at or below `compacted` is gone.
    log: Vector<LogEntry>,
    compacted: Revision,
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
        self.resources.get(resource)?.get(&(namespace.into(), name.into()))
    }

    /// The objects of a resource by namespace and name; all namespaces when `namespace` is empty.
    pub fn list<'a>(&'a self, resource: &GroupResource, namespace: &'a str) -> impl Iterator<Item = &'a Object> + 'a {
        let objects = self.resources.get(resource);
        let from: Key = (namespace.into(), "".into());
        objects
            .into_iter()
            .flat_map(move |objects| objects.range(from.clone()..))
            .take_while(move |((of, _), _)| namespace.is_empty() || &**of == namespace)
            .map(|(_, object)| object)
    }

    /// How many objects a resource has.
    #[must_use]
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.resources.get(resource).map_or(0, OrdMap::len)
    }

    /// Resources that have objects.
    pub fn resources(&self) -> impl Iterator<Item = &GroupResource> {
        self.resources.iter().filter(|(_, objects)| !objects.is_empty()).map(|(resource, _)| resource)
    }

    /// Makes one change at a new version, writes that version into the object and appends to the log.
    /// Answers the object as committed.
    pub fn commit(&mut self, resource: &GroupResource, change: Change, by: &Arc<str>) -> Object {
        self.revision.0 += 1;
        let revision = self.revision;
        let (kind, mut object) = match change {
            Change::Put(object) => (None, object),
            Change::Remove(object) => (Some(LogKind::Deleted), object),
        };
        crate::object::set_meta(Arc::make_mut(&mut object), "resourceVersion", revision.to_string());
        let key: Key = (object.namespace().into(), object.name().into());
        let objects = self.resources.entry(resource.clone()).or_default();
        let previous = if kind.is_some() { objects.remove(&key) } else { objects.insert(key, Arc::clone(&object)) };
        let kind = kind.unwrap_or(if previous.is_some() { LogKind::Modified } else { LogKind::Added });
        self.log.push_back(LogEntry {
            revision,
            resource: resource.clone(),
            kind,
            object: Arc::clone(&object),
            previous,
            by: Arc::clone(by),
        });
        if self.log.len() > LOG_ENTRIES_MAX {
            if let Some(oldest) = self.log.pop_front() {
                self.compacted = oldest.revision;
            }
        }
        object
    }

    /// The log after `revision`, oldest first.
    pub fn log_after(&self, revision: Revision) -> impl Iterator<Item = &LogEntry> {
        let start =
            self.log.binary_search_by(|entry| entry.revision.cmp(&Revision(revision.0 + 1))).unwrap_or_else(|at| at);
        self.log.iter().skip(start)
    }

    /// Forgets the log up to and with `revision`: watches from before it end with 410.
    pub fn compact(&mut self, revision: Revision) {
        while self.log.front().is_some_and(|entry| entry.revision <= revision) {
            self.log.pop_front();
        }
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Goes back to an earlier state, as an etcd snapshot restore does: objects, versions and uids
    /// are those of `snapshot`; no DELETED events are sent. With `bump`, the version counter moves on
    /// past every version handed out so far and older versions are compacted (etcd's recommended
    /// restore); without it, it goes back too.
    pub fn roll_back(&mut self, snapshot: &Store, bump: bool) {
        let newest = self.revision;
        *self = snapshot.clone();
        if bump {
            self.revision = Revision(newest.0 + 1_000_000_000);
            self.compact(self.revision);
        }
    }
}
