//! HTTP in and out: [`receive`] turns an `http::Request` into a [`Request`] or answers at once what
//! needs no write path (discovery, health, refusals of method, form and access); [`encode`] turns a
//! [`Response`](crate::request::Response) and watch events into bytes.
//!
//! Plain synchronous code: no sockets, no clock. Who carries the bytes is the business of the shells
//! ([`crate::serve`], [`crate::cluster`]) or of a simulator.

pub mod authenticate;
pub mod connect;
pub mod encode;
pub mod negotiate;
pub mod route;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, request::Parts};

use crate::access::{self, Attributes, Authorization};
use crate::control_plane::View;
use crate::discovery;
use crate::error::ApiError;
use crate::request::{Accept, Body, Options, Request, User, Verb};
use crate::resource::Resource;
use crate::table::Printer;
use connect::Connect;
use encode::Encoder;
use negotiate::{Form, Offer, Shape};
use route::{ResourcePath, Route};

/// Bytes of a request body that are read before it is refused with 413 (`--max-request-bytes` upstream
/// is 3 MiB).
pub const REQUEST_BYTES_MAX: usize = 3 * 1024 * 1024;

/// What the shell is to do with an HTTP request.
#[derive(Debug)]
pub enum Received {
    /// Send this.
    Answer(http::Response<Bytes>),
    /// Run the request and encode its answer.
    Run(Box<Call>),
    /// A conversation with a pod: `exec`, `log` and their like.
    Connect(Box<Connect>),
}

/// A request to be run.
#[derive(Debug)]
pub struct Call {
    /// The request.
    pub request: Request,
    /// How its answer is to be encoded.
    pub encoder: Encoder,
}

/// Understands a request: who, what, in which form.
#[must_use]
pub fn receive(view: &View<'_>, user: &User, parts: &Parts, body: Bytes) -> Received {
    match understand(view, user, parts, body) {
        Ok(received) => received,
        Err(Refused::Status(error)) => Received::Answer(refusal(parts, &error)),
        Err(Refused::PageNotFound) => Received::Answer(encode::page_not_found()),
    }
}

/// A refusal in the encoding that the request asked for.
#[must_use]
pub fn refusal(parts: &Parts, error: &ApiError) -> http::Response<Bytes> {
    // Errors are always sent, as JSON when nothing acceptable is left.
    let form = negotiate::negotiate(&parts.headers, Offer::Custom, false).unwrap_or_default();
    Encoder::plain(form).error(error)
}

/// 413.
#[must_use]
pub fn too_large() -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {REQUEST_BYTES_MAX}"))
}

/// Why a request goes no further.
enum Refused {
    Status(ApiError),
    /// Plain text, as answered where no API is served at all.
    PageNotFound,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Status(error)
    }
}

fn understand(view: &View<'_>, user: &User, parts: &Parts, body: Bytes) -> Result<Received, Refused> {
    let options = route::options(parts.uri.query().unwrap_or_default());
    let route = Route::parse(&parts.method, parts.uri.path(), &options);
    let attributes = Attributes::of(&route, &parts.method, &options);
    let user = authenticate::impersonate(view, user, &parts.headers, &attributes)?;
    if view.authorization() == Authorization::Rbac {
        access::authorize(view.store(), &user, &attributes)?;
    }
    match route {
        Route::Path(path) => {
            discovery::answer(view, &path, parts, &options)?.map(Received::Answer).ok_or(Refused::PageNotFound)
        }
        Route::Resource(at) => resource(view, user, at, options, parts, body),
    }
}

fn resource(
    view: &View<'_>,
    user: User,
    at: ResourcePath,
    options: Options,
    parts: &Parts,
    body: Bytes,
) -> Result<Received, Refused> {
    let resource = served(view, &at, &parts.method)?;
    check_name(&at.name)?;
    check_timeout(options.get("timeout"))?;
    let verb = at.verb.ok_or_else(ApiError::method_not_allowed)?;
    if body.len() > REQUEST_BYTES_MAX {
        return Err(too_large().into());
    }
    if connect::is_connect(&resource.group_resource, &at.subresource) {
        return Ok(Received::Connect(Box::new(Connect::new(at, options, user, parts))));
    }
    let offer = if resource.is_custom() {
        Offer::Custom
    } else {
        Offer::BuiltIn { list: matches!(verb, Verb::List | Verb::Watch) }
    };
    let pretty = route::is_true(options.0.get("pretty").map(String::as_str));
    let form = negotiate::negotiate(&parts.headers, offer, pretty)?;
    let encoder = encoder(view, resource, form, &options);
    encoder.check()?;
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = match verb {
        Verb::Get | Verb::List | Verb::Watch => Body::Empty,
        // A delete without options is one without a body; everything else is decoded, also nothing.
        Verb::Delete | Verb::DeleteCollection if body.is_empty() => Body::Empty,
        _ => Body::Bytes { content_type: header(CONTENT_TYPE), bytes: body },
    };
    let mut options = options;
    let mut name = at.name;
    if at.watch_prefix && !name.is_empty() {
        options = options.with("fieldSelector", format!("metadata.name={name}"));
        name = String::new();
    }
    let request = Request {
        verb,
        group: at.group,
        version: at.version,
        resource: at.resource,
        subresource: at.subresource,
        // A namespace's own path names it twice.
        namespace: if resource.namespaced { at.namespace } else { String::new() },
        name,
        options,
        body,
        user,
        user_agent: header(USER_AGENT),
        accept: accept(form),
    };
    Ok(Received::Run(Box::new(Call { request, encoder })))
}

