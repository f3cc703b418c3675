//! Whether an applied object fits its schema well enough to be merged.
//!
//! Source: `sigs.k8s.io/structured-merge-diff/typed/validate.go` and `helpers.go`.

use serde_json::Value;

use super::element::Element;
use super::types::{Shape, Type};
use crate::schema::ListType;

/// Checks an applied object: declared fields, matching types, items with keys, no duplicates.
///
/// # Errors
/// Everything that is wrong, as one text.
pub(super) fn check(place: &Type, value: &Value) -> Result<(), String> {
    let mut problems = Problems::default();
    problems.visit(place, value);
    match problems.found.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

#[derive(Default)]
struct Problems {
    path: Vec<Element>,
    found: Vec<String>,
}

impl Problems {
    fn report(&mut self, message: &str) {
        let path: String = self.path.iter().map(ToString::to_string).collect();
        self.found.push(format!("{path}: {message}"));
    }

    fn below(&mut self, element: Element, visit: impl FnOnce(&mut Self)) {
        self.path.push(element);
        visit(self);
        self.path.pop();
    }

    fn visit(&mut self, place: &Type, value: &Value) {
        if value.is_null() {
            return;
        }
        match (place.shape(value), value) {
            (Shape::Scalar, value) => self.visit_scalar(place, value),
            (Shape::Map { .. }, Value::Object(members)) => {
                for (name, value) in members {
                    match place.declared(name).or_else(|| place.undeclared()) {
                        Some(member) => self.below(Element::field(name), |here| here.visit(&member, value)),
                        None => {
                            self.below(Element::field(name), |here| here.report("field not declared in schema"));
                            return;
                        }
                    }
                }
            }
            (Shape::Map { .. }, value) => self.report(&format!("expected map, got &{{{}}}", go_value(value))),
            (Shape::List(list), Value::Array(items)) => self.visit_items(place, list, items),
            (Shape::List(_), value) => self.report(&format!("expected list, got &{{{}}}", go_value(value))),
        }
    }

    fn visit_items(&mut self, place: &Type, list: ListType, items: &[Value]) {
        let item_type = place.items();
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = if list == ListType::Atomic {
                // Never fails: `i:` and a number is a path element.
                let Ok(element) = Element::parse(&format!("i:{index}")) else { return };
                element
            } else {
                match place.item_element(list, item) {
                    Ok(element) => element,
                    Err(error) => {
                        self.report(&format!("element {index}: {error}"));
                        return;
                    }
                }
            };
            if seen.contains(&element) {
                self.report(&format!("duplicate entries for key {element}"));
            }
            self.below(element.clone(), |here| here.visit(&item_type, item));
            seen.insert(element);
        }
    }

    fn visit_scalar(&mut self, place: &Type, value: &Value) {
        let Some(schema) = place.schema() else { return };
        match schema.node().type_.as_str() {
            "integer" | "number" if !value.is_number() => {
                self.report(&format!("expected numeric (int or float), got {}", go_type(value)));
            }
            // Strings of any other format are not checked: IntOrString, Time and their like.
            "string" if matches!(schema.node().format.as_str(), "" | "byte") && !value.is_string() => {
                self.report(&format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)));
            }
            "boolean" if !value.is_boolean() => {
                self.report(&format!("expected boolean, got &{{{}}}", go_value(value)));
            }
            _ => {}
        }
    }
}

/// The Go type that upstream decodes a JSON value to.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%v` prints it.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => scalar.to_string(),
    }
}
