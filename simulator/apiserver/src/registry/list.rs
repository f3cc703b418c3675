//! List: selection, paging over a consistent state, versions.
//!
//! Source: `ListResource` in `k8s.io/apiserver/pkg/endpoints/handlers/get.go`, and
//! `k8s.io/apiserver/pkg/storage/{continue.go,etcd3/store.go}`.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::json;

use super::options::{integer, refuse};
use super::state::State;
use super::{kinds, scope};
use crate::error::{ApiError, Cause, Details, FieldError};
use crate::object::Object;
use crate::request::{Answer, List, Options, Request, Response};
use crate::resource::Resource;
use crate::schema::json;
use crate::selector::fields::FieldSelector;
use crate::selector::{LabelSelector, query};
use crate::store::{Key, Objects, Revision, key};

/// Base64 as Go's `RawURLEncoding`, which does not mind bits that are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// `labelSelector` and `fieldSelector` of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    /// Reads the selectors of a request.
    ///
    /// # Errors
    /// 400 in upstream's words.
    pub(crate) fn parse(resource: &Resource, options: &Options) -> Result<Self, ApiError> {
        let labels = query::parse(options.get("labelSelector")).map_err(ApiError::bad_request)?;
        let fields = FieldSelector::parse(options.get("fieldSelector")).map_err(ApiError::bad_request)?;
        fields.check(resource).map_err(ApiError::bad_request)?;
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels.matches(&object["metadata"]["labels"]) && self.fields.matches(object)
    }
}

/// `resourceVersion` of a read; `None` when there is none, or 0.
///
/// # Errors
/// 400 when it is no number.
pub(crate) fn version_parameter(options: &Options) -> Result<Option<Revision>, ApiError> {
    let text = options.get("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    let version =
        parse_version(text).map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
    Ok((version != 0).then_some(Revision(version)))
}

/// A version as a number, or upstream's sentence.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse::<u64>().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        FieldError::invalid("resourceVersion", &text.into(), why).to_string()
    })
}

/// 504 about a version that has not been reached yet; upstream waits three seconds for it first.
pub(crate) fn refuse_future(state: &State, version: Revision) -> Result<(), ApiError> {
    if version <= state.store.revision() {
        return Ok(());
    }
    let message = format!("Timeout: Too large resource version: {version}, current: {}", state.store.revision());
    let mut error = ApiError::new(504, "Timeout", message);
    error.details = Some(Box::new(Details {
        causes: vec![Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: 1,
        ..Details::default()
    }));
    Err(error)
}

/// How `resourceVersion` is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Match {
    Exact,
    NotOlderThan,
}

