//! Paths beside resources: what is served (`/api`, `/apis`, `/openapi`), health, version.
//!
//! Documents are made from the registry at each request: they are asked for seldom, and a definition
//! that came or went must show at once.

mod aggregated;
mod groups;
mod open_api;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderValue, Method};
use serde_json::{Value, json};

use crate::control_plane::View;
use crate::error::ApiError;
use crate::http::encode::{Encoder, text_response};
use crate::http::negotiate::{self, Offer, Shape};
use crate::http::route;
use crate::request::Options;
use crate::schema::builtin;

/// Health checks that can be asked for one by one (`/healthz/etcd`).
const HEALTH_CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// Is this group served by the API server itself? Paths below it answer unknown things with a `Status`.
#[must_use]
pub fn is_built_in_group(group: &str) -> bool {
    group.is_empty() || builtin::groups().iter().any(|built_in| built_in.name == group)
}

/// Answers a path that is no resource; `None` when nobody serves it.
///
/// # Errors
/// 404 and 405 as upstream answers them below the paths of built-in groups.
pub fn answer(
    view: &View<'_>,
    path: &str,
    parts: &Parts,
    options: &Options,
) -> Result<Option<http::Response<Bytes>>, ApiError> {
    let trimmed = path.trim_matches('/');
    let segments: Vec<&str> = trimmed.split('/').collect();
    let get_only = || if parts.method == Method::GET { Ok(()) } else { Err(ApiError::method_not_allowed()) };
    match segments.as_slice() {
        [""] => json_document(parts, options, &root(view)),
        ["api"] => {
            get_only()?;
            listing(view, parts, options, true)
        }
        ["apis"] => listing(view, parts, options, false),
        ["api", version] => {
            let document = groups::resources(view, "", version).ok_or_else(ApiError::no_such_path)?;
            get_only()?;
            json_document(parts, options, &document)
        }
        ["apis", group] => match groups::group(view, group) {
            Some(document) => json_document(parts, options, &document),
            None => Ok(None),
        },
        ["apis", group, version] => match groups::resources(view, group, version) {
            Some(document) => {
                if is_built_in_group(group) {
                    get_only()?;
                }
                json_document(parts, options, &document)
            }
            None if is_built_in_group(group) => Err(ApiError::no_such_path()),
            None => Ok(None),
        },
        ["version"] => {
            get_only()?;
            json_document(parts, options, &version())
        }
        ["healthz" | "livez" | "readyz"] => Ok(Some(health(trimmed, options))),
        ["healthz" | "livez" | "readyz", check] if HEALTH_CHECKS.contains(check) => Ok(Some(text_response(200, "ok"))),
        ["openapi", "v2"] => json_document(parts, options, &open_api::v2(view)),
        ["openapi", "v3"] => json_document(parts, options, &open_api::v3_index(view)),
        ["openapi", "v3", rest @ ..] => match open_api::v3(view, &rest.join("/")) {
            Some(document) => json_document(parts, options, &document),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn json_document(
    parts: &Parts,
    options: &Options,
    document: &Value,
) -> Result<Option<http::Response<Bytes>>, ApiError> {
    let form = negotiate::negotiate(&parts.headers, Offer::Plain, is_pretty(options))?;
    Ok(Some(Encoder::plain(form).body(200, document)))
}

fn is_pretty(options: &Options) -> bool {
    route::is_true(options.0.get("pretty").map(String::as_str))
}

/// `/api` and `/apis`, plain or aggregated.
fn listing(
    view: &View<'_>,
    parts: &Parts,
    options: &Options,
    core: bool,
) -> Result<Option<http::Response<Bytes>>, ApiError> {
    let form = negotiate::negotiate(&parts.headers, Offer::Groups, is_pretty(options))?;
    let encoder = Encoder::plain(form);
    let Shape::Discovery(version) = form.shape else {
        let document = if core { api_versions(parts) } else { groups::group_list(view) };
        return Ok(Some(encoder.body(200, &document)));
    };
    let mut response = encoder.body(200, &aggregated::list(view, version, core));
    // Clients tell the aggregated document from the plain one by this header.
    let content_type = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(Some(response))
}

fn api_versions(parts: &Parts) -> Value {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1");
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    })
}

fn root(view: &View<'_>) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
    for group in groups::all(view) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{endpoint}"));
        paths.extend(HEALTH_CHECKS.iter().map(|check| format!("/{endpoint}/{check}")));
    }
    paths.extend(["/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"].map(str::to_owned));
    paths.sort();
    json!({ "paths": paths })
}

fn health(endpoint: &str, options: &Options) -> http::Response<Bytes> {
    if !options.0.contains_key("verbose") {
        return text_response(200, "ok");
    }
    let mut text: String = HEALTH_CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
    text.push_str(&format!("{endpoint} check passed\n"));
    text_response(200, text)
}

/// The release whose answers are the measure. Clients read `major`, `minor` and `gitVersion`.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.0",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
    })
}
