//! The life of a definition as an object.
//!
//! Source: `apiextensions-apiserver/pkg/registry/customresourcedefinition` and
//! `.../apis/apiextensions/v1/defaults.go`.

use serde_json::{Value, json};

use crate::object::{ObjectExt, set_meta};

/// Keeps a deleted definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Port of a webhook's service when none is given.
const WEBHOOK_PORT: u16 = 443;

/// Fills in names, conversion and the webhook's port.
pub fn default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if let Some(kind) = spec["names"]["kind"].as_str().map(str::to_owned).filter(|kind| !kind.is_empty()) {
        let names = &mut spec["names"];
        if names["singular"].as_str().unwrap_or_default().is_empty() {
            names["singular"] = kind.to_lowercase().into();
        }
        if names["listKind"].as_str().unwrap_or_default().is_empty() {
            names["listKind"] = format!("{kind}List").into();
        }
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service").filter(|it| it.is_object())
        && service["port"].is_null()
    {
        service["port"] = WEBHOOK_PORT.into();
    }
}

/// A new definition has nothing but its storage version in its status.
pub fn prepare_for_create(object: &mut Value) {
    object["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null});
    store_version(object);
}

/// A change of the definition may bring a new storage version, which is noted.
pub fn prepare_for_update(new: &mut Value) {
    store_version(new);
}

/// Adds the storage version to those in which objects may be stored.
fn store_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let storage = versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).next();
    let Some(storage) = storage else { return };
    match &mut object["status"]["storedVersions"] {
        Value::Array(stored) => {
            if !stored.contains(&storage) {
                stored.push(storage);
            }
        }
        other => *other = Value::Array(vec![storage]),
    }
}

/// Does a delete leave the object as it is but for [`begin_deletion`]? The first one does.
#[must_use]
pub fn holds(object: &Value) -> bool {
    !object.is_deleting()
}

/// What a delete makes of a definition that is not deleted yet; `deletionTimestamp` is set.
pub fn begin_deletion(object: &mut Value) {
    let now = object.meta("deletionTimestamp").to_owned();
    let mut finalizers: Vec<Value> = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    set_meta(object, "finalizers", finalizers);
    set_condition(
        object,
        &now,
        "Terminating",
        true,
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
}

/// Sets a condition; its transition time moves only with its status.
pub fn set_condition(object: &mut Value, now: &str, type_: &str, holds: bool, reason: &str, message: &str) {
    let status = if holds { "True" } else { "False" };
    let mut condition = json!({
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|existing| existing["type"] == type_) {
        Some(existing) => {
            if existing["status"] == status {
                condition["lastTransitionTime"] = existing["lastTransitionTime"].clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_version_is_kept_in_the_status_when_it_moves_on() {
        let mut object = json!({"spec": {"versions": [{"name": "v1", "storage": true}]}});
        prepare_for_create(&mut object);
        assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
        object["spec"]["versions"] = json!([{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]);
        prepare_for_update(&mut object);
        assert_eq!(object["status"]["storedVersions"], json!(["v1", "v2"]));
    }

    #[test]
    fn names_follow_from_the_kind() {
        let mut object = json!({"spec": {"names": {"kind": "DbCluster", "plural": "clusters"}}});
        default(&mut object);
        assert_eq!(object["spec"]["names"]["singular"], "dbcluster");
        assert_eq!(object["spec"]["names"]["listKind"], "DbClusterList");
        assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    }
}
