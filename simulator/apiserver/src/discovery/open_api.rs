//! OpenAPI: v3 by group and version, v2 in one piece. Definitions are published with their schemas.
//!
//! Paths hold what clients look for in them: which operation is on which kind, and which query
//! parameters a patch takes (kubectl decides by `fieldValidation` whether the server validates).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::groups;
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::resource::{GroupResource, Resource};

const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/definitions/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Named schemas of the built-in kinds, as published.
fn built_in() -> &'static Map<String, Value> {
    static SCHEMAS: OnceLock<Map<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let document: Value = serde_json::from_str(include_str!("../../data/builtin-schemas.json"))
            .expect("data/ is valid: a test reads it");
        match document {
            Value::Object(mut document) => match document.remove("schemas") {
                Some(Value::Object(schemas)) => schemas,
                _ => Map::new(),
            },
            _ => Map::new(),
        }
    })
}

/// `/openapi/v3`.
pub(super) fn v3_index(view: &View<'_>) -> Value {
    let mut paths = Map::new();
    let mut add = |path: String, hash: &str| {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    };
    add("api/v1".to_owned(), &hash(view, ""));
    for group in groups::all(view) {
        let hash = hash(view, &group.name);
        for version in &group.versions {
            add(format!("apis/{}/{version}", group.name), &hash);
        }
    }
    json!({"paths": paths})
}

/// Changes whenever the documents of a group do: clients keep what they fetched by it.
fn hash(view: &View<'_>, group: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(super::version()["gitVersion"].as_str().unwrap_or_default());
    hash.update(group);
    for definition in definitions(view).into_iter().filter(|definition| definition["spec"]["group"] == group) {
        hash.update(definition.uid());
        hash.update(definition.generation().to_le_bytes());
    }
    format!("{:X}", hash.finalize())
}

fn definitions<'v>(view: &'v View<'_>) -> Vec<&'v Object> {
    view.store().list(&GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions"), "").collect()
}

/// `/openapi/v3/apis/GROUP/VERSION`; `None` when that is not served.
pub(super) fn v3(view: &View<'_>, path: &str) -> Option<Value> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    let resources: Vec<&Resource> = groups::of(view, group, version).collect();
    if resources.is_empty() {
        return None;
    }
    let schemas = schemas(view, &resources);
    let mut paths = Map::new();
    for resource in &resources {
        add_paths(&mut paths, resource);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::version()["gitVersion"]},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// `/openapi/v2`.
pub(super) fn v2(view: &View<'_>) -> Value {
    let resources: Vec<&Resource> = view.resources().collect();
    let mut definitions = Map::new();
    for (name, schema) in built_in()
        .iter()
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .chain(schemas(view, &resources.iter().copied().filter(|resource| resource.is_custom()).collect::<Vec<_>>()))
    {
        let mut schema = schema;
        point_to_definitions(&mut schema);
        definitions.insert(name, schema);
    }
    let mut paths = Map::new();
    for resource in resources {
        add_paths(&mut paths, resource);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::version()["gitVersion"]},
        "paths": paths,
        "definitions": definitions,
    })
}

fn point_to_definitions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(COMPONENTS)
            {
                *reference = format!("{DEFINITIONS}{name}");
            }
            map.values_mut().for_each(point_to_definitions);
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_definitions),
        _ => {}
    }
}

/// The named schemas that these resources need.
fn schemas(view: &View<'_>, resources: &[&Resource]) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for resource in resources {
        if resource.is_custom() {
            add_custom(view, resource, &mut out);
            wanted.extend([OBJECT_META.to_owned(), LIST_META.to_owned()]);
            continue;
        }
        wanted.extend(resource.schema.node().name.clone());
        let list = resource.schema.node().name.as_ref().map(|name| format!("{name}List"));
        wanted.extend(list);
        for subresource in &resource.subresources {
            wanted.extend(
                crate::schema::builtin::schema(&subresource.kind).and_then(|schema| schema.node().name.clone()),
            );
        }
    }
    // References between the named ones; each is visited once.
    while let Some(name) = wanted.pop_first() {
        if out.contains_key(&name) {
            continue;
        }
        let Some(schema) = built_in().get(&name) else { continue };
        references(schema, &mut wanted);
        out.insert(name, schema.clone());
    }
    out
}

fn references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(COMPONENTS)) {
                found.insert(name.to_owned());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Kind and list of a custom resource, named as upstream names them: the group's labels reversed.
fn add_custom(view: &View<'_>, resource: &Resource, out: &mut BTreeMap<String, Value>) {
    let (group, version, kind) = (&*resource.kind.group, &*resource.kind.version, &*resource.kind.kind);
    let reversed = group.split('.').rev().collect::<Vec<_>>().join(".");
    let name = format!("{reversed}.{version}.{kind}");
    let definition = definitions(view).into_iter().find(|definition| {
        definition["spec"]["group"] == group
            && definition["spec"]["names"]["plural"] == *resource.group_resource.resource
    });
    let schema = definition.and_then(|definition| {
        definition["spec"]["versions"]
            .as_array()?
            .iter()
            .find(|candidate| candidate["name"] == version)?
            .get("schema")?
            .get("openAPIV3Schema")
            .cloned()
    });
    let mut schema = schema.filter(Value::is_object).unwrap_or_else(|| json!({"type": "object"}));
    let reference = |name: &str| json!({"allOf": [{"$ref": format!("{COMPONENTS}{name}")}]});
    if schema["x-kubernetes-preserve-unknown-fields"] != true || schema["properties"].is_object() {
        schema["properties"]["apiVersion"] = json!({"type": "string"});
        schema["properties"]["kind"] = json!({"type": "string"});
        schema["properties"]["metadata"] = reference(OBJECT_META);
    }
    schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    let list_name = format!("{reversed}.{version}.{}", resource.list_kind);
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference(LIST_META),
            "items": {"type": "array", "items": reference(&name)},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": resource.list_kind}],
    });
    out.insert(name, schema);
    out.insert(list_name, list);
}

/// The operations on a resource, with kind and query parameters.
fn add_paths(paths: &mut Map<String, Value>, resource: &Resource) {
    let (group, version) = (&*resource.kind.group, &*resource.kind.version);
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let plural = &resource.group_resource.resource;
    let kind = json!({"group": group, "version": version, "kind": &*resource.kind.kind});
    let serves = |verb: &str| resource.verbs.iter().any(|served| served == verb);
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        })
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let list =
        ["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "watch"];
    let delete = ["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];
    let table: [(&str, &str, &str, &[&str], bool); 7] = [
        ("list", "get", "list", &list, true),
        ("create", "post", "post", &write, true),
        ("deletecollection", "delete", "deletecollection", &delete, true),
        ("get", "get", "get", &[], false),
        ("update", "put", "put", &write, false),
        ("patch", "patch", "patch", &["dryRun", "fieldManager", "fieldValidation", "force"], false),
        ("delete", "delete", "delete", &delete, false),
    ];
    for (verb, method, action, parameters, collection) in table {
        if serves(verb) {
            let name = if collection { "" } else { "/{name}" };
            let path = paths.entry(format!("{base}{scope}/{plural}{name}")).or_insert_with(|| json!({}));
            path[method] = operation(action, parameters);
        }
    }
}
