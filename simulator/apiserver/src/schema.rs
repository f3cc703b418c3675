//! Schemas: one form for built-in kinds (upstream's published OpenAPI) and for custom ones.
//!
//! A [`SchemaRef`] is a place in a [`SchemaSet`]; walking it follows `$ref`s and single `allOf`s, so
//! callers never see them. Recursive schemas (`JSONSchemaProps`) are therefore ordinary.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub mod builtin;
pub mod default;
pub mod formats;
pub mod go;
pub mod json;
mod json_errors;
pub mod protobuf;
pub mod prune;
pub mod structural;
pub mod typed;
pub mod validate;
pub mod yaml;

/// A place in a schema.
#[derive(Clone)]
pub struct SchemaRef {
    pub(crate) set: Arc<SchemaSet>,
    id: u32,
}

impl std::fmt::Debug for SchemaRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SchemaRef({})", self.id)
    }
}

/// Schemas that refer to each other, as one arena.
#[derive(Default)]
pub struct SchemaSet {
    pub(crate) nodes: Vec<Node>,
    named: BTreeMap<String, u32>,
    /// Are limits on values compiled? Built-in kinds have rules of their own instead.
    constrained: bool,
    /// Is there a default anywhere?
    defaults: bool,
    /// Is there a list of type set or map anywhere?
    keyed_lists: bool,
    /// Is there an embedded resource anywhere?
    embeds: bool,
    /// Are there validation rules anywhere?
    pub(crate) rules: bool,
    /// Are some of them about changes?
    pub(crate) transitions: bool,
}

/// What a list means for merging (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each once.
    Set,
    /// Objects, one for each combination of its keys.
    Map,
}

/// One schema, as published; see [`SchemaRef`] for the meaning of each field.
#[derive(Default)]
pub struct Node {
    /// `type`; empty when not given.
    pub type_: String,
    /// `format`.
    pub format: String,
    /// `properties`.
    pub properties: BTreeMap<String, u32>,
    /// `items`.
    pub items: Option<u32>,
    /// `additionalProperties` with a schema.
    pub additional: Option<u32>,
    /// `additionalProperties: true`.
    pub additional_any: bool,
    /// `required`.
    pub required: Vec<String>,
    /// `default`.
    pub default: Option<Value>,
    /// `enum`.
    pub enumeration: Vec<Value>,
    /// `nullable`.
    pub nullable: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type: atomic`.
    pub map_atomic: bool,
    /// `x-kubernetes-patch-merge-key`.
    pub patch_merge_key: Option<String>,
    /// `x-kubernetes-patch-strategy`, split at commas.
    pub patch_strategies: Vec<String>,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields: true`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// Every other keyword, as given: `minimum`, `pattern`, `anyOf`, `x-kubernetes-validations`, …
    pub rest: BTreeMap<String, Value>,
    /// Name in the set, for the types that have one (`io.k8s.api.core.v1.Container`).
    pub name: Option<String>,
    /// Limits on its values.
    pub constraints: Option<Box<structural::Constraints>>,
    /// A `$ref` or single `allOf` that this node stands for.
    alias: Option<String>,
    /// Where the reference leads.
    target: Option<u32>,
    /// How upstream's Go type keeps the value.
    go: go::Shape,
    /// As a field: is a zero value written back?
    keeps_zero: bool,
    /// Fields that the type always writes, or that have a default.
    written: Vec<(String, u32)>,
}

impl SchemaSet {
    /// Reads named schemas (`components.schemas` of OpenAPI v3).
    #[must_use]
    pub fn from_named(schemas: serde_json::Map<String, Value>) -> Arc<Self> {
        let mut set = Self::default();
        for (name, schema) in schemas {
            let id = set.add(&schema);
            set.nodes[id as usize].name = Some(name.clone());
            set.named.insert(name, id);
        }
        set.resolve();
        set.note_go_types();
        Arc::new(set)
    }

