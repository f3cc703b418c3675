//! `Accept`: in which form and encoding an answer goes out.
//!
//! Source of the rules: `k8s.io/apiserver/pkg/endpoints/handlers/negotiation` and, for what is refused
//! before that, go-restful's routes.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::error::ApiError;

/// Clauses of one `Accept` header that are looked at; clients send three or four.
const ACCEPT_CLAUSES_MAX: usize = 32;

/// The agreed form of an answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Form {
    /// YAML instead of JSON.
    pub yaml: bool,
    /// Indented JSON (`?pretty=true`).
    pub pretty: bool,
    /// What the objects are turned into first.
    pub shape: Shape,
}

/// What objects are turned into.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Shape {
    /// They stay as they are.
    #[default]
    AsIs,
    /// A `Table` of this version of `meta.k8s.io`.
    Table(&'static str),
    /// `PartialObjectMetadata` of this version of `meta.k8s.io`.
    Partial(&'static str),
    /// `PartialObjectMetadataList` of this version of `meta.k8s.io`.
    PartialList(&'static str),
    /// `APIGroupDiscoveryList` of this version of `apidiscovery.k8s.io`.
    Discovery(&'static str),
}

/// What the answering path can produce.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Offer {
    /// Objects of a built-in resource; `list` for collections, which can also be watched.
    BuiltIn {
        /// Is it a collection that is read?
        list: bool,
    },
    /// Objects of a custom resource.
    Custom,
    /// Discovery of all groups: the aggregated form is offered too.
    Groups,
    /// Discovery of one group or version.
    Plain,
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const WATCH_MEDIA_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// One clause of the header.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// Picks a form.
///
/// # Errors
/// 406 in upstream's words when nothing fits.
pub fn negotiate(headers: &HeaderMap, offer: Offer, pretty: bool) -> Result<Form, ApiError> {
    let header: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let header = header.join(",");
    if header.trim().is_empty() {
        return Ok(Form { pretty, ..Form::default() });
    }
    let mut clauses: Vec<Clause<'_>> = header.split(',').take(ACCEPT_CLAUSES_MAX).map(clause).collect();
    if let Offer::BuiltIn { list } = offer {
        let known = |media_type: &str| encoding(media_type).is_some() || media_type == PROTOBUF;
        if !clauses.iter().any(|clause| clause.media_type == "*/*" || known(clause.media_type)) {
            let watch = if list { format!(", {WATCH_MEDIA_TYPES}") } else { String::new() };
            let mut error = ApiError::new(
                406,
                "NotAcceptable",
                format!("406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}{watch}"),
            );
            error.details = Some(Box::default());
            return Err(error);
        }
    }
    // Stable: of equal quality, the first counts.
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let any = |media_type: &str| matches!(media_type, "*/*" | "application/*");
    for clause in &clauses {
        let Some(yaml) = encoding(clause.media_type).or_else(|| any(clause.media_type).then_some(false)) else {
            continue;
        };
        if let Some(shape) = shape(clause, offer) {
            let pretty = pretty || clause.parameter("pretty") == "1";
            return Ok(Form { yaml, pretty, shape });
        }
    }
    Err(ApiError::new(406, "NotAcceptable", format!("only the following media types are accepted: {MEDIA_TYPES}")))
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Is it YAML? `None` for media types that are not produced. Protobuf is announced in error texts, as
/// upstream does, and never chosen: every client that asks for it accepts JSON too.
fn encoding(media_type: &str) -> Option<bool> {
    match media_type {
        "application/json" => Some(false),
        "application/yaml" => Some(true),
        _ => None,
    }
}

fn clause(text: &str) -> Clause<'_> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let parameters: Vec<(&str, &str)> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
        .collect();
    let quality = parameters.iter().find(|(key, _)| *key == "q").and_then(|(_, q)| q.parse().ok()).unwrap_or(1.0);
    Clause { media_type, parameters, quality }
}

/// The shape that a clause asks for; `None` when it is not offered here.
fn shape(clause: &Clause<'_>, offer: Offer) -> Option<Shape> {
    let (kind, group) = (clause.parameter("as"), clause.parameter("g"));
    if kind.is_empty() {
        return Some(Shape::AsIs);
    }
    let objects = matches!(offer, Offer::BuiltIn { .. } | Offer::Custom);
    match (kind, group) {
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io") if offer == Offer::Groups => match clause.parameter("v") {
            "v2" => Some(Shape::Discovery("v2")),
            "v2beta1" => Some(Shape::Discovery("v2beta1")),
            _ => None,
        },
        (_, "meta.k8s.io") if objects => {
            let version = match clause.parameter("v") {
                "v1" => "v1",
                "v1beta1" => "v1beta1",
                _ => return None,
            };
            match kind {
                "Table" => Some(Shape::Table(version)),
                "PartialObjectMetadata" => Some(Shape::Partial(version)),
                "PartialObjectMetadataList" => Some(Shape::PartialList(version)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(accept: &str, offer: Offer) -> Result<Form, u16> {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        negotiate(&headers, offer, false).map_err(|error| error.code)
    }

    #[test]
    fn the_best_clause_that_is_offered_counts() {
        let list = Offer::BuiltIn { list: true };
        let json = |shape| Ok(Form { shape, ..Form::default() });
        assert_eq!(agreed("text/html", list), Err(406));
        assert_eq!(agreed("application/*", list), Err(406));
        assert_eq!(agreed("application/xml, */*;q=0.1", list), json(Shape::AsIs));
        assert_eq!(agreed("application/json;as=Table;v=v9;g=meta.k8s.io", list), Err(406));
        assert_eq!(
            agreed("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", list),
            json(Shape::Table("v1"))
        );
        assert_eq!(
            agreed("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Offer::Plain),
            json(Shape::AsIs)
        );
        assert_eq!(agreed("application/vnd.kubernetes.protobuf,application/json", list), json(Shape::AsIs));
        assert_eq!(agreed("application/json;q=0.1,application/yaml", list).map(|form| form.yaml), Ok(true));
        assert_eq!(
            agreed("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", Offer::Plain),
            Err(406)
        );
    }
}