pub(crate) fn list(state: &State, request: &Request) -> Result<Response, ApiError> {
    let resource = scope::resource(state, request)?;
    let options = &request.options;
    let selection = Selection::parse(&resource, options)?;
    let limit = match options.get("limit") {
        "" => 0,
        text => usize::try_from(integer(text)?).unwrap_or(0),
    };
    if !options.get("timeoutSeconds").is_empty() {
        integer(options.get("timeoutSeconds"))?;
    }
    check(options)?;

    let prefix = key(&request.namespace, "");
    let (start, at) = match options.get("continue") {
        "" => (None, at_version(state, options, limit)?),
        token => {
            if !matches!(options.get("resourceVersion"), "" | "0") {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            let (start, at) = Token::decode(token, &prefix)?;
            (Some(start), at)
        }
    };
    let revision = at.unwrap_or_else(|| state.store.revision());
    let objects: Objects = match at {
        None => state.store.objects(&resource.group_resource),
        Some(at) => state.store.objects_at(&resource.group_resource, at).ok_or_else(|| too_old(start.is_some()))?,
    };
    let from: Key = start.map_or_else(|| prefix.clone(), |start| start.as_str().into());
    let mut chosen = Vec::new();
    let mut page = None;
    let mut within = objects.range(from..).take_while(|(key, _)| key.starts_with(&*prefix)).peekable();
    while let Some((key, object)) = within.next() {
        if selection.matches(object) {
            chosen.push(object.clone());
        }
        if limit > 0 && chosen.len() == limit && within.peek().is_some() {
            let start = key.strip_prefix(&*prefix).unwrap_or(key);
            let remaining = if selection.is_empty() { Some(within.count()) } else { None };
            page = Some(Page { token: Token::encode(start, revision), remaining });
            break;
        }
    }
    let body = body(&resource, &chosen, revision, page);
    let warnings = super::custom::warning(&resource).into_iter().collect();
    Ok(Response { code: 200, warnings, body: Answer::List(body) })
}

/// Options of a list that do not go together.
fn check(options: &Options) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let how = options.get("resourceVersionMatch");
    if !how.is_empty() {
        let mut forbid = |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
        if options.get("resourceVersion").is_empty() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !options.get("continue").is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(how, "Exact" | "NotOlderThan") {
            let supported = ["Exact", "NotOlderThan", ""];
            errors.push(FieldError::not_supported("resourceVersionMatch", &how.into(), &supported));
        } else if how == "Exact" && options.get("resourceVersion") == "0" {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if !options.get("sendInitialEvents").is_empty() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse("ListOptions", &errors)
}

/// The version to read at; `None` is now.
fn at_version(state: &State, options: &Options, limit: usize) -> Result<Option<Revision>, ApiError> {
    let Some(version) = version_parameter(options)? else { return Ok(None) };
    refuse_future(state, version)?;
    let how = match options.get("resourceVersionMatch") {
        "Exact" => Match::Exact,
        // Upstream's older rule: a page of a version is a page of that very version.
        "" if limit > 0 => Match::Exact,
        _ => Match::NotOlderThan,
    };
    Ok((how == Match::Exact).then_some(version))
}

fn too_old(continued: bool) -> ApiError {
    ApiError::expired(if continued {
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
    } else {
        "The resourceVersion for the provided list is too old."
    })
}

/// That there is more.
pub(crate) struct Page {
    token: String,
    remaining: Option<usize>,
}

/// The answer of a list. Items of built-in kinds carry neither kind nor apiVersion, those of custom kinds do.
pub(crate) fn body(resource: &Resource, objects: &[Object], revision: Revision, page: Option<Page>) -> List {
    let items = objects.iter().map(|object| kinds::to_version(object, resource)).collect();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if resource.is_custom() {
        metadata["continue"] = "".into();
    }
    if let Some(page) = page {
        metadata["continue"] = page.token.into();
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    List::new(resource.api_version(), resource.list_kind.clone(), metadata, items, !resource.is_custom())
}

/// Where a list goes on: `continue`.
struct Token;

impl Token {
    /// Format version, as upstream writes it.
    const VERSION: &'static str = "meta.k8s.io/v1";

    fn encode(last: &str, revision: Revision) -> String {
        // The first key after `last`.
        let token = json!({ "v": Self::VERSION, "rv": revision.0, "start": format!("{last}\0") });
        BASE64.encode(token.to_string())
    }

    fn decode(token: &str, prefix: &str) -> Result<(String, Option<Revision>), ApiError> {
        let invalid =
            |why: String| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = BASE64.decode(token).map_err(|error| invalid(error.to_string()))?;
        let fields = json::read(&bytes).map_err(invalid)?.value;
        let version = fields["v"].as_str().unwrap_or_default();
        if version != Self::VERSION {
            return Err(invalid(format!("server does not recognize this encoded version {version}")));
        }
        let revision = fields["rv"].as_i64().unwrap_or_default();
        if revision == 0 {
            return Err(invalid(format!("incorrect encoded start resourceVersion (version {version})")));
        }
        let start = fields["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(invalid(format!("encoded start key empty (version {version})")));
        }
        if start.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(invalid(start.to_owned()));
        }
        // Less than nothing stands for a list that gave up consistency.
        let at = u64::try_from(revision).ok().map(Revision);
        Ok((format!("{prefix}{start}"), at))
    }
}