    /// Follows every reference once, so that walking a schema looks up no names.
    fn resolve(&mut self) {
        for id in 0..self.nodes.len() {
            // References to references do not occur more than once upstream; the bound keeps a
            // malformed set from looping.
            let mut target = id;
            for _ in 0..8 {
                match self.nodes[target].alias.as_deref().and_then(|name| self.named.get(name)) {
                    Some(next) => target = *next as usize,
                    None => break,
                }
            }
            self.nodes[id].target = (target != id).then(|| u32::try_from(target).expect("ids are u32"));
        }
    }

    /// Works out once what [`typed`] asks of each place.
    fn note_go_types(&mut self) {
        for id in 0..self.nodes.len() {
            self.nodes[id].go = go::Shape::of(&self.nodes[id]);
        }
        for id in 0..self.nodes.len() {
            let Some(type_name) = self.nodes[id].name.clone() else { continue };
            let mut written = Vec::new();
            let properties = std::mem::take(&mut self.nodes[id].properties);
            for (field, place) in &properties {
                let here = &self.nodes[*place as usize];
                let shape = here.target.map_or(here, |target| &self.nodes[target as usize]).go;
                let required = self.nodes[id].required.contains(field);
                let nil = go::is_nil_written(&type_name, field, shape, required);
                let always = here.default.is_some() && !go::OMITTED_AT_ZERO.contains(&(go::short(&type_name), field));
                if nil || always {
                    written.push((field.clone(), *place));
                }
                self.nodes[*place as usize].keeps_zero = always || go::is_pointer(&type_name, field, shape);
            }
            self.nodes[id].properties = properties;
            self.nodes[id].written = written;
        }
    }

    /// Reads a definition's schema and compiles its validation rules.
    #[must_use]
    pub fn custom(schema: &Value) -> SchemaRef {
        let mut set = Self { constrained: true, ..Self::default() };
        let id = set.add(schema);
        crate::expression::rules::compile(&mut set);
        SchemaRef { set: Arc::new(set), id }
    }

    /// Reads one schema without references, such as a definition's `openAPIV3Schema`.
    #[must_use]
    pub fn single(schema: &Value) -> SchemaRef {
        let mut set = Self { constrained: true, ..Self::default() };
        let id = set.add(schema);
        SchemaRef { set: Arc::new(set), id }
    }

    fn add(&mut self, schema: &Value) -> u32 {
        let id = u32::try_from(self.nodes.len()).expect("fewer than 2^32 schema nodes");
        self.nodes.push(Node::default());
        let mut node = Node::default();
        let Some(map) = schema.as_object() else {
            node.preserve_unknown = schema == &Value::Bool(true);
            self.nodes[id as usize] = node;
            return id;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        for (keyword, value) in map {
            match keyword.as_str() {
                "$ref" => node.alias = value.as_str().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()),
                "allOf" if value.as_array().is_some_and(|all| all.len() == 1 && all[0].get("$ref").is_some()) => {
                    node.alias =
                        value[0]["$ref"].as_str().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
                }
                "type" => node.type_ = text(value),
                "format" => node.format = text(value),
                "properties" => {
                    for (name, property) in value.as_object().into_iter().flatten() {
                        let property = self.add(property);
                        node.properties.insert(name.clone(), property);
                    }
                }
                "items" => node.items = Some(self.add(value)),
                "additionalProperties" if value.is_object() => node.additional = Some(self.add(value)),
                "additionalProperties" => node.additional_any = value == &Value::Bool(true),
                "required" => node.required = texts(value),
                "default" => node.default = Some(value.clone()),
                "enum" => node.enumeration = value.as_array().cloned().unwrap_or_default(),
                "nullable" => node.nullable = value == &Value::Bool(true),
                "x-kubernetes-list-type" => {
                    node.list_type = match value.as_str() {
                        Some("map") => Some(ListType::Map),
                        Some("set") => Some(ListType::Set),
                        _ => Some(ListType::Atomic),
                    };
                }
                "x-kubernetes-list-map-keys" => node.list_map_keys = texts(value),
                "x-kubernetes-map-type" => node.map_atomic = value == "atomic",
                "x-kubernetes-patch-merge-key" => node.patch_merge_key = value.as_str().map(str::to_owned),
                "x-kubernetes-patch-strategy" => {
                    node.patch_strategies = text(value).split(',').map(str::to_owned).collect();
                }
                "x-kubernetes-int-or-string" => node.int_or_string = value == &Value::Bool(true),
                "x-kubernetes-preserve-unknown-fields" => node.preserve_unknown = value == &Value::Bool(true),
                "x-kubernetes-embedded-resource" => node.embedded_resource = value == &Value::Bool(true),
                _ => {
                    node.rest.insert(keyword.clone(), value.clone());
                }
            }
        }
        if self.constrained {
            node.constraints = structural::Constraints::compile(map, self);
        }
        self.defaults |= node.default.is_some();
        self.keyed_lists |= matches!(node.list_type, Some(ListType::Map | ListType::Set));
        self.embeds |= node.embedded_resource;
        self.nodes[id as usize] = node;
        id
    }

