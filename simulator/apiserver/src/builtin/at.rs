//! A place in an object under validation: rules read like a table, and a path is only spelled out
//! when something is wrong.

use serde_json::Value;

use crate::error::{FieldError, FieldErrorKind};
use crate::quantity::Quantity;

/// What validation collects.
pub(super) type Errors = Vec<FieldError>;

/// A value and how it was reached.
#[derive(Clone, Copy)]
pub(super) struct At<'v, 'p> {
    parent: Option<&'p At<'v, 'p>>,
    step: Step<'v>,
    value: &'v Value,
}

#[derive(Clone, Copy)]
enum Step<'v> {
    Root,
    Field(&'v str),
    Index(usize),
    Key(&'v str),
}

static NULL: Value = Value::Null;

impl<'v, 'p> At<'v, 'p> {
    /// The whole object, whose path is empty.
    #[must_use]
    pub(super) fn root(value: &'v Value) -> Self {
        Self { parent: None, step: Step::Root, value }
    }

    /// A value at a path of its own.
    #[must_use]
    pub(super) fn named(path: &'v str, value: &'v Value) -> Self {
        Self { parent: None, step: Step::Field(path), value }
    }

    /// A field. A missing one is `Null` in its place.
    #[must_use]
    pub(super) fn get<'q>(&'q self, field: &'v str) -> At<'v, 'q> {
        At { parent: Some(self), step: Step::Field(field), value: self.value.get(field).unwrap_or(&NULL) }
    }

    /// The same value under another field name; for rules that report elsewhere than they look.
    #[must_use]
    pub(super) fn under<'q>(&'q self, field: &'v str, value: &'v Value) -> At<'v, 'q> {
        At { parent: Some(self), step: Step::Field(field), value }
    }

    /// A value of a map, written `path[key]`.
    #[must_use]
    pub(super) fn key<'q>(&'q self, key: &'v str) -> At<'v, 'q> {
        At { parent: Some(self), step: Step::Key(key), value: self.value.get(key).unwrap_or(&NULL) }
    }

    /// The items of a list, written `path[0]`.
    pub(super) fn items<'q>(&'q self) -> impl Iterator<Item = At<'v, 'q>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(move |(index, value)| At { parent: Some(self), step: Step::Index(index), value })
    }

    /// The values of a map, written `path[key]`.
    pub(super) fn entries<'q>(&'q self) -> impl Iterator<Item = (&'v str, At<'v, 'q>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), At { parent: Some(self), step: Step::Key(key), value }))
    }

    /// The path, spelled out.
    #[must_use]
    pub(super) fn path(&self) -> String {
        let mut path = self.parent.map(At::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(field) if path.is_empty() => path.push_str(field),
            Step::Field(field) => path.extend([".", field]),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) => path.extend(["[", key, "]"]),
        }
        path
    }

    /// The value.
    #[must_use]
    pub(super) fn value(&self) -> &'v Value {
        self.value
    }

    /// The value as text; empty when it is none.
    #[must_use]
    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The value as a number; 0 when it is none, as Go's zero value.
    #[must_use]
    pub(super) fn int(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// The value as a quantity.
    #[must_use]
    pub(super) fn quantity(&self) -> Option<Quantity> {
        self.value.as_str().and_then(|text| text.parse().ok())
    }

    /// Is it true?
    #[must_use]
    pub(super) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// Is nothing there?
    #[must_use]
    pub(super) fn is_absent(&self) -> bool {
        self.value.is_null()
    }

    /// Is nothing there, or an empty text, list or map?
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }

    /// Records an error of any kind whose value is the JSON of this place.
    pub(super) fn error(&self, kind: FieldErrorKind, errors: &mut Errors, detail: impl Into<String>) {
        errors.push(FieldError::new(kind, self.path(), self.value, detail));
    }

    /// Records `Invalid value` with a value that is printed otherwise than as JSON.
    pub(super) fn invalid_as(&self, errors: &mut Errors, value: impl Into<String>, detail: impl Into<String>) {
        errors.push(FieldError {
            field: self.path(),
            kind: FieldErrorKind::Invalid,
            value: value.into(),
            detail: detail.into(),
        });
    }

    /// Records `Invalid value`.
    pub(super) fn invalid(&self, errors: &mut Errors, detail: impl Into<String>) {
        // An absent string or number prints as Go's zero value; callers know which through `zero`.
        self.error(FieldErrorKind::Invalid, errors, detail);
    }

    /// Records `Required value`.
    pub(super) fn missing(&self, errors: &mut Errors, detail: &str) {
        errors.push(FieldError::required(self.path(), detail));
    }

    /// Records `Forbidden`.
    pub(super) fn forbidden(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.push(FieldError::forbidden(self.path(), detail));
    }

    /// Records `Duplicate value`.
    pub(super) fn duplicate(&self, errors: &mut Errors) {
        errors.push(FieldError::duplicate(self.path(), self.value));
    }

    /// Records `Duplicate value` with a value that is printed otherwise than as JSON.
    pub(super) fn duplicate_as(&self, errors: &mut Errors, value: &str) {
        errors.push(FieldError {
            field: self.path(),
            kind: FieldErrorKind::Duplicate,
            value: value.to_owned(),
            detail: String::new(),
        });
    }

    /// Records `Not found`.
    pub(super) fn not_found(&self, errors: &mut Errors) {
        self.error(FieldErrorKind::NotFound, errors, "");
    }

    /// Records `Too long`.
    pub(super) fn too_long(&self, errors: &mut Errors, bytes: usize) {
        self.error(FieldErrorKind::TooLong, errors, format!("may not be more than {bytes} bytes"));
    }

    /// Records every sentence as `Invalid value`.
    pub(super) fn all(&self, errors: &mut Errors, sentences: Vec<String>) {
        for sentence in sentences {
            self.invalid(errors, sentence);
        }
    }

    /// Something must be there. Answers whether it is.
    pub(super) fn required(&self, errors: &mut Errors) -> bool {
        if self.is_empty() {
            self.missing(errors, "");
        }
        !self.is_empty()
    }

    /// One of these texts. Upstream lists them sorted when they come from a set.
    pub(super) fn one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if !supported.contains(&self.text()) {
            errors.push(FieldError::not_supported(self.path(), &self.text().into(), supported));
        }
    }

    /// Nothing, or one of these texts.
    pub(super) fn optional_one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if !self.is_absent() {
            self.one_of(errors, supported);
        }
    }

    /// Not below zero; absent is zero.
    pub(super) fn non_negative(&self, errors: &mut Errors) {
        if self.int() < 0 {
            self.invalid(errors, "must be greater than or equal to 0");
        }
    }

    /// Above zero, when there is something.
    pub(super) fn positive_if_given(&self, errors: &mut Errors) {
        if !self.is_absent() && self.int() <= 0 {
            self.invalid(errors, "must be greater than 0");
        }
    }

    /// A port number.
    pub(super) fn port(&self, errors: &mut Errors) {
        if !(1..=65_535).contains(&self.int()) {
            self.int_error(errors, "must be between 1 and 65535, inclusive");
        }
    }

    /// `Invalid value` of a number, where an absent one prints as 0.
    pub(super) fn int_error(&self, errors: &mut Errors, detail: impl Into<String>) {
        self.invalid_as(errors, self.int().to_string(), detail);
    }

    /// `Invalid value` of a text, where an absent one prints as `""`.
    pub(super) fn text_error(&self, errors: &mut Errors, detail: impl Into<String>) {
        self.invalid_as(errors, Value::from(self.text()).to_string(), detail);
    }

    /// The value must be the same as before; absent and empty texts are the same.
    pub(super) fn immutable(&self, errors: &mut Errors, old: &Value) {
        if !same(self.value, old) {
            self.invalid(errors, "field is immutable");
        }
    }

    /// The label of a key and value of a map: for selectors and labels.
    pub(super) fn labels(&self, errors: &mut Errors) {
        if !self.is_absent() {
            super::metadata::labels(&self.path(), self.value, errors);
        }
    }
}

