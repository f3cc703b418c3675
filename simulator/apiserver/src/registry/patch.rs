//! Patch: JSON patch, merge patch, strategic merge patch, apply.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::scope::Scope;
use super::state::State;
use super::update::How;
use super::{Next, decode, update};
use crate::error::ApiError;
use crate::object::Object;
use crate::request::{Body, Request};

/// A patch as sent.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    kind: Kind,
    body: Value,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Result<Next, ApiError> {
    let scope = Scope::of(state, &request)?;
    let (content_type, body) = match request.body {
        Body::Empty => (String::new(), Value::Null),
        Body::Json { content_type, value } => (content_type.to_owned(), value),
        Body::Bytes { content_type, bytes } => {
            let value = serde_yaml::from_slice(&bytes).map_err(|error| ApiError::bad_request(error.to_string()))?;
            (content_type, value)
        }
    };
    let kind = match decode::media_type(&content_type).as_ref() {
        "application/json-patch+json" => Kind::Json,
        "application/merge-patch+json" => Kind::Merge,
        "application/strategic-merge-patch+json" if !scope.resource.is_custom() => Kind::Strategic,
        "application/apply-patch+yaml" => Kind::Apply,
        _ => {
            let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
            if !scope.resource.is_custom() {
                accepted.push("application/strategic-merge-patch+json");
            }
            accepted.push("application/apply-patch+yaml");
            return Err(decode::unsupported_media_type(&accepted));
        }
    };
    update::start(state, scope, Arc::new(How::Patch(Patch { kind, body })), now)
}

impl Patch {
    pub(crate) fn is_apply(&self) -> bool {
        self.kind == Kind::Apply
    }

    /// The object that the patch makes of `live`.
    pub(crate) fn apply_to(&self, scope: &mut Scope, live: &Object, _now: Timestamp) -> Result<Value, ApiError> {
        let mut object = Value::clone(live);
        match self.kind {
            Kind::Json => {
                let patch: json_patch::Patch =
                    serde_json::from_value(self.body.clone()).map_err(|error| ApiError::bad_request(error.to_string()))?;
                json_patch::patch(&mut object, &patch).map_err(|_| {
                    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
                })?;
            }
            Kind::Merge | Kind::Strategic | Kind::Apply => json_patch::merge(&mut object, &self.body),
        }
        decode::settle(&scope.resource, object)
    }

    /// The object that an apply creates.
    pub(crate) fn create(&self, scope: &mut Scope, _now: Timestamp) -> Result<Value, ApiError> {
        decode::settle(&scope.resource, self.body.clone())
    }
}