    /// The schema with this name.
    #[must_use]
    pub fn named(self: &Arc<Self>, name: &str) -> Option<SchemaRef> {
        Some(SchemaRef { set: Arc::clone(self), id: *self.named.get(name)? })
    }
}

impl SchemaRef {
    /// The number of the place in its set.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    fn at(&self, id: u32) -> Self {
        Self { set: Arc::clone(&self.set), id }
    }

    /// Keywords at the place itself, before references are followed. Lists and defaults of a
    /// property stand here when its type is a reference.
    #[must_use]
    pub fn here(&self) -> &Node {
        &self.set.nodes[self.id as usize]
    }

    /// The type this place has, references followed.
    #[must_use]
    pub fn node(&self) -> &Node {
        let here = self.here();
        here.target.map_or(here, |id| &self.set.nodes[id as usize])
    }

    /// The schema of a declared property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<Self> {
        self.node().properties.get(name).map(|id| self.at(*id))
    }

    /// Declared properties, sorted by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, Self)> {
        self.node().properties.iter().map(|(name, id)| (name.as_str(), self.at(*id)))
    }

    /// The schema of the values of a map (`additionalProperties`).
    #[must_use]
    pub fn additional(&self) -> Option<Self> {
        self.node().additional.map(|id| self.at(id))
    }

    /// The schema of the items of a list.
    #[must_use]
    pub fn items(&self) -> Option<Self> {
        self.node().items.map(|id| self.at(id))
    }

    /// The schema of a member of an object: a declared property, else the map's value schema.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| self.additional())
    }

    /// The default of this place.
    #[must_use]
    pub fn default(&self) -> Option<&Value> {
        self.here().default.as_ref().or(self.node().default.as_ref())
    }

    /// What the list at this place means for merging; none given means atomic.
    #[must_use]
    pub fn list_type(&self) -> ListType {
        self.here().list_type.or(self.node().list_type).unwrap_or(ListType::Atomic)
    }

    /// The keys of a list of type map.
    #[must_use]
    pub fn list_map_keys(&self) -> &[String] {
        if self.here().list_map_keys.is_empty() { &self.node().list_map_keys } else { &self.here().list_map_keys }
    }

    /// Is the object at this place replaced as a whole?
    #[must_use]
    pub fn is_atomic_map(&self) -> bool {
        self.here().map_atomic || self.node().map_atomic
    }
}

/// Puts `segment` before each path: a field's name with a dot, a list's index without.
fn prepend(paths: &mut [String], segment: impl Fn() -> String) {
    for path in paths {
        let dot = if path.starts_with('[') || path.is_empty() { "" } else { "." };
        *path = format!("{}{dot}{path}", segment());
    }
}
