//! Where the pipeline keeps `metadata.managedFields` up to date.

use jiff::Timestamp;
use serde_json::Value;

use super::scope::Scope;
use super::state::State;
use crate::error::ApiError;
use crate::managed_fields::{self, Write};
use crate::object::Object;

/// `apiVersion`s in which a resource is served: entries of others are dropped.
fn served(state: &State, scope: &Scope) -> Vec<String> {
    let same = state.kinds.all().iter().filter(|other| other.group_resource == scope.resource.group_resource);
    same.map(|other| other.api_version()).collect()
}

/// The write as field management sees it.
///
/// # Errors
/// 404 for a subresource of a kind without a schema.
fn write<'a>(scope: &'a Scope, served: &'a [String], now: Timestamp) -> Result<Write<'a>, ApiError> {
    let write = Write::new(&scope.resource, &scope.subresource, &scope.options.field_manager, now);
    if scope.kind == scope.resource.kind {
        return Ok(write.served(served));
    }
    // A view of another kind, such as Scale, has entries of that kind's version only.
    Ok(Write {
        schema: scope.schema()?,
        custom: false,
        api_version: scope.kind.api_version(),
        kind: &scope.kind.kind,
        reset: &[],
        ..write
    })
}

/// A new object or a change: what differs from `live` belongs to the manager.
pub(crate) fn on_write(state: &State, scope: &Scope, live: Option<&Object>, new: &mut Value, now: Timestamp) {
    // Built-in kinds of one version, nearly all, need no list of versions.
    let served = if scope.resource.is_custom() { served(state, scope) } else { Vec::new() };
    if let Ok(write) = write(scope, &served, now) {
        managed_fields::on_write(live.map(|live| &**live), new, &write);
    }
}

/// Server-side apply; `None` creates.
///
/// # Errors
/// As [`managed_fields::apply`].
pub(crate) fn apply(
    state: &State,
    scope: &Scope,
    live: Option<&Object>,
    applied: &Value,
    now: Timestamp,
) -> Result<Value, ApiError> {
    let served = served(state, scope);
    managed_fields::apply(live.map(|live| &**live), applied, scope.options.force, &write(scope, &served, now)?)
}
