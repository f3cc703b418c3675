//! The event log and open watches: start point, pending events, how each ends.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Object;
use crate::resource::GroupResource;
use crate::store::Revision;

/// One committed change.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The version at which it was committed.
    pub revision: Revision,
    /// Of which resource.
    pub resource: GroupResource,
    /// What happened.
    pub kind: LogKind,
    /// The object after the change; for a deletion its last state, at the deletion's version.
    pub object: Object,
    /// The object before the change.
    pub previous: Option<Object>,
    /// User name of the writer, for traces and blame.
    pub by: Arc<str>,
}

/// What a [`LogEntry`] did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "Kubernetes' own event types")]
pub enum LogKind {
    Added,
    Modified,
    Deleted,
}

/// An open watch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WatchId(pub u64);

/// One event as a watcher receives it.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub type_: &'static str,
    /// The object, already in the form that the watcher asked for.
    pub object: Arc<Value>,
}
