//! Paths and methods: what a URL asks for, before anybody knows whether it is served.
//!
//! Source of the rules: `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.

use std::collections::BTreeMap;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::request::{Options, Verb};

/// What a URL asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// A resource, known or not.
    Resource(ResourcePath),
    /// Anything else: discovery, health, version.
    Path(String),
}

/// A path below `/api/VERSION` or `/apis/GROUP/VERSION`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcePath {
    /// `None` for methods that have no verb (`TRACE`, `OPTIONS`).
    pub verb: Option<Verb>,
    /// API group; empty below `/api`.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty when the path names none.
    pub namespace: String,
    /// Plural.
    pub resource: String,
    /// Object name; empty for collections.
    pub name: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// What follows the subresource (`/metrics` of `pods/a/proxy/metrics`), without the first slash.
    pub rest: String,
    /// Is it below `/watch/`, as clients asked before `?watch=true`?
    pub watch_prefix: bool,
}

/// Subresources of a namespace, which would otherwise read as resources in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl Route {
    /// Reads method, path (still percent-encoded) and query.
    #[must_use]
    pub fn parse(method: &Method, path: &str, options: &Options) -> Self {
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        let trimmed = decoded.trim_matches('/');
        let mut parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        if parts.len() < 3 || !matches!(parts[0], "api" | "apis") {
            return Self::Path(decoded.into_owned());
        }
        let grouped = parts.remove(0) == "apis";
        if grouped && parts.len() < 3 {
            return Self::Path(decoded.into_owned());
        }
        let group = if grouped { parts.remove(0) } else { "" };
        let version = parts.remove(0);
        let watch_prefix = parts.len() > 1 && parts[0] == "watch";
        if watch_prefix {
            parts.remove(0);
        }
        let mut out = ResourcePath {
            verb: verb(method),
            group: group.to_owned(),
            version: version.to_owned(),
            watch_prefix,
            ..ResourcePath::default()
        };
        if parts[0] == "namespaces" && parts.len() > 1 {
            parts[1].clone_into(&mut out.namespace);
            if parts.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&parts[2]) {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        let mut next = || parts.next().unwrap_or_default().to_owned();
        (out.resource, out.name, out.subresource) = (next(), next(), next());
        out.rest = parts.collect::<Vec<_>>().join("/");
        if out.name.is_empty() {
            out.verb = match out.verb {
                Some(Verb::Get) => Some(Verb::List),
                Some(Verb::Delete) => Some(Verb::DeleteCollection),
                other => other,
            };
        }
        // A watch on an object's own path is answered like a plain read.
        if watch_prefix || (out.verb == Some(Verb::List) && is_true(options.0.get("watch").map(String::as_str))) {
            out.verb = Some(Verb::Watch);
        }
        Self::Resource(out)
    }
}

/// Query parameters. Of a repeated one the first counts, as in Go's `url.Values.Get`.
#[must_use]
pub fn options(query: &str) -> Options {
    let mut out = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        out.entry(name.into_owned()).or_insert_with(|| value.into_owned());
    }
    Options(out)
}

/// How conversion from query strings reads a boolean: everything but `false` and `0` holds, also
/// the empty string of a bare `?watch` (`k8s.io/apimachinery/pkg/runtime/converter.go`); absent does not.
#[must_use]
pub fn is_true(value: Option<&str>) -> bool {
    value.is_some_and(|value| !matches!(value, "false" | "0"))
}

fn verb(method: &Method) -> Option<Verb> {
    match *method {
        Method::GET | Method::HEAD => Some(Verb::Get),
        Method::POST => Some(Verb::Create),
        Method::PUT => Some(Verb::Update),
        Method::PATCH => Some(Verb::Patch),
        Method::DELETE => Some(Verb::Delete),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: &Method, path_and_query: &str) -> String {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        match Route::parse(method, path, &options(query)) {
            Route::Path(path) => format!("path {path}"),
            Route::Resource(at) => format!(
                "{} group={} version={} ns={} {}/{}/{}",
                at.verb.map_or("-", Verb::as_str),
                at.group,
                at.version,
                at.namespace,
                at.resource,
                at.name,
                at.subresource
            ),
        }
    }

    #[test]
    fn a_url_is_read_as_upstream_reads_it() {
        let get = Method::GET;
        let table = [
            (&get, "/api/v1", "path /api/v1"),
            (&get, "/apis/apps/v1/", "path /apis/apps/v1/"),
            (&get, "/api/v1/pods", "list group= version=v1 ns= pods//"),
            (&get, "/api/v1/namespaces/a/pods/", "list group= version=v1 ns=a pods//"),
            (&get, "/api/v1/namespaces/a/pods?watch=true", "watch group= version=v1 ns=a pods//"),
            (&get, "/api/v1/namespaces/a/pods?watch=0", "list group= version=v1 ns=a pods//"),
            (&get, "/api/v1/watch/namespaces/a/pods/b", "watch group= version=v1 ns=a pods/b/"),
            (&get, "/api/v1/namespaces/a", "get group= version=v1 ns=a namespaces/a/"),
            (&get, "/api/v1/namespaces/a/status", "get group= version=v1 ns=a namespaces/a/status"),
            (&get, "/api/v1/namespaces/a/pods/b%2Fc", "get group= version=v1 ns=a pods/b/c"),
            (&get, "/api/v1/namespaces//pods", "list group= version=v1 ns= pods//"),
            (
                &Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection group=apps version=v1 ns=a deployments//",
            ),
            (&Method::TRACE, "/apis/apps/v1/deployments", "- group=apps version=v1 ns= deployments//"),
        ];
        for (method, url, want) in table {
            assert_eq!(shown(method, url), want, "{method} {url}");
        }
    }
}
