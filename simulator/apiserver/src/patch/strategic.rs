//! Strategic merge patches: maps are merged, lists too where the schema gives a merge key.
//!
//! Source: `k8s.io/apimachinery/pkg/util/strategicpatch/patch.go`.

use serde_json::{Map, Value};

use super::without_nulls;
use crate::error::ApiError;
use crate::managed_fields::go_value;
use crate::schema::SchemaRef;

mod convert;
mod lists;

pub use convert::conversion_error;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

type Members = Map<String, Value>;

/// Merges a strategic patch into an object.
///
/// # Errors
/// 400 for malformed directives; 500, as upstream, for an unknown `$patch` or a missing merge key.
pub fn apply(original: &Value, patch: &Members, schema: &SchemaRef) -> Result<Value, ApiError> {
    let original = original.as_object().cloned().unwrap_or_default();
    merge_map(original, patch.clone(), Some(schema)).map(Value::Object)
}

/// What the schema says about merging one member.
struct Member {
    schema: Option<SchemaRef>,
    /// `merge`, `replace` or nothing.
    strategy: String,
    merge_key: Option<String>,
}

impl Member {
    fn of(parent: Option<&SchemaRef>, name: &str) -> Self {
        let schema = parent.and_then(|parent| parent.member(name));
        let here = schema.as_ref().map(SchemaRef::here);
        let strategies = here.map(|here| here.patch_strategies.as_slice()).unwrap_or_default();
        Self {
            strategy: strategies.iter().find(|strategy| *strategy != "retainKeys").cloned().unwrap_or_default(),
            merge_key: here.and_then(|here| here.patch_merge_key.clone()),
            schema,
        }
    }

    fn items(&self) -> Option<SchemaRef> {
        self.schema.as_ref().and_then(SchemaRef::items)
    }
}

/// Merges a map of the patch into the one it patches.
fn merge_map(mut original: Members, mut patch: Members, schema: Option<&SchemaRef>) -> Result<Members, ApiError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Members::new()),
            _ => {
                patch.insert(DIRECTIVE.to_owned(), directive.clone());
                Err(unknown_directive(&directive, patch))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        let deletes = key.starts_with(DELETE_FROM_PRIMITIVE_LIST);
        let key = if deletes {
            directive_target(&key, DELETE_FROM_PRIMITIVE_LIST)
                .ok_or_else(|| ApiError::bad_request("invalid patch format of primitive list"))?
        } else {
            key
        };
        let merged = match (original.remove(&key), value) {
            (_, Value::Null) => None,
            (Some(Value::Object(original)), Value::Object(patch)) => {
                let member = Member::of(schema, &key);
                Some(Value::Object(if member.strategy == "replace" {
                    patch
                } else {
                    merge_map(original, patch, member.schema.as_ref())?
                }))
            }
            (Some(Value::Array(original)), Value::Array(patch)) => {
                let member = Member::of(schema, &key);
                Some(Value::Array(merge_list_member(&member, original, patch, deletes)?))
            }
            // Nothing to delete from.
            (original, _) if deletes => original,
            (_, value) => without_directives(without_nulls(value)),
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

fn merge_list_member(
    member: &Member,
    original: Vec<Value>,
    patch: Vec<Value>,
    deletes: bool,
) -> Result<Vec<Value>, ApiError> {
    if member.strategy == "merge" || deletes {
        lists::merge(original, patch, member.items().as_ref(), member.merge_key.as_deref(), deletes)
    } else {
        Ok(patch)
    }
}

/// `$retainKeys`: everything the list does not name goes.
fn retain_keys(original: &mut Members, patch: &mut Members) -> Result<(), ApiError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || ApiError::bad_request("invalid patch format of retainKeys");
    let keys = directive.as_array().ok_or_else(malformed)?;
    let retained = |key: &str| keys.iter().any(|retained| retained == key);
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !retained(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// `$setElementOrder/LIST`: merges each such list and gives it the order asked for.
fn order_lists(original: &mut Members, patch: &mut Members, schema: Option<&SchemaRef>) -> Result<(), ApiError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let malformed = || ApiError::bad_request("invalid patch format of setElementOrder list");
        let list = |value: Value| match value {
            Value::Array(items) => Ok(items),
            other => Err(wrong_type("[]interface {}", &other)),
        };
        let Some(order) = patch.remove(&directive) else { continue };
        let order = list(order)?;
        let key = directive_target(&directive, SET_ELEMENT_ORDER).ok_or_else(malformed)?;
        let existing = original.get(&key).cloned().map(list).transpose()?;
        let changes = patch.remove(&key).map(list).transpose()?;
        let member = Member::of(schema, &key);
        let merge_key = member.merge_key.as_deref();
        lists::check_order(changes.as_deref().unwrap_or_default(), &order, merge_key)?;
        let before = existing.clone().unwrap_or_default();
        let merged = match (existing, changes) {
            (Some(existing), None) => existing,
            (None, Some(changes)) => match without_directives(Value::Array(changes)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(existing), Some(changes)) => merge_list_member(&member, existing, changes, false)?,
            (None, None) => continue,
        };
        original.insert(key, Value::Array(lists::in_order(merged, &order, &before, merge_key)?));
    }
    Ok(())
}

/// `LIST` of `$directive/LIST`.
fn directive_target(key: &str, directive: &str) -> Option<String> {
    key.split_once('/').filter(|(prefix, _)| *prefix == directive).map(|(_, target)| target.to_owned())
}

/// A value that is new to the object: what a `$patch` within it is about is not there.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => Some(Value::Object(
            members
                .into_iter()
                .filter_map(|(name, value)| without_directives(value).map(|value| (name, value)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// A plain error upstream: a 500 without reason and details.
fn internal(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

fn unknown_directive(directive: &Value, map: Members) -> ApiError {
    internal(format!("unknown patch type: {} in map: {}", go_value(directive), go_value(&Value::Object(map))))
}

fn no_merge_key(item: &Value, merge_key: &str) -> ApiError {
    internal(format!("map: {} does not contain declared merge key: {merge_key}", go_value(item)))
}

fn wrong_type(expected: &str, found: &Value) -> ApiError {
    internal(format!("expected a {expected}, but received a {}", convert::go_type(found)))
}

#[cfg(test)]
mod tests;
