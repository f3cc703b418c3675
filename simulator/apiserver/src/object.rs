//! JSON objects with typed access to what every Kubernetes object has.
//!
//! An object is a [`serde_json::Value`] whose maps are sorted, so that anything that iterates does so
//! in one order. Committed objects are shared as [`Object`] (`Arc<Value>`): a read costs a pointer.

use std::sync::Arc;

use serde_json::{Map, Value};

/// A committed object, shared between the store, the watch log and readers.
pub type Object = Arc<Value>;

/// Typed, allocation-free access to the fields that every Kubernetes object may have.
///
/// Readers answer the empty string, `None` or an empty iterator where a field is missing or has
/// another type; what is malformed is refused by validation, not here.
pub trait ObjectExt {
    /// The JSON value itself.
    fn value(&self) -> &Value;

    /// `apiVersion`, or the empty string.
    fn api_version(&self) -> &str {
        self.value()["apiVersion"].as_str().unwrap_or_default()
    }
    /// `kind`, or the empty string.
    fn kind(&self) -> &str {
        self.value()["kind"].as_str().unwrap_or_default()
    }
    /// A string in `metadata`, or the empty string.
    fn meta(&self, field: &str) -> &str {
        self.value()["metadata"][field].as_str().unwrap_or_default()
    }
    /// `metadata.name`, or the empty string.
    fn name(&self) -> &str {
        self.meta("name")
    }
    /// `metadata.namespace`, or the empty string.
    fn namespace(&self) -> &str {
        self.meta("namespace")
    }
    /// `metadata.uid`, or the empty string.
    fn uid(&self) -> &str {
        self.meta("uid")
    }
    /// `metadata.resourceVersion`, or the empty string.
    fn resource_version(&self) -> &str {
        self.meta("resourceVersion")
    }
    /// `metadata.generation`, or 0.
    fn generation(&self) -> i64 {
        self.value()["metadata"]["generation"].as_i64().unwrap_or_default()
    }
    /// Is `metadata.deletionTimestamp` set?
    fn is_deleting(&self) -> bool {
        self.value()["metadata"]["deletionTimestamp"].is_string()
    }
    /// The value of one label.
    fn label(&self, key: &str) -> Option<&str> {
        self.value()["metadata"]["labels"][key].as_str()
    }
    /// The value of one annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.value()["metadata"]["annotations"][key].as_str()
    }
    /// `metadata.finalizers`.
    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.value()["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }
    /// `metadata.ownerReferences`, as JSON objects.
    fn owner_references(&self) -> impl Iterator<Item = &Value> {
        self.value()["metadata"]["ownerReferences"].as_array().into_iter().flatten()
    }
    /// The owner reference that has `controller: true`.
    fn controller_reference(&self) -> Option<&Value> {
        self.owner_references().find(|reference| reference["controller"] == true)
    }
}

impl ObjectExt for Value {
    fn value(&self) -> &Value {
        self
    }
}

impl ObjectExt for Arc<Value> {
    fn value(&self) -> &Value {
        self
    }
}

/// `metadata` as a map, made when absent or of another type.
///
/// # Panics
/// When `object` is not a JSON object; decoding refuses such bodies before anything calls this.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    let object = object.as_object_mut().expect("a Kubernetes object is a JSON object");
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made an object above")
}

/// Sets `metadata.FIELD`; `Value::Null` removes it.
pub fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    let metadata = metadata_mut(object);
    match value.into() {
        Value::Null => {
            metadata.remove(field);
        }
        value => {
            metadata.insert(field.to_owned(), value);
        }
    }
}
