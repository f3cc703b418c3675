//! Ownership of `replicas` across the `scale` subresource and the object it scales.
//!
//! A write to `scale` is a write to a Scale whose only field with an owner is `spec.replicas`. Its
//! entries are taken from the scaled object before the write ([`entries_of_scale`]) and go back into
//! it afterwards ([`entries_of_parent`]).
//!
//! Source: `k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go`.

use serde_json::Value;

use super::entries::{Entries, Entry, Manager};
use super::set::FieldSet;

const SCALE_API_VERSION: &str = "autoscaling/v1";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Where a scaled object has its replicas.
#[derive(Clone, Copy, Debug)]
pub struct Replicas<'a> {
    /// `apiVersion` of the object.
    pub api_version: &'a str,
    /// For example `["spec", "replicas"]`.
    pub path: &'a [&'a str],
}

impl Replicas<'_> {
    fn are_in(&self, entry: &Entry) -> bool {
        entry.manager.api_version == self.api_version && entry.fields.has(self.path)
    }
}

/// `managedFields` of the Scale that stands for `parent`; `null` when nobody owns its replicas.
#[must_use]
pub fn entries_of_scale(parent: &Value, replicas: Replicas<'_>) -> Value {
    let mut scale = Entries::default();
    for entry in decode(parent).0.into_iter().filter(|entry| replicas.are_in(entry)) {
        let manager = Manager { api_version: SCALE_API_VERSION.to_owned(), ..entry.manager };
        scale.put(Entry { manager, time: entry.time, fields: FieldSet::path(&REPLICAS) });
    }
    scale.encode()
}

/// `managedFields` of `parent` after those of its Scale became `scale`.
#[must_use]
pub fn entries_of_parent(parent: &Value, scale: &Value, replicas: Replicas<'_>) -> Value {
    let mut scale = Entries::decode(scale).unwrap_or_default();
    let mut entries = Entries::default();
    for mut entry in decode(parent).0 {
        if replicas.are_in(&entry) {
            let in_scale = Manager { api_version: SCALE_API_VERSION.to_owned(), ..entry.manager.clone() };
            if scale.take(&in_scale).is_none() {
                entry.fields = entry.fields.difference(&FieldSet::path(replicas.path));
            }
        }
        if !entry.fields.is_empty() {
            entries.put(entry);
        }
    }
    for entry in scale.0.into_iter().filter(|entry| entry.fields.has(&REPLICAS)) {
        let manager = Manager { api_version: replicas.api_version.to_owned(), ..entry.manager };
        // Upstream looks the time up among the parent's entries, where a new manager has none.
        let time = entries.get(&manager).map(|entry| entry.time.clone()).unwrap_or_default();
        entries.put(Entry { manager, time, fields: FieldSet::path(replicas.path) });
    }
    entries.encode()
}

fn decode(object: &Value) -> Entries {
    Entries::decode(&object["metadata"]["managedFields"]).unwrap_or_default()
}
