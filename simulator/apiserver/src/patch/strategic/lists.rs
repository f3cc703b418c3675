//! Lists of a strategic patch: merged by key or as sets, and put in order.

use serde_json::Value;

use super::super::unprocessable;
use super::{
    DIRECTIVE, Members, SET_ELEMENT_ORDER, go_value, internal, merge_map, no_merge_key, unknown_directive, wrong_type,
};
use crate::error::ApiError;
use crate::schema::SchemaRef;

/// Merges two lists. Items of the patch keep the patch's order, items only the object has keep
/// theirs, and where both are known to the object its order decides between them.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    items: Option<&SchemaRef>,
    merge_key: Option<&str>,
    deletes: bool,
) -> Result<Vec<Value>, ApiError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !are_maps(&original, &patch)? {
        if deletes {
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return arrange(merged, &patch, &original, None);
    }
    let Some(merge_key) = merge_key else {
        let name = items.and_then(|items| items.node().name.clone()).unwrap_or_default();
        return Err(internal(format!("cannot merge lists without merge key for {name}")));
    };
    let (original, patch) = follow_directives(original, patch, merge_key)?;
    let mut merged = original.clone();
    for change in &patch {
        let key = key_of(change, merge_key)?;
        match merged.iter_mut().find(|item| item.get(merge_key) == Some(key)) {
            Some(item) => {
                let (Value::Object(old), Value::Object(new)) = (std::mem::take(item), change.clone()) else {
                    return Err(wrong_type("map[string]interface {}", change));
                };
                *item = Value::Object(merge_map(old, new, items)?);
            }
            None => merged.push(change.clone()),
        }
    }
    arrange(merged, &patch, &original, Some(merge_key))
}

/// Carries out `$patch` among the items: deletes, or replaces the whole list. What is left of the
/// patch is items.
fn follow_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let mut items = Vec::with_capacity(patch.len());
    let mut replaces = false;
    for item in patch {
        match item.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            None => items.push(item),
            Some("delete") => {
                let key = key_of(&item, merge_key)?;
                original.retain(|other| other.get(merge_key) != Some(key));
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err(internal("merging lists cannot yet be specified in the patch".to_owned())),
            Some(_) => {
                let map: Members = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(&item[DIRECTIVE], map));
            }
        }
    }
    Ok(if replaces { (items, Vec::new()) } else { (original, items) })
}

/// Are the items of both lists maps? They must all be of one type.
fn are_maps(original: &[Value], patch: &[Value]) -> Result<bool, ApiError> {
    let kind = std::mem::discriminant::<Value>;
    let Some(first) = original.iter().chain(patch).next() else { return Ok(false) };
    if first.is_array() {
        return Err(unprocessable());
    }
    for list in [original, patch] {
        if list.iter().any(|item| kind(item) != kind(first)) {
            let list = go_value(&Value::Array(list.to_vec()));
            return Err(internal(format!("list element types are not identical: {list}")));
        }
    }
    Ok(first.is_object())
}

fn key_of<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value, ApiError> {
    item.get(merge_key).ok_or_else(|| no_merge_key(item, merge_key))
}

/// Checks that a patched list and its `$setElementOrder` agree: the order names every item of the
/// patch, in the patch's order.
pub(super) fn check_order(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), ApiError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for item in patch.iter().filter(|item| merge_key.is_none() || item.get(DIRECTIVE).is_none()) {
        loop {
            let Some(next) = order_left.next() else {
                let print = |list: &[Value]| go_value(&Value::Array(list.to_vec()));
                return Err(internal(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
                    print(patch),
                    print(order)
                )));
            };
            let same = match merge_key {
                Some(merge_key) => key_of(item, merge_key)? == key_of(next, merge_key)?,
                None => item == next,
            };
            if same {
                break;
            }
        }
    }
    Ok(())
}

/// A merged list in the order that `$setElementOrder` asks for; what it does not name keeps its
/// place relative to the object's order `before`.
pub(super) fn in_order(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let merge_key = merge_key.filter(|_| merged.iter().chain(order).any(Value::is_object));
    arrange(merged, order, before, merge_key)
}

/// Splits a list into what `order` names and what it does not, sorts the former by `order` and the
/// latter by `before`, and joins the two: an item that `order` does not name goes before the first
/// named one that comes after it in `before`.
fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    if let Some(merge_key) = merge_key {
        for item in merged.iter().chain(order) {
            key_of(item, merge_key)?;
        }
    }
    let place = |list: &[Value], item: &Value| match merge_key {
        Some(merge_key) => list.iter().position(|other| other.get(merge_key) == item.get(merge_key)),
        None => list.iter().position(|other| other == item),
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(before, item).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let limit = place(before, &item);
        while let Some(other) = others.next_if(|other| place(before, other).zip(limit).is_some_and(|(a, b)| a < b)) {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others);
    Ok(arranged)
}
