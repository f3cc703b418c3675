//! Delete: preconditions, grace, finalizers, propagation.
//!
//! Source: `Delete` and its helpers in `k8s.io/apiserver/pkg/registry/generic/registry/store.go`, and
//! `BeforeDelete` in `k8s.io/apiserver/pkg/registry/rest/delete.go`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::create::seconds;
use super::options::DeleteOptions;
use super::scope::Scope;
use super::state::State;
use super::{Next, Write, answer, decode, kinds};
use crate::admission::{Attributes, Chain, Operation};
use crate::builtin;
use crate::error::ApiError;
use crate::object::{Object, ObjectExt, set_meta};
use crate::request::{Answer, Body, Request, Response};
use crate::resource::GroupResource;
use crate::store::Change;

/// Finalizer of an object whose dependents are to be orphaned.
const ORPHAN: &str = "orphan";
/// Finalizer of an object whose dependents are to go first.
const FOREGROUND: &str = "foregroundDeletion";

/// An object that is to be deleted, on its way through admission.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) scope: Scope,
    options: Arc<DeleteOptions>,
    /// The stored object that admission sees.
    stored: Object,
}

pub(crate) fn begin(state: &State, request: &Request) -> Result<Next, ApiError> {
    let mut scope = Scope::of(state, request)?;
    let mut options = options(request)?;
    if scope.is_namespace() && options.precondition_uid.is_none() {
        // A namespace that was deleted and made again meanwhile is another one
        // (`pkg/registry/core/namespace/storage/storage.go`).
        if let Some(stored) = scope.stored(state) {
            options.expect_uid(stored.uid());
        }
    }
    scope.options.dry_run = options.dry_run;
    scope.shown_options = options.shown.clone();
    start(state, scope, Arc::new(options))
}

/// The options of a delete: from the body, or without one from the query.
pub(crate) fn options(request: &Request) -> Result<DeleteOptions, ApiError> {
    let fields = match &request.body {
        Body::Empty => DeleteOptions::from_query(&request.options)?,
        Body::Json { value, .. } => value.clone(),
        Body::Bytes { content_type, bytes } => decode::delete_options(content_type, bytes)?,
    };
    DeleteOptions::read(&fields)
}

/// Finds the object. Begun again when somebody else was faster.
fn start(state: &State, scope: Scope, options: Arc<DeleteOptions>) -> Result<Next, ApiError> {
    let Some(stored) = scope.stored(state).cloned() else { return Err(scope.not_found()) };
    check_preconditions(&scope.resource.kind.group, &scope.resource.kind.kind, &stored, &options)?;
    let shown = kinds::to_version(&stored, &scope.resource);
    let attributes = scope.attributes(Operation::Delete, None, Some(shown));
    let found = Found { scope, options, stored };
    Ok(Next::Admit(Chain::mutating(attributes), Write::Delete(Box::new(found))))
}

/// The second phase sees what the first saw: deletions have no object to change.
pub(crate) fn mutated(found: Found, attributes: Attributes) -> Next {
    Next::Admit(Chain::validating(attributes), Write::Deleted(Box::new(found)))
}

pub(crate) fn admitted(state: &mut State, found: Found, now: Timestamp) -> Result<Next, ApiError> {
    let Found { scope, options, stored } = found;
    let unchanged = scope.stored(state).is_some_and(|there| Arc::ptr_eq(there, &stored));
    if !unchanged {
        return start(state, scope, options);
    }
    let (code, body) = remove(state, &scope, &options, &stored, now);
    let body = match body {
        Answer::Object(object) => return Ok(Next::Done(answer(code, object, scope.warnings))),
        other => other,
    };
    Ok(Next::Done(Response { code, warnings: scope.warnings, body }))
}

