//! Create.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::scope::Scope;
use super::state::State;
use super::{Next, Write, answer, custom, decode, kinds};
use crate::access;
use crate::admission::{Attributes, Chain, Operation};
use crate::builtin;
use crate::error::{ApiError, FieldError};
use crate::object::{Object, ObjectExt, metadata_mut, set_meta};
use crate::request::Request;
use crate::store::Change;

/// Names that are tried for a `generateName` before upstream gives up
/// (`maxNameGenerationCreateAttempts`).
const NAME_ATTEMPTS_MAX: usize = 8;

/// Bytes of a serialised object that etcd takes (`--max-request-bytes`, 1.5 MiB).
pub(crate) const OBJECT_BYTES_MAX: usize = 1_572_864;

/// An object as it was sent.
#[derive(Clone)]
pub(crate) struct Decoded {
    pub(crate) scope: Scope,
}

/// An object as it would be committed.
#[derive(Clone)]
pub(crate) struct Validated {
    pub(crate) scope: Scope,
    object: Object,
    generated_name: bool,
}

pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Result<Next, ApiError> {
    let mut scope = Scope::of(state, &request)?;
    if builtin::actions::is_action(&scope.resource.group_resource.resource, &scope.subresource) {
        return super::action::begin(scope, request);
    }
    let decoded = decode::object(&scope, request.body)?;
    scope.warnings.extend(decoded.warnings);
    let mut object = decoded.object;
    decode::match_namespace(&scope.resource, &scope.namespace, &mut object)?;
    custom::check_open(&scope.resource, object.name())?;
    if access::reviews::is_review(&scope.resource.group_resource) {
        let answered = access::reviews::answer(
            &state.store,
            state.authorization,
            &scope.user,
            &scope.resource.group_resource,
            &scope.namespace,
            object,
            now,
        )?;
        return Ok(Next::Done(answer(201, Arc::new(answered), scope.warnings)));
    }
    wipe_system_fields(&mut object);
    update_owner_references(&mut object, &mut scope.warnings);
    super::manage::on_write(state, &scope, None, &mut object, now);
    let attributes = scope.attributes(Operation::Create, Some(Arc::new(object)), None);
    Ok(Next::Admit(Chain::mutating(attributes), Write::Create(Box::new(Decoded { scope }))))
}

/// What only the server may set is taken from a new object before anybody looks at it
/// (`rest.WipeObjectMetaSystemFields`).
pub(crate) fn wipe_system_fields(object: &mut Value) {
    let metadata = metadata_mut(object);
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"] {
        metadata.remove(field);
    }
}

