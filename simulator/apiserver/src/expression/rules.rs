//! Validation rules of custom resources (`x-kubernetes-validations`).
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`.

use cel::Value as Cel;
use cel::common::types::CelOptional;
use cel::common::value::Val;
use serde_json::Value;

use super::{Program, values};
use crate::error::{FieldError, FieldErrorKind};
use crate::schema::validate::{Earlier, field, join, type_name};
use crate::schema::{Node, SchemaRef, SchemaSet};

/// Longest result of a `messageExpression`, in bytes (`MaxMessageExpressionLength`).
const MAX_MESSAGE: usize = 5 * 1024;
/// What is said when rules were not asked because the object is invalid anyway.
const NOT_ASKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// One compiled rule.
#[derive(Debug)]
pub struct Rule {
    program: Program,
    message: String,
    message_expression: Option<Program>,
    reason: FieldErrorKind,
    /// Where the error is reported, below the place of the rule: `.spec.name`, or empty.
    field_path: String,
    /// May it be asked without an old value?
    optional_old: bool,
}

impl Rule {
    fn compile(rule: &Value) -> Option<Self> {
        let text = |field: &str| rule[field].as_str().unwrap_or_default();
        let variables = ["self", "oldSelf"];
        Some(Self {
            program: Program::compile(text("rule"), &variables).ok()?,
            message: text("message").to_owned(),
            message_expression: rule["messageExpression"]
                .as_str()
                .filter(|source| !source.is_empty())
                .and_then(|source| Program::compile(source, &variables).ok()),
            reason: match text("reason") {
                "FieldValueForbidden" => FieldErrorKind::Forbidden,
                "FieldValueRequired" => FieldErrorKind::Required,
                "FieldValueDuplicate" => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            },
            field_path: text("fieldPath").to_owned(),
            optional_old: rule["optionalOldSelf"] == true,
        })
    }

    fn is_transition(&self) -> bool {
        self.program.mentions("oldSelf")
    }

    /// What the rule says about a value, as a field error at `path`.
    fn ask(&self, value: &Value, old: Option<&Value>, node: &Node, set: &SchemaSet, path: &str) -> Option<FieldError> {
        if self.is_transition() && !self.optional_old && old.is_none() {
            return None;
        }
        let variables = || {
            let typed = |value| values::typed(value, node, set);
            let old: Option<Box<dyn Val + '_>> =
                if self.optional_old { Some(Box::new(CelOptional::from(old.map(typed)))) } else { old.map(typed) };
            [("self", Some(typed(value))), ("oldSelf", old)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
        };
        match self.program.run(variables()) {
            Ok(Cel::Bool(true)) => None,
            Ok(Cel::Bool(false)) => {
                let from_expression = self.message_expression.as_ref().and_then(|program| {
                    let Ok(Cel::String(message)) = program.run(variables()) else { return None };
                    let message = message.trim();
                    (!message.is_empty() && !message.contains('\n') && message.len() <= MAX_MESSAGE)
                        .then(|| message.to_owned())
                });
                let message = from_expression.unwrap_or_else(|| self.sentence());
                let place = format!("{path}{}", self.field_path);
                let mut error = FieldError::new(self.reason, field(place.trim_start_matches('.')), value, message);
                // Objects and lists are not printed.
                if value.is_object() || value.is_array() {
                    error.value.clear();
                }
                Some(error)
            }
            Ok(_) => Some(self.failed("expected a bool result", node, value, path)),
            Err(error) => Some(self.failed(&error.0, node, value, path)),
        }
    }

    fn sentence(&self) -> String {
        match self.message.trim() {
            "" => format!("failed rule: {}", self.program.source().trim()),
            message => message.to_owned(),
        }
    }

    fn failed(&self, error: &str, node: &Node, value: &Value, path: &str) -> FieldError {
        let rule = match self.message.trim() {
            "" => self.program.source(),
            message => message,
        };
        let of = if node.type_.is_empty() { type_name(value) } else { &node.type_ };
        FieldError::invalid(field(path), &of.into(), format!("{error} evaluating rule: {rule}"))
    }
}

/// Compiles the rules of every place of a schema.
pub(crate) fn compile(set: &mut SchemaSet) {
    for node in &mut set.nodes {
        let Some(rules) = node.rest.get("x-kubernetes-validations").and_then(Value::as_array) else { continue };
        let rules: Vec<Rule> = rules.iter().filter_map(Rule::compile).collect();
        set.rules |= !rules.is_empty();
        set.transitions |= rules.iter().any(Rule::is_transition);
        if let Some(constraints) = node.constraints.as_deref_mut() {
            constraints.rules = rules;
        }
    }
}

/// Asks every rule, unless the object is too wrong for rules to make sense of it.
pub(crate) fn check(object: &Value, old: Option<&Value>, schema: &SchemaRef, errors: &mut Vec<FieldError>) {
    use FieldErrorKind as Kind;
    if !schema.set.rules {
        return;
    }
    let blocking = [Kind::NotSupported, Kind::Required, Kind::TooLong, Kind::TooMany, Kind::TypeInvalid];
    if errors.iter().any(|error| blocking.contains(&error.kind)) {
        errors.push(FieldError::invalid("<nil>", &Value::Null, NOT_ASKED));
        return;
    }
    let mut asking = Asking { set: &schema.set, errors };
    asking.value(object, old, schema.node(), "");
}

struct Asking<'a> {
    set: &'a SchemaSet,
    errors: &'a mut Vec<FieldError>,
}

impl Asking<'_> {
    fn value(&mut self, value: &Value, old: Option<&Value>, node: &Node, path: &str) {
        // What did not change is let be; rules about the change itself are asked all the same.
        let unchanged = old == Some(value);
        if unchanged && !self.set.transitions {
            return;
        }
        // Null stands for nothing where it is allowed at all.
        if value.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        for rule in node.constraints.iter().flat_map(|constraints| &constraints.rules) {
            if !unchanged || rule.is_transition() {
                self.errors.extend(rule.ask(value, old, node, self.set, path));
            }
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let (id, path) = match node.properties.get(name) {
                        Some(id) => (*id, join(path, name)),
                        None => match node.additional {
                            Some(id) => (id, format!("{path}[{name}]")),
                            None => continue,
                        },
                    };
                    self.value(member, old.and_then(|old| old.get(name)), &self.set.nodes[id as usize], &path);
                }
            }
            Value::Array(items) => {
                let Some(id) = node.items else { return };
                let earlier = Earlier::new(old, node);
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.value(item, earlier.of(item), &self.set.nodes[id as usize], &path);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = SchemaSet::custom(schema);
        let mut errors = Vec::new();
        check(object, old, &schema, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_that_does_not_hold_is_told_at_its_place() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "members": {"type": "integer"}, "min": {"type": "integer"}, "zone": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "self.members % 2 == 1", "message": "members has to be odd"},
            {"rule": "!has(self.min) || self.min <= self.members"},
            {"rule": "!has(self.zone) || size(self.zone) > 1", "messageExpression": "'short: ' + self.zone",
             "reason": "FieldValueForbidden", "fieldPath": ".zone"},
        ]}}});
        assert_eq!(errors(&schema, &json!({"spec": {"members": 3, "min": 1}}), None), [""; 0]);
        assert_eq!(
            errors(&schema, &json!({"spec": {"members": 2, "min": 5, "zone": "e"}}), None),
            [
                "spec: Invalid value: members has to be odd",
                "spec: Invalid value: failed rule: !has(self.min) || self.min <= self.members",
                "spec.zone: Forbidden: short: e",
            ]
        );
        assert_eq!(
            errors(&schema, &json!({"spec": {}}), None)[0],
            "spec: Invalid value: \"object\": no such key: members evaluating rule: members has to be odd"
        );
    }

    #[test]
    fn rules_about_a_change_are_asked_when_there_is_one() {
        let schema = json!({"type": "object", "properties": {
            "size": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]},
            "n": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1", "message": "grow", "optionalOldSelf": true}]},
        }});
        assert_eq!(errors(&schema, &json!({"size": "1Gi", "n": 1}), None), [""; 0]);
        assert_eq!(errors(&schema, &json!({"n": 2}), None), ["n: Invalid value: 2: grow"]);
        let old = json!({"size": "1Gi", "n": 3});
        assert_eq!(
            errors(&schema, &json!({"size": "2Gi", "n": 2}), Some(&old)),
            ["n: Invalid value: 2: grow", "size: Invalid value: \"2Gi\": fixed"]
        );
    }
}
