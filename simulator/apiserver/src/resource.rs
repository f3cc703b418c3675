//! Kinds and resources: what is served, under which names, with which verbs.

use std::fmt;
use std::sync::Arc;

use crate::schema::SchemaRef;

/// A resource without its version: what error messages and access rules name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GroupResource {
    /// API group; empty for core.
    pub group: Arc<str>,
    /// Plural in lower case.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// Names a resource.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

/// `configmaps`, `statefulsets.apps`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// Group, version and kind.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct GroupVersionKind {
    /// API group; empty for core.
    pub group: Arc<str>,
    /// Version, for example `v1`.
    pub version: Arc<str>,
    /// Kind, for example `ConfigMap`.
    pub kind: Arc<str>,
}

impl GroupVersionKind {
    /// Names a kind.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

/// `v1`, `apps/v1`.
#[must_use]
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits `apps/v1` into group and version; the core group is empty.
#[must_use]
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// One resource in one served version: a row of discovery, with its schema.
///
/// Built-in and custom resources are the same thing here; `origin` tells where they differ.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Group, version and kind of its objects.
    pub kind: GroupVersionKind,
    /// Group and plural: the key of the store (all versions of a resource share it).
    pub group_resource: GroupResource,
    /// Singular in lower case.
    pub singular: String,
    /// Kind of lists.
    pub list_kind: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories for kubectl (`all`).
    pub categories: Vec<String>,
    /// Namespaced, or cluster-scoped.
    pub namespaced: bool,
    /// Verbs of the main resource, sorted.
    pub verbs: Vec<String>,
    /// Discovery's hash of the storage version; empty leaves it out.
    pub storage_version_hash: String,
    /// Served subresources.
    pub subresources: Vec<Subresource>,
    /// The schema of its objects.
    pub schema: SchemaRef,
    /// Built in, or from a definition.
    pub origin: Origin,
}

/// Where a [`Resource`] comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Served by the API server itself.
    BuiltIn,
    /// Served because of a `CustomResourceDefinition` (see [`crate::definitions`]).
    Definition(Arc<crate::definitions::Definition>),
}

/// One served subresource.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`, `scale`, `eviction`, …
    pub name: String,
    /// Kind that the subresource speaks, for example `Scale`.
    pub kind: GroupVersionKind,
    /// Its verbs, sorted.
    pub verbs: Vec<String>,
}

impl Resource {
    /// Is this subresource served?
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Is `status` a subresource, so that main writes leave it alone?
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Is it a custom resource?
    #[must_use]
    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Definition(_))
    }

    /// `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.kind.api_version()
    }
}
