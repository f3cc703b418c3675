//! What a write changed: the paths that were added, modified and removed.
//!
//! Source: `sigs.k8s.io/structured-merge-diff/typed/compare.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::FieldSet;
use super::types::{Shape, Type};
use crate::schema::ListType;

/// The difference between two objects.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Paths only the new object has.
    pub(super) added: FieldSet,
    /// Paths whose values differ.
    pub(super) modified: FieldSet,
    /// Paths only the live object has.
    pub(super) removed: FieldSet,
}

/// What there was before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Live<'a> {
    /// Nothing.
    Absent,
    /// This.
    Value(&'a Value),
    /// Nothing yet, in a place where Go has a struct: its fields that are not optional are there
    /// already, empty. Creates of built-in kinds are compared with such an object upstream, which is
    /// why `f:spec` of a created Deployment has no `.` of its own.
    Zero,
}

impl Changes {
    /// What the writer set: everything added or modified.
    pub(super) fn written(self) -> FieldSet {
        self.added.union(self.modified)
    }

    /// Leaves out the fields that the endpoint does not store.
    pub(super) fn without(self, reset: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(reset),
            modified: self.modified.recursive_difference(reset),
            removed: self.removed.recursive_difference(reset),
        }
    }

    fn nest(&mut self, element: Element, child: Self) {
        // One of the three is the rule, so the element is seldom cloned.
        if !child.added.is_empty() {
            self.added.add(element.clone(), child.added);
        }
        if !child.modified.is_empty() {
            self.modified.add(element.clone(), child.modified);
        }
        if !child.removed.is_empty() {
            self.removed.add(element, child.removed);
        }
    }

    fn join(self, other: Self) -> Self {
        Self {
            added: self.added.union(other.added),
            modified: self.modified.union(other.modified),
            removed: self.removed.union(other.removed),
        }
    }

    fn modified() -> Self {
        Self { modified: FieldSet::owned(), ..Self::default() }
    }
}

/// Compares the value at one place.
pub(super) fn compare(place: &Type, live: Live<'_>, new: Option<&Value>) -> Changes {
    match (live, new) {
        (Live::Absent | Live::Zero, None) | (Live::Zero, Some(Value::Null)) => Changes::default(),
        (Live::Absent, Some(new)) => Changes { added: whole(place, new), ..Changes::default() },
        (Live::Value(live), None) => Changes { removed: whole(place, live), ..Changes::default() },
        (Live::Value(live), Some(new)) if live == new => Changes::default(),
        (Live::Value(live), Some(new)) => {
            let (before, after) = (place.shape(live), place.shape(new));
            let changes = compare_as(place, after, live, new);
            // A value without a type changed its form: both forms have their say.
            if before == after { changes } else { compare_as(place, before, live, new).join(changes) }
        }
        (Live::Zero, Some(new)) => compare_zero(place, new),
    }
}

fn compare_as(place: &Type, shape: Shape, live: &Value, new: &Value) -> Changes {
    match shape {
        Shape::Map { atomic: false } => {
            let (live, new) = (live.as_object(), new.as_object());
            match (live.filter(|live| !live.is_empty()), new.filter(|new| !new.is_empty())) {
                // Both are empty or null, yet not the same: that difference is kept.
                (None, None) => Changes::modified(),
                (live, new) => compare_members(place, live, new),
            }
        }
        Shape::List(list @ (ListType::Map | ListType::Set)) => {
            let items = |value: &'_ Value| value.as_array().is_some_and(|items| !items.is_empty());
            if items(live) || items(new) { compare_items(place, list, live, new) } else { Changes::modified() }
        }
        _ => Changes::modified(),
    }
}

