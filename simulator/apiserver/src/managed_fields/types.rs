//! A schema as field management sees it: what is merged, what is owned whole.
//!
//! Source: `k8s.io/kube-openapi/pkg/schemaconv/openapi.go`, and `typed/helpers.go` of
//! `sigs.k8s.io/structured-merge-diff`.

use serde_json::{Map, Value};

use super::element::Element;
use crate::schema::{ListType, SchemaRef, builtin};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The type of one place in an object.
#[derive(Clone, Debug)]
pub(super) enum Type {
    /// A place of a schema.
    Schema {
        /// The place.
        place: SchemaRef,
        /// A schema above says `x-kubernetes-preserve-unknown-fields`: it holds for all below.
        preserves: bool,
        /// A whole object with `apiVersion`, `kind` and `metadata`, which custom schemas leave out.
        whole_object: bool,
    },
    /// No schema: maps merge, lists and scalars are owned whole.
    Deduced,
}

/// How the value at a place is compared and merged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    /// Owned as one.
    Scalar,
    /// A list, merged by item or owned as one.
    List(ListType),
    /// A map or an object.
    Map {
        /// Owned as one.
        atomic: bool,
    },
}

impl Type {
    /// The type of a kind's objects.
    pub(super) fn of_kind(schema: &SchemaRef, custom: bool) -> Self {
        Self::place(schema.clone(), false, custom)
    }

    fn place(place: SchemaRef, preserves: bool, whole_object: bool) -> Self {
        let node = place.node();
        let preserves = preserves || node.preserve_unknown;
        let whole_object = whole_object || node.embedded_resource;
        Self::Schema { place, preserves, whole_object }
    }

    /// The shape of `value` at this place. Where several are possible the value decides; `null`
    /// counts as a map then, as upstream tries maps first.
    pub(super) fn shape(&self, value: &Value) -> Shape {
        let Self::Schema { place, .. } = self else { return Shape::deduced(value) };
        let node = place.node();
        match node.type_.as_str() {
            "object" if node.name.as_deref() == Some(RAW_EXTENSION) => Shape::Scalar,
            "object" => Shape::Map { atomic: place.is_atomic_map() },
            "array" => Shape::List(list_type(place)),
            "" if node.name.as_deref() == Some(QUANTITY) => Shape::Scalar,
            "" => match Shape::deduced(value) {
                Shape::Map { .. } => Shape::Map { atomic: place.is_atomic_map() },
                Shape::List(_) => Shape::List(list_type(place)),
                Shape::Scalar => Shape::Scalar,
            },
            _ => Shape::Scalar,
        }
    }

    /// The schema's place, where there is one.
    pub(super) fn schema(&self) -> Option<&SchemaRef> {
        match self {
            Self::Schema { place, .. } => Some(place),
            Self::Deduced => None,
        }
    }

    /// The type of a declared field.
    pub(super) fn declared(&self, name: &str) -> Option<Self> {
        let Self::Schema { place, preserves, whole_object } = self else { return None };
        if *whole_object {
            let object_meta = builtin::named(OBJECT_META);
            match name {
                "metadata" => return object_meta.map(|meta| Self::place(meta, false, false)),
                "apiVersion" | "kind" => {
                    return object_meta?.property("name").map(|text| Self::place(text, false, false));
                }
                _ => {}
            }
        }
        place.property(name).map(|place| Self::place(place, *preserves, false))
    }

    /// The type of a member that is not a declared field; `None` where there can be none.
    pub(super) fn undeclared(&self) -> Option<Self> {
        let Self::Schema { place, preserves, .. } = self else { return Some(Self::Deduced) };
        if let Some(additional) = place.additional() {
            return Some(Self::place(additional, *preserves, false));
        }
        let node = place.node();
        let open = *preserves || node.additional_any || node.properties.is_empty();
        open.then_some(Self::Deduced)
    }

    /// The type of a member. What a schema does not declare at all is treated as if it were free.
    pub(super) fn member(&self, name: &str) -> Self {
        self.declared(name).or_else(|| self.undeclared()).unwrap_or(Self::Deduced)
    }

    /// The type of the items of a list.
    pub(super) fn items(&self) -> Self {
        let Self::Schema { place, preserves, .. } = self else { return Self::Deduced };
        place.items().map_or(Self::Deduced, |items| Self::place(items, *preserves, false))
    }

    /// The path element of an item of a list that is merged by item.
    ///
    /// # Errors
    /// Why the item has none, in upstream's words.
    pub(super) fn item_element(&self, list: ListType, item: &Value) -> Result<Element, String> {
        let keys = match (self, list) {
            (Self::Schema { place, .. }, ListType::Map) => list_keys(place),
            _ => &[],
        };
        if keys.is_empty() {
            return match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(Element::value(scalar)),
            };
        }
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found = Map::new();
        for key in keys {
            if let Some(value) = fields.get(key) {
                found.insert(key.clone(), value.clone());
            } else if let Some(default) =
                self.items().declared(key).as_ref().and_then(Self::schema).and_then(SchemaRef::default)
            {
                found.insert(key.clone(), default.clone());
            }
        }
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::key(found))
    }
}

impl Shape {
    fn deduced(value: &Value) -> Self {
        match value {
            Value::Null | Value::Object(_) => Self::Map { atomic: false },
            Value::Array(_) => Self::List(ListType::Atomic),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Scalar,
        }
    }
}

/// Lists without a list type follow their patch strategy.
fn list_type(place: &SchemaRef) -> ListType {
    let declared = place.here().list_type.or(place.node().list_type);
    declared.unwrap_or_else(|| {
        let node = place.here();
        match (&node.patch_merge_key, node.patch_strategies.iter().any(|strategy| strategy == "merge")) {
            (Some(_), true) => ListType::Map,
            (None, true) => ListType::Set,
            (_, false) => ListType::Atomic,
        }
    })
}

fn list_keys(place: &SchemaRef) -> &[String] {
    let keys = place.list_map_keys();
    if keys.is_empty() { place.here().patch_merge_key.as_slice() } else { keys }
}
