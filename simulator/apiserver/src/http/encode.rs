//! Answers to bytes: JSON, YAML, Tables, partial metadata, watch events, `Warning` headers.

use std::borrow::Cow;
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WARNING};
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::negotiate::{Form, Shape};
use crate::error::{ApiError, FieldError};
use crate::request::{Answer, Response};
use crate::table::{IncludeObject, Printer};
use crate::watch::WatchEvent;

/// How the answer to one request is to be encoded: the agreed form and what it needs to know.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    /// The agreed form.
    pub form: Form,
    /// How objects become rows; needed for Tables only.
    pub printer: Option<Printer>,
    /// `includeObject`, as sent.
    pub include_object: String,
    /// Go's name of the kind (`core.ConfigMap`), which error texts of partial metadata carry.
    pub go_kind: String,
    /// Has a watch already sent its column definitions?
    columns_sent: bool,
}

impl Encoder {
    /// For answers that are never converted.
    #[must_use]
    pub fn plain(form: Form) -> Self {
        Self { form, ..Self::default() }
    }

    /// Refuses what cannot be converted, before the request runs.
    ///
    /// # Errors
    /// 400 for an unknown `includeObject`.
    pub fn check(&self) -> Result<(), ApiError> {
        if matches!(self.form.shape, Shape::Table(_)) {
            self.include()?;
        }
        Ok(())
    }

    fn include(&self) -> Result<IncludeObject, ApiError> {
        match self.include_object.as_str() {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => {
                let error = FieldError::invalid(
                    "includeObject",
                    &Value::from(other),
                    "must be 'Metadata', 'Object', 'None', or empty",
                );
                Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }

    /// The whole answer. Watches have no body yet: their events follow, see [`Encoder::event`].
    #[must_use]
    pub fn response(&mut self, response: &Response, now: Timestamp) -> http::Response<Bytes> {
        let mut out = match &response.body {
            Answer::Text(text) => text_response(response.code, text.clone()),
            Answer::Watch(_) => {
                let mut out = http::Response::new(Bytes::new());
                set_status(&mut out, response.code);
                out.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type()));
                out
            }
            // As it is, a list goes out without a copy of its objects.
            Answer::List(list) if self.form == Form::default() => self.with_headers(response.code, json_line(list)),
            Answer::Object(_) | Answer::List(_) | Answer::Json(_) => match self.convert(response.json(), now) {
                Ok(Some(converted)) => self.body(response.code, &converted),
                Ok(None) => self.body(response.code, response.json()),
                Err(error) => self.body(error.code, &error.to_status()),
            },
        };
        for warning in bounded(&response.warnings) {
            if let Some(value) = warning_header(&warning) {
                out.headers_mut().append(WARNING, value);
            }
        }
        out
    }

    /// A refusal.
    #[must_use]
    pub fn error(&self, error: &ApiError) -> http::Response<Bytes> {
        self.body(error.code, &error.to_status())
    }

    /// JSON in the agreed encoding.
    #[must_use]
    pub fn body(&self, code: u16, value: &Value) -> http::Response<Bytes> {
        self.with_headers(code, self.bytes(value))
    }

    fn with_headers(&self, code: u16, body: Bytes) -> http::Response<Bytes> {
        let mut out = http::Response::new(body);
        set_status(&mut out, code);
        let headers = out.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        out
    }

    /// One line of a watch.
    #[must_use]
    pub fn event(&mut self, event: &WatchEvent, now: Timestamp) -> Bytes {
        /// Serialises without copying the object.
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            type_: &'a str,
            object: &'a Value,
        }
        let converted =
            if event.type_ == "ERROR" { None } else { self.convert_event(&event.object, now).unwrap_or_default() };
        let object = converted.as_ref().unwrap_or(&event.object);
        json_line(&Line { type_: event.type_, object })
    }

    fn content_type(&self) -> &'static str {
        if self.form.yaml { "application/yaml" } else { "application/json" }
    }

    fn bytes(&self, value: &Value) -> Bytes {
        if self.form.yaml {
            // JSON values always have a YAML form.
            return serde_yaml::to_string(value).unwrap_or_default().into();
        }
        if self.form.pretty {
            let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
            text.push(b'\n');
            return text.into();
        }
        json_line(value)
    }

    /// The value in the agreed shape; `None` when it stays as it is.
    fn convert(&self, value: &Value, now: Timestamp) -> Result<Option<Value>, ApiError> {
        let is_list = value["items"].is_array();
        if value["kind"] == "Status" && value["apiVersion"] == "v1" {
            return Ok(None);
        }
        match self.form.shape {
            Shape::AsIs | Shape::Discovery(_) => Ok(None),
            Shape::Table(version) => {
                let Some(printer) = &self.printer else { return Ok(None) };
                let objects: Vec<&Value> =
                    if is_list { value["items"].as_array().into_iter().flatten().collect() } else { vec![value] };
                let metadata = list_metadata(&value["metadata"]);
                Ok(Some(printer.table(version, &objects, &metadata, self.include()?, true, now)))
            }
            Shape::Partial(version) if !is_list => Ok(Some(partial(version, value))),
            Shape::PartialList(version) if is_list => Ok(Some(json!({
                "apiVersion": format!("meta.k8s.io/{version}"),
                "kind": "PartialObjectMetadataList",
                "metadata": list_metadata(&value["metadata"]),
                "items": value["items"].as_array().into_iter().flatten().map(|item| partial(version, item)).collect::<Vec<_>>(),
            }))),
            Shape::Partial(_) => Err(ApiError::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                    self.go_kind
                ),
            )),
            Shape::PartialList(_) => Err(ApiError::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                    self.go_kind
                ),
            )),
        }
    }

    fn convert_event(&mut self, object: &Value, now: Timestamp) -> Result<Option<Value>, ApiError> {
        match (self.form.shape, &self.printer) {
            (Shape::Table(version), Some(printer)) => {
                let metadata = list_metadata(&object["metadata"]);
                let table = printer.table(version, &[object], &metadata, self.include()?, !self.columns_sent, now);
                self.columns_sent = true;
                Ok(Some(table))
            }
            (Shape::Partial(version) | Shape::PartialList(version), _) => Ok(Some(partial(version, object))),
            _ => Ok(None),
        }
    }
}

