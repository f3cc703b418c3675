//! Patch: JSON patch, merge patch, strategic merge patch, apply.

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
use crate::patch::{self, PatchType, Patched, applied};
use crate::request::{Body, Request};

/// A patch as sent. It is decoded when there is an object to patch: upstream answers 404 before it
/// looks at the body.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    patch_type: PatchType,
    body: Body,
}

pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Result<Next, ApiError> {
    let scope = Scope::of(state, &request)?;
    let content_type = match &request.body {
        Body::Empty => "",
        Body::Bytes { content_type, .. } => content_type,
        Body::Json { content_type, .. } => content_type,
    };
    let patch_type = PatchType::of_content_type(content_type, scope.resource.is_custom())?;
    check_options(&request, patch_type)?;
    let patch = Patch { patch_type, body: request.body };
    update::start(state, scope, Arc::new(How::Patch(patch)), now)
}

/// `ValidatePatchOptions` upstream, the part that depends on the type of the patch.
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
        self.patch_type == PatchType::Apply
    }

    /// The object that the patch makes of `live`; an apply of `None` creates.
    ///
    /// # Errors
    /// What does not decode, does not apply, or changes what the object is.
    pub(crate) fn apply_to(
        &self,
        state: &State,
        scope: &mut Scope,
        live: Option<&Object>,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        let object = if self.is_apply() {
            let applied = applied::decode(&self.body)?;
            let mut object = manage::apply(state, scope, live, &applied, now)?;
            decode::settle_noting(&scope.resource, &scope.kind, &mut object, &mut Vec::new())
                .map_err(ApiError::bad_request)?;
            object
        } else {
            let live = live.ok_or_else(|| scope.not_found())?;
            let lenient = scope.options.field_validation == FieldValidation::Ignore;
            let patch = patch::Patch::decode(self.patch_type, &self.body, lenient)?;
            let patched = patch.apply(live, &scope.schema()?)?;
            decode_patched(scope, &patched, patch.complaints)?
        };
        check_identity(scope, object, live.is_none())
    }
}

/// Does the request speak of the object itself, not of a view with a kind of its own?
fn is_whole(scope: &Scope) -> bool {
    scope.kind == scope.resource.kind
}

/// Decodes what a patch has made of an object, like one that was sent.
fn decode_patched(scope: &mut Scope, patched: &Patched, complaints: Vec<String>) -> Result<Value, ApiError> {
    let mut object = patched.object.clone();
    if !scope.resource.is_custom() || !is_whole(scope) {
        // Without a version upstream decodes to an empty object, which then lacks a name.
        if object.api_version().is_empty() {
            return Err(no_name(scope));
        }
        let (version, kind) = (object.api_version(), object.kind());
        if version != scope.kind.api_version() || kind != &*scope.kind.kind {
            return Err(patched.undecodable(&format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
            )));
        }
    }
    let mut minded = complaints;
    decode::settle_noting(&scope.resource, &scope.kind, &mut object, &mut minded)
        .map_err(|why| patched.undecodable(&why))?;
    match scope.options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => scope.warnings.append(&mut minded),
        FieldValidation::Strict if minded.is_empty() => {}
        FieldValidation::Strict => {
            return Err(patched.undecodable(&format!("strict decoding error: {}", minded.join(", "))));
        }
    }
    Ok(object)
}

/// Is it still the object in the path (`applyPatch` upstream)?
fn check_identity(scope: &Scope, mut object: Value, creates: bool) -> Result<Value, ApiError> {
    if creates && !object.uid().is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            object.uid()
        );
        return Err(ApiError::conflict(&scope.resource.group_resource, &scope.name, &why));
    }
    decode::match_namespace(&scope.resource, &scope.namespace, &mut object)?;
    decode::match_name(scope, &object)?;
    if scope.resource.is_custom() && is_whole(scope) {
        check_custom_kind(scope, &object)?;
    }
    Ok(object)
}

/// Custom objects keep the kind that was patched into them until validation, which refuses it
/// (`validateTypeMeta` of the custom resources' strategy upstream).
fn check_custom_kind(scope: &Scope, object: &Value) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    for (field, found, expected) in [
        ("kind", object.kind(), scope.kind.kind.to_string()),
        ("apiVersion", object.api_version(), scope.kind.api_version()),
    ] {
        if found != expected {
            errors.push(FieldError::invalid(field, &found.into(), format!("must be {expected}")));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&scope.kind.group, object.kind(), object.name(), &errors))
}

fn no_name(scope: &Scope) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        scope.name
    ))
}
