//! Validation of custom objects against their schema, in upstream's words and order.
//!
//! Source: `kube-openapi/pkg/validation/validate`, `apiextensions-apiserver/pkg/apiserver/validation` (how
//! its errors become field errors) and `.../schema/{listtype,objectmeta}`.
//!
//! An update ratchets: a value that is wrong but was there before, at the same place, is let be.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{ListType, Node, SchemaRef, SchemaSet, formats};
use crate::error::{FieldError, FieldErrorKind};

mod places;

/// Errors reported at most; upstream has no bound of its own, but its requests have.
const MAX_ERRORS: usize = 10_000;

/// Everything that the schema, its list types and its embedded resources have against `object`.
/// Validation rules are apart ([`crate::expression::rules`]): they ask for a valid object.
#[must_use]
pub fn validate(object: &Value, old: Option<&Value>, schema: &SchemaRef) -> Vec<FieldError> {
    let set = &*schema.set;
    let mut check = Check { set, errors: Vec::new(), matches: 0 };
    check.value(object, old, schema.node(), "");
    let mut errors = check.errors;
    errors.extend(places::validate(object, old, schema));
    errors
}

/// Errors of a value that stands for itself, such as a default at `path`: without old value and list types.
#[must_use]
pub(crate) fn validate_default(value: &Value, schema: &SchemaRef, path: &str) -> Vec<FieldError> {
    let mut check = Check { set: &schema.set, errors: Vec::new(), matches: 0 };
    check.value(value, None, schema.node(), "");
    for error in &mut check.errors {
        let within = std::mem::take(&mut error.field);
        error.field = match within.as_str() {
            "<nil>" => path.to_owned(),
            within if within.starts_with('[') => format!("{path}{within}"),
            within => format!("{path}.{within}"),
        };
    }
    check.errors
}

struct Check<'a> {
    set: &'a SchemaSet,
    errors: Vec<FieldError>,
    /// How many values fitted so far: of several alternatives that fail, the one that fits most is told.
    matches: usize,
}

