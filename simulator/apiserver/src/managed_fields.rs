//! Who owns which field: `metadata.managedFields` of plain writes, and server-side apply.
//!
//! Four doors, all pure functions over values:
//!
//! - [`on_write`]: after a create, update or patch has made the new object, before admission;
//! - [`apply`]: the apply patch itself;
//! - [`keep_times`]: last, so that a write which changed nothing but the times in
//!   `managedFields` changes nothing at all;
//! - [`scale`]: the entries of a `scale` subresource and of the object it scales.
//!
//! | module | what it is |
//! |---|---|
//! | `element`, `set` | paths, sets of paths, `fieldsV1` |
//! | `types` | a schema as field management sees it |
//! | `entries` | `managedFields`: managers, times, order, the cap of ten |
//! | `compare`, `extract` | what a write changed; what an applied object claims |
//! | `merge`, `check` | merging and pruning; whether an applied object can be merged |
//! | `apply`, `scale` | the two operations with a file of their own |
//!
//! Objects are expected as the API server stores and serves them (for built-in kinds: with the empty
//! structs and nulls that upstream writes). Their depth is bounded where bytes are decoded.
//!
//! Source: `k8s.io/apimachinery/pkg/util/managedfields` and `sigs.k8s.io/structured-merge-diff`.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{ObjectExt, set_meta};
use crate::resource::Resource;
use crate::schema::SchemaRef;

mod apply;
mod check;
mod compare;
mod element;
mod entries;
mod extract;
mod merge;
pub mod scale;
mod set;
mod types;

pub use apply::apply;
pub(crate) use check::go_value;

use compare::{Changes, Live, compare};
use entries::{Entries, Entry, Manager, Operation};
use set::FieldSet;
use types::Type;

/// One write, as far as field management needs to know it.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// Schema of the written objects.
    pub schema: SchemaRef,
    /// Are they custom resources? Built-in ones are compared with empty structs on create.
    pub custom: bool,
    /// `apiVersion` of the request.
    pub api_version: String,
    /// Kind of the written objects.
    pub kind: &'a str,
    /// Subresource of the request, or empty.
    pub subresource: &'a str,
    /// Name of the manager; see [`manager`].
    pub manager: &'a str,
    /// Paths whose changes this endpoint does not store, so that nobody comes to own them.
    pub reset: &'a [&'a [&'a str]],
    /// `apiVersion`s in which the object is served. Entries of other versions are dropped; empty
    /// keeps them all.
    pub served: &'a [String],
    /// The time of the write.
    pub now: Timestamp,
}

impl<'a> Write<'a> {
    /// A write to `resource` or one of its subresources.
    #[must_use]
    pub fn new(resource: &'a Resource, subresource: &'a str, manager: &'a str, now: Timestamp) -> Self {
        Self {
            schema: resource.schema.clone(),
            custom: resource.is_custom(),
            api_version: resource.api_version(),
            kind: &resource.kind.kind,
            subresource,
            manager,
            reset: reset_fields(resource, subresource),
            served: &[],
            now,
        }
    }

    /// With the versions in which the object is served.
    #[must_use]
    pub fn served(mut self, versions: &'a [String]) -> Self {
        self.served = versions;
        self
    }

    fn root(&self) -> Type {
        Type::of_kind(&self.schema, self.custom)
    }

    fn manager_as(&self, name: &str, operation: Operation) -> Manager {
        Manager {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.to_owned(),
        }
    }

    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn reset_set(&self) -> FieldSet {
        self.reset.iter().map(|path| FieldSet::path(path)).fold(FieldSet::default(), FieldSet::union)
    }

    fn is_served(&self, api_version: &str) -> bool {
        self.served.is_empty() || self.served.iter().any(|version| version == api_version)
    }

    /// What changes between two objects, without what this endpoint does not store.
    fn changes(&self, live: Option<&Value>, new: &Value) -> Changes {
        let live = match live {
            Some(live) => Live::Value(live),
            None if self.custom => Live::Value(&EMPTY),
            None => Live::Zero,
        };
        let changes = compare(&self.root(), live, Some(new));
        if self.reset.is_empty() { changes } else { changes.without(&self.reset_set()) }
    }
}

/// A custom object with nothing in it: upstream's has only its kind.
static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({}));

/// The name of the manager: the `fieldManager` parameter, else the user agent before its first `/`.
///
/// Upstream bounds it to 128 bytes and cuts at the first character that is not printable
/// (`managerOrUserAgent` in `k8s.io/apiserver/pkg/endpoints/handlers/create.go`).
#[must_use]
pub fn manager<'a>(field_manager: &'a str, user_agent: &'a str) -> &'a str {
    if !field_manager.is_empty() {
        return field_manager;
    }
    let prefix = user_agent.split('/').next().unwrap_or_default();
    let end = prefix
        .char_indices()
        .find(|(start, char)| char.is_control() || start + char.len_utf8() > 128)
        .map_or(prefix.len(), |(start, _)| start);
    &prefix[..end]
}

