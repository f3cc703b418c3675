//! What an applied object claims, and the named fields that such claims leave out.
//!
//! Source: `typed/tofieldset.go` and `fieldpath/set.go` of `sigs.k8s.io/structured-merge-diff`.

use serde_json::Value;

use super::element::Element;
use super::set::FieldSet;
use super::types::{Shape, Type};
use crate::schema::ListType;

/// The paths that an object sets. Containers that a schema names are not among them: whoever sets
/// `spec.replicas` does not own `spec`.
pub(super) fn field_set(place: &Type, value: &Value) -> FieldSet {
    match (place.shape(value), value) {
        (Shape::Map { atomic: false }, Value::Object(members)) => {
            let mut set = FieldSet::default();
            for (name, value) in members {
                let declared = place.declared(name);
                let is_declared = declared.is_some();
                let member = declared.or_else(|| place.undeclared()).unwrap_or(Type::Deduced);
                let mut child = field_set(&member, value);
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                child.owned |= empty || !is_declared;
                set.add(Element::field(name), child);
            }
            set
        }
        (Shape::List(list @ (ListType::Map | ListType::Set)), Value::Array(items)) => {
            let item_type = place.items();
            let mut set = FieldSet::default();
            for item in items {
                if let Ok(element) = place.item_element(list, item) {
                    let mut child = field_set(&item_type, item);
                    child.owned = true;
                    set.add(element, child);
                }
            }
            set
        }
        (Shape::Map { atomic: false } | Shape::List(ListType::Map | ListType::Set), _) => FieldSet::default(),
        _ => FieldSet::owned(),
    }
}

/// The set, with the named fields above its members: what has to go or stay together with them.
pub(super) fn with_named_fields(place: &Type, set: &FieldSet) -> FieldSet {
    let mut named = FieldSet::default();
    named.owned = set.owned;
    for (element, child) in set.children() {
        let (below, declared) = match element.field_name() {
            Some(name) => {
                let declared = place.declared(name);
                let is_declared = declared.is_some();
                (declared.or_else(|| place.undeclared()).unwrap_or(Type::Deduced), is_declared)
            }
            None => (place.items(), false),
        };
        let mut child = with_named_fields(&below, child);
        child.owned |= declared;
        named.add(element.clone(), child);
    }
    named
}
