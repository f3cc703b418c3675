//! Update, and the common course of everything that changes an object: patch, apply, `scale`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::lens::Lens;
use super::patch::Patch;
use super::scope::Scope;
use super::state::State;
use super::{Next, Write, answer, create, custom, decode, kinds, manage};
use crate::admission::{Attributes, Chain, Operation};
use crate::builtin;
use crate::error::{ApiError, FieldError};
use crate::managed_fields;
use crate::object::{Object, ObjectExt, metadata_mut, set_meta};
use crate::request::Request;
use crate::store::{Change, same_but_version};

/// How the new object follows from the one that is there.
#[derive(Clone)]
pub(crate) enum How {
    /// It was sent whole.
    Put(Object),
    /// A patch makes it.
    Patch(Patch),
}

/// A change worked out, on its way through the mutating phase.
#[derive(Clone)]
pub(crate) struct Changed {
    pub(crate) scope: Scope,
    how: Arc<How>,
    lens: Lens,
    /// The stored object that the change was worked out from; `None` when there is none.
    base: Option<Object>,
}

/// A change on its way through the validating phase.
#[derive(Clone)]
pub(crate) struct Validated {
    pub(crate) changed: Changed,
    /// The whole object as it would be committed, in the version that was asked.
    object: Object,
}

pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Result<Next, ApiError> {
    let mut scope = Scope::of(state, &request)?;
    let decoded = decode::object(&scope, request.body)?;
    scope.warnings.extend(decoded.warnings);
    let mut object = decoded.object;
    decode::match_namespace(&scope.resource, &scope.namespace, &mut object)?;
    let object = Arc::new(object);
    decode::match_name(&scope, &object)?;
    start(state, scope, Arc::new(How::Put(object)), now)
}

/// Reads what is there and works out the change. Begun again when somebody else was faster.
pub(crate) fn start(state: &mut State, mut scope: Scope, how: Arc<How>, now: Timestamp) -> Result<Next, ApiError> {
    let base = scope.stored(state).cloned();
    let Some(stored) = base else { return start_create(state, scope, how, now) };
    let whole = kinds::to_version(&stored, &scope.resource);
    let lens = Lens::of(&scope)?;
    let live = lens.read_to_change(&scope, &whole);
    let (mut new, managed) = match &*how {
        How::Put(sent) => {
            check_uid(&scope, sent, live.uid())?;
            (Value::clone(sent), false)
        }
        How::Patch(patch) => {
            let patched = patch.apply_to(state, &mut scope, Some(&live), now)?;
            (patched, patch.is_apply())
        }
    };
    create::update_owner_references(&mut new, &mut scope.warnings);
    if !managed {
        manage::on_write(state, &scope, Some(&live), &mut new, now);
    }
    let attributes = scope.attributes(Operation::Update, Some(Arc::new(new)), Some(live));
    let changed = Changed { scope, how, lens, base: Some(stored) };
    Ok(Next::Admit(Chain::mutating(attributes), Write::Update(Box::new(changed))))
}

/// A PUT or an apply of something that is not there.
fn start_create(state: &State, mut scope: Scope, how: Arc<How>, now: Timestamp) -> Result<Next, ApiError> {
    let mut new = match &*how {
        How::Put(sent) if builtin::strategy(&scope.resource).can_create_on_update() && scope.subresource.is_empty() => {
            check_uid(&scope, sent, "")?;
            Value::clone(sent)
        }
        How::Patch(patch) if patch.is_apply() && scope.subresource.is_empty() => {
            patch.apply_to(state, &mut scope, None, now)?
        }
        _ => return Err(scope.not_found()),
    };
    // Of no meaning while there is no object, and unlike in a create not refused.
    set_meta(&mut new, "resourceVersion", Value::Null);
    create::update_owner_references(&mut new, &mut scope.warnings);
    if matches!(*how, How::Put(_)) {
        manage::on_write(state, &scope, None, &mut new, now);
    }
    let attributes = scope.attributes(Operation::Create, Some(Arc::new(new)), None);
    let changed = Changed { scope, how, lens: Lens::Whole, base: None };
    Ok(Next::Admit(Chain::mutating(attributes), Write::Update(Box::new(changed))))
}

/// A uid in a PUT is a precondition, judged by upstream's storage.
fn check_uid(scope: &Scope, sent: &Object, stored: &str) -> Result<(), ApiError> {
    let uid = sent.uid();
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}",
        scope.storage_key()
    );
    Err(ApiError::conflict(&scope.resource.group_resource, &scope.name, &why))
}

