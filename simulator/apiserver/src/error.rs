//! What the API server answers when it refuses: every reason upstream gives, with code, details and causes.
//!
//! Source of texts, reasons and codes: `k8s.io/apimachinery/pkg/api/errors/errors.go` and
//! `k8s.io/apimachinery/pkg/util/validation/field/errors.go`.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::resource::GroupResource;

/// A refused request, as the `Status` body that upstream sends.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code, also `status.code`.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`; empty where upstream leaves it out.
    pub reason: Cow<'static, str>,
    /// The sentence for people.
    pub message: String,
    /// `details`, where upstream sends them (boxed: errors travel in `Result`s).
    pub details: Option<Box<Details>>,
}

/// `status.details`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Name of the object concerned.
    pub name: String,
    /// API group of the object concerned; empty for core.
    pub group: String,
    /// Resource (`configmaps`) or, for invalid objects, kind (`ConfigMap`): upstream mixes them.
    pub kind: String,
    /// uid of the object concerned, where upstream tells it.
    pub uid: String,
    /// One entry for each thing wrong.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense; 0 leaves the field out.
    pub retry_after_seconds: u32,
}

/// One entry of `status.details.causes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldManagerConflict`, …; empty leaves the field out.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
    /// Path of the field (`spec.replicas`); empty leaves the field out.
    pub field: String,
}

/// One field that does not validate: `field.Error` upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, for example `spec.containers[0].name`.
    pub field: String,
    /// What kind of error, and so how it reads.
    pub kind: FieldErrorKind,
    /// The offending value as upstream prints it; ignored for the kinds that print none.
    pub value: String,
    /// The rest of the sentence.
    pub detail: String,
}

/// The kinds of [`FieldError`], named as upstream names them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldErrorKind {
    /// `Not found`
    NotFound,
    /// `Required value`
    Required,
    /// `Duplicate value`
    Duplicate,
    /// `Invalid value`
    Invalid,
    /// `Unsupported value`
    NotSupported,
    /// `Forbidden`
    Forbidden,
    /// `Too long`
    TooLong,
    /// `Too many`
    TooMany,
    /// `Internal error`
    Internal,
    /// `Invalid value`, reported with reason `FieldValueTypeInvalid`
    TypeInvalid,
}

impl FieldErrorKind {
    /// The `reason` of the cause.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

impl FieldError {
    /// An error whose value is printed as JSON prints it (strings in quotes).
    #[must_use]
    pub fn new(kind: FieldErrorKind, field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self { field: field.into(), kind, value: value.to_string(), detail: detail.into() }
    }

    /// `Invalid value`.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, value, detail)
    }

    /// `Required value`.
    #[must_use]
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), kind: FieldErrorKind::Required, value: String::new(), detail: detail.into() }
    }

    /// `Forbidden`.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), kind: FieldErrorKind::Forbidden, value: String::new(), detail: detail.into() }
    }

    /// `Duplicate value`.
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, value, "")
    }

    /// `Unsupported value`, with the values that are supported, sorted as given.
    #[must_use]
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(FieldErrorKind::NotSupported, field, value, detail)
    }

    /// What follows the field path: `Invalid value: "x": must be …`.
    #[must_use]
    pub fn body(&self) -> String {
        use FieldErrorKind as K;
        let mut text = match self.kind {
            K::Required | K::Forbidden | K::TooLong | K::Internal => self.kind.text().to_owned(),
            _ if self.value.is_empty() => self.kind.text().to_owned(),
            _ => format!("{}: {}", self.kind.text(), self.value),
        };
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl ApiError {
    /// An error without details.
    #[must_use]
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), details: None }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..Details::default()
        }));
        self
    }

    /// 404: no such object.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found")).about(resource, name)
    }

    /// 404: no such path.
    #[must_use]
    pub fn no_such_path() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::default());
        error
    }

    /// 409: a create of something that is there.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} \"{name}\" already exists")).about(resource, name)
    }

    /// 409: a precondition does not hold; `why` is the sentence after the colon.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"))
            .about(resource, name)
    }

    /// 409: the sent resourceVersion is not the stored one.
    #[must_use]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403: refused by admission or by access rules; `why` is the sentence after the colon.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// 422: the object does not validate. `kind` is the kind, `group` its group.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        // The sentence says each thing once; the causes repeat what was found twice.
        let mut sentences: Vec<String> = Vec::new();
        for sentence in errors.iter().map(ToString::to_string) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let summary = match &sentences[..] {
            [one] => one.clone(),
            [] => String::new(),
            several => format!("[{}]", several.join(", ")),
        };
        let mut error = Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {summary}"));
        error.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors
                .iter()
                .map(|error| Cause {
                    reason: error.kind.reason().to_owned(),
                    message: error.body(),
                    field: error.field.clone(),
                })
                .collect(),
            ..Details::default()
        }));
        error
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 405 on a resource.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let mut error =
            Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
        error.details = Some(Box::default());
        error
    }

    /// 405: the resource does not know this verb.
    #[must_use]
    pub fn method_not_supported(resource: &GroupResource, verb: &str) -> Self {
        Self::new(405, "MethodNotAllowed", format!("{verb} is not supported on resources of kind \"{resource}\""))
            .about(resource, "")
    }

    /// 410: the version asked for is no longer kept.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500.
    #[must_use]
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error.details = Some(Box::new(Details {
            causes: vec![Cause { reason: String::new(), message: message.to_string(), field: String::new() }],
            ..Details::default()
        }));
        error
    }

    /// The `Status` body.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = (&*self.reason).into();
        }
        if let Some(details) = &self.details {
            let mut out = json!({});
            for (field, text) in
                [("name", &details.name), ("group", &details.group), ("kind", &details.kind), ("uid", &details.uid)]
            {
                if !text.is_empty() {
                    out[field] = text.as_str().into();
                }
            }
            if !details.causes.is_empty() {
                out["causes"] = details.causes.iter().map(Cause::to_json).collect();
            }
            if details.retry_after_seconds > 0 {
                out["retryAfterSeconds"] = details.retry_after_seconds.into();
            }
            status["details"] = out;
        }
        status
    }
}

impl Details {
    /// Reads `status.details` of somebody else's `Status`, such as a webhook's; what it does not know it
    /// leaves out.
    #[must_use]
    pub fn from_json(details: &Value) -> Self {
        let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let retry_after = details["retryAfterSeconds"].as_u64().and_then(|seconds| u32::try_from(seconds).ok());
        Self {
            name: text(details, "name"),
            group: text(details, "group"),
            kind: text(details, "kind"),
            uid: text(details, "uid"),
            causes: details["causes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|cause| Cause {
                    reason: text(cause, "reason"),
                    message: text(cause, "message"),
                    field: text(cause, "field"),
                })
                .collect(),
            retry_after_seconds: retry_after.unwrap_or_default(),
        }
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut out = json!({});
        for (field, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out[field] = text.as_str().into();
            }
        }
        out
    }
}
