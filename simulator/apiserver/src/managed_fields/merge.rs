//! Merging an applied object into the live one, and taking paths out of an object.
//!
//! Source: `typed/merge.go` and `typed/remove.go` of `sigs.k8s.io/structured-merge-diff`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;
use super::set::FieldSet;
use super::types::{Shape, Type};
use crate::schema::ListType;

/// The live object with everything the applied one sets. Items of merged lists keep the live order
/// as far as the applied order allows.
///
/// # Errors
/// An item of the live object that has no key.
pub(super) fn merge(place: &Type, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
    let (live, applied) = match (live, applied) {
        (live, None) => return Ok(live.cloned()),
        (None, Some(applied)) => return Ok(Some(applied.clone())),
        (Some(live), Some(applied)) => (live, applied),
    };
    match place.shape(applied) {
        Shape::Map { atomic: false } => {
            let old = live.as_object().filter(|map| !map.is_empty());
            let new = applied.as_object().filter(|map| !map.is_empty());
            if old.is_none() && new.is_none() {
                return Ok(Some(applied.clone()));
            }
            let mut merged = old.cloned().unwrap_or_default();
            for (name, value) in new.into_iter().flatten() {
                let value = match merged.get(name) {
                    Some(old) => merge(&place.member(name), Some(old), Some(value)),
                    None => Ok(Some(value.clone())),
                };
                if let Some(value) = value.map_err(|error| format!(".{name}{error}"))? {
                    merged.insert(name.clone(), value);
                }
            }
            Ok(Some(Value::Object(merged)))
        }
        Shape::List(list @ (ListType::Map | ListType::Set)) => {
            let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
            let (old, new) = (items(live), items(applied));
            if old.is_empty() && new.is_empty() {
                return Ok(Some(applied.clone()));
            }
            merge_items(place, list, &old, &new).map(|items| Some(Value::Array(items)))
        }
        _ => Ok(Some(applied.clone())),
    }
}

/// Elements of a list in its order, and the item of each.
type Index<'a> = (Vec<Element>, BTreeMap<Element, Option<&'a Value>>);

/// The items of one list by element. Duplicates, which only a live list may have, have no item of
/// their own to merge with.
fn index<'a>(place: &Type, list: ListType, items: &'a [Value]) -> Result<Index<'a>, String> {
    let mut elements = Vec::with_capacity(items.len());
    let mut by_element = BTreeMap::new();
    for (place_in_list, item) in items.iter().enumerate() {
        let element = place.item_element(list, item).map_err(|error| format!(": element {place_in_list}: {error}"))?;
        by_element.entry(element.clone()).and_modify(|item| *item = None).or_insert(Some(item));
        elements.push(element);
    }
    Ok((elements, by_element))
}

fn merge_items(place: &Type, list: ListType, live: &[Value], applied: &[Value]) -> Result<Vec<Value>, String> {
    let (old, old_items) = index(place, list, live)?;
    let (new, new_items) = index(place, list, applied)?;
    let item_type = place.items();
    let merge_item = |element: &Element| -> Result<Value, String> {
        let live = old_items.get(element).copied().flatten();
        let applied = new_items.get(element).copied().flatten();
        let merged = merge(&item_type, live, applied).map_err(|error| format!("{element}{error}"))?;
        Ok(merged.unwrap_or_default())
    };
    // Items that both lists have, in the applied order: each is waited for in turn.
    let mut shared = new.iter().filter(|element| old_items.contains_key(element));
    let mut awaited = shared.next();
    let mut placed: BTreeSet<&Element> = BTreeSet::new();
    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let (mut left, mut right) = (0, 0);
    while left < old.len() || right < new.len() {
        if let (Some(before), Some(after)) = (old.get(left), new.get(right)) {
            if before == after {
                merged.push(merge_item(before)?);
                placed.insert(before);
                (left, right) = (left + 1, right + 1);
                awaited = shared.next();
                continue;
            }
            if new_items.contains_key(before) && awaited.is_some_and(|awaited| awaited != before) {
                // A shared item whose turn has not come, or is over.
                left += 1;
                continue;
            }
        }
        if let Some(before) = old.get(left) {
            if !new_items.contains_key(before) {
                merged.push(live[left].clone());
                left += 1;
                continue;
            }
            if placed.contains(before) {
                left += 1;
            }
        }
        if let Some(after) = new.get(right) {
            merged.push(merge_item(after)?);
            placed.insert(after);
            right += 1;
            if awaited == Some(after) {
                awaited = shared.next();
            }
        }
    }
    Ok(merged)
}

/// The value without the paths of `set`. What is emptied becomes `null`, as upstream leaves it.
pub(super) fn remove(place: &Type, value: &Value, set: &FieldSet) -> Value {
    match (place.shape(value), value) {
        (Shape::Scalar, value) => value.clone(),
        (Shape::Map { atomic: false }, Value::Object(members)) => {
            let mut kept = Map::new();
            for (name, value) in members {
                match set.child(&Element::field(name)) {
                    Some(child) if child.owned => {}
                    Some(child) => {
                        kept.insert(name.clone(), remove(&place.member(name), value, child));
                    }
                    None => {
                        kept.insert(name.clone(), value.clone());
                    }
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Shape::List(list @ (ListType::Map | ListType::Set)), Value::Array(items)) => {
            let item_type = place.items();
            let mut kept = Vec::new();
            for item in items {
                match place.item_element(list, item).ok().and_then(|element| set.child(&element)) {
                    Some(child) if child.owned => {}
                    Some(child) => kept.push(remove(&item_type, item, child)),
                    None => kept.push(item.clone()),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}
