//! Sets of field paths, and their `fieldsV1` form.
//!
//! Source: `sigs.k8s.io/structured-merge-diff/fieldpath` (`set.go`, `serialize.go`).

use serde_json::{Map, Value};

use super::element::Element;

/// A set of field paths, as a tree. A node may be in the set itself (`owned`, written `.`) and have
/// members below it; a node that is neither does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSet {
    /// Is the path to this node in the set?
    pub(super) owned: bool,
    /// Sorted by element; no child is empty.
    children: Vec<(Element, FieldSet)>,
}

impl FieldSet {
    /// The set of just this place.
    pub(super) fn owned() -> Self {
        Self { owned: true, children: Vec::new() }
    }

    /// The set of one path of fields.
    pub(super) fn path(fields: &[&str]) -> Self {
        match fields {
            [] => Self::owned(),
            [first, rest @ ..] => {
                let mut set = Self::default();
                set.add(Element::field(first), Self::path(rest));
                set
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.children.is_empty()
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&Element, &Self)> {
        self.children.iter().map(|(element, set)| (element, set))
    }

    /// The part of the set at and below an element.
    pub(super) fn child(&self, element: &Element) -> Option<&Self> {
        let place = self.children.binary_search_by(|(other, _)| other.cmp(element)).ok()?;
        Some(&self.children[place].1)
    }

    /// Is this path of fields in the set?
    pub(super) fn has(&self, fields: &[&str]) -> bool {
        let mut set = self;
        for field in fields {
            match set.child(&Element::field(field)) {
                Some(child) => set = child,
                None => return false,
            }
        }
        set.owned
    }

    /// Adds what `set` holds, below `element`.
    pub(super) fn add(&mut self, element: Element, set: Self) {
        if set.is_empty() {
            return;
        }
        // Objects are walked in order, so nearly every element goes to the end.
        if self.children.last().is_none_or(|(last, _)| *last < element) {
            self.children.push((element, set));
            return;
        }
        match self.children.binary_search_by(|(other, _)| other.cmp(&element)) {
            Ok(place) => {
                let old = std::mem::take(&mut self.children[place].1);
                self.children[place].1 = old.union(set);
            }
            Err(place) => self.children.insert(place, (element, set)),
        }
    }

    /// What is in either set.
    pub(super) fn union(self, other: Self) -> Self {
        if self.children.is_empty() {
            return Self { owned: self.owned || other.owned, children: other.children };
        }
        let mut union = Self { owned: self.owned || other.owned, children: self.children };
        for (element, set) in other.children {
            union.add(element, set);
        }
        union
    }

    /// What is in this set and not in `other`.
    pub(super) fn difference(self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// What is in this set and neither in `other` nor below a path of `other`.
    pub(super) fn recursive_difference(self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(self, other: &Self, below: bool) -> Self {
        if other.children.is_empty() {
            return Self { owned: self.owned && !other.owned, children: self.children };
        }
        let mut others = other.children.iter().peekable();
        let children = self.children.into_iter().filter_map(|(element, set)| {
            while others.next_if(|(other, _)| *other < element).is_some() {}
            let set = match others.next_if(|(other, _)| *other == element) {
                Some((_, other)) if below && other.owned => return None,
                Some((_, other)) => set.without(other, below),
                None => set,
            };
            (!set.is_empty()).then_some((element, set))
        });
        Self { owned: self.owned && !other.owned, children: children.collect() }
    }

    /// What is in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self { owned: self.owned && other.owned, children: Vec::new() };
        let mut others = other.children.iter().peekable();
        for (element, set) in &self.children {
            while others.next_if(|(other, _)| other < element).is_some() {}
            if let Some((_, other)) = others.next_if(|(other, _)| other == element) {
                let set = set.intersection(other);
                if !set.is_empty() {
                    both.children.push((element.clone(), set));
                }
            }
        }
        both
    }

    /// Every path of the set as messages write it, in upstream's order: what is owned at a level
    /// first, then what lies deeper.
    pub(super) fn paths(&self) -> Vec<String> {
        fn walk(set: &FieldSet, prefix: &str, paths: &mut Vec<String>) {
            let mut children: Vec<_> = set.children.iter().collect();
            children.sort_by(|(left, _), (right, _)| left.walk_order(right));
            for (element, _) in children.iter().filter(|(_, child)| child.owned) {
                paths.push(format!("{prefix}{element}"));
            }
            for (element, child) in children {
                if !child.children.is_empty() {
                    walk(child, &format!("{prefix}{element}"), paths);
                }
            }
        }
        let mut paths = Vec::new();
        walk(self, "", &mut paths);
        paths
    }

    /// Reads `fieldsV1`.
    ///
    /// # Errors
    /// What is not the `fieldsV1` form, in words.
    pub(super) fn from_json(fields: &Value) -> Result<Self, String> {
        let Value::Object(fields) = fields else {
            return Err("fieldsV1 must be an object".to_owned());
        };
        let mut set = Self::default();
        for (name, below) in fields {
            if name == "." {
                set.owned = true;
                continue;
            }
            let mut child = Self::from_json(below)?;
            if child.children.is_empty() {
                child.owned = true;
            }
            set.add(Element::parse(name)?, child);
        }
        Ok(set)
    }

    /// `fieldsV1`.
    pub(super) fn into_json(self) -> Value {
        let mut fields = Map::new();
        if self.owned && !self.children.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, set) in self.children {
            fields.insert(element.into_string(), set.into_json());
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: &Value) -> FieldSet {
        FieldSet::from_json(fields).expect("fieldsV1")
    }

    #[test]
    fn the_json_form_is_read_back_and_spelled_one_way() {
        let text = json!({"f:spec": {".": {}, "f:ports": {"k:{\"protocol\": \"TCP\", \"port\":80}": {"f:name": {}}},
            "f:zones": {"v:\"eu\"": {}}}});
        let canonical = json!({"f:spec": {".": {}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:name": {}}},
            "f:zones": {"v:\"eu\"": {}}}});
        assert_eq!(set(&text).into_json(), canonical);
        for bad in [json!({"spec": {}}), json!({"k:x": {}}), json!({"x:a": {}}), json!([])] {
            assert!(FieldSet::from_json(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn difference_takes_members_and_recursive_difference_what_lies_below_them() {
        let all = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let a = set(&json!({"f:a": {}}));
        assert_eq!(all.clone().difference(&a), set(&json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert_eq!(all.clone().recursive_difference(&a), set(&json!({"f:c": {}})));
        assert_eq!(all.intersection(&a), a);
    }

    #[test]
    fn paths_come_by_level_and_ports_by_number() {
        let ports =
            set(&json!({"f:spec": {"f:ports": {"k:{\"port\":443}": {}, "k:{\"port\":80}": {".": {}, "f:a": {}}},
            "f:x": {}}}));
        assert_eq!(
            ports.paths(),
            [".spec.x", ".spec.ports[port=80]", ".spec.ports[port=443]", ".spec.ports[port=80].a"]
        );
    }
}
