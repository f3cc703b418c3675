//! `AdmissionReview`: what a webhook is sent, and what its answer means.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`,
//! `k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`, and for answers that are no
//! reviews `k8s.io/client-go/rest/request.go` and `k8s.io/apimachinery/pkg/api/errors/errors.go`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Value, json};

use super::Attributes;
use super::matching::{Matched, Shown};
use super::webhooks::Webhook;
use crate::control_plane::WebhookAnswer;
use crate::error::{ApiError, Details};
use crate::resource::{GroupVersionKind, Resource};

/// Bytes of an unstructured error body that reach a message.
const ERROR_TEXT_BYTES_MAX: usize = 2048;

fn kind(kind: &GroupVersionKind) -> Value {
    json!({"group": &*kind.group, "version": &*kind.version, "kind": &*kind.kind})
}

fn resource(resource: &Resource) -> Value {
    let of = &resource.group_resource;
    json!({"group": &*of.group, "version": &*resource.kind.version, "resource": &*of.resource})
}

/// `AdmissionRequest` without uid and objects: also the variable `request` of expressions.
pub(super) fn request(attributes: &Attributes, matched: &Matched) -> Value {
    let user = &attributes.user;
    let mut user_info = json!({"username": user.name});
    if !user.uid.is_empty() {
        user_info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        user_info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        user_info["extra"] = json!(user.extra);
    }
    let mut request = json!({
        "kind": kind(&matched.kind),
        "resource": resource(&matched.resource),
        "requestKind": kind(&attributes.kind),
        "requestResource": resource(&attributes.resource),
        "operation": attributes.operation.as_str(),
        "userInfo": user_info,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    for (field, text) in [
        ("subResource", &attributes.subresource),
        ("requestSubResource", &attributes.subresource),
        ("name", &attributes.name),
        ("namespace", &attributes.namespace),
    ] {
        if !text.is_empty() {
            request[field] = text.as_str().into();
        }
    }
    request
}

/// The review to send, as JSON bytes.
pub(super) fn bytes(uid: &str, webhook: &Webhook, attributes: &Attributes, matched: &Matched, shown: &Shown) -> Bytes {
    let mut request = request(attributes, matched);
    request["uid"] = uid.into();
    let mut review = json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{}", webhook.review_version),
    });
    for (field, object) in [("object", &shown.object), ("oldObject", &shown.old_object)] {
        request[field] = object.as_deref().cloned().unwrap_or(Value::Null);
    }
    review["request"] = request;
    Bytes::from(review.to_string())
}

/// What a webhook has decided.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The refusal, unless it allows.
    pub(super) refusal: Option<ApiError>,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
    /// The patch and its type.
    pub(super) patch: Option<(Vec<u8>, String)>,
}

/// Reads a webhook's answer.
///
/// # Errors
/// What went wrong with the call: the part of the sentence after `failed calling webhook "NAME": `.
pub(super) fn read(answer: &WebhookAnswer, webhook: &Webhook, uid: &str, mutating: bool) -> Result<Verdict, String> {
    let post = |why: &str| format!("failed to call webhook: Post \"{}\": {why}", webhook.url());
    let review = match answer {
        WebhookAnswer::Failed(why) => return Err(post(why)),
        WebhookAnswer::TimedOut => return Err(post("context deadline exceeded")),
        WebhookAnswer::Http { code: 200..=206, body, .. } => decode(body, webhook),
        WebhookAnswer::Http { code, content_type, body } => Err(unexpected(*code, content_type, body)),
    };
    let review = review.map_err(|why| format!("failed to call webhook: {why}"))?;
    verdict(&review, webhook, uid, mutating).map_err(|why| format!("received invalid webhook response: {why}"))
}

