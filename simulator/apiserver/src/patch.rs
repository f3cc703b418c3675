//! Patches: what a patch body says, and what comes of it.
//!
//! [`Patch::decode`] reads a body, [`Patch::apply`] makes the new object, as JSON that the caller
//! decodes like any sent object. Server-side apply is in [`crate::managed_fields`].
//!
//! Source: `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use serde_json::{Map, Value};

use crate::error::{ApiError, Details, FieldError};
use crate::managed_fields::go_value;
use crate::request::Body;
use crate::schema::SchemaRef;
use crate::schema::json::{self as go_json, Document};

pub mod applied;
pub mod json;
pub mod merge;
pub mod strategic;

/// How many operations a JSON patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// The patch types.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`: built-in kinds only.
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchType {
    /// The type that a `Content-Type` names, its parameters aside.
    ///
    /// # Errors
    /// 415 for any other type, and for strategic patches of custom resources.
    pub fn of_content_type(content_type: &str, custom: bool) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if custom => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            // Refused by the HTTP router before any handler of patches upstream, hence the other words.
            _ => {
                let mut error = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                error.details = Some(Box::default());
                Err(error)
            }
        }
    }
}

/// A decoded patch body.
#[derive(Clone, Debug)]
pub struct Patch {
    operations: Operations,
    /// What strict decoding of the patch itself complains about: to be reported with the complaints
    /// about the patched object.
    pub complaints: Vec<String>,
}

#[derive(Clone, Debug)]
enum Operations {
    Json(Vec<json::Operation>),
    Merge(Map<String, Value>),
    Strategic(Map<String, Value>),
}

/// What came of a patch.
#[derive(Clone, Debug)]
pub struct Patched {
    /// The new object, not yet decoded.
    pub object: Value,
    /// A strategic patch, as its errors print it.
    strategic: Option<String>,
}

impl Patched {
    /// The error for a patched object that cannot be decoded, or that strict decoding refuses:
    /// `message` is the decoder's.
    #[must_use]
    pub fn undecodable(&self, message: &str) -> ApiError {
        let value = self.strategic.clone().unwrap_or_else(|| self.object.to_string());
        ApiError::invalid("", "", "", &[FieldError::invalid("patch", &Value::String(value), message)])
    }
}

impl Patch {
    /// Reads a patch body. `lenient` is `fieldValidation=Ignore`, under which upstream words some
    /// errors otherwise.
    ///
    /// # Errors
    /// 400 for what is not a patch of this type.
    ///
    /// # Panics
    /// When asked for [`PatchType::Apply`]: an applied object is no patch of operations.
    pub fn decode(patch_type: PatchType, body: &Body, lenient: bool) -> Result<Self, ApiError> {
        assert_ne!(patch_type, PatchType::Apply, "applied objects are decoded as YAML");
        let prefix = if lenient || patch_type == PatchType::Strategic { "" } else { "error decoding patch: " };
        let refuse = |message: String| ApiError::bad_request(format!("{prefix}{message}"));
        let Document { value, duplicates } = match body {
            Body::Empty => go_json::read(b"").map_err(refuse)?,
            Body::Bytes { bytes, .. } => go_json::read(bytes).map_err(refuse)?,
            Body::Json { value, .. } => Document { value: value.clone(), duplicates: Vec::new() },
        };
        let mut complaints: Vec<String> = duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
        let operations = match patch_type {
            PatchType::Json => {
                let (operations, unknown) = json::decode(&value, lenient).map_err(refuse)?;
                complaints.extend(unknown);
                for complaint in &mut complaints {
                    complaint.insert_str(0, "json patch ");
                }
                Operations::Json(operations)
            }
            PatchType::Merge => Operations::Merge(object(value).map_err(refuse)?),
            PatchType::Strategic | PatchType::Apply => Operations::Strategic(object(value).map_err(refuse)?),
        };
        Ok(Self { operations, complaints })
    }

    /// The patched object.
    ///
    /// # Errors
    /// 422 for a JSON patch that does not apply, 413 for one with too many operations; what
    /// [`strategic::apply`] refuses.
    pub fn apply(&self, current: &Value, schema: &SchemaRef) -> Result<Patched, ApiError> {
        match &self.operations {
            Operations::Json(operations) => Ok(Patched { object: json::apply(current, operations)?, strategic: None }),
            Operations::Merge(patch) => {
                let mut object = current.clone();
                merge::apply(&mut object, patch);
                Ok(Patched { object, strategic: None })
            }
            Operations::Strategic(patch) => {
                let printed = go_value(&Value::Object(patch.clone()));
                let object = strategic::apply(current, patch, schema)?;
                let patched = Patched { object, strategic: Some(printed) };
                match strategic::conversion_error(schema, &patched.object) {
                    Some(error) => Err(patched.undecodable(&error)),
                    None => Ok(patched),
                }
            }
        }
    }
}

/// A value that is new to the object: its nulls say nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A 422 whose sentence upstream's client library replaces by a general one.
fn unprocessable() -> ApiError {
    let mut error = ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request");
    error.details = Some(Box::<Details>::default());
    error
}

/// A patch that must be an object; `null` counts as an empty one.
fn object(value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        other => Err(cannot_unmarshal(&other, "map[string]interface {}")),
    }
}

/// Go's sentence for a value of the wrong type.
fn cannot_unmarshal(value: &Value, go_type: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into Go value of type {go_type}")
}