impl<'a> Check<'a> {
    fn node(&self, id: u32) -> &'a Node {
        &self.set.nodes[id as usize]
    }

    fn error(&mut self, kind: FieldErrorKind, path: &str, value: &Value, detail: String) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(FieldError::new(kind, field(path), value, detail));
        }
    }

    /// A sentence about no value in particular.
    fn sentence(&mut self, sentence: String) {
        self.error(FieldErrorKind::Invalid, "", &Value::from(""), sentence);
    }

    fn value(&mut self, value: &Value, old: Option<&Value>, node: &'a Node, path: &str) {
        if old == Some(value) {
            return;
        }
        let before = self.errors.len();
        self.types(value, node, path);
        let constraints = node.constraints.as_deref();
        if value.is_null() {
            self.enumeration(value, node, path);
            return;
        }
        if let Some(constraints) = constraints {
            self.alternatives(value, old, constraints, path);
        }
        match value {
            Value::String(text) => self.text(text, value, node, path),
            Value::Number(number) => self.number(number, value, node, path),
            Value::Array(items) => self.list(items, old, node, path),
            _ => {}
        }
        self.enumeration(value, node, path);
        if let Value::Object(members) = value {
            self.object(members, old, node, path);
        }
        if self.errors.len() == before {
            self.matches += 1;
        }
    }

    fn types(&mut self, value: &Value, node: &Node, path: &str) {
        let wanted: &[&str] = match node.type_.as_str() {
            "" if node.int_or_string => &["integer", "string"],
            "" => return,
            type_ => &[type_],
        };
        let got = type_name(value);
        let (wrong, wanted, got) = match value {
            Value::Null => (!node.nullable, wanted.join(","), got),
            Value::Number(_)
                if !node.format.is_empty() && !wanted.contains(&"integer") && !wanted.contains(&"number") =>
            {
                (true, node.format.clone(), if got == "integer" { "int64" } else { "float64" })
            }
            Value::Bool(_) | Value::Object(_) if !node.format.is_empty() && !wanted.contains(&got) => {
                (true, node.format.clone(), "")
            }
            Value::String(_) | Value::Array(_)
                if !node.format.is_empty() && !wanted.contains(&"integer") && !wanted.contains(&"number") =>
            {
                (false, String::new(), got)
            }
            _ => {
                let fits = wanted.contains(&got) || got == "integer" && wanted.contains(&"number");
                (!fits, wanted.join(","), got)
            }
        };
        if wrong {
            let detail = format!("{path} in body must be of type {wanted}: {got:?}");
            self.error(FieldErrorKind::TypeInvalid, path, &Value::from(got), detail);
        }
    }

    fn alternatives(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        constraints: &super::structural::Constraints,
        path: &str,
    ) {
        if !constraints.any_of.is_empty() {
            let (fitting, best) = self.try_each(&constraints.any_of, value, old, path);
            if fitting == 0 {
                self.sentence(format!("{path:?} must validate at least one schema (anyOf)"));
                self.errors.extend(best);
            }
        }
        if !constraints.one_of.is_empty() {
            let (fitting, best) = self.try_each(&constraints.one_of, value, old, path);
            if fitting != 1 {
                let found = if fitting == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {fitting} valid alternatives")
                };
                self.sentence(format!("{path:?} must validate one and only one schema (oneOf). {found}"));
                if fitting == 0 {
                    self.errors.extend(best);
                }
            }
        }
        let before = self.errors.len();
        for id in &constraints.all_of {
            self.value(value, old, self.node(*id), path);
        }
        if self.errors.len() > before {
            self.sentence(format!("{path:?} must validate all the schemas (allOf)"));
        }
        if let Some(id) = constraints.not {
            let (fitting, _) = self.try_each(&[id], value, old, path);
            if fitting == 1 {
                self.sentence(format!("{path:?} must not validate the schema (not)"));
            }
        }
    }

    /// How many of the schemas the value fits, and the errors of the one that it fits best.
    fn try_each(&self, schemas: &[u32], value: &Value, old: Option<&Value>, path: &str) -> (usize, Vec<FieldError>) {
        let mut fitting = 0;
        let mut best: Option<(usize, Vec<FieldError>)> = None;
        for id in schemas {
            let mut check = Check { set: self.set, errors: Vec::new(), matches: 0 };
            check.value(value, old, self.node(*id), path);
            if check.errors.is_empty() {
                fitting += 1;
            } else if best.as_ref().is_none_or(|(matches, _)| check.matches > *matches) {
                best = Some((check.matches, check.errors));
            }
        }
        (fitting, best.map(|(_, errors)| errors).unwrap_or_default())
    }

    fn text(&mut self, text: &str, value: &Value, node: &Node, path: &str) {
        if let Some(constraints) = node.constraints.as_deref() {
            let length = || u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
            if let Some(most) = constraints.max_length.filter(|most| length() > *most) {
                self.error(FieldErrorKind::TooLong, path, value, format!("may not be more than {most} bytes"));
            }
            if let Some(least) = constraints.min_length.filter(|least| length() < *least) {
                let detail = format!("{path} in body should be at least {least} chars long");
                self.error(FieldErrorKind::Invalid, path, value, detail);
            }
            if let Some(pattern) = constraints.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
                self.error(FieldErrorKind::Invalid, path, value, format!("{path} in body should match '{pattern}'"));
            }
        }
        if !node.format.is_empty() && node.type_ == "string" && !formats::is_valid(&node.format, text) {
            let detail = format!("{path} in body must be of type {}: {text:?}", node.format);
            self.error(FieldErrorKind::TypeInvalid, path, value, detail);
        }
    }

    fn number(&mut self, number: &serde_json::Number, value: &Value, node: &Node, path: &str) {
        if node.type_ == "integer" {
            let fits = match node.format.as_str() {
                "int32" => number.as_i64().is_some_and(|integer| i32::try_from(integer).is_ok()),
                "uint32" => number.as_u64().is_some_and(|integer| u32::try_from(integer).is_ok()),
                "uint64" => number.is_u64(),
                _ => number.is_i64(),
            };
            if !fits {
                let format = match node.format.as_str() {
                    "" => "(default format)".to_owned(),
                    format => format!("with format {format}"),
                };
                self.sentence(format!("Checked value must be of type integer {format} in {path}"));
            }
        }
        let Some(constraints) = node.constraints.as_deref() else { return };
        let amount = number.as_f64().unwrap_or(f64::NAN);
        let mut fail = |detail: String| self.error(FieldErrorKind::Invalid, path, value, detail);
        if let Some(factor) = constraints.multiple_of
            && !is_multiple(amount, factor)
        {
            fail(format!("{path} in body should be a multiple of {}", super::json::number(factor)));
        }
        if let Some(most) = constraints.maximum {
            let bound = super::json::number(most);
            if constraints.exclusive_maximum && amount >= most {
                fail(format!("{path} in body should be less than {bound}"));
            } else if amount > most {
                fail(format!("{path} in body should be less than or equal to {bound}"));
            }
        }
        if let Some(least) = constraints.minimum {
            let bound = super::json::number(least);
            if constraints.exclusive_minimum && amount <= least {
                fail(format!("{path} in body should be greater than {bound}"));
            } else if amount < least {
                fail(format!("{path} in body should be greater than or equal to {bound}"));
            }
        }
    }

    fn list(&mut self, items: &[Value], old: Option<&Value>, node: &'a Node, path: &str) {
        if let Some(id) = node.items {
            let earlier = Earlier::new(old, node);
            for (index, item) in items.iter().enumerate() {
                self.value(item, earlier.of(item), self.node(id), &format!("{path}[{index}]"));
            }
        }
        let Some(constraints) = node.constraints.as_deref() else { return };
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        if let Some(least) = constraints.min_items.filter(|least| count < *least) {
            let detail = format!("{path} in body should have at least {least} items");
            self.error(FieldErrorKind::Invalid, path, &Value::from(count), detail);
        }
        if let Some(most) = constraints.max_items.filter(|most| count > *most) {
            self.too_many(path, count, most);
        }
        if constraints.unique_items {
            let mut seen = BTreeSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                let detail = format!("{path} in body shouldn't contain duplicates");
                self.error(FieldErrorKind::Invalid, path, &Value::from(""), detail);
            }
        }
    }

    fn too_many(&mut self, path: &str, count: u64, most: u64) {
        let items = if most == 1 { "item" } else { "items" };
        self.error(FieldErrorKind::TooMany, path, &Value::from(count), format!("must have at most {most} {items}"));
    }

    fn enumeration(&mut self, value: &Value, node: &Node, path: &str) {
        if node.enumeration.is_empty() || node.enumeration.contains(value) || value.is_null() && node.nullable {
            return;
        }
        let supported: Vec<String> = node
            .enumeration
            .iter()
            .map(|value| match value {
                Value::String(text) => format!("{text:?}"),
                other => format!("\"{other}\""),
            })
            .collect();
        self.error(FieldErrorKind::NotSupported, path, value, format!("supported values: {}", supported.join(", ")));
    }

    fn object(&mut self, members: &Map<String, Value>, old: Option<&Value>, node: &'a Node, path: &str) {
        let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
        if let Some(constraints) = node.constraints.as_deref() {
            if let Some(least) = constraints.min_properties.filter(|least| count < *least) {
                let detail = format!("{path} in body should have at least {least} properties");
                return self.error(FieldErrorKind::Invalid, path, &Value::from(count), detail);
            }
            if let Some(most) = constraints.max_properties.filter(|most| count > *most) {
                return self.too_many(path, count, most);
            }
        }
        for (name, member) in members {
            if let Some(id) = node.properties.get(name).copied().or(node.additional) {
                let old = old.and_then(|old| old.get(name));
                self.value(member, old, self.node(id), &join(path, name));
            }
        }
        let embedded: &[&str] = if node.embedded_resource { &["apiVersion", "kind"] } else { &[] };
        for name in node.required.iter().map(String::as_str).chain(embedded.iter().copied()) {
            if !members.contains_key(name) && self.errors.len() < MAX_ERRORS {
                self.errors.push(FieldError::required(join(path, name), ""));
            }
        }
    }
}