fn compare_members(place: &Type, live: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> Changes {
    let mut changes = Changes::default();
    let mut old = live.into_iter().flatten().peekable();
    let mut visit = |name: &String, live: Option<&Value>, new: Option<&Value>| {
        if live != new {
            let child = compare(&place.member(name), live.map_or(Live::Absent, Live::Value), new);
            changes.nest(Element::field(name), child);
        }
    };
    for (name, new) in new.into_iter().flatten() {
        while let Some((gone, value)) = old.next_if(|(old, _)| *old < name) {
            visit(gone, Some(value), None);
        }
        let live = old.next_if(|(old, _)| *old == name).map(|(_, value)| value);
        visit(name, live, Some(new));
    }
    for (gone, value) in old {
        visit(gone, Some(value), None);
    }
    changes
}

fn compare_items(place: &Type, list: ListType, live: &Value, new: &Value) -> Changes {
    // Which items each side has under one element: more than one where there are duplicates.
    let mut items: BTreeMap<Element, [Vec<&Value>; 2]> = BTreeMap::new();
    for (side, value) in [live, new].into_iter().enumerate() {
        for item in value.as_array().into_iter().flatten() {
            if let Ok(element) = place.item_element(list, item) {
                items.entry(element).or_default()[side].push(item);
            }
        }
    }
    let item_type = place.items();
    let mut changes = Changes::default();
    for (element, [live, new]) in items {
        let compare_first = |live: Option<&&Value>, new: Option<&&Value>| {
            compare(&item_type, live.map_or(Live::Absent, |live| Live::Value(live)), new.copied())
        };
        let child = match (live.as_slice(), new.as_slice()) {
            ([_, _, ..], [_, _, ..]) if live == new => Changes::default(),
            ([_, _, ..], [_, _, ..]) => Changes::modified(),
            // Duplicates are owned as one; where they come or go, so does that one.
            ([_, _, ..], new) => {
                let mut child = new.first().map_or_else(Changes::default, |new| compare_first(None, Some(new)));
                child.removed.owned = true;
                child
            }
            (live, [_, _, ..]) => {
                let mut child = live.first().map_or_else(Changes::default, |live| compare_first(Some(live), None));
                child.added.owned = true;
                child
            }
            (live, new) => compare_first(live.first(), new.first()),
        };
        changes.nest(element, child);
    }
    changes
}

/// Every path of a value that is there on one side only.
fn whole(place: &Type, value: &Value) -> FieldSet {
    let mut set = match (place.shape(value), value) {
        (Shape::Map { atomic: false }, Value::Object(members)) => {
            let mut set = FieldSet::default();
            for (name, value) in members {
                set.add(Element::field(name), whole(&place.member(name), value));
            }
            set
        }
        (Shape::List(list @ (ListType::Map | ListType::Set)), Value::Array(_)) => {
            compare_items(place, list, &Value::Null, value).added
        }
        _ => FieldSet::default(),
    };
    set.owned = true;
    set
}

fn compare_zero(place: &Type, new: &Value) -> Changes {
    let Value::Object(members) = new else { return Changes::modified() };
    if members.is_empty() {
        return Changes::default();
    }
    if place.shape(new) != (Shape::Map { atomic: false }) {
        return Changes::modified();
    }
    let mut changes = Changes::default();
    for (name, value) in members {
        let field = place.member(name);
        let child = match zero_field(place, &field, name) {
            Some(Zero::Struct) => compare(&field, Live::Zero, Some(value)),
            Some(Zero::Value(zero)) => compare(&field, Live::Value(&zero), Some(value)),
            None => compare(&field, Live::Absent, Some(value)),
        };
        changes.nest(Element::field(name), child);
    }
    changes
}

/// What a Go struct with nothing set holds in one of its fields.
enum Zero {
    Struct,
    Value(Value),
}

/// Published schemas tell it: fields that are structs default to `{}`, required scalars to their
/// zero value, and required pointers, lists and maps are `null`. Other fields are left out.
fn zero_field(parent: &Type, field: &Type, name: &str) -> Option<Zero> {
    match field.schema()?.default() {
        Some(Value::Object(default)) if default.is_empty() => Some(Zero::Struct),
        Some(default) if default == "" || default == 0 || default == false => Some(Zero::Value(default.clone())),
        _ => parent
            .schema()
            .is_some_and(|parent| parent.node().required.iter().any(|required| required == name))
            .then_some(Zero::Value(Value::Null)),
    }
}
