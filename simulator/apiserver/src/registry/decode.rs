//! From a request's body to an object of the kind that is asked for.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use super::options::FieldValidation;
use super::scope::Scope;
use crate::error::{ApiError, FieldError};
use crate::object::{ObjectExt, metadata_mut};
use crate::request::Body;
use crate::resource::{GroupVersionKind, Resource, api_version, split_api_version};
use crate::schema::json::{self, Document};
use crate::schema::{protobuf, yaml};
use crate::{builtin, definitions, schema};

/// An object as upstream's decoder leaves it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Decodes, defaults and checks the identity of the object in a body.
///
/// # Errors
/// 415 for a media type, 400 for what does not decode, 422 for a custom object of another kind.
pub(crate) fn object(scope: &Scope, body: Body) -> Result<Decoded, ApiError> {
    let (parsed, bytes) = parse(&scope.kind.kind, body)?;
    let mut object = parsed.value;
    identify(scope, &mut object, &bytes)?;
    finish(scope, object, parsed.duplicates)
}

/// Drops or refuses unknown fields, fits values to their types, fills in defaults.
fn finish(scope: &Scope, object: Value, duplicates: Vec<String>) -> Result<Decoded, ApiError> {
    let strict = scope.options.field_validation;
    let kind = &scope.kind;
    let unfit = |message: String| {
        ApiError::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: {message}",
            kind.kind, kind.version
        ))
    };
    let mut object = object;
    let mut minded: Vec<String> = Vec::new();
    settle_noting(&scope.resource, &scope.kind, &mut object, &mut minded).map_err(&unfit)?;
    minded.extend(duplicates.into_iter().map(|path| format!("duplicate field \"{path}\"")));
    let warnings = match strict {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => minded,
        FieldValidation::Strict if minded.is_empty() => minded,
        FieldValidation::Strict => return Err(unfit(format!("strict decoding error: {}", minded.join(", ")))),
    };
    Ok(Decoded { object, warnings })
}

/// One decoding: as Go's types for built-in kinds, by pruning and defaulting for custom ones. `kind` is
/// what the request speaks: the resource's own kind, or that of a subresource (`Scale`, `Eviction`).
///
/// # Errors
/// The decoder's words.
pub(crate) fn settle_noting(
    resource: &Resource,
    kind: &GroupVersionKind,
    object: &mut Value,
    minded: &mut Vec<String>,
) -> Result<(), String> {
    if !object.is_object() {
        return Err(not_an_object(object));
    }
    let own = *kind == resource.kind;
    let decoded = if own && resource.is_custom() {
        definitions::decode(object, &resource.schema)?
    } else if own {
        let decoded = schema::typed::decode(object, &resource.schema)?;
        builtin::strategy(resource).default(object);
        decoded
    } else {
        let spoken = schema::builtin::schema(kind);
        spoken.map(|spoken| schema::typed::decode(object, &spoken)).transpose()?.unwrap_or_default()
    };
    minded.extend(decoded.unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    Ok(())
}

/// Brings what strategies and defaults have written into the form that upstream's types write.
///
/// # Errors
/// 500 when our own additions do not fit the kind's types.
pub(crate) fn canonical(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if !resource.is_custom() {
        schema::typed::decode(object, &resource.schema).map_err(ApiError::internal)?;
    }
    Ok(())
}

/// What a patch or a webhook has made of an object, decoded and defaulted anew.
///
/// # Errors
/// 400 in the decoder's words.
pub(crate) fn settle(resource: &Resource, kind: &GroupVersionKind, mut object: Value) -> Result<Value, ApiError> {
    settle_noting(resource, kind, &mut object, &mut Vec::new()).map_err(ApiError::bad_request)?;
    Ok(object)
}

/// A body as JSON, whatever its encoding; with the bytes, for messages.
fn parse(kind: &str, body: Body) -> Result<(Document, Bytes), ApiError> {
    match body {
        Body::Json { value, .. } => {
            let parsed = whole(Document { value, duplicates: Vec::new() });
            Ok((parsed.map_err(|why| ApiError::bad_request(format!("{kind}: {why}")))?, Bytes::new()))
        }
        Body::Empty => parse_bytes(kind, "application/json", Bytes::new()),
        Body::Bytes { content_type, bytes } => parse_bytes(kind, &content_type, bytes),
    }
}

fn parse_bytes(kind: &str, content_type: &str, bytes: Bytes) -> Result<(Document, Bytes), ApiError> {
    let unrecognised = |why: String| {
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let unparsed =
        |why: &str| unrecognised(format!("couldn't get version/kind; json parse error: {why} ({})", excerpt(&bytes)));
    match media_type(content_type).as_ref() {
        "" | "application/json" => {
            let parsed = json::read(&bytes).map_err(|why| unparsed(&why))?;
            Ok((whole(parsed).map_err(|why| unparsed(&why))?, bytes))
        }
        "application/yaml" => {
            let parsed = yaml::read(&bytes).map_err(|why| unrecognised(format!("{why} ({})", excerpt(&bytes))))?;
            Ok((whole(parsed).map_err(|why| unparsed(&why))?, bytes))
        }
        "application/vnd.kubernetes.protobuf" => {
            let parsed = protobuf::read(&bytes).map_err(|why| unrecognised(format!("{why} ({})", excerpt(&bytes))))?;
            Ok((whole(parsed).map_err(|why| unparsed(&why))?, bytes))
        }
        _ => Err(unsupported_media_type(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ])),
    }
}

/// A body that is an object and names its kind, if at all, in words; null is an empty object.
fn whole(parsed: Document) -> Result<Document, String> {
    match &parsed.value {
        Value::Object(members) => {
            for field in ["apiVersion", "kind"] {
                if let Some(other) = members.get(field).filter(|value| !value.is_string() && !value.is_null()) {
                    let what = go_kind(other);
                    return Err(format!("json: cannot unmarshal {what} into Go struct field .{field} of type string"));
                }
            }
            Ok(parsed)
        }
        Value::Null => Ok(Document { value: Value::Object(serde_json::Map::new()), ..parsed }),
        other => Err(not_an_object(other)),
    }
}

/// What Go calls a JSON value of the wrong type.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Object(_) => "object",
    }
}