/// `PartialObjectMetadata` of an object.
#[must_use]
pub fn partial(version: &str, object: &Value) -> Value {
    json!({
        "apiVersion": format!("meta.k8s.io/{version}"),
        "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}

/// What a converted list keeps of its metadata; of an object, the version.
fn list_metadata(metadata: &Value) -> Value {
    let kept = ["resourceVersion", "continue", "remainingItemCount"].into_iter().filter_map(|field| {
        let value = metadata.get(field)?;
        (value != "").then(|| (field.to_owned(), value.clone()))
    });
    Value::Object(kept.collect::<Map<_, _>>())
}

/// Plain text.
#[must_use]
pub fn text_response(code: u16, text: impl Into<Bytes>) -> http::Response<Bytes> {
    let mut out = http::Response::new(text.into());
    set_status(&mut out, code);
    out.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    out
}

/// The answer of paths that nobody serves.
#[must_use]
pub fn page_not_found() -> http::Response<Bytes> {
    text_response(404, "404 page not found\n")
}

fn set_status(response: &mut http::Response<Bytes>, code: u16) {
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
}

/// Compact JSON and a line feed, as Go's encoder ends it.
fn json_line(value: &impl Serialize) -> Bytes {
    let mut buffer = BytesMut::with_capacity(1024).writer();
    // Writing to memory does not fail, and a `Value` has string keys only.
    let written: io::Result<()> = serde_json::to_writer(&mut buffer, value).map_err(Into::into);
    debug_assert!(written.is_ok(), "a JSON value serialises");
    let mut bytes = buffer.into_inner();
    bytes.put_u8(b'\n');
    bytes.freeze()
}

/// Characters of all warnings of an answer, before each is cut.
const WARNINGS_CHARS_MAX: usize = 4 * 1024;
/// Characters of one warning, where they are cut.
const WARNING_CHARS_MAX: usize = 256;

/// The warnings that are sent: each once, and cut when they are too long together
/// (`k8s.io/apiserver/pkg/endpoints/filters/warning.go`).
fn bounded(warnings: &[String]) -> Vec<Cow<'_, str>> {
    let mut sent: Vec<Cow<'_, str>> = Vec::new();
    for warning in warnings.iter().filter(|warning| !warning.is_empty()) {
        if !sent.iter().any(|other| other == warning) {
            sent.push(Cow::Borrowed(warning));
        }
    }
    let count = |warnings: &[Cow<'_, str>]| -> usize { warnings.iter().map(|warning| warning.chars().count()).sum() };
    if count(&sent) > WARNINGS_CHARS_MAX {
        for warning in &mut sent {
            *warning = Cow::Owned(warning.chars().take(WARNING_CHARS_MAX).collect());
        }
        while sent.len() > 1 && count(&sent[..sent.len() - 1]) >= WARNINGS_CHARS_MAX {
            sent.pop();
        }
    }
    sent
}

/// `299 - "text"`, quotes and backslashes escaped (`k8s.io/apimachinery/pkg/util/net/http.go`).
fn warning_header(text: &str) -> Option<HeaderValue> {
    let mut quoted = String::with_capacity(text.len() + 8);
    quoted.push_str("299 - \"");
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        if matches!(letter, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes()).ok()
}

/// Go's name of a kind: the last part of the group's package and the kind.
#[must_use]
pub fn go_kind(group: &str, kind: &str, custom: bool) -> String {
    if custom {
        return "unstructured.Unstructured".to_owned();
    }
    let package = match group {
        "" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        other => other.split('.').next().unwrap_or(other),
    };
    format!("{package}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_sent_once_and_within_bounds() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(bounded(&texts(&["a", "", "b", "a"])), ["a", "b"]);
        let long: Vec<String> = (0..30).map(|n| format!("{n:02}{}", "x".repeat(400))).collect();
        let sent = bounded(&long);
        assert_eq!((sent.len(), sent[0].len()), (16, 256));
    }

    #[test]
    fn a_warning_is_quoted_for_the_header() {
        let header = warning_header("unknown field \"a\\b\"\n").unwrap();
        assert_eq!(header.to_str().unwrap(), r#"299 - "unknown field \"a\\b\"""#);
    }
}
