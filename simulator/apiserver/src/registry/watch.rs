//! Watch: where it starts, what it passes on, how it ends.
//!
//! Source: `k8s.io/apiserver/pkg/endpoints/handlers/watch.go` and `k8s.io/apiserver/pkg/storage/cacher`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::list::{Selection, parse_version};
use super::options::{integer, refuse};
use super::state::State;
use super::{kinds, scope};
use crate::error::{ApiError, FieldError};
use crate::object::{Object, ObjectExt, set_meta};
use crate::request::{Answer, Options, Request, Response};
use crate::resource::Resource;
use crate::store::Revision;
use crate::watch::{LogEntry, LogKind, WatchEvent, WatchId};

/// Time between bookmarks, about as upstream sends them.
const BOOKMARK_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// An open watch.
#[derive(Clone)]
pub(crate) struct Watch {
    resource: Arc<Resource>,
    namespace: String,
    selection: Selection,
    /// Everything up to here has been passed on.
    position: Revision,
    /// Passed on before anything from the log.
    pending: Vec<WatchEvent>,
    /// When the next bookmark is due, if they were asked for.
    bookmark: Option<Timestamp>,
    /// When it ends (`timeoutSeconds`).
    deadline: Option<Timestamp>,
    ended: bool,
}

pub(crate) fn watch(state: &mut State, request: &Request, now: Timestamp) -> Result<Response, ApiError> {
    let resource = scope::resource(state, request)?;
    let options = &request.options;
    let selection = Selection::parse(&resource, options)?;
    let timeout = match options.get("timeoutSeconds") {
        "" => None,
        text => Some(integer(text)?).filter(|seconds| *seconds > 0),
    };
    check(options)?;
    let version = match options.get("resourceVersion") {
        "" => 0,
        text => parse_version(text).map_err(|why| ApiError::new(500, "", why))?,
    };
    let mut watch = Watch {
        resource,
        namespace: request.namespace.clone(),
        selection,
        position: state.store.revision(),
        pending: Vec::new(),
        bookmark: is_true(options, "allowWatchBookmarks").then(|| now + BOOKMARK_INTERVAL),
        deadline: timeout.map(|seconds| now + SignedDuration::from_secs(seconds)),
        ended: false,
    };
    let initial = options.0.get("sendInitialEvents").map(|_| is_true(options, "sendInitialEvents"));
    if version != 0 && initial != Some(true) {
        watch.position = Revision(version);
    }
    if initial.unwrap_or(version == 0) {
        watch.pending = watch.initial_events(state);
    }
    if initial == Some(true) && watch.bookmark.is_some() {
        let mut end = watch.bookmark_event(state.store.revision());
        let metadata = &mut Arc::make_mut(&mut end.object)["metadata"];
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        watch.pending.push(end);
    }
    state.watches_opened += 1;
    let id = WatchId(state.watches_opened);
    state.watches.insert(id, watch);
    Ok(Response { code: 200, warnings: Vec::new(), body: Answer::Watch(id) })
}

/// A truth value in a query as Go's conversion reads it: present and not `false` or `0`.
fn is_true(options: &Options, name: &str) -> bool {
    options.0.get(name).is_some_and(|value| !matches!(value.to_lowercase().as_str(), "false" | "0"))
}

/// Options of a watch that do not go together.
fn check(options: &Options) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let how = options.get("resourceVersionMatch");
    let sends = options.0.contains_key("sendInitialEvents");
    let mut forbid = |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
    if sends && how != "NotOlderThan" {
        forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if !how.is_empty() {
        if !sends {
            forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if !options.get("continue").is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if how != "NotOlderThan" {
            errors.push(FieldError::not_supported("resourceVersionMatch", &how.into(), &["NotOlderThan"]));
        }
    }
    refuse("ListOptions", &errors)
}

/// Takes what a watch has not yet passed on; `None` when it has ended.
pub(crate) fn poll(state: &mut State, id: WatchId, now: Timestamp) -> Option<Vec<WatchEvent>> {
    let watch = state.watches.get_mut(&id)?;
    if watch.ended {
        state.watches.remove(&id);
        return None;
    }
    let mut events = std::mem::take(&mut watch.pending);
    if watch.position < state.store.compacted() {
        events.push(expired(watch.position, state.store.compacted()));
        watch.ended = true;
        return Some(events);
    }
    for entry in state.store.log_of(&watch.resource.group_resource, watch.position) {
        events.extend(watch.event(entry));
    }
    watch.position = state.store.revision();
    let kind = &watch.resource.kind;
    let served = state.kinds.resource(&kind.group, &kind.version, &watch.resource.group_resource.resource).is_some();
    if !served || watch.deadline.is_some_and(|deadline| deadline <= now) {
        watch.ended = true;
    } else if watch.bookmark.is_some_and(|due| due <= now) {
        events.push(watch.bookmark_event(watch.position));
        watch.bookmark = Some(now + BOOKMARK_INTERVAL);
    }
    Some(events)
}

impl Watch {
    /// When something is due although nothing is written: a bookmark or the end.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.bookmark.into_iter().chain(self.deadline).min()
    }

    /// Is the watch of this resource?
    pub(crate) fn is_of(&self, resource: &crate::resource::GroupResource) -> bool {
        self.resource.group_resource == *resource
    }

    fn concerns(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || object.namespace() == self.namespace) && self.selection.matches(object)
    }

    /// An ADDED for every object that there is.
    fn initial_events(&self, state: &State) -> Vec<WatchEvent> {
        let objects = state.store.list(&self.resource.group_resource, &self.namespace);
        let chosen = objects.filter(|object| self.selection.matches(object));
        chosen.map(|object| self.pass("ADDED", object)).collect()
    }

    /// What a change means to this watch: an object that comes to match is ADDED, one that no longer
    /// does is DELETED.
    fn event(&self, entry: &LogEntry) -> Option<WatchEvent> {
        let was = entry.previous.as_ref().is_some_and(|previous| self.concerns(previous));
        let is = entry.kind != LogKind::Deleted && self.concerns(&entry.object);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.pass("ADDED", &entry.object)),
            (true, true) => Some(self.pass("MODIFIED", &entry.object)),
            (true, false) => {
                // The last state that matched, at the version of the change.
                let mut last = entry.previous.clone()?;
                set_meta(Arc::make_mut(&mut last), "resourceVersion", entry.revision.to_string());
                Some(self.pass("DELETED", &last))
            }
        }
    }

    fn pass(&self, type_: &'static str, object: &Object) -> WatchEvent {
        WatchEvent { type_, object: kinds::to_version(object, &self.resource) }
    }

    fn bookmark_event(&self, at: Revision) -> WatchEvent {
        let kind = &self.resource.kind;
        let object = json!({
            "kind": &*kind.kind, "apiVersion": kind.api_version(), "metadata": { "resourceVersion": at.to_string() },
        });
        WatchEvent { type_: "BOOKMARK", object: Arc::new(object) }
    }
}

fn expired(position: Revision, compacted: Revision) -> WatchEvent {
    let error = ApiError::expired(format!("too old resource version: {position} ({compacted})"));
    let object: Value = error.to_status();
    WatchEvent { type_: "ERROR", object: Arc::new(object) }
}