/// 415.
pub(crate) fn unsupported_media_type(accepted: &[&str]) -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        ),
    )
}

/// A media type without parameters, in lower case.
pub(crate) fn media_type(content_type: &str) -> Cow<'_, str> {
    let bare = content_type.split(';').next().unwrap_or_default().trim();
    if bare.chars().any(|c| c.is_ascii_uppercase()) { bare.to_ascii_lowercase().into() } else { bare.into() }
}

fn not_an_object(value: &Value) -> String {
    let what = go_kind(value);
    format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// The beginning of a body as messages show it: text when it begins like JSON, else hexadecimal
/// (`summarizeData` in `k8s.io/apiserver/pkg/endpoints/handlers/rest.go`).
fn excerpt(bytes: &[u8]) -> String {
    /// Bytes that are shown.
    const MAX: usize = 30;
    let shown = &bytes[..bytes.len().min(MAX)];
    let more = if bytes.len() > MAX { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

/// Is the object of the kind that the path takes? Missing kinds are filled in for built-in kinds.
fn identify(scope: &Scope, object: &mut Value, bytes: &Bytes) -> Result<(), ApiError> {
    let expected = scope.kind.api_version();
    let (sent_version, sent_kind) = (object.api_version().to_owned(), object.kind().to_owned());
    let custom = scope.resource.is_custom() && scope.kind == scope.resource.kind;
    if custom {
        return identify_custom(scope, object, &sent_version, &sent_kind, bytes);
    }
    if !sent_kind.is_empty() && sent_kind != *scope.kind.kind {
        let of = go_package(split_api_version(&sent_version).0);
        return Err(ApiError::bad_request(format!(
            "{sent_kind} in version \"{}\" cannot be handled as a {}: converting (v1.{sent_kind}) to ({of}.{}): unknown conversion",
            scope.kind.version, scope.kind.kind, scope.kind.kind
        )));
    }
    if !sent_version.is_empty() && sent_version != expected {
        let (group, version) = split_api_version(&sent_version);
        if is_once_served(group, version) {
            return Err(other_version(&sent_version, &expected));
        }
        return Err(ApiError::bad_request(format!(
            "{0} in version \"{version}\" cannot be handled as a {0}: no kind \"{0}\" is registered for version \"{sent_version}\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
            scope.kind.kind
        )));
    }
    object["apiVersion"] = expected.into();
    object["kind"] = (*scope.kind.kind).into();
    Ok(())
}

fn identify_custom(
    scope: &Scope,
    object: &Value,
    sent_version: &str,
    sent_kind: &str,
    bytes: &Bytes,
) -> Result<(), ApiError> {
    let missing = |what: &str| {
        let shown = if bytes.is_empty() { object.to_string() } else { String::from_utf8_lossy(bytes).into_owned() };
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object '{what}' is missing in '{shown}' ({})",
            scope.kind.kind,
            excerpt(shown.as_bytes()),
        ))
    };
    if sent_kind.is_empty() {
        return Err(missing("Kind"));
    }
    if sent_version.is_empty() {
        return Err(missing("apiVersion"));
    }
    let expected = api_version(&scope.kind.group, &scope.kind.version);
    if sent_version != expected {
        return Err(other_version(sent_version, &expected));
    }
    if sent_kind != &*scope.kind.kind {
        let errors = [FieldError::invalid("kind", &sent_kind.into(), format!("must be {}", scope.kind.kind))];
        return Err(ApiError::invalid(&scope.kind.group, sent_kind, object.name(), &errors));
    }
    Ok(())
}

fn other_version(sent: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({sent}) does not match the expected API version ({expected})"
    ))
}