/// A deletion that an admitted action makes, such as an eviction's.
pub(crate) fn without_admission(
    state: &mut State,
    scope: &Scope,
    of: &GroupResource,
    namespace: &str,
    name: &str,
    options: &Value,
    now: Timestamp,
) -> Result<(), ApiError> {
    let mut options = DeleteOptions::read(options)?;
    options.dry_run |= scope.options.dry_run;
    let Some(resource) = state.kinds.storage(of).cloned() else { return Err(ApiError::no_such_path()) };
    let Some(stored) = state.store.get(of, namespace, name).cloned() else {
        return Err(ApiError::not_found(of, name));
    };
    check_preconditions(&resource.kind.group, &resource.kind.kind, &stored, &options)?;
    let scope = Scope { resource, namespace: namespace.to_owned(), name: name.to_owned(), ..scope.clone() };
    remove(state, &scope, &options, &stored, now);
    Ok(())
}

fn check_preconditions(group: &str, kind: &str, stored: &Object, options: &DeleteOptions) -> Result<(), ApiError> {
    let of = GroupResource::new(group, kind);
    if let Some(uid) = options.precondition_uid.as_deref().filter(|uid| *uid != stored.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            stored.uid()
        );
        return Err(ApiError::conflict(&of, stored.name(), &why));
    }
    let version = options.precondition_resource_version.as_deref();
    if let Some(version) = version.filter(|version| *version != stored.resource_version()) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            stored.resource_version()
        );
        return Err(ApiError::conflict(&of, stored.name(), &why));
    }
    Ok(())
}

/// Marks or removes an object; answers what the caller is told.
fn remove(state: &mut State, scope: &Scope, options: &DeleteOptions, stored: &Object, now: Timestamp) -> (u16, Answer) {
    let strategy = builtin::strategy(&scope.resource);
    let of = &scope.resource.group_resource;
    // 202 only for the deprecated way to ask for cascading.
    let waiting_code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
    let shown = |object: &Object| Answer::Object(kinds::to_version(object, &scope.resource));
    let mark = |state: &mut State, object: Value| {
        let object = Arc::new(object);
        if options.dry_run || crate::store::same_but_version(&object, stored) {
            return if options.dry_run { object } else { Arc::clone(stored) };
        }
        state.commit(of, Change::Put(object), &scope.by)
    };

    if strategy.holds(stored) {
        // Namespaces: the first delete marks, later ones change nothing until `spec.finalizers` is empty.
        if stored.is_deleting() {
            return (200, shown(stored));
        }
        let mut object = Value::clone(stored);
        set_meta(&mut object, "deletionTimestamp", seconds(now));
        set_collector_finalizers(&mut object, stored, options, None);
        strategy.begin_deletion(&mut object);
        let marked = mark(state, object);
        return (waiting_code, shown(&marked));
    }

    let mut object = Value::clone(stored);
    let grace = match graceful(strategy, &mut object, stored, options, now) {
        Grace::Pending => return (waiting_code, shown(stored)),
        Grace::Seconds(seconds) => Some(seconds),
        Grace::None => None,
    };
    let swapped = set_collector_finalizers(&mut object, stored, options, strategy.default_propagation());
    let has_finalizers = object.finalizers().next().is_some();
    if grace.is_some() || has_finalizers || swapped {
        if grace.is_none() && has_finalizers {
            mark_as_deleting(&mut object, now);
            if !stored.is_deleting() {
                strategy.begin_deletion(&mut object);
            }
        }
        if has_finalizers || grace.is_some_and(|seconds| seconds > 0) {
            let marked = mark(state, object);
            return (waiting_code, shown(&marked));
        }
        // A deletion without grace of a kind that has grace shows as a change before it shows as a removal.
        object = Value::clone(&mark(state, object));
    }
    let mut last = Arc::new(object);
    if !options.dry_run {
        last = state.commit(of, Change::Remove(last), &scope.by);
    }
    (200, if answers_with_object(&scope.resource.group_resource) { shown(&last) } else { success(of, &last) })
}

/// What the rules of grace say.
enum Grace {
    /// The kind has no graceful deletion, or it is over.
    None,
    /// The object is already on its way.
    Pending,
    /// The object is marked; it has so many seconds.
    Seconds(i64),
}

