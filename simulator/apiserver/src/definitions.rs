//! `CustomResourceDefinition`s: what one means for the API server.
//!
//! | module | what is there |
//! |---|---|
//! | here | [`Definition`]: the compiled form; which resources it makes the server serve; how objects are decoded and read |
//! | [`strategy`] | the life of a definition as an object: defaults, generation, status, deletion |
//! | [`names`] | names that it claims, and who has them |
//! | [`validation`] | what is refused about a definition |
//! | [`structural`] | what is refused about its schemas |
//! | [`validations`] | what is refused about its validation rules |
//!
//! The control loop that establishes definitions and empties them before they go is
//! [`crate::loops::definitions`].

use std::sync::Arc;

use serde_json::Value;

use crate::builtin::scale::ScalePaths;
use crate::error::FieldError;
use crate::object::{Object, ObjectExt};
use crate::resource::{GroupResource, GroupVersionKind, Origin, Resource, Subresource};
use crate::schema::{self, SchemaRef, SchemaSet};

pub mod names;
pub mod strategy;
pub mod structural;
pub mod validation;
pub mod validations;

/// A definition as the server uses it, made once when the definition changes.
#[derive(Debug)]
pub struct Definition {
    /// `metadata.name`.
    pub name: String,
    /// Version in which objects are stored.
    pub storage: String,
    /// Is it on its way out, so that nothing new may be made?
    pub terminating: bool,
    /// `spec.conversion`, when a webhook converts between versions.
    pub conversion: Option<Value>,
    /// Its versions, served or not.
    pub versions: Vec<Version>,
}

/// One version of a definition.
#[derive(Debug)]
pub struct Version {
    /// `v1`.
    pub name: String,
    /// The schema, validation rules compiled.
    pub schema: SchemaRef,
    /// `subresources.scale`.
    pub scale: Option<ScalePaths>,
    /// `selectableFields`: paths without their first dot.
    pub selectable_fields: Vec<String>,
    /// `additionalPrinterColumns`, as given; empty: a name and an age.
    pub columns: Vec<Value>,
    /// The warning that goes with every answer, when the version is deprecated.
    pub warning: Option<String>,
}

impl Definition {
    /// Version in which objects are stored.
    #[must_use]
    pub fn storage_version(&self) -> &str {
        &self.storage
    }

    /// One of its versions.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Can objects be selected by this field (`selectableFields`)?
    #[must_use]
    pub fn is_selectable(&self, version: &str, field: &str) -> bool {
        self.version(version).is_some_and(|version| version.selectable_fields.iter().any(|known| known == field))
    }
}

/// The resources that a committed definition makes the server serve: one for each served version,
/// once it is established.
#[must_use]
pub fn served(object: &Object) -> Vec<Arc<Resource>> {
    if !names::is_established(object) {
        return Vec::new();
    }
    let spec = &object["spec"];
    let accepted = &object["status"]["acceptedNames"];
    let (group, kind, plural) = (text(&spec["group"]), text(&accepted["kind"]), text(&accepted["plural"]));
    let definition = Arc::new(compile(object));
    let is_served = |version: &&Value| version["served"] == true;
    spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_served)
        .filter_map(|version| {
            let name = text(&version["name"]);
            let compiled = definition.version(name)?;
            Some(Arc::new(Resource {
                kind: GroupVersionKind::new(group, name, kind),
                group_resource: GroupResource::new(group, plural),
                singular: text(&accepted["singular"]).to_owned(),
                list_kind: text(&accepted["listKind"]).to_owned(),
                short_names: texts(&accepted["shortNames"]),
                categories: texts(&accepted["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: verbs(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
                storage_version_hash: storage_version_hash(group, &definition.storage, kind),
                subresources: subresources(version, group, name, kind),
                schema: compiled.schema.clone(),
                origin: Origin::Definition(Arc::clone(&definition)),
            }))
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|value| text(value).to_owned()).collect()
}

fn verbs(verbs: &[&str]) -> Vec<String> {
    verbs.iter().map(|verb| (*verb).to_owned()).collect()
}

/// The first eight bytes of a hash of group, version and kind in base64
/// (`discovery.StorageVersionHash`).
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&hash[..8])
}