/// Equal as upstream's `apiequality.Semantic.DeepEqual` sees it: absent and empty are the same.
#[must_use]
pub(super) fn same(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let absent = |map: &serde_json::Map<String, Value>, key: &String| map.get(key).is_none_or(empty);
            left.iter().all(|(key, value)| right.get(key).map_or(empty(value), |other| same(value, other)))
                && right.keys().all(|key| left.contains_key(key) || absent(right, key))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        _ => a == b || (empty(a) && empty(b)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_written_as_upstream_writes_them() {
        let object = json!({"spec": {"containers": [{"ports": [{}]}], "hard": {"a.b": "1"}}});
        let root = At::root(&object);
        let spec = root.get("spec");
        let containers = spec.get("containers");
        let container = containers.items().next().unwrap();
        assert_eq!(container.get("ports").items().next().unwrap().path(), "spec.containers[0].ports[0]");
        assert_eq!(spec.get("hard").key("a.b").path(), "spec.hard[a.b]");
    }

    #[test]
    fn absent_and_empty_are_the_same() {
        for (a, b, expected) in [
            (json!({"a": {}}), json!({}), true),
            (json!({"a": {"b": []}}), json!({"a": {}}), true),
            (json!({"a": ""}), json!({}), false),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!([{}]), json!([]), false),
        ] {
            assert_eq!(same(&a, &b), expected, "{a} {b}");
            assert_eq!(same(&b, &a), expected, "{b} {a}");
        }
    }
}