fn graceful(
    strategy: &builtin::Strategy,
    object: &mut Value,
    stored: &Object,
    options: &DeleteOptions,
    now: Timestamp,
) -> Grace {
    let Some(granted) = strategy.grace_period(stored, options.grace_period_seconds) else { return Grace::None };
    if stored.is_deleting() {
        let Some(running) = stored["metadata"]["deletionGracePeriodSeconds"].as_i64() else { return Grace::None };
        return match options.grace_period_seconds {
            // Grace can only become shorter.
            Some(wanted) if wanted < running => {
                let earlier = stored.meta("deletionTimestamp").parse::<Timestamp>().unwrap_or(now)
                    - SignedDuration::from_secs(running - wanted);
                set_meta(object, "deletionTimestamp", seconds(earlier));
                set_meta(object, "deletionGracePeriodSeconds", wanted);
                Grace::Seconds(wanted)
            }
            _ => Grace::Pending,
        };
    }
    set_meta(object, "deletionTimestamp", seconds(now + SignedDuration::from_secs(granted)));
    set_meta(object, "deletionGracePeriodSeconds", granted);
    if object.generation() > 0 {
        set_meta(object, "generation", object.generation() + 1);
    }
    Grace::Seconds(granted)
}

/// The mark of an object that stays only for its finalizers (`markAsDeleting`).
fn mark_as_deleting(object: &mut Value, now: Timestamp) {
    let marked = object.meta("deletionTimestamp").parse::<Timestamp>().ok();
    if marked.is_none() && object.generation() > 0 {
        set_meta(object, "generation", object.generation() + 1);
    }
    if marked.is_none_or(|at| at > now) {
        set_meta(object, "deletionTimestamp", seconds(now));
    }
    set_meta(object, "deletionGracePeriodSeconds", 0);
}

/// Adds or removes the garbage collector's finalizers as the options, the object and the kind say
/// (`deletionFinalizersForGarbageCollection`). Answers whether that changed them.
fn set_collector_finalizers(
    object: &mut Value,
    stored: &Object,
    options: &DeleteOptions,
    default: Option<&'static str>,
) -> bool {
    let has = |name: &str| stored.finalizers().any(|finalizer| finalizer == name);
    let policy = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(true), _) => "Orphan",
        (Some(false), _) => "Background",
        (None, Some(policy)) => policy,
        (None, None) if has(ORPHAN) => "Orphan",
        (None, None) if has(FOREGROUND) => "Foreground",
        (None, None) => default.unwrap_or("Background"),
    };
    let wanted = match policy {
        "Orphan" => Some(ORPHAN),
        "Foreground" => Some(FOREGROUND),
        _ => None,
    };
    let others = stored.finalizers().filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND);
    let finalizers: Vec<&str> = others.chain(wanted).collect();
    let mut before: Vec<&str> = stored.finalizers().collect();
    let mut after = finalizers.clone();
    before.sort_unstable();
    after.sort_unstable();
    if before == after {
        return false;
    }
    let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    set_meta(object, "finalizers", finalizers);
    true
}

/// Kinds whose deletion answers the object itself (`ReturnDeletedObject`, and Services).
fn answers_with_object(of: &GroupResource) -> bool {
    &*of.group == "storage.k8s.io"
        || of.group.is_empty()
            && matches!(
                &*of.resource,
                "persistentvolumeclaims"
                    | "persistentvolumes"
                    | "pods"
                    | "podtemplates"
                    | "resourcequotas"
                    | "serviceaccounts"
                    | "services"
            )
}

fn success(of: &GroupResource, removed: &Object) -> Answer {
    let mut details = json!({ "name": removed.name(), "kind": &*of.resource, "uid": removed.uid() });
    if !of.group.is_empty() {
        details["group"] = (*of.group).into();
    }
    Answer::Json(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    }))
}