/// The earlier items of a list, by what makes them the same item. Items of other lists have no earlier
/// value, for their index tells nothing.
pub(crate) struct Earlier<'a> {
    items: Option<&'a [Value]>,
    keys: &'a [String],
}

impl<'a> Earlier<'a> {
    /// Of a list that was `old`.
    pub(crate) fn new(old: Option<&'a Value>, node: &'a Node) -> Self {
        let items = if node.list_type == Some(ListType::Map) { old.and_then(Value::as_array) } else { None };
        Self { items: items.map(Vec::as_slice), keys: &node.list_map_keys }
    }

    /// What `item` was.
    pub(crate) fn of(&self, item: &Value) -> Option<&'a Value> {
        self.items?.iter().find(|old| self.keys.iter().all(|key| old.get(key) == item.get(key)))
    }
}

/// Is `amount` a multiple of `factor`, as near as floating-point numbers can tell?
fn is_multiple(amount: f64, factor: f64) -> bool {
    /// What rounding may leave over (`swag.IsFloat64AJSONInteger`).
    const EPSILON: f64 = 1e-9;
    if factor == 0.0 {
        return true;
    }
    let times = if factor < 1.0 { amount * (1.0 / factor) } else { amount / factor };
    (times - times.round()).abs() < EPSILON
}

