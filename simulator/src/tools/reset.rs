//! What a tool takes out of an archived object before it creates it.

use rewake_apiserver::object::metadata_mut;
use serde_json::{Map, Value};

use super::profile::{MetadataReset, OwnerReferences, Profile};

/// Removed by Velero since v1.10.2 (`resetMetadata`).
const DENIED: &[&str] = &[
    "generateName",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Removed from exported YAML by hand.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

/// Resets metadata and status as the profile does. Owner references are dropped unless the profile
/// keeps them; profiles that relink them do so afterwards.
pub fn reset(object: &mut Value, profile: &Profile) {
    let metadata = metadata_mut(object);
    let owners = metadata.remove("ownerReferences");
    match profile.metadata {
        MetadataReset::AllowList | MetadataReset::Authored => {
            metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
        }
        MetadataReset::DenyList => metadata.retain(|field, _| !DENIED.contains(&field.as_str())),
        MetadataReset::ServerFields => metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str())),
    }
    if profile.owner_references != OwnerReferences::Dropped
        && profile.metadata != MetadataReset::Authored
        && let Some(owners) = owners
    {
        metadata.insert("ownerReferences".to_owned(), owners);
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
}

/// Adds Velero's two labels.
pub fn label(object: &mut Value, backup: &str, restore: &str) {
    let labels = metadata_mut(object).entry("labels").or_insert_with(|| Value::Object(Map::new()));
    if !labels.is_object() {
        *labels = Value::Object(Map::new());
    }
    labels["velero.io/backup-name"] = label_value(backup).into();
    labels["velero.io/restore-name"] = label_value(restore).into();
}

/// A name as a label value: over 63 characters, the first 57 and six digits of its SHA-256
/// (Velero `pkg/label`).
fn label_value(name: &str) -> String {
    use sha2::{Digest, Sha256};
    if name.len() <= 63 {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let start: String = name.chars().take(57).collect();
    format!("{start}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2])
}

/// The JSON merge patch that turns `from` into `to` (RFC 7386).
#[must_use]
pub fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else { return to.clone() };
    let mut patch = Map::new();
    for (key, value) in old {
        if !new.contains_key(key) && !value.is_null() {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) if before.is_object() && value.is_object() => {
                patch.insert(key.clone(), merge_patch(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn archived() -> Value {
        json!({
            "metadata": {"name": "c", "namespace": "team", "labels": {"a": "b"}, "uid": "u", "resourceVersion": "7",
                "finalizers": ["x/y"], "managedFields": [{}], "generation": 3,
                "ownerReferences": [{"uid": "o"}]},
            "spec": {"n": 1}, "status": {"s": 1},
        })
    }

    #[test]
    fn each_profile_keeps_what_its_tool_keeps() {
        let kept = |name: &str| {
            let mut object = archived();
            reset(&mut object, Profile::named(name).unwrap());
            assert_eq!(object.get("status"), None, "{name} sends no status");
            let fields: Vec<String> = object["metadata"].as_object().unwrap().keys().cloned().collect();
            fields.join(" ")
        };
        assert_eq!(kept("velero-1.9"), "labels name namespace");
        assert_eq!(kept("velero-1.18"), "finalizers labels managedFields name namespace");
        assert_eq!(kept("kubectl-apply"), "finalizers labels name namespace ownerReferences");
        assert_eq!(kept("gitops"), "labels name namespace");
    }

    #[test]
    fn a_merge_patch_takes_away_what_was_added_since() {
        let live = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1]});
        let wanted = json!({"a": 1, "b": {"c": 2}, "e": [1, 2]});
        assert_eq!(merge_patch(&live, &wanted), json!({"b": {"c": 2, "d": null}, "e": [1, 2]}));
    }
}