/// Versions that upstream still knows although it no longer serves all of their kinds.
fn is_once_served(group: &str, version: &str) -> bool {
    let known: &[&str] = match group {
        "apps" => &["v1", "v1beta1", "v1beta2"],
        "batch" | "policy" | "discovery.k8s.io" | "events.k8s.io" => &["v1", "v1beta1"],
        "autoscaling" => &["v1", "v2"],
        "networking.k8s.io"
        | "coordination.k8s.io"
        | "storage.k8s.io"
        | "scheduling.k8s.io"
        | "rbac.authorization.k8s.io"
        | "admissionregistration.k8s.io"
        | "certificates.k8s.io" => &["v1", "v1alpha1", "v1beta1"],
        "extensions" => &["v1beta1"],
        "" => &["v1"],
        _ => &[],
    };
    known.contains(&version)
}

/// The Go package of a group's internal types, as conversion errors name it.
fn go_package(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// Fills in the namespace of the path, or refuses another
/// (`EnsureObjectNamespaceMatchesRequestNamespace` upstream).
///
/// # Errors
/// 400 when the body names another namespace than the path.
pub(crate) fn match_namespace(resource: &Resource, namespace: &str, object: &mut Value) -> Result<(), ApiError> {
    if !resource.namespaced {
        metadata_mut(object).remove("namespace");
        return Ok(());
    }
    match object.namespace() {
        "" => {
            crate::object::set_meta(object, "namespace", namespace);
            Ok(())
        }
        same if same == namespace => Ok(()),
        _ => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Does the object in the body have the name of the path?
///
/// # Errors
/// 400.
pub(crate) fn match_name(scope: &Scope, object: &Value) -> Result<(), ApiError> {
    match object.name() {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            scope.name
        ))),
        same if same == scope.name => Ok(()),
        other => Err(ApiError::bad_request(format!(
            "the name of the object ({other}) does not match the name on the URL ({})",
            scope.name
        ))),
    }
}

/// `DeleteOptions` in the body of a delete.
///
/// # Errors
/// 400 when it does not decode or is something else.
pub(crate) fn delete_options(content_type: &str, bytes: &Bytes) -> Result<Value, ApiError> {
    let accepted = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    let value = match media_type(content_type).as_ref() {
        "" | "application/json" => {
            let parsed = json::read(bytes)
                .map_err(|why| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?;
            parsed.value
        }
        "application/yaml" => yaml::read(bytes).map_err(ApiError::bad_request)?.value,
        "application/vnd.kubernetes.protobuf" => protobuf::read(bytes).map_err(ApiError::bad_request)?.value,
        _ => return Err(unsupported_media_type(&accepted)),
    };
    let (version, kind) = (value.api_version(), value.kind());
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    Ok(value)
}