/// A member's path.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The path as field errors print it: upstream has none for the root.
pub(crate) fn field(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// The JSON type as schemas name it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = validate(object, old, &SchemaSet::single(schema));
        errors.iter().map(|error| format!("{} {error}", error.kind.reason())).collect()
    }

    #[test]
    fn each_keyword_has_its_sentence() {
        let schema = json!({"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 7, "multipleOf": 2},
            "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "tenth": {"type": "number", "multipleOf": 0.1},
            "s": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]*$"},
            "role": {"type": "string", "enum": ["primary", "replica"]},
            "level": {"type": "integer", "enum": [1, 2]},
            "zones": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "one": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
            "at": {"type": "string", "format": "date-time"},
            "n32": {"type": "integer", "format": "int32"},
            "port": {"x-kubernetes-int-or-string": true},
            "pick": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                     "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            "x": {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 2}]},
        }});
        let cases = [
            (json!({"n": 0}), "FieldValueInvalid n: Invalid value: 0: n in body should be greater than or equal to 1"),
            (
                json!({"tenth": 0.25}),
                "FieldValueInvalid tenth: Invalid value: 0.25: tenth in body should be a multiple of 0.1",
            ),
            (json!({"n": 3}), "FieldValueInvalid n: Invalid value: 3: n in body should be a multiple of 2"),
            (
                json!({"n": "x"}),
                r#"FieldValueTypeInvalid n: Invalid value: "string": n in body must be of type integer: "string""#,
            ),
            (json!({"ratio": 0}), "FieldValueInvalid ratio: Invalid value: 0: ratio in body should be greater than 0"),
            (
                json!({"s": "x"}),
                r#"FieldValueInvalid s: Invalid value: "x": s in body should be at least 2 chars long"#,
            ),
            (json!({"s": "toolong"}), "FieldValueTooLong s: Too long: may not be more than 5 bytes"),
            (json!({"s": "AB"}), r#"FieldValueInvalid s: Invalid value: "AB": s in body should match '^[a-z]*$'"#),
            (
                json!({"role": "x"}),
                r#"FieldValueNotSupported role: Unsupported value: "x": supported values: "primary", "replica""#,
            ),
            (json!({"level": 3}), r#"FieldValueNotSupported level: Unsupported value: 3: supported values: "1", "2""#),
            (json!({"zones": ["a", "b", "c"]}), "FieldValueTooMany zones: Too many: 3: must have at most 2 items"),
            (
                json!({"zones": [null]}),
                r#"FieldValueTypeInvalid zones[0]: Invalid value: "null": zones[0] in body must be of type string: "null""#,
            ),
            (json!({"one": {"a": "1", "b": "2"}}), "FieldValueTooMany one: Too many: 2: must have at most 1 item"),
            (
                json!({"at": "yesterday"}),
                r#"FieldValueTypeInvalid at: Invalid value: "yesterday": at in body must be of type date-time: "yesterday""#,
            ),
            (
                json!({"n32": 3_000_000_000u64}),
                r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in n32"#,
            ),
            (
                json!({"port": true}),
                r#"FieldValueTypeInvalid port: Invalid value: "boolean": port in body must be of type integer,string: "boolean""#,
            ),
            (
                json!({"pick": {"a": 1, "b": 2}}),
                r#"FieldValueInvalid <nil>: Invalid value: "": "pick" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(errors(&schema, &object, None), [expected]);
        }
        assert_eq!(
            errors(&schema, &json!({"x": 5}), None),
            [
                r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
                "FieldValueInvalid x: Invalid value: 5: x in body should be greater than or equal to 10",
            ]
        );
    }

    #[test]
    fn fractions_are_multiples_as_near_as_can_be_told() {
        for (amount, factor) in [(0.3, 0.1), (1.1, 0.1), (7.5, 2.5), (4.0, 2.0)] {
            assert!(is_multiple(amount, factor), "{amount} of {factor}");
        }
        assert!(!is_multiple(3.0, 2.0));
    }

    #[test]
    fn an_update_may_leave_a_wrong_value_alone() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "zone": {"type": "string", "maxLength": 2},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
        }}}});
        let old = json!({"spec": {"zone": "EUROPE", "list": [{"name": "a", "v": 5}], "n": 1}});
        let new = json!({"spec": {"zone": "EUROPE", "list": [{"name": "b"}, {"name": "a", "v": 5}], "n": 2}});
        assert_eq!(errors(&schema, &new, Some(&old)), [""; 0]);
        let new = json!({"spec": {"zone": "AMERICA", "list": [{"name": "a", "v": 6}]}});
        assert_eq!(errors(&schema, &new, Some(&old)).len(), 2);
    }

    #[test]
    fn list_types_and_embedded_resources_are_checked() {
        let schema = json!({"type": "object", "properties": {
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }});
        let object = json!({"set": ["a", "b", "a"], "map": [{"name": "x"}, {"name": "x"}], "pod": {"spec": {}}});
        assert_eq!(
            errors(&schema, &object, None),
            [
                "FieldValueRequired pod.apiVersion: Required value",
                "FieldValueRequired pod.kind: Required value",
                r#"FieldValueDuplicate map[1]: Duplicate value: {"name":"x"}"#,
                r#"FieldValueDuplicate set[2]: Duplicate value: "a""#,
            ]
        );
    }
}
