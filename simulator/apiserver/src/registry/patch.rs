//! Patch: JSON patch, merge patch, strategic merge patch, apply.
//!
//! Source: `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::options::FieldValidation;
use super::scope::Scope;
use super::state::State;
use super::update::How;
use super::{Next, decode, manage, update};
use crate::error::{ApiError, FieldError};
use crate::object::{Object, ObjectExt};
use crate::patch::{Patch as Operations, PatchType, applied};
use crate::request::{Body, Request};

/// A patch as sent.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// Operations, or an object to be merged.
    Operations(Operations),
    /// An object to be applied.
    Apply(Value),
}

pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Result<Next, ApiError> {
    let content_type = match &request.body {
        Body::Empty => "",
        Body::Bytes { content_type, .. } => content_type,
        Body::Json { content_type, .. } => content_type,
    };
    let resource = super::scope::resource(state, &request)?;
    let patch_type = PatchType::of_content_type(content_type, resource.is_custom())?;
    let scope = Scope::of(state, &request)?;
    check_options(&request, patch_type)?;
    let patch = match patch_type {
        PatchType::Apply => Patch::Apply(applied::decode(&request.body)?),
        other => {
            let lenient = scope.options.field_validation == FieldValidation::Ignore;
            Patch::Operations(Operations::decode(other, &request.body, lenient)?)
        }
    };
    update::start(state, scope, Arc::new(How::Patch(patch)), now)
}

/// `force` is for apply only, and apply needs a manager.
fn check_options(request: &Request, patch_type: PatchType) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    if patch_type == PatchType::Apply {
        if request.options.get("fieldManager").is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
    } else if request.options.0.contains_key("force") {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    super::options::refuse("PatchOptions", &errors)
}

impl Patch {
    pub(crate) fn is_apply(&self) -> bool {
        matches!(self, Self::Apply(_))
    }

    /// The object that the patch makes of `live`; an apply of `None` creates. What a merged object says
    /// about managed fields is still the sender's.
    ///
    /// # Errors
    /// A patch that does not apply, and a result that does not decode.
    pub(crate) fn apply_to(
        &self,
        state: &State,
        scope: &mut Scope,
        live: Option<&Object>,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        match self {
            Self::Operations(operations) => {
                let live = live.ok_or_else(|| scope.not_found())?;
                let schema = scope.schema()?;
                let patched = operations.apply(live, &schema)?;
                let decoded = decode::patched(scope, patched.object.clone(), &operations.complaints)
                    .map_err(|why| patched.undecodable(&why))?;
                scope.warnings.extend(decoded.warnings);
                Ok(decoded.object)
            }
            Self::Apply(applied) => {
                let decoded = decode::applied(scope, applied.clone())?;
                scope.warnings.extend(decoded.warnings);
                let uid = applied.uid();
                if live.is_none() && !uid.is_empty() {
                    let of = &scope.resource.group_resource;
                    let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                    return Err(ApiError::conflict(of, &scope.name, &why));
                }
                let merged = manage::apply(state, scope, live, applied, now)?;
                decode::settle(&scope.resource, merged)
            }
        }
    }
}
