//! What several kinds share: the group, the catalogue an app comes from, resource lists.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The API group of all four kinds.
pub const GROUP: &str = "kubedirector.hpe.com";
/// Their single version, served and stored.
pub const VERSION: &str = "v1beta1";
/// Prefix of every label, annotation and finalizer of ours.
pub const KEY_PREFIX: &str = "kubedirector.hpe.com/";

/// `group/version`, as objects and owner references spell it.
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Shape of a Kubernetes quantity as KubeDirector's definitions check it.
pub(super) const QUANTITY_PATTERN: &str = "^([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";

/// Where a cluster's app is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Catalog {
    /// The cluster's own namespace.
    Local,
    /// The controller's namespace.
    System,
}

impl Catalog {
    /// The word used in specs and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Catalog::Local => "local",
            Catalog::System => "system",
        }
    }
}

/// Compute resources of a role's members, as a container's `resources`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requirements {
    /// Upper bounds; `cpu` and `memory` are required.
    #[schemars(schema_with = "limits")]
    pub limits: BTreeMap<String, Value>,
    /// What the scheduler sets aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "requests")]
    pub requests: Option<BTreeMap<String, Value>>,
}

const KNOWN_RESOURCES: [&str; 5] = ["memory", "cpu", "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"];

/// An object of quantities in which unknown (extended) resource names are kept as they are.
pub(super) fn resource_list() -> Schema {
    let quantity = || serde_json::json!({"type": "string", "pattern": QUANTITY_PATTERN});
    let properties: serde_json::Map<String, Value> =
        KNOWN_RESOURCES.iter().map(|name| ((*name).to_owned(), quantity())).collect();
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties})
}

fn limits(_: &mut SchemaGenerator) -> Schema {
    let mut schema = resource_list();
    schema.insert("required".into(), serde_json::json!(["memory", "cpu"]));
    schema
}

fn requests(_: &mut SchemaGenerator) -> Schema {
    nullable_resource_list(&mut SchemaGenerator::default())
}

/// As [`resource_list`], null allowed.
pub(super) fn nullable_resource_list(_: &mut SchemaGenerator) -> Schema {
    let mut schema = resource_list();
    schema.insert("nullable".into(), true.into());
    schema
}

/// Length and alphabet of a role id, as both the app's and the cluster's definition check it.
pub(super) const ROLE_ID_PATTERN: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