/// Decodes a body as the review that was expected; a `Status` is an error, as client-go has it.
fn decode(body: &[u8], webhook: &Webhook) -> Result<Value, String> {
    let version = webhook.review_version;
    let review = crate::schema::json::read(body)
        .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?
        .value;
    if !review.is_object() {
        let found = match &review {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            // `null` decodes into anything.
            Value::Null | Value::Object(_) => return Ok(json!({})),
        };
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
             struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    let text = |field: &str| review[field].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        // What says nothing is taken for what was asked for.
        ("", "" | "AdmissionReview") => Ok(review),
        ("admission.k8s.io/v1" | "admission.k8s.io/v1beta1", "" | "AdmissionReview") => {
            let sent = text("apiVersion").rsplit('/').next().unwrap_or_default();
            if sent == version {
                Ok(review)
            } else {
                Err(format!("converting ({sent}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"))
            }
        }
        ("v1", "Status") => Err(text("message").to_owned()),
        (api_version, kind) => Err(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \
             \"k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go\""
        )),
    }
}

/// What client-go says of an HTTP error (`NewGenericServerResponse`).
fn unexpected(code: u16, content_type: &str, body: &[u8]) -> String {
    let status = serde_json::from_slice::<Value>(body).unwrap_or_default();
    if status["kind"] == "Status" && status["apiVersion"] == "v1" && status["status"] == "Failure" {
        return status["message"].as_str().unwrap_or_default().to_owned();
    }
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let text = if is_text {
        String::from_utf8_lossy(&body[..body.len().min(ERROR_TEXT_BYTES_MAX)]).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => text,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if text.is_empty() || text == "unknown" => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => text,
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Checks a review and takes the decision out of it (`VerifyAdmissionResponse`).
fn verdict(review: &Value, webhook: &Webhook, uid: &str, mutating: bool) -> Result<Verdict, String> {
    let Some(response) = review["response"].as_object() else {
        return Err("webhook response was absent".to_owned());
    };
    let text = |field: &str| response.get(field).and_then(Value::as_str);
    let patch = text("patch").unwrap_or_default();
    let mut patch_type = text("patchType");
    if webhook.review_version == "v1beta1" {
        // Nothing of it was checked in that version, and there was one type of patch.
        patch_type = (!patch.is_empty()).then_some("JSONPatch");
    } else {
        let sent = text("uid").unwrap_or_default();
        if sent != uid {
            return Err(format!("expected response.uid={uid:?}, got {sent:?}"));
        }
        let (api_version, kind) = (review["apiVersion"].as_str(), review["kind"].as_str());
        if (api_version, kind) != (Some("admission.k8s.io/v1"), Some("AdmissionReview")) {
            let got = match api_version.unwrap_or_default() {
                "" => "/".to_owned(),
                version => version.to_owned(),
            };
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}, Kind={}",
                kind.unwrap_or_default()
            ));
        }
        check_patch(patch, patch_type, mutating)?;
    }
    let patch = if mutating && !patch.is_empty() {
        let patch = BASE64.decode(patch).map_err(|_| "illegal base64 data in response.patch".to_owned())?;
        Some((patch, patch_type.unwrap_or_default().to_owned()))
    } else {
        None
    };
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    let allowed = response.get("allowed") == Some(&Value::Bool(true));
    Ok(Verdict {
        refusal: (!allowed).then(|| refusal(&webhook.name, response.get("status").unwrap_or(&Value::Null))),
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        patch,
    })
}

fn check_patch(patch: &str, patch_type: Option<&str>, mutating: bool) -> Result<(), String> {
    let wrong = match (mutating, patch, patch_type) {
        (true, "", Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, "", None) => return Ok(()),
        (true, _, None) => "webhook returned response.patch but not response.patchType",
        (true, _, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (true, _, Some(_)) => return Ok(()),
        (false, "", None) => return Ok(()),
        (false, "", Some(_)) => "validating webhook may not return response.patchType",
        (false, _, _) => "validating webhook may not return response.patch",
    };
    Err(wrong.to_owned())
}

/// The answer to a request that a webhook denies, from the `Status` it gave (`ToStatusErr`).
fn refusal(webhook: &str, status: &Value) -> ApiError {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let mut error = ApiError::new(code.filter(|code| *code >= 400).unwrap_or(400), text("reason").to_owned(), message);
    error.details = status["details"].is_object().then(|| Box::new(Details::from_json(&status["details"])));
    error
}
