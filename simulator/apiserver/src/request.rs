//! One request as a value, from whoever it comes: HTTP, a control loop, a restore tool in process.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::error::ApiError;
use crate::object::Object;

/// A request whose path, query and headers are understood; its body is not yet decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// API group in the path; empty for core.
    pub group: String,
    /// Version in the path.
    pub version: String,
    /// Plural in the path.
    pub resource: String,
    /// Subresource in the path, or empty.
    pub subresource: String,
    /// Namespace in the path; empty for cluster-scoped requests and for all namespaces.
    pub namespace: String,
    /// Name in the path; empty for collections and creates.
    pub name: String,
    /// Query parameters.
    pub options: Options,
    /// The body.
    pub body: Body,
    /// Who asks.
    pub user: User,
    /// `User-Agent`; its first part is the default field manager.
    pub user_agent: String,
    /// How the answer is to be encoded.
    pub accept: Accept,
}

/// What a request asks for: Kubernetes' request verbs.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(missing_docs, reason = "Kubernetes' own verbs")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb as access rules and admission name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// Query parameters, as sent. Their meaning is checked where they are used, because upstream
/// reports a bad one only where it matters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(pub BTreeMap<String, String>);

impl Options {
    /// A parameter, or the empty string.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Sets a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }
}

/// A request body.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Body {
    /// None was sent.
    #[default]
    Empty,
    /// Bytes with their `Content-Type`.
    Bytes {
        /// `Content-Type` as sent.
        content_type: String,
        /// The bytes.
        bytes: Bytes,
    },
    /// JSON that is already decoded: in-process callers.
    Json {
        /// `Content-Type` that applies, for example `application/merge-patch+json`.
        content_type: &'static str,
        /// The value.
        value: Value,
    },
}

/// How an answer is to be encoded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Accept {
    /// JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
    /// `as=Table` of `meta.k8s.io/v1`.
    Table,
    /// `as=PartialObjectMetadata` (a list: `PartialObjectMetadataList`) of `meta.k8s.io/v1`.
    PartialMetadata,
}

/// Who asks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct User {
    /// User name.
    pub name: String,
    /// uid, where authentication gives one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user in `system:masters`, who may do anything.
    #[must_use]
    pub fn admin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            ..Self::default()
        }
    }

    /// A service account, as its token authenticates it.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            ..Self::default()
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// HTTP status code.
    pub code: u16,
    /// `Warning` headers, texts only.
    pub warnings: Vec<String>,
    /// What was answered.
    pub body: Answer,
}

/// The body of a [`Response`], not yet encoded.
#[derive(Clone, Debug)]
pub enum Answer {
    /// One object.
    Object(Object),
    /// Many objects, shared with the store.
    List(List),
    /// Any other JSON: `Status`, reviews, discovery.
    Json(Value),
    /// Text as it is (`/healthz`, `/version` and their like).
    Text(String),
    /// A watch has been opened; events are read from it with [`crate::ControlPlane::poll_watch`].
    Watch(crate::watch::WatchId),
}

/// A list: its head, and objects that are not copied unless somebody asks for the whole as one value.
#[derive(Clone, Debug)]
pub struct List {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`, for example `ConfigMapList`.
    pub kind: String,
    /// `metadata`: version, `continue`, `remainingItemCount`.
    pub metadata: Value,
    /// The objects.
    pub items: Vec<Object>,
    /// Do items carry neither `kind` nor `apiVersion`? So it is with built-in kinds.
    pub bare: bool,
    whole: OnceLock<Value>,
}

impl List {
    /// A list of these objects.
    #[must_use]
    pub fn new(api_version: String, kind: String, metadata: Value, items: Vec<Object>, bare: bool) -> Self {
        Self { api_version, kind, metadata, items, bare, whole: OnceLock::new() }
    }

    /// The list as one value; made at the first call.
    #[must_use]
    pub fn json(&self) -> &Value {
        // What serialises at all also becomes a value.
        self.whole.get_or_init(|| serde_json::to_value(self).unwrap_or_default())
    }
}

/// Fields in the order in which values have them.
impl Serialize for List {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items: Vec<Item<'_>> = self.items.iter().map(|object| Item { object, bare: self.bare }).collect();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("items", &items)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("metadata", &self.metadata)?;
        map.end()
    }
}

/// An object in a [`List`].
struct Item<'a> {
    object: &'a Value,
    bare: bool,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.object.as_object() {
            Some(fields) if self.bare => {
                serializer.collect_map(fields.iter().filter(|(field, _)| *field != "kind" && *field != "apiVersion"))
            }
            _ => self.object.serialize(serializer),
        }
    }
}

impl Response {
    /// The refusal, when the request was refused.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code < 400
    }

    /// The body as JSON; `Null` for text and watches.
    #[must_use]
    pub fn json(&self) -> &Value {
        match &self.body {
            Answer::Object(object) => object,
            Answer::List(list) => list.json(),
            Answer::Json(value) => value,
            Answer::Text(_) | Answer::Watch(_) => &Value::Null,
        }
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        Self { code: error.code, warnings: Vec::new(), body: Answer::Json(error.to_status()) }
    }
}

impl Request {
    /// An in-process request by `user` on `resource` (`statefulsets`) of `api_version` (`apps/v1`).
    #[must_use]
    pub fn new(verb: Verb, user: User, api_version: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let (group, version) = crate::resource::split_api_version(api_version);
        Self {
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            options: Options::default(),
            body: Body::Empty,
            user,
            user_agent: String::new(),
            accept: Accept::Json,
        }
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(mut self, value: Value) -> Self {
        self.body = Body::Json { content_type: "application/json", value };
        self
    }

    /// With a JSON merge patch.
    #[must_use]
    pub fn merge_patch(mut self, value: Value) -> Self {
        self.body = Body::Json { content_type: "application/merge-patch+json", value };
        self
    }

    /// On a subresource.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        name.clone_into(&mut self.subresource);
        self
    }

    /// With a query parameter.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl Into<String>) -> Self {
        self.options = std::mem::take(&mut self.options).with(name, value);
        self
    }

    /// Sent by this program (`User-Agent`).
    #[must_use]
    pub fn agent(mut self, user_agent: &str) -> Self {
        user_agent.clone_into(&mut self.user_agent);
        self
    }
}
