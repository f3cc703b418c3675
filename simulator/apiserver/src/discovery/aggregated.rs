//! `APIGroupDiscoveryList` of `apidiscovery.k8s.io`: everything that is served in one document.

use serde_json::{Value, json};

use super::groups;
use crate::control_plane::View;
use crate::resource::{GroupVersionKind, Resource};

/// The document for `/api` (`core`) or `/apis`.
pub(super) fn list(view: &View<'_>, version: &str, core: bool) -> Value {
    let items: Vec<Value> = if core {
        vec![json!({"metadata": {"creationTimestamp": null}, "versions": [group_version(view, "", "v1")]})]
    } else {
        groups::all(view)
            .iter()
            .map(|group| {
                let versions: Vec<Value> =
                    group.versions.iter().map(|version| group_version(view, &group.name, version)).collect();
                json!({"metadata": {"name": group.name, "creationTimestamp": null}, "versions": versions})
            })
            .collect()
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn group_version(view: &View<'_>, group: &str, version: &str) -> Value {
    let resources: Vec<Value> = groups::of(view, group, version).map(resource).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn resource(resource: &Resource) -> Value {
    let mut out = json!({
        "resource": &*resource.group_resource.resource,
        "responseKind": kind(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": groups::verbs(resource),
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        out["categories"] = resource.categories.clone().into();
    }
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": kind(&subresource.kind),
                "verbs": subresource.verbs,
            })
        });
        out["subresources"] = subresources.collect();
    }
    out
}

fn kind(kind: &GroupVersionKind) -> Value {
    json!({"group": &*kind.group, "version": &*kind.version, "kind": &*kind.kind})
}
