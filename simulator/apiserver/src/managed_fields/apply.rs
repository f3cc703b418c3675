//! Server-side apply.
//!
//! Source: `merge/update.go` of `sigs.k8s.io/structured-merge-diff`, and of
//! `k8s.io/apimachinery/pkg/util/managedfields/internal`: `structuredmerge.go`,
//! `skipnonapplied.go`, `lastapplied*.go`, `conflict.go`.

use serde_json::Value;

use super::compare::{Live, compare};
use super::entries::{Entries, Entry, Manager, Operation};
use super::extract::{field_set, with_named_fields};
use super::merge::{merge, remove};
use super::set::FieldSet;
use super::types::Type;
use super::{EMPTY, Write, check, take_managed_fields, unowned, update};
use crate::error::{ApiError, Cause, Details};
use crate::object::{ObjectExt, metadata_mut, set_meta};
use crate::resource::split_api_version;

/// What kubectl records of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that keeps it in step; others leave it alone.
const KUBECTL: &str = "kubectl";
/// Owner of what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// All annotations of an object together.
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// Applies an object: merges it into the live one (`None` creates), takes out what this manager
/// applied before and nobody else owns, and records who owns what.
///
/// The answer is not yet decoded and defaulted: nulls and fields of the applied object stand in it
/// as sent.
///
/// # Errors
/// 400 for another kind or version and for `managedFields` in the object; 409 naming every manager
/// and field in conflict, unless `force`; 500 (as upstream) for an object that does not fit the
/// schema.
pub fn apply(live: Option<&Value>, applied: &Value, force: bool, write: &Write<'_>) -> Result<Value, ApiError> {
    if applied.api_version() != write.api_version || applied.kind() != write.kind {
        let message = format!("invalid object type: {}", kind_of(applied));
        return Err(ApiError::bad_request(message));
    }
    let entries = match live {
        Some(live) => Entries::decode(&live["metadata"]["managedFields"])
            .map_err(|error| internal(format!("failed to decode managed fields: {error}")))?,
        None => Entries::default(),
    };
    let tracked = match live {
        Some(live) if entries.is_empty() => {
            let unknown = write.manager_as(BEFORE_FIRST_APPLY, Operation::Update);
            update(None, live, entries, &unknown, write)
        }
        _ => entries,
    };
    if !applied["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let application = Application { live, applied, write, root: write.root() };
    application.check()?;
    let (mut object, entries) = match application.run(tracked.clone(), force)? {
        Outcome::Applied(object, entries) => (object, entries),
        Outcome::Conflicts(conflicts) => {
            let conflicts = application.beyond_last_applied(conflicts);
            if !conflicts.is_empty() {
                return Err(conflict_error(&conflicts));
            }
            match application.run(tracked, true)? {
                Outcome::Applied(object, entries) => (object, entries),
                Outcome::Conflicts(conflicts) => return Err(conflict_error(&conflicts)),
            }
        }
    };
    if write.manager == KUBECTL && object.annotation(LAST_APPLIED).is_some_and(|text| !text.is_empty()) {
        record_last_applied(&mut object, applied);
    }
    set_meta(&mut object, "managedFields", entries.encode());
    Ok(object)
}

enum Outcome {
    Applied(Value, Entries),
    Conflicts(Vec<Conflict>),
}

/// Fields of another manager that an apply would change.
struct Conflict {
    manager: Manager,
    fields: FieldSet,
}

struct Application<'a> {
    live: Option<&'a Value>,
    applied: &'a Value,
    write: &'a Write<'a>,
    root: Type,
}

