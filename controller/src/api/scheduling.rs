//! Placement rules of a role's pods. They are handed to the pods as written; the controller never
//! looks inside.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// A pod's `affinity`, kept as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Affinity(pub Value);

impl JsonSchema for Affinity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Affinity".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        k8s_openapi::api::core::v1::Affinity::json_schema(generator)
    }
}