/// After the mutating phase: version, strategy, validation.
pub(crate) fn mutated(
    state: &mut State,
    changed: Changed,
    attributes: Attributes,
    now: Timestamp,
) -> Result<Next, ApiError> {
    let Some(stored) = changed.base.clone() else {
        state.refuse_unless_creator(&changed.scope)?;
        return create::prepare(state, changed.scope, attributes, now);
    };
    let Changed { mut scope, how, lens, base } = changed;
    let Some(mut object) = attributes.object else { return Err(ApiError::internal("an update without an object")) };
    create::update_owner_references(Arc::make_mut(&mut object), &mut scope.warnings);
    state.refuse_escalation(&scope, &object, Some(&stored))?;
    let live = kinds::to_version(&stored, &scope.resource);
    let resource = Arc::clone(&scope.resource);
    let strategy = builtin::strategy(&resource);

    let sent = resource_version(&object)?;
    if sent == 0 {
        if !strategy.can_unconditional_update() && lens.is_whole() {
            return Err(version_required(&scope));
        }
        set_meta(Arc::make_mut(&mut object), "resourceVersion", live.resource_version());
    } else if object.resource_version() != live.resource_version() {
        return Err(scope.modified());
    }
    let mut object = lens.write(&scope, object, &live)?;
    let new = Arc::make_mut(&mut object);
    keep_system_fields(new, &live);
    decode::match_namespace(&resource, &scope.namespace, new)?;
    let mut context = state.strategy_context(&resource, &scope.subresource, now);
    context.is_patch = !matches!(*how, How::Put(_));
    strategy.prepare_for_update(new, &live, &mut context)?;
    decode::canonical(&resource, new)?;
    let mut errors = strategy.validate_update(new, &live, &context);
    errors.extend(custom::validate(&resource, new, Some(&live)));
    if !errors.is_empty() {
        let kind = &resource.kind;
        return Err(ApiError::invalid(builtin::reported_group(kind), &kind.kind, new.name(), &errors));
    }
    managed_fields::keep_times(&live, new);
    let (shown, old) = (lens.read(&object), lens.read(&live));
    let attributes = scope.attributes(Operation::Update, Some(shown), Some(old));
    let validated = Validated { changed: Changed { scope, how, lens, base }, object };
    Ok(Next::Admit(Chain::validating(attributes), Write::Updated(Box::new(validated))))
}

/// What an update can never change (`rest.BeforeUpdate`).
fn keep_system_fields(new: &mut Value, live: &Object) {
    let old = &live["metadata"];
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    let mut keep = |field: &str, always: bool| {
        let is_set = metadata.get(field).is_some_and(|value| !value.is_null() && value != "");
        if let Some(value) = old.get(field)
            && (always || !is_set)
        {
            metadata.insert(field.to_owned(), value.clone());
        }
    };
    keep("uid", false);
    keep("creationTimestamp", true);
    keep("deletionTimestamp", true);
    keep("deletionGracePeriodSeconds", false);
}

/// `metadata.resourceVersion` as a number; 0 when there is none.
fn resource_version(object: &Object) -> Result<u64, ApiError> {
    match object.resource_version() {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| ApiError::new(500, "", format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}

fn version_required(scope: &Scope) -> ApiError {
    let of = &scope.resource.group_resource;
    let errors = [FieldError::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update")];
    ApiError::invalid(&of.group, &of.resource, &scope.name, &errors)
}

/// After the validating phase: commit, unless somebody else was faster.
pub(crate) fn admitted(state: &mut State, validated: Validated, now: Timestamp) -> Result<Next, ApiError> {
    let Validated { changed, object } = validated;
    let Changed { scope, how, lens, base } = changed;
    let now_stored = scope.stored(state).cloned();
    let (Some(stored), Some(base)) = (now_stored, base) else { return start(state, scope, how, now) };
    if !Arc::ptr_eq(&stored, &base) {
        return start(state, scope, how, now);
    }
    let of = &scope.resource.group_resource;
    if is_last_change(&scope, &object, &stored) {
        if !scope.options.dry_run {
            let last = kinds::to_storage(&state.kinds, Arc::clone(&object), &scope.resource);
            state.commit(of, Change::Remove(last), &scope.by);
        }
        return Ok(Next::Done(answer(200, lens.read(&object), scope.warnings)));
    }
    let new = kinds::to_storage(&state.kinds, object, &scope.resource);
    if same_but_version(&new, &stored) {
        let unchanged = kinds::to_version(&stored, &scope.resource);
        return Ok(Next::Done(answer(200, lens.read(&unchanged), scope.warnings)));
    }
    create::check_size(&new)?;
    let committed = if scope.options.dry_run { new } else { state.commit(of, Change::Put(new), &scope.by) };
    let shown = kinds::to_version(&committed, &scope.resource);
    Ok(Next::Done(answer(200, lens.read(&shown), scope.warnings)))
}

/// Does this update end a deletion that waited for it (`ShouldDeleteDuringUpdate`)?
fn is_last_change(scope: &Scope, new: &Object, old: &Object) -> bool {
    let strategy = builtin::strategy(&scope.resource);
    old.is_deleting()
        && old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && new.finalizers().next().is_none()
        && !strategy.holds(new)
}
