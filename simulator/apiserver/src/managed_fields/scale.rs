//! Ownership of `replicas` across the `scale` subresource and the object it scales.
//!
//! A write to `scale` owns `spec.replicas` of the Scale; in the object that is the field its scale
//! subresource names. Source: `k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::entries::{Entries, Entry, Manager};
use super::set::FieldSet;
use super::{Write, on_write};
use crate::error::ApiError;
use crate::object::{ObjectExt, set_meta};
use crate::schema::SchemaRef;

const SCALE_API_VERSION: &str = "autoscaling/v1";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// A write to a `scale` subresource.
#[derive(Clone, Debug)]
pub struct ScaleWrite<'a> {
    /// Schema of `autoscaling/v1`, `Scale`.
    pub schema: &'a SchemaRef,
    /// `apiVersion` of the scaled object.
    pub parent_api_version: &'a str,
    /// Where the scaled object has its replicas, for example `["spec", "replicas"]`.
    pub replicas_path: &'a [&'a str],
    /// Name of the manager.
    pub manager: &'a str,
    /// The time of the write.
    pub now: Timestamp,
}

impl ScaleWrite<'_> {
    fn as_write(&self) -> Write<'_> {
        Write {
            schema: self.schema,
            custom: false,
            api_version: SCALE_API_VERSION.to_owned(),
            kind: "Scale",
            subresource: "scale",
            manager: self.manager,
            reset: &[],
            served: &[],
            now: self.now,
        }
    }

    /// The entries of the Scale that stands for `parent`.
    fn entries_of_scale(&self, parent: &Value) -> Value {
        let mut scale = Entries::default();
        for entry in decode(parent).0 {
            if entry.manager.api_version == self.parent_api_version && entry.fields.has(self.replicas_path) {
                let manager = Manager { api_version: SCALE_API_VERSION.to_owned(), ..entry.manager };
                scale.put(Entry { manager, time: entry.time, fields: FieldSet::path(&REPLICAS) });
            }
        }
        scale.encode()
    }

    /// The entries of the scaled object after those of its Scale became `scale`.
    fn entries_of_parent(&self, parent: &Value, scale: &Value) -> Value {
        let mut scale = Entries::decode(scale).unwrap_or_default();
        let mut result = Entries::default();
        for mut entry in decode(parent).0 {
            if entry.manager.api_version == self.parent_api_version && entry.fields.has(self.replicas_path) {
                let in_scale = Manager { api_version: SCALE_API_VERSION.to_owned(), ..entry.manager.clone() };
                if scale.take(&in_scale).is_none() {
                    entry.fields = entry.fields.difference(&FieldSet::path(self.replicas_path));
                }
            }
            if !entry.fields.is_empty() {
                result.put(entry);
            }
        }
        for entry in scale.0 {
            if entry.fields.has(&REPLICAS) {
                let manager = Manager { api_version: self.parent_api_version.to_owned(), ..entry.manager };
                // Upstream looks the time up among the parent's entries, where a new manager has none.
                let time = result.get(&manager).map(|entry| entry.time.clone()).unwrap_or_default();
                result.put(Entry { manager, time, fields: FieldSet::path(self.replicas_path) });
            }
        }
        result.encode()
    }
}

fn decode(object: &Value) -> Entries {
    Entries::decode(&object["metadata"]["managedFields"]).unwrap_or_default()
}

/// Records an update or patch of a Scale: `new_parent` is the scaled object with its new replicas.
pub fn on_scale_write(live_parent: &Value, new_parent: &mut Value, write: &ScaleWrite<'_>) {
    let pointer = format!("/{}", write.replicas_path.join("/"));
    let replicas = |parent: &Value| parent.pointer(&pointer).cloned().unwrap_or_else(|| 0.into());
    let scale_of = |parent: &Value| {
        json!({"apiVersion": SCALE_API_VERSION, "kind": "Scale",
            "metadata": {"name": parent.name(), "uid": parent.uid()}, "spec": {"replicas": replicas(parent)}})
    };
    let mut live = scale_of(live_parent);
    set_meta(&mut live, "managedFields", write.entries_of_scale(live_parent));
    let mut new = scale_of(new_parent);
    on_write(Some(&live), &mut new, &write.as_write());
    let entries = write.entries_of_parent(live_parent, &new["metadata"]["managedFields"]);
    set_meta(new_parent, "managedFields", entries);
}

/// Applies a Scale: the number of replicas that results, with the scaled object's entries.
///
/// # Errors
/// As [`super::apply`].
pub fn apply_scale(
    live_parent: &Value,
    live_scale: &Value,
    applied: &Value,
    force: bool,
    write: &ScaleWrite<'_>,
) -> Result<(Value, Value), ApiError> {
    let mut live = live_scale.clone();
    set_meta(&mut live, "managedFields", write.entries_of_scale(live_parent));
    let scale = super::apply(Some(&live), applied, force, &write.as_write())?;
    let entries = write.entries_of_parent(live_parent, &scale["metadata"]["managedFields"]);
    Ok((scale, entries))
}