fn accept(form: Form) -> Accept {
    match form.shape {
        Shape::Table(_) => Accept::Table,
        Shape::Partial(_) | Shape::PartialList(_) => Accept::PartialMetadata,
        Shape::AsIs | Shape::Discovery(_) if form.yaml => Accept::Yaml,
        Shape::AsIs | Shape::Discovery(_) => Accept::Json,
    }
}

fn encoder(view: &View<'_>, resource: &Resource, form: Form, options: &Options) -> Encoder {
    let mut encoder = Encoder::plain(form);
    match form.shape {
        Shape::Table(_) => {
            encoder.printer = Some(Printer::of(view, resource));
            options.get("includeObject").clone_into(&mut encoder.include_object);
        }
        Shape::Partial(_) | Shape::PartialList(_) => {
            encoder.go_kind = encode::go_kind(&resource.kind.group, &resource.kind.kind, resource.is_custom());
        }
        Shape::AsIs | Shape::Discovery(_) => {}
    }
    encoder
}

/// Names that would not be one segment of a path (`k8s.io/apimachinery/pkg/api/validation/path`).
fn check_name(name: &str) -> Result<(), ApiError> {
    let wrong = match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => {
            name.chars().find(|letter| matches!(letter, '/' | '%')).map(|letter| format!("may not contain '{letter}'"))
        }
    };
    match wrong {
        Some(why) => Err(ApiError::bad_request(format!("Name parameter invalid: \"{name}\": {why}"))),
        None => Ok(()),
    }
}

/// `?timeout=` is read before anything else of a request; nothing here takes so long that it would end one.
fn check_timeout(timeout: &str) -> Result<(), ApiError> {
    if timeout.is_empty() || is_go_duration(timeout) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "invalid timeout specified in the request URL - time: invalid duration {}",
        serde_json::Value::from(timeout)
    )))
}

/// `1h2m3.5s`, as Go's `time.ParseDuration` takes it.
fn is_go_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let number = &rest[..digits];
        if number.is_empty() || number == "." || number.matches('.').count() > 1 {
            return false;
        }
        rest = &rest[digits..];
        let unit_end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        if !UNITS.contains(&&rest[..unit_end]) {
            return false;
        }
        rest = &rest[unit_end..];
    }
    !text.is_empty()
}

/// The resource that a path reaches, when it takes the method.
fn served<'v>(view: &'v View<'_>, at: &ResourcePath, method: &Method) -> Result<&'v Resource, Refused> {
    let built_in = at.group.is_empty() || discovery::is_built_in_group(&at.group);
    match view.resource(&at.group, &at.version, &at.resource) {
        Some(resource) if resource.is_custom() => custom(resource, at).map(|()| resource),
        Some(resource) => built_in_path(resource, at, method).map(|()| resource).map_err(Refused::Status),
        None if built_in => Err(ApiError::no_such_path().into()),
        None => Err(Refused::PageNotFound),
    }
}

/// Which methods the path of a built-in resource takes: upstream registers a route for each
/// (`k8s.io/apiserver/pkg/endpoints/installer.go`).
fn built_in_path(resource: &Resource, at: &ResourcePath, method: &Method) -> Result<(), ApiError> {
    let names_namespace = !at.namespace.is_empty() && &*resource.group_resource.resource != "namespaces";
    if names_namespace && !resource.namespaced || !at.rest.is_empty() && !connect::takes_path(&at.subresource) {
        return Err(ApiError::no_such_path());
    }
    let verbs = if at.subresource.is_empty() {
        &resource.verbs
    } else {
        let subresource = resource.subresource(&at.subresource).ok_or_else(ApiError::no_such_path)?;
        &subresource.verbs
    };
    let across = resource.namespaced && at.namespace.is_empty();
    if across && !at.name.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let allowed = |verb: &str| verbs.iter().any(|allowed| allowed == verb);
    if across && !allowed("list") && !allowed("watch") {
        return Err(ApiError::no_such_path());
    }
    if at.watch_prefix {
        return if *method == Method::GET && allowed("watch") { Ok(()) } else { Err(ApiError::method_not_allowed()) };
    }
    let allowed = match (at.name.is_empty(), method.as_str()) {
        (true, "GET") => allowed("list"),
        (true, "POST") => !across && allowed("create"),
        (true, "DELETE") => !across && allowed("deletecollection"),
        (false, "GET") => allowed("get"),
        (false, "POST") => !at.subresource.is_empty() && allowed("create"),
        (false, "PUT") => allowed("update"),
        (false, "PATCH") => allowed("patch"),
        (false, "DELETE") => allowed("delete"),
        _ => false,
    };
    if allowed { Ok(()) } else { Err(ApiError::method_not_allowed()) }
}

/// The same for a custom resource, whose paths one handler answers
/// (`k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`).
fn custom(resource: &Resource, at: &ResourcePath) -> Result<(), Refused> {
    let scope_fits = if resource.namespaced {
        !at.namespace.is_empty() || matches!(at.verb, Some(Verb::List | Verb::Watch))
    } else {
        at.namespace.is_empty()
    };
    if !scope_fits {
        return Err(Refused::PageNotFound);
    }
    let group_resource = &resource.group_resource;
    let unsupported = || ApiError::method_not_supported(group_resource, at.verb.map_or("", Verb::as_str));
    let Some(verb) = at.verb else { return Err(unsupported().into()) };
    match at.subresource.as_str() {
        "" if at.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch) => {
            Err(ApiError::bad_request("name must be provided").into())
        }
        "" => Ok(()),
        subresource if resource.subresource(subresource).is_none() => {
            Err(ApiError::not_found(group_resource, &at.name).into())
        }
        _ if matches!(verb, Verb::Get | Verb::Update | Verb::Patch) => Ok(()),
        _ => Err(unsupported().into()),
    }
}
