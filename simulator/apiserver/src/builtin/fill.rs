//! Small steps for defaulting: set what is absent, walk into what is present.

use serde_json::{Map, Value};

/// Sets a field that is absent or null. Anything but an object is left alone.
pub(super) fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    fill_with(object, field, || value.into());
}

/// Sets a field that is absent or null, made only when needed.
pub(super) fn fill_with(object: &mut Value, field: &str, value: impl FnOnce() -> Value) {
    let Some(map) = object.as_object_mut() else { return };
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value());
    }
}

/// Sets a field that is absent, null or Go's zero value (`0`, `""`), where upstream cannot tell.
pub(super) fn fill_zero(object: &mut Value, field: &str, value: impl Into<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    if map.get(field).is_none_or(|value| value.is_null() || value == 0 || value == "") {
        map.insert(field.to_owned(), value.into());
    }
}

/// Does something with a field that is an object.
pub(super) fn within(object: &mut Value, field: &str, step: impl FnOnce(&mut Value)) {
    if let Some(value) = object.get_mut(field).filter(|value| value.is_object()) {
        step(value);
    }
}

/// Does something with each item of a list.
pub(super) fn each(object: &mut Value, field: &str, mut step: impl FnMut(&mut Value)) {
    if let Some(items) = object.get_mut(field).and_then(Value::as_array_mut) {
        items.iter_mut().filter(|item| item.is_object()).for_each(&mut step);
    }
}

/// An object in a field, made when absent; `None` when `object` or the field is something else.
pub(super) fn object_in<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    let value = object.as_object_mut()?.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.is_object().then_some(value)
}

/// Sets a field, or removes it when the value is null.
pub(super) fn put(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}

/// Removes a field and answers what was there.
pub(super) fn take(object: &mut Value, field: &str) -> Value {
    object.as_object_mut().and_then(|map| map.remove(field)).unwrap_or_default()
}

/// Is the value absent, or an empty text, list or map?
#[must_use]
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