/// Fields that an endpoint resets, so that a writer does not come to own them (`GetResetFields` of
/// the strategies in `k8s.io/kubernetes/pkg/registry`): the main resource leaves the status alone,
/// the status subresource everything else that it knows of.
fn reset_fields(resource: &Resource, subresource: &str) -> &'static [&'static [&'static str]] {
    match (subresource, &*resource.group_resource.resource) {
        ("", _) if resource.has_status() => &[&["status"]],
        ("status", "pods") => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        ("status", "deployments") => &[&["spec"], &["metadata", "labels"]],
        ("status", "customresourcedefinitions" | "volumeattachments") => &[&["metadata"], &["spec"]],
        ("status", _) => &[&["spec"]],
        ("finalize", _) => &[&["status"]],
        _ => &[],
    }
}

/// Fields of every object that nobody owns.
fn unowned() -> &'static FieldSet {
    static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
        let metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let paths = [&["apiVersion"][..], &["kind"], &["metadata"]].into_iter().map(FieldSet::path);
        let metadata = metadata.iter().map(|field| FieldSet::path(&["metadata", field]));
        paths.chain(metadata).fold(FieldSet::default(), FieldSet::union)
    });
    &UNOWNED
}

/// Is this a value of `metadata.managedFields`?
///
/// # Errors
/// What is malformed.
pub fn check_entries(managed_fields: &Value) -> Result<(), String> {
    entries::Entries::decode(managed_fields).map(drop)
}

/// An object with everything that `fields` sets, merged as server-side apply merges; nobody comes to own
/// anything.
///
/// # Errors
/// An item of a keyed list that has no key.
pub fn merged(resource: &Resource, object: &Value, fields: &Value) -> Result<Value, String> {
    let root = types::Type::of_kind(&resource.schema, resource.is_custom());
    merge::merge(&root, Some(object), Some(fields)).map(Option::unwrap_or_default)
}

/// Brings `metadata.managedFields` of `new` up to date after a create (`live` is `None`), update or
/// patch, before admission sees the object.
///
/// The sent `managedFields` count where they are well formed (a restore brings them, a client edits
/// them); an empty list or one empty entry clears them; else the live ones do. Nothing can go wrong
/// here: as upstream, what cannot be tracked is left as it was.
pub fn on_write(live: Option<&Value>, new: &mut Value, write: &Write<'_>) {
    let sent = take_managed_fields(new);
    let entries = entries_of(live, &sent, write);
    // Objects that nobody tracks stay so until the first apply; creates are always tracked.
    if entries.is_empty() && live.is_some_and(|live| !live.uid().is_empty()) {
        return;
    }
    let manager = write.manager_as(write.manager, Operation::Update);
    let entries = update(live, new, entries, &manager, write);
    set_meta(new, "managedFields", entries.encode());
}

/// Gives the entries of `new` their old times when the two objects differ in nothing else, so that
/// a write without effect stays one. Call it last, after admission.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (before, after) = (&live["metadata"]["managedFields"], &new["metadata"]["managedFields"]);
    if before == after || !differ_in_times_only(before, after) {
        return;
    }
    let before = before.clone();
    let after = take_managed_fields(new);
    set_meta(new, "managedFields", before);
    if live != new {
        set_meta(new, "managedFields", after);
    }
}

fn differ_in_times_only(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_array(), after.as_array()) else { return false };
    let same = |before: &Value, after: &Value| {
        let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return before == after };
        let others = |entry: &'_ serde_json::Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
        others(before) == others(after)
            && before.iter().all(|(field, value)| field == "time" || after.get(field) == Some(value))
    };
    before.len() == after.len() && before.iter().zip(after).all(|(before, after)| same(before, after))
}

fn take_managed_fields(object: &mut Value) -> Value {
    match object.get_mut("metadata").and_then(Value::as_object_mut) {
        Some(metadata) => metadata.remove("managedFields").unwrap_or_default(),
        None => Value::Null,
    }
}

/// Whose entries count: `decodeLiveOrNew` upstream.
fn entries_of(live: Option<&Value>, sent: &Value, write: &Write<'_>) -> Entries {
    let of_live =
        || live.map(|live| Entries::decode(&live["metadata"]["managedFields"]).unwrap_or_default()).unwrap_or_default();
    if !write.subresource.is_empty() {
        return of_live();
    }
    if is_reset(sent) {
        return Entries::default();
    }
    match Entries::decode(sent) {
        Ok(entries) if !entries.is_empty() => entries,
        _ => of_live(),
    }
}

fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// Moves the ownership of what a plain write changed to its manager.
fn update(live: Option<&Value>, new: &Value, mut entries: Entries, manager: &Manager, write: &Write<'_>) -> Entries {
    let changes = write.changes(live, new);
    entries.0.retain(|entry| write.is_served(&entry.manager.api_version));
    let removed = changes.removed.clone();
    let written = changes.written();
    for entry in &mut entries.0 {
        let fields = std::mem::take(&mut entry.fields);
        entry.fields = fields.difference(&written).difference(&removed);
    }
    let written = written.difference(unowned());
    if !written.is_empty() {
        let before = entries.take(manager).map(|entry| entry.fields).unwrap_or_default();
        entries.0.push(Entry { manager: manager.clone(), time: write.time(), fields: before.union(written) });
    }
    entries.drop_empty();
    entries.cap();
    entries
}

#[cfg(test)]
mod tests;
