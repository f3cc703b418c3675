//! The plain documents: `APIGroupList`, `APIGroup`, `APIResourceList`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::control_plane::View;
use crate::resource::{Resource, api_version};
use crate::schema::builtin;

/// A group with its served versions.
pub(super) struct Group {
    pub(super) name: String,
    /// Most preferred first.
    pub(super) versions: Vec<String>,
    pub(super) preferred: String,
}

/// Verbs of custom resources in the order in which upstream's discovery of definitions lists them
/// (`customresource_discovery_controller.go`).
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Every group but the core one: built-in groups first, as upstream ranks them, then those of
/// definitions by name.
pub(super) fn all(view: &View<'_>) -> Vec<Group> {
    let built_in = builtin::groups().iter().map(|group| Group {
        name: group.name.clone(),
        versions: group.versions.iter().map(|version| version.version.clone()).collect(),
        preferred: group.preferred_version.version.clone(),
    });
    let mut custom: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for resource in view.resources().filter(|resource| resource.is_custom()) {
        let versions = custom.entry(&resource.kind.group).or_default();
        if !versions.iter().any(|version| **version == *resource.kind.version) {
            versions.push(resource.kind.version.to_string());
        }
    }
    let custom = custom.into_iter().map(|(name, mut versions)| {
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        Group { name: name.to_owned(), preferred: versions[0].clone(), versions }
    });
    built_in.chain(custom).collect()
}

/// Ranks versions as `k8s.io/apimachinery/pkg/version/helpers.go` does: `v2 > v1 > v1beta2 > v1alpha1`,
/// and any other text below those, the alphabetically first one first.
pub(super) fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let stage = &rest[digits..];
        if stage.is_empty() {
            return Some((3, major, 0));
        }
        let (rank, minor) =
            stage.strip_prefix("beta").map(|minor| (2, minor)).or_else(|| Some((1, stage.strip_prefix("alpha")?)))?;
        Some((rank, major, minor.parse().ok()?))
    };
    match parsed() {
        Some((stage, major, minor)) => (stage, major, minor, std::cmp::Reverse(String::new())),
        None => (0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

/// `/apis`.
pub(super) fn group_list(view: &View<'_>) -> Value {
    let groups: Vec<Value> = all(view).iter().map(document).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(super) fn group(view: &View<'_>, name: &str) -> Option<Value> {
    let group = all(view).into_iter().find(|group| group.name == name)?;
    let mut document = document(&group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

fn document(group: &Group) -> Value {
    let entry = |version: &str| json!({"groupVersion": api_version(&group.name, version), "version": version});
    json!({
        "name": group.name,
        "versions": group.versions.iter().map(|version| entry(version)).collect::<Vec<_>>(),
        "preferredVersion": entry(&group.preferred),
    })
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(super) fn resources(view: &View<'_>, group: &str, version: &str) -> Option<Value> {
    let served: Vec<&Resource> = of(view, group, version).collect();
    if served.is_empty() {
        return None;
    }
    let resources: Vec<Value> = served.into_iter().flat_map(entries).collect();
    let mut document = json!({
        "kind": "APIResourceList", "groupVersion": api_version(group, version), "resources": resources,
    });
    // The document of the legacy group predates the field.
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

/// The resources of a group and version, in the order of the registry.
pub(super) fn of<'v>(view: &'v View<'_>, group: &'v str, version: &'v str) -> impl Iterator<Item = &'v Resource> + 'v {
    view.resources().filter(move |resource| *resource.kind.group == *group && *resource.kind.version == *version)
}

/// The verbs of a resource, as discovery lists them.
pub(super) fn verbs(resource: &Resource) -> Vec<&str> {
    if resource.is_custom() {
        let served = |verb: &&str| resource.verbs.iter().any(|served| served == verb);
        CUSTOM_VERBS.into_iter().filter(served).collect()
    } else {
        resource.verbs.iter().map(String::as_str).collect()
    }
}

fn entries(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": &*resource.group_resource.resource,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": &*resource.kind.kind,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        main["categories"] = resource.categories.clone().into();
    }
    if !resource.storage_version_hash.is_empty() {
        main["storageVersionHash"] = resource.storage_version_hash.as_str().into();
    }
    let mut all = vec![main];
    for subresource in &resource.subresources {
        let mut entry = json!({
            "name": format!("{}/{}", resource.group_resource.resource, subresource.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": &*subresource.kind.kind,
            "verbs": subresource.verbs,
        });
        // Named only where the subresource speaks a kind of another group or version.
        if (&subresource.kind.group, &subresource.kind.version) != (&resource.kind.group, &resource.kind.version) {
            if !subresource.kind.group.is_empty() {
                entry["group"] = (*subresource.kind.group).into();
            }
            entry["version"] = (*subresource.kind.version).into();
        }
        all.push(entry);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_by_stability_then_number() {
        let mut versions = ["v1alpha1", "foo", "v1", "v1beta1", "v10", "v2", "v1beta2", "bar"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo"]);
    }
}
