//! The four CustomResourceDefinitions: generated from the types in [`crate::api`], with what types
//! cannot say added here.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::api::{KubeDirectorApp, KubeDirectorCluster, KubeDirectorConfig, KubeDirectorStatusBackup};
use crate::names::CONFIG_NAME;

/// The definitions, in the order in which they should be installed.
pub fn all() -> Vec<CustomResourceDefinition> {
    documents().into_iter().filter_map(|document| serde_json::from_value(document).ok()).collect()
}

/// As [`all`], as JSON.
pub fn documents() -> Vec<Value> {
    let mut app = definition(&KubeDirectorApp::crd());
    restrict_name(&mut app, &json!({"type": "string", "maxLength": 63}));
    let mut config = definition(&KubeDirectorConfig::crd());
    restrict_name(&mut config, &json!({"type": "string", "pattern": format!("^{CONFIG_NAME}$")}));
    let root = root_schema(&mut config);
    // A KubeDirectorConfig without a spec is one that sets nothing.
    if let Some(root) = root.as_object_mut() {
        root.remove("required");
    }
    root["properties"]["spec"]["nullable"] = true.into();
    let cluster = definition(&KubeDirectorCluster::crd());
    let backup = definition(&KubeDirectorStatusBackup::crd());
    vec![config, app, cluster, backup]
}

fn definition(generated: &CustomResourceDefinition) -> Value {
    let mut document = serde_json::to_value(generated).unwrap_or_default();
    without_defaults(root_schema(&mut document));
    document
}

fn root_schema(document: &mut Value) -> &mut Value {
    &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn restrict_name(document: &mut Value, schema: &Value) {
    let root = root_schema(document);
    root["properties"]["metadata"] = json!({"type": "object", "properties": {"name": schema}});
}

/// Defaults of the Rust types are how we read absent fields; they are not for the server to write
/// into objects, where they would read as if somebody had said them.
fn without_defaults(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("default");
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(without_defaults),
            ("items" | "additionalProperties", value) => without_defaults(value),
            ("anyOf" | "allOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(without_defaults),
            _ => {}
        }
    }
}