/// Drops owner references that are given twice, with a warning.
pub(crate) fn update_owner_references(object: &mut Value, warnings: &mut Vec<String>) {
    let Some(references) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut seen: Vec<Value> = Vec::new();
    let mut twice: Vec<String> = Vec::new();
    for reference in references.iter() {
        if seen.contains(reference) {
            let uid = reference["uid"].as_str().unwrap_or_default().to_owned();
            if !twice.contains(&uid) {
                twice.push(uid);
            }
        } else {
            seen.push(reference.clone());
        }
    }
    if !twice.is_empty() {
        *references = seen;
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

/// After the mutating phase: system fields, strategy, validation.
pub(crate) fn mutated(
    state: &mut State,
    decoded: Decoded,
    attributes: Attributes,
    now: Timestamp,
) -> Result<Next, ApiError> {
    prepare(state, decoded.scope, attributes, now)
}

/// Makes a new object ready to be committed; also for a PUT or an apply that creates.
pub(crate) fn prepare(
    state: &mut State,
    mut scope: Scope,
    attributes: Attributes,
    now: Timestamp,
) -> Result<Next, ApiError> {
    let Attributes { name, namespace, object, .. } = attributes;
    let Some(mut object) = object else { return Err(ApiError::internal("a create without an object")) };
    state.refuse_escalation(&scope, &object, None)?;
    let new = Arc::make_mut(&mut object);
    update_owner_references(new, &mut scope.warnings);
    let generated_name = new.name().is_empty() && !new.meta("generateName").is_empty();
    if generated_name {
        generate_name(state, &scope, new);
    }
    wipe_system_fields(new);
    set_meta(new, "creationTimestamp", seconds(now));
    set_meta(new, "uid", state.draws.uid());
    decode::match_namespace(&scope.resource, &scope.namespace, new)?;
    let strategy = builtin::strategy(&scope.resource);
    let resource = Arc::clone(&scope.resource);
    let mut context = state.strategy_context(&resource, &scope.subresource, now);
    strategy.prepare_for_create(new, &mut context)?;
    decode::canonical(&resource, new)?;
    let mut errors = strategy.validate(new, &context);
    errors.extend(custom::validate(&resource, new, None));
    refuse(&scope, new.name(), &errors)?;
    // A name that was generated or changed meanwhile is not the one that was asked for.
    let asked = scope.attributes(Operation::Create, Some(Arc::clone(&object)), None);
    let attributes = Attributes { name, namespace, ..asked };
    let validated = Validated { scope, object, generated_name };
    Ok(Next::Admit(Chain::validating(attributes), Write::Created(Box::new(validated))))
}

/// 422 when there are errors.
pub(crate) fn refuse(scope: &Scope, name: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    let kind = &scope.kind;
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(builtin::reported_group(kind), &kind.kind, name, errors))
    }
}

fn generate_name(state: &mut State, scope: &Scope, object: &mut Value) {
    /// Bytes of a generated name without its suffix (`maxGeneratedNameLength`).
    const BASE_BYTES_MAX: usize = 58;
    let mut base = object.meta("generateName").to_owned();
    while base.len() > BASE_BYTES_MAX {
        base.pop();
    }
    for _ in 0..NAME_ATTEMPTS_MAX {
        let name = format!("{base}{}", state.draws.name_suffix());
        let taken = state.store.get(&scope.resource.group_resource, &scope.namespace, &name).is_some();
        set_meta(object, "name", name);
        if !taken {
            break;
        }
    }
}

/// A time as `metav1.Time` prints it.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// After the validating phase: commit.
pub(crate) fn admitted(state: &mut State, validated: Validated) -> Result<Next, ApiError> {
    let Validated { scope, mut object, generated_name } = validated;
    let of = &scope.resource.group_resource;
    if !object.resource_version().is_empty() && object.resource_version() != "0" {
        return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    let namespace = if scope.resource.namespaced { scope.namespace.as_str() } else { "" };
    if let Some(there) = state.store.get(of, namespace, object.name()) {
        let mut error = ApiError::already_exists(of, object.name());
        if there.is_deleting() {
            error.message = format!("object is being deleted: {}", error.message);
        } else if generated_name {
            error.message =
                format!("{}, the server was not able to generate a unique name for the object", error.message);
        }
        return Err(error);
    }
    metadata_mut(Arc::make_mut(&mut object)).remove("resourceVersion");
    check_size(&object)?;
    if scope.options.dry_run {
        return Ok(Next::Done(answer(201, object, scope.warnings)));
    }
    let stored = kinds::to_storage(&state.kinds, object, &scope.resource);
    let committed = state.commit(of, Change::Put(stored), &scope.by);
    let shown = kinds::to_version(&committed, &scope.resource);
    Ok(Next::Done(answer(201, shown, scope.warnings)))
}

/// Refuses an object that etcd would refuse.
///
/// # Errors
/// 500 with etcd's sentence.
pub(crate) fn check_size(object: &Value) -> Result<(), ApiError> {
    if serialised_len(object) > OBJECT_BYTES_MAX {
        return Err(ApiError::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

/// Bytes of an object as JSON, at least; nothing is written.
fn serialised_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| serialised_len(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(field, value)| field.len() + serialised_len(value) + 4).sum::<usize>() + 2
        }
    }
}
