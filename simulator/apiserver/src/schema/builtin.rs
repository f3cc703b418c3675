//! What upstream 1.36 serves of itself: groups, resources and their schemas, from `data/`.
//!
//! The two files are read once a process and shared by every control plane in it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::resource::{GroupResource, GroupVersionKind, Origin, Resource, Subresource, split_api_version};
use crate::schema::{SchemaRef, SchemaSet};

/// Stands for the schema of a kind whose schema upstream does not publish: anything goes.
const ANYTHING: &str = "rewake.Anything";

/// An API group as discovery lists it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Name, for example `apps`; never the core group, which discovery serves apart.
    pub name: String,
    /// Version that clients should prefer.
    pub preferred_version: GroupVersion,
    /// Served versions, most preferred first.
    pub versions: Vec<GroupVersion>,
}

/// One version of a [`Group`].
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersion {
    /// `apps/v1`.
    pub group_version: String,
    /// `v1`.
    pub version: String,
}

/// `data/discovery.json`.
#[derive(Deserialize)]
struct Discovery {
    groups: Vec<Group>,
    resources: BTreeMap<String, Vec<ApiResource>>,
}

/// `APIResource` of `meta.k8s.io/v1`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    namespaced: bool,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    version: Option<String>,
    kind: String,
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    storage_version_hash: String,
}

/// Everything built in, as read from `data/`.
struct Builtin {
    groups: Vec<Group>,
    resources: Vec<Arc<Resource>>,
    schemas: Arc<SchemaSet>,
    kinds: BTreeMap<GroupVersionKind, String>,
}

/// API groups in the order in which upstream lists them, without the core group.
#[must_use]
pub fn groups() -> &'static [Group] {
    &builtin().groups
}

/// Every served resource in every version, in the order of discovery: by group and version, then name.
#[must_use]
pub fn resources() -> &'static [Arc<Resource>] {
    &builtin().resources
}

/// The schema of a built-in kind, also of those that only subresources speak (`Scale`, `Eviction`).
#[must_use]
pub fn schema(kind: &GroupVersionKind) -> Option<SchemaRef> {
    let builtin = builtin();
    builtin.schemas.named(builtin.kinds.get(kind)?)
}

/// A named type, for example `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
#[must_use]
pub fn named(name: &str) -> Option<SchemaRef> {
    builtin().schemas.named(name)
}

/// The type of every object's `metadata`.
#[must_use]
pub fn object_meta() -> Option<&'static SchemaRef> {
    static OBJECT_META: OnceLock<Option<SchemaRef>> = OnceLock::new();
    OBJECT_META.get_or_init(|| named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")).as_ref()
}

fn builtin() -> &'static Builtin {
    static BUILTIN: OnceLock<Builtin> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        read(include_str!("../../data/discovery.json"), include_str!("../../data/builtin-schemas.json"))
            .expect("data/ is valid: a test reads it")
    })
}

fn read(discovery: &str, schemas: &str) -> serde_json::Result<Builtin> {
    #[derive(Deserialize)]
    struct Schemas {
        schemas: Map<String, Value>,
    }
    let discovery: Discovery = serde_json::from_str(discovery)?;
    let Schemas { mut schemas } = serde_json::from_str(schemas)?;
    let kinds = kinds_of(&schemas);
    schemas.insert(ANYTHING.to_owned(), anything());
    let schemas = SchemaSet::from_named(schemas);

    let mut resources = Vec::new();
    for (path, listed) in &discovery.resources {
        // `api/v1` and `apis/apps/v1`.
        let (group, version) = split_api_version(path.split_once('/').map_or("", |(_, group_version)| group_version));
        let kind_of = |resource: &ApiResource| {
            GroupVersionKind::new(
                resource.group.as_deref().unwrap_or(group),
                resource.version.as_deref().unwrap_or(version),
                &resource.kind,
            )
        };
        for resource in listed.iter().filter(|resource| !resource.name.contains('/')) {
            let kind = kind_of(resource);
            let name = kinds.get(&kind).map_or(ANYTHING, String::as_str);
            let Some(schema) = schemas.named(name) else { continue };
            let subresources = listed.iter().filter_map(|other| {
                let (parent, name) = other.name.split_once('/')?;
                (parent == resource.name).then(|| Subresource {
                    name: name.to_owned(),
                    kind: kind_of(other),
                    verbs: other.verbs.clone(),
                })
            });
            resources.push(Arc::new(Resource {
                group_resource: GroupResource::new(stored_group(group, &resource.name), &resource.name),
                singular: resource.singular_name.clone(),
                list_kind: format!("{}List", resource.kind),
                short_names: resource.short_names.clone(),
                categories: resource.categories.clone(),
                namespaced: resource.namespaced,
                verbs: resource.verbs.clone(),
                storage_version_hash: resource.storage_version_hash.clone(),
                subresources: subresources.collect(),
                schema,
                origin: Origin::BuiltIn,
                kind,
            }));
        }
    }
    Ok(Builtin { groups: discovery.groups, resources, schemas, kinds })
}

/// Which named type is which kind. Types that stand for many kinds (`DeleteOptions`) are none.
fn kinds_of(schemas: &Map<String, Value>) -> BTreeMap<GroupVersionKind, String> {
    let mut kinds = BTreeMap::new();
    for (name, schema) in schemas {
        if let Some([kind]) = schema["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice) {
            let text = |field: &str| kind[field].as_str().unwrap_or_default();
            kinds.insert(GroupVersionKind::new(text("group"), text("version"), text("kind")), name.clone());
        }
    }
    kinds
}

fn anything() -> Value {
    serde_json::json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {
                "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
                "default": {},
            },
        },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The group under which objects are stored, and which messages name: events of `events.k8s.io` are
/// core events with another face.
fn stored_group<'g>(group: &'g str, resource: &str) -> &'g str {
    if (group, resource) == ("events.k8s.io", "events") { "" } else { group }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_that_keeps_objects_has_the_schema_of_its_kind() {
        let find = |group: &str, name: &str| {
            resources().iter().find(|found| found.group_resource == GroupResource::new(group, name)).expect(name)
        };
        let statefulsets = find("apps", "statefulsets");
        assert_eq!(statefulsets.kind, GroupVersionKind::new("apps", "v1", "StatefulSet"));
        assert_eq!(statefulsets.list_kind, "StatefulSetList");
        assert_eq!(statefulsets.short_names, ["sts"]);
        assert!(statefulsets.has_status());
        assert_eq!(&*statefulsets.subresource("scale").expect("scale").kind.group, "autoscaling");
        let containers = ["spec", "template", "spec", "containers"]
            .iter()
            .try_fold(statefulsets.schema.clone(), |schema, field| schema.property(field))
            .expect("a pod template");
        assert_eq!(containers.list_map_keys(), ["name"]);
        let container = containers.items().expect("items");
        assert_eq!(container.node().name.as_deref(), Some("io.k8s.api.core.v1.Container"));
        assert!(find("", "configmaps").schema.property("data").is_some());
        assert!(find("resource.k8s.io", "resourceclaims").schema.node().preserve_unknown);
    }

    #[test]
    fn core_is_not_among_the_groups() {
        assert_eq!(groups().first().map(|group| group.name.as_str()), Some("apiregistration.k8s.io"));
        assert!(groups().iter().all(|group| !group.name.is_empty()));
    }
}
