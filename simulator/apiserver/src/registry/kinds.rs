//! Which kinds are served: built-in ones and those of definitions, by resource and by kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::admission::ObjectInterfaces;
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::resource::{GroupResource, GroupVersionKind, Resource, split_api_version};
use crate::schema;

/// Group and plural of the resource whose objects define others.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// Everything that is served. Cloning shares the resources.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    /// In the order of discovery: built-in resources first, then those of definitions by name.
    all: Vec<Arc<Resource>>,
    /// By `GROUP/VERSION/PLURAL`.
    by_resource: BTreeMap<String, Arc<Resource>>,
    by_kind: BTreeMap<GroupVersionKind, Arc<Resource>>,
    /// The version in which objects are stored.
    storage: BTreeMap<GroupResource, Arc<Resource>>,
    /// Served resources of each definition, by the definition's name.
    definitions: BTreeMap<Arc<str>, Vec<Arc<Resource>>>,
}

impl Kinds {
    /// The built-in kinds.
    pub(crate) fn built_in() -> Self {
        let mut kinds = Self {
            all: Vec::new(),
            by_resource: BTreeMap::new(),
            by_kind: BTreeMap::new(),
            storage: BTreeMap::new(),
            definitions: BTreeMap::new(),
        };
        kinds.index();
        kinds
    }

    /// Takes notice of a definition that was committed (`None`: removed).
    pub(crate) fn define(&mut self, name: &str, definition: Option<&Object>) {
        let served = definition.map(crate::definitions::served).unwrap_or_default();
        let changed = if served.is_empty() {
            self.definitions.remove(name).is_some()
        } else {
            self.definitions.insert(name.into(), served);
            true
        };
        if changed {
            self.index();
        }
    }

    /// Does this resource define others?
    pub(crate) fn is_definition(resource: &GroupResource) -> bool {
        (&*resource.group, &*resource.resource) == DEFINITIONS
    }

    /// The key of [`crate::store::Store::list`] for definitions.
    pub(crate) fn definitions() -> GroupResource {
        GroupResource::new(DEFINITIONS.0, DEFINITIONS.1)
    }

    fn index(&mut self) {
        self.all = schema::builtin::resources().iter().chain(self.definitions.values().flatten()).cloned().collect();
        self.by_resource.clear();
        self.by_kind.clear();
        self.storage.clear();
        for resource in &self.all {
            let of = &resource.group_resource;
            let kind = &resource.kind;
            let at = path(&kind.group, &kind.version, &of.resource);
            self.by_resource.insert(at, Arc::clone(resource));
            self.by_kind.entry(resource.kind.clone()).or_insert_with(|| Arc::clone(resource));
            if is_storage_version(resource) {
                self.storage.insert(of.clone(), Arc::clone(resource));
            } else {
                self.storage.entry(of.clone()).or_insert_with(|| Arc::clone(resource));
            }
        }
    }

    /// All served resources in the order of discovery.
    pub(crate) fn all(&self) -> &[Arc<Resource>] {
        &self.all
    }

    /// The resource at a path.
    pub(crate) fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.by_resource.get(&path(group, version, resource))
    }

    /// The resource that holds objects of a kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = split_api_version(api_version);
        self.by_kind.get(&GroupVersionKind::new(group, version, kind))
    }

    /// A resource in its storage version.
    pub(crate) fn storage(&self, resource: &GroupResource) -> Option<&Arc<Resource>> {
        self.storage.get(resource)
    }
}

fn path(group: &str, version: &str, resource: &str) -> String {
    [group, version, resource].join("/")
}

/// Objects of built-in resources are stored in the version that is preferred; a definition says which.
fn is_storage_version(resource: &Resource) -> bool {
    if resource.kind.group != resource.group_resource.group {
        return false;
    }
    match &resource.origin {
        crate::resource::Origin::BuiltIn => schema::builtin::groups().iter().any(|group| {
            group.name == *resource.kind.group && group.preferred_version.version == *resource.kind.version
        }),
        crate::resource::Origin::Definition(definition) => definition.storage_version() == &*resource.kind.version,
    }
}

/// A stored object in the version of a resource.
pub(crate) fn to_version(object: &Object, resource: &Resource) -> Object {
    if resource.is_custom() {
        return crate::definitions::read(object, resource);
    }
    let kind = &resource.kind;
    let same_version = split_api_version(object.api_version()) == (&*kind.group, &*kind.version);
    if same_version && object.kind() == &*kind.kind {
        return Arc::clone(object);
    }
    match crate::builtin::convert(object, resource) {
        Some(converted) => Arc::new(converted),
        None => labelled(object, kind),
    }
}

/// An object in the version in which its resource is stored. Custom objects change their label only:
/// what the storage version does not know is kept, as upstream keeps it.
pub(crate) fn to_storage(kinds: &Kinds, object: Object, resource: &Resource) -> Object {
    match kinds.storage(&resource.group_resource) {
        Some(storage) if storage.kind == resource.kind => object,
        Some(storage) if storage.is_custom() => labelled(&object, &storage.kind),
        Some(storage) => to_version(&object, storage),
        None => object,
    }
}

fn labelled(object: &Object, kind: &GroupVersionKind) -> Object {
    let mut labelled = Value::clone(object);
    labelled["apiVersion"] = kind.api_version().into();
    labelled["kind"] = (*kind.kind).into();
    Arc::new(labelled)
}

impl ObjectInterfaces for Kinds {
    fn equivalents(&self, resource: &Resource) -> Vec<Arc<Resource>> {
        let same = |other: &&Arc<Resource>| other.group_resource == resource.group_resource;
        self.all.iter().filter(same).cloned().collect()
    }

    fn convert(&self, object: &Object, to: &GroupVersionKind) -> Result<Object, ApiError> {
        Ok(match self.by_kind.get(to) {
            Some(resource) => to_version(object, resource),
            None => labelled(object, to),
        })
    }

    fn decode(&self, kind: &GroupVersionKind, object: Value) -> Result<Value, ApiError> {
        match self.by_kind.get(kind) {
            Some(resource) => super::decode::settle(resource, kind, object),
            None => Ok(object),
        }
    }

    fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.kind(api_version, kind).cloned()
    }
}
