//! What a tool knows of the kinds a cluster serves: the part of discovery that it uses.

use rewake_apiserver::resource::{GroupResource, Resource};

/// One kind that can be listed, read, created and deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolKind {
    /// Group and plural: the name of its folder in an archive.
    pub resource: GroupResource,
    /// `apps/v1`: the preferred version of its group.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespaced, or cluster-scoped.
    pub namespaced: bool,
    /// Served with a `/status` subresource.
    pub has_status: bool,
}

/// The kinds a cluster serves, in discovery's order.
#[derive(Clone, Debug, Default)]
pub struct ToolKinds(pub Vec<ToolKind>);

/// Kinds that stand under two groups; the first one met is taken (Velero's cohabitating resources).
const COHABITING: &[&str] = &["deployments", "daemonsets", "replicasets", "networkpolicies", "events"];

impl ToolKinds {
    /// The kinds among `resources` that a backup can hold: the preferred version of each group only,
    /// and only with the verbs list, create, get and delete (Velero's discovery helper).
    ///
    /// `resources` come in discovery's order, preferred version of a group first.
    #[must_use]
    pub fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut kinds: Vec<ToolKind> = Vec::new();
        for resource in resources {
            let has = |verb: &str| resource.verbs.iter().any(|has| has == verb);
            let seen = kinds.iter().any(|kind| {
                kind.resource == resource.group_resource
                    || (kind.resource.resource == resource.group_resource.resource
                        && COHABITING.contains(&&*kind.resource.resource))
            });
            if seen || !["list", "create", "get", "delete"].into_iter().all(has) {
                continue;
            }
            kinds.push(ToolKind {
                resource: resource.group_resource.clone(),
                api_version: resource.api_version(),
                kind: resource.kind.kind.to_string(),
                namespaced: resource.namespaced,
                has_status: resource.has_status(),
            });
        }
        // Within core: pods, claims, volumes, then the rest, so that what a pod needs is saved with it.
        let rank = |kind: &ToolKind| match (&*kind.resource.group, &*kind.resource.resource) {
            ("", "pods") => 0,
            ("", "persistentvolumeclaims") => 1,
            ("", "persistentvolumes") => 2,
            ("", _) => 3,
            ("extensions", _) => 5,
            _ => 4,
        };
        kinds.sort_by_key(rank);
        Self(kinds)
    }

    /// The kind under this group and plural.
    #[must_use]
    pub fn get(&self, resource: &GroupResource) -> Option<&ToolKind> {
        self.0.iter().find(|kind| kind.resource == *resource)
    }

    /// The kind of an object.
    #[must_use]
    pub fn of_object(&self, api_version: &str, kind: &str) -> Option<&ToolKind> {
        let (group, _) = rewake_apiserver::resource::split_api_version(api_version);
        self.0.iter().find(|known| known.kind == kind && &*known.resource.group == group)
    }
}