impl Application<'_> {
    fn check(&self) -> Result<(), ApiError> {
        check::check(&self.root, self.applied).map_err(|error| {
            let (namespace, name) = (self.applied.namespace(), self.applied.name());
            let kind = kind_of(self.applied);
            internal(format!("failed to create typed patch object ({namespace}/{name}; {kind}): {error}"))
        })
    }

    fn run(&self, mut entries: Entries, force: bool) -> Result<Outcome, ApiError> {
        let write = self.write;
        let manager = write.manager_as(write.manager, Operation::Apply);
        let mut before = self.live.map_or_else(|| EMPTY.clone(), Value::clone);
        take_managed_fields(&mut before);
        let merged = merge(&self.root, Some(&before), Some(self.applied))
            .map_err(|error| internal(format!("failed to merge config: {error}")))?
            .unwrap_or_default();

        entries.0.retain(|entry| write.is_served(&entry.manager.api_version));
        let last = entries.take(&manager);
        let mut fields = field_set(&self.root, self.applied);
        let mut last_fields = last.as_ref().map(|entry| entry.fields.clone()).unwrap_or_default();
        if !write.reset.is_empty() {
            let reset = write.reset_set();
            fields = fields.recursive_difference(&reset);
            last_fields = last_fields.recursive_difference(&reset);
        }
        let managed = entries.0.iter().fold(fields.clone(), |all, entry| all.union(entry.fields.clone()));
        let new = self.prune(merged, &last_fields, &managed);

        let changes = write.changes(self.live.map(|_| &before), &new);
        let removed = changes.removed.clone();
        let written = changes.written();
        let mut conflicts = Vec::new();
        for entry in &mut entries.0 {
            let taken = entry.fields.intersection(&written);
            if !taken.is_empty() {
                entry.fields = std::mem::take(&mut entry.fields).difference(&taken);
                conflicts.push(Conflict { manager: entry.manager.clone(), fields: taken });
            }
            entry.fields = std::mem::take(&mut entry.fields).difference(&removed);
        }
        if !force && !conflicts.is_empty() {
            return Ok(Outcome::Conflicts(conflicts));
        }
        // An apply without effect on the object leaves the time of its entry as it was, even where
        // it had none.
        let time = if self.live.is_some() && new == before {
            last.map(|entry| entry.time).unwrap_or_default()
        } else {
            write.time()
        };
        entries.0.push(Entry { manager, time, fields: fields.difference(unowned()) });
        entries.drop_empty();
        Ok(Outcome::Applied(new, entries))
    }

    /// Takes out what this manager applied last time, does not apply now, and nobody else owns.
    fn prune(&self, merged: Value, last: &FieldSet, managed: &FieldSet) -> Value {
        let root = &self.root;
        let last = with_named_fields(root, last);
        let managed = with_named_fields(root, managed);
        if last.clone().difference(&managed).is_empty() {
            return merged;
        }
        let pruned = remove(root, &merged, &last);
        let of_merged = with_named_fields(root, &field_set(root, &merged));
        // What others own, or this manager still does, comes back …
        let kept = with_named_fields(root, &field_set(root, &pruned)).union(managed);
        let pruned = remove(root, &merged, &of_merged.clone().difference(&kept));
        // … and so does what lay below a pruned item but was never applied.
        let of_pruned = with_named_fields(root, &field_set(root, &pruned));
        remove(root, &merged, &of_merged.difference(&of_pruned).intersection(&last))
    }

    /// The conflicts that are left when kubectl takes over what it applied client-side: fields that
    /// still have the value in its annotation are its own.
    fn beyond_last_applied(&self, conflicts: Vec<Conflict>) -> Vec<Conflict> {
        if self.write.manager != KUBECTL {
            return conflicts;
        }
        let Some(own) = self.last_applied_fields() else { return conflicts };
        let left = |conflict: Conflict| {
            let fields = conflict.fields.difference(&own);
            (!fields.is_empty()).then_some(Conflict { manager: conflict.manager, fields })
        };
        conflicts.into_iter().filter_map(left).collect()
    }

    fn last_applied_fields(&self) -> Option<FieldSet> {
        let live = self.live?;
        let last: Value = serde_json::from_str(live.annotation(LAST_APPLIED)?).ok()?;
        if last.api_version() != self.write.api_version || check::check(&self.root, &last).is_err() {
            return None;
        }
        let changes = compare(&self.root, Live::Value(&last), Some(live));
        let fields = field_set(&self.root, &last);
        Some(fields.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
    }
}

/// Writes the annotation anew; it goes when the annotations would become too large.
fn record_last_applied(object: &mut Value, applied: &Value) {
    let mut last = applied.clone();
    let metadata = metadata_mut(&mut last);
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let annotations = &mut metadata_mut(object)["annotations"];
    annotations[LAST_APPLIED] = go_json(&last).into();
    let bytes: usize = annotations
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > MAX_ANNOTATION_BYTES
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(LAST_APPLIED);
    }
}

/// JSON as Go's encoder writes it: a line feed at the end, and nothing that HTML could mistake.
fn go_json(value: &Value) -> String {
    let mut text = String::new();
    for char in value.to_string().chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text += &format!("\\u{:04x}", u32::from(char)),
            char => text.push(char),
        }
    }
    text.push('\n');
    text
}

/// `/v1, Kind=ConfigMap`: as Go prints a kind.
fn kind_of(object: &Value) -> String {
    let (group, version) = split_api_version(object.api_version());
    let slash = if group.is_empty() && version.is_empty() { "" } else { version };
    format!("{group}/{slash}, Kind={}", object.kind())
}

fn internal(message: String) -> ApiError {
    // Upstream answers a plain error: a 500 without reason and details.
    ApiError::new(500, "", message)
}

fn conflict_error(conflicts: &[Conflict]) -> ApiError {
    let mut conflicts: Vec<(&Manager, Vec<String>)> =
        conflicts.iter().map(|conflict| (&conflict.manager, conflict.fields.paths())).collect();
    conflicts.sort_by_cached_key(|(manager, _)| manager.sort_key());
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match conflicts.as_slice() {
        [(manager, paths)] if count == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths.concat())
        }
        _ => {
            let lines: Vec<String> = conflicts
                .iter()
                .flat_map(|(manager, paths)| {
                    let fields = paths.iter().map(|path| format!("- {path}"));
                    std::iter::once(format!("conflicts with {manager}:")).chain(fields)
                })
                .collect();
            format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
        }
    };
    let causes = conflicts.iter().flat_map(|(manager, paths)| {
        paths.iter().map(move |path| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {manager}"),
            field: path.clone(),
        })
    });
    let mut error = ApiError::new(409, "Conflict", message);
    error.details = Some(Box::new(Details { causes: causes.collect(), ..Details::default() }));
    error
}