fn subresources(version: &Value, group: &str, name: &str, kind: &str) -> Vec<Subresource> {
    let subresource = |subresource: &str, kind| Subresource {
        name: subresource.to_owned(),
        kind,
        verbs: verbs(&["get", "patch", "update"]),
    };
    let mut found = Vec::new();
    if version["subresources"]["status"].is_object() {
        found.push(subresource("status", GroupVersionKind::new(group, name, kind)));
    }
    if version["subresources"]["scale"].is_object() {
        found.push(subresource("scale", GroupVersionKind::new("autoscaling", "v1", "Scale")));
    }
    found
}

fn compile(object: &Object) -> Definition {
    let spec = &object["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage = versions.iter().find(|version| version["storage"] == true);
    let conversion = &spec["conversion"];
    Definition {
        name: object.name().to_owned(),
        storage: storage.map_or("", |version| text(&version["name"])).to_owned(),
        terminating: object.is_deleting(),
        conversion: (conversion["strategy"] == "Webhook").then(|| conversion["webhook"].clone()),
        versions: versions.iter().map(|version| compile_version(object, version)).collect(),
    }
}

fn compile_version(object: &Object, version: &Value) -> Version {
    let name = text(&version["name"]);
    let scale = &version["subresources"]["scale"];
    let path = |value: &Value| text(value).trim_start_matches('.').to_owned();
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let group = text(&object["spec"]["group"]);
    let warning = (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!("{group}/{name} {} is deprecated", text(&object["spec"]["names"]["kind"])),
    });
    Version {
        name: name.to_owned(),
        schema: SchemaSet::custom(&version["schema"]["openAPIV3Schema"]),
        scale: scale.is_object().then(|| ScalePaths {
            spec_replicas: path(&scale["specReplicasPath"]),
            status_replicas: path(&scale["statusReplicasPath"]),
            label_selector: scale["labelSelectorPath"].is_string().then(|| path(&scale["labelSelectorPath"])),
        }),
        selectable_fields: fields.map(|field| path(&field["jsonPath"])).collect(),
        columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        warning,
    }
}

/// Decodes a custom object in place: unknown fields go and are named, defaults are filled in.
///
/// # Errors
/// Metadata of the wrong type, in Go's words.
pub fn decode(object: &mut Value, schema: &SchemaRef) -> Result<schema::typed::Decoded, String> {
    let decoded = schema::prune::prune(object, schema)?;
    schema::default::apply(object, schema);
    Ok(decoded)
}

/// A stored object as this version of its resource shows it; the same object where nothing differs.
#[must_use]
pub fn read(object: &Object, resource: &Resource) -> Object {
    let same = object.api_version() == resource.api_version();
    if same
        && schema::default::is_complete(object, &resource.schema)
        && schema::prune::is_known(object, &resource.schema)
    {
        return Arc::clone(object);
    }
    let mut shown = Value::clone(object);
    shown["apiVersion"] = resource.api_version().into();
    // Metadata was decoded when it was written.
    let _ = decode(&mut shown, &resource.schema);
    Arc::new(shown)
}

/// Everything that its definition has against a custom object; `old` for updates.
#[must_use]
pub fn validate(object: &Value, old: Option<&Value>, resource: &Resource) -> Vec<FieldError> {
    let mut errors = schema::validate::validate(object, old, &resource.schema);
    let Origin::Definition(definition) = &resource.origin else { return errors };
    if let Some(scale) = definition.version(&resource.kind.version).and_then(|version| version.scale.as_ref()) {
        let replicas = at(object, &scale.spec_replicas);
        if replicas.as_i64().is_some_and(|replicas| replicas < 0) {
            let path = format!(".{}", scale.spec_replicas);
            errors.push(FieldError::invalid(path, replicas, "should be a non-negative integer"));
        }
    }
    crate::expression::rules::check(object, old, &resource.schema, &mut errors);
    errors
}

/// The value at a path with dots, or null.
fn at<'v>(object: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(object, |value, field| &value[field])
}
