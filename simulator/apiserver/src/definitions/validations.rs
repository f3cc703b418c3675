//! What is refused about the validation rules of a definition: they have to compile, to be boolean and cheap.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation` (`ValidateCustomResourceDefinitionOpenAPISchema`,
//! `cel_validation.go`) and `.../apiserver/schema/cel/compilation.go`.

use serde_json::Value;

use crate::error::FieldError;
use crate::expression::Program;
use crate::expression::check::{Known, Type, check, sizes};
use crate::schema::{SchemaRef, SchemaSet};

/// Most that one rule may cost (`StaticEstimatedCostLimit`).
const RULE_LIMIT: u64 = 10_000_000;
/// Most that all rules of a schema may cost (`StaticEstimatedCRDCostLimit`).
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are named.
const NAMED: usize = 4;

/// Everything wrong with the rules of a schema that is otherwise sound.
pub(super) fn validate(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let compiled = SchemaSet::single(schema);
    let mut check = Check { set: &compiled, errors, total: 0, expensive: Vec::new() };
    check.place(schema, &compiled, &Context { cardinality: 1, uncorrelated: None }, path);
    check.total(path);
}

/// What a place inherits from those above it.
#[derive(Clone)]
struct Context {
    /// How many values there may be here.
    cardinality: u64,
    /// The list above whose items have no identity.
    uncorrelated: Option<String>,
}

struct Check<'a> {
    set: &'a SchemaRef,
    errors: &'a mut Vec<FieldError>,
    total: u64,
    expensive: Vec<(u64, String)>,
}

impl Check<'_> {
    fn place(&mut self, schema: &Value, at: &SchemaRef, context: &Context, path: &str) {
        for (index, rule) in list(&schema["x-kubernetes-validations"]).iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            let before = self.errors.len();
            self.written(schema, rule, &path);
            if self.errors.len() == before {
                self.rule(rule, at, context, &path);
            }
        }
        let most = sizes::most(&at.set, at.node());
        if let Some(items) = at.items() {
            let keyed = at.node().list_type == Some(crate::schema::ListType::Map);
            let uncorrelated = context.uncorrelated.clone().or((!keyed).then(|| path.to_owned()));
            let context = Context { cardinality: context.cardinality.saturating_mul(most), uncorrelated };
            self.place(&schema["items"], &items, &context, &format!("{path}.items"));
        }
        if let Some(values) = at.additional() {
            let context = Context { cardinality: context.cardinality.saturating_mul(most), ..context.clone() };
            self.place(&schema["additionalProperties"], &values, &context, &format!("{path}.additionalProperties"));
        }
        for (name, property) in at.properties() {
            let path = format!("{path}.properties[{name}]");
            self.place(&schema["properties"][name], &property, context, &path);
        }
    }

    /// Is the rule written as it has to be, before anything is compiled?
    fn written(&mut self, schema: &Value, rule: &Value, path: &str) {
        let mut invalid = |field: &str, detail: &str| {
            self.errors.push(FieldError::invalid(format!("{path}.{field}"), &rule[field], detail));
        };
        let blank = |field: &str| rule[field].as_str().is_some_and(|text| !text.is_empty() && text.trim().is_empty());
        if blank("message") {
            invalid("message", "message must be non-empty if specified");
        } else if text(&rule["message"]).contains('\n') {
            invalid("message", "message must not contain line breaks");
        }
        if blank("fieldPath") {
            invalid("fieldPath", "fieldPath must be non-empty if specified");
        } else if text(&rule["fieldPath"]).contains('\n') {
            invalid("fieldPath", "fieldPath must not contain line breaks");
        } else if !text(&rule["fieldPath"]).is_empty() && !is_path(schema, text(&rule["fieldPath"])) {
            invalid("fieldPath", "must be a valid path");
        }
        if text(&rule["rule"]).trim().is_empty() {
            self.errors.push(FieldError::required(format!("{path}.rule"), "rule is not specified"));
        } else if text(&rule["rule"]).contains('\n') && text(&rule["message"]).is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.errors.push(FieldError::required(format!("{path}.message"), detail));
        }
        if blank("messageExpression") {
            let detail = "messageExpression must be non-empty if specified";
            self.errors.push(FieldError::required(format!("{path}.messageExpression"), detail));
        }
        let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if !rule["reason"].is_null() && !reasons.contains(&text(&rule["reason"])) {
            self.errors.push(FieldError::not_supported(format!("{path}.reason"), &rule["reason"], &reasons));
        }
    }

    /// Does the rule compile, and what does it cost?
    fn rule(&mut self, rule: &Value, at: &SchemaRef, context: &Context, path: &str) {
        let rule_path = format!("{path}.rule");
        let optional_old = rule["optionalOldSelf"] == true;
        let program = match self.compile(text(&rule["rule"]), at, optional_old) {
            Ok((program, known)) => {
                if !matches!(known.type_, Type::Bool | Type::Dyn) {
                    return self.refuse(rule_path, rule, "cel expression must evaluate to a bool".to_owned());
                }
                let cost = known.cost.saturating_mul(context.cardinality);
                if let Some(message) = text(&rule["messageExpression"]).get(..).filter(|text| !text.trim().is_empty()) {
                    self.message(rule, message, at, context, optional_old, path);
                }
                if cost > RULE_LIMIT {
                    let detail = beyond("estimated rule cost", cost, RULE_LIMIT);
                    self.errors.push(FieldError::forbidden(&rule_path, detail));
                }
                self.observe(&rule_path, cost);
                program
            }
            Err(sentence) => return self.refuse(rule_path, rule, format!("compilation failed: {sentence}")),
        };
        if program.mentions("oldSelf")
            && let Some(list) = &context.uncorrelated
        {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.push(FieldError::invalid(rule_path, &rule["rule"], detail));
        }
    }

    fn message(
        &mut self,
        rule: &Value,
        source: &str,
        at: &SchemaRef,
        context: &Context,
        optional_old: bool,
        path: &str,
    ) {
        let path = format!("{path}.messageExpression");
        match self.compile(source, at, optional_old) {
            Ok((_, known)) if !matches!(known.type_, Type::Text | Type::Dyn) => {
                self.refuse(path, rule, "messageExpression must evaluate to a string".to_owned());
            }
            Ok((_, known)) => {
                let cost = known.cost.saturating_mul(context.cardinality);
                if cost > RULE_LIMIT {
                    let detail = beyond("estimated messageExpression cost", cost, RULE_LIMIT);
                    self.errors.push(FieldError::forbidden(&path, detail));
                }
                self.observe(&path, cost);
            }
            Err(sentence) => {
                self.refuse(path, rule, format!("messageExpression compilation failed: {sentence}"));
            }
        }
    }

    fn compile(&self, source: &str, at: &SchemaRef, optional_old: bool) -> Result<(Program, Known), String> {
        let program = Program::compile(source, &["self", "oldSelf"]).map_err(|error| error.0)?;
        let known = Known::at(&self.set.set, at.id());
        let old = if optional_old { known.clone().optional() } else { known.clone() };
        let checked = check(&program, &self.set.set, vec![("self", known), ("oldSelf", old)])?;
        Ok((program, checked))
    }

    fn refuse(&mut self, path: String, rule: &Value, detail: String) {
        let mut error = FieldError::invalid(path, rule, detail);
        error.value = printed(rule);
        self.errors.push(error);
    }

    fn observe(&mut self, path: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, path.to_owned()));
        }
    }

    fn total(&mut self, path: &str) {
        if self.total <= SCHEMA_LIMIT {
            return;
        }
        self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, path) in self.expensive.drain(..).take(NAMED) {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(FieldError::forbidden(path, beyond(what, self.total, SCHEMA_LIMIT)));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How far beyond a limit a cost is, in words.
#[expect(clippy::cast_precision_loss, reason = "printed with one digit")]
fn beyond(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Does a `fieldPath` (`.spec.name`, `['a-b']`) lead to a declared place?
fn is_path(schema: &Value, path: &str) -> bool {
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            match quoted.split_once("']") {
                Some(found) => found,
                None => return false,
            }
        } else if let Some(plain) = rest.strip_prefix('.') {
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        } else {
            return false;
        };
        let next = at["properties"].get(name).or(Some(&at["additionalProperties"]).filter(|value| value.is_object()));
        match next {
            Some(next) => at = next,
            None => return false,
        }
        rest = after;
    }
    true
}

/// A rule as Go prints its internal form.
fn printed(rule: &Value) -> String {
    let text = |field: &str| go_json(&Value::from(rule[field].as_str().unwrap_or_default()));
    let optional = |field: &str| if rule[field].is_null() { "null".to_owned() } else { go_json(&rule[field]) };
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        optional("reason"),
        text("fieldPath"),
        optional("optionalOldSelf"),
    )
}

/// JSON as Go's encoder writes it, with the characters of HTML escaped.
fn go_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(schema: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(schema, "schema", &mut errors);
        errors.iter().map(|error| format!("{} {}", error.field, error.detail)).collect()
    }

    fn with_rule(rule: &Value) -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [rule], "properties": {
            "members": {"type": "integer"},
            "names": {"type": "array", "items": {"type": "string"}},
            "few": {"type": "array", "maxItems": 10, "items": {"type": "object", "properties": {
                "name": {"type": "string", "maxLength": 20}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 20}, "maxProperties": 10},
            "size": {"type": "string", "maxLength": 20},
            "at": {"type": "string", "format": "date-time"},
        }}}})
    }

    #[test]
    fn rules_that_compile_and_are_cheap_pass() {
        for rule in [
            "self.members % 2 == 1 && (!has(self.size) || quantity(self.size).isGreaterThan(quantity('1Gi')))",
            "self.few.filter(m, m.name == 'primary').size() == 1",
            "self.few.all(a, self.few.exists(b, a.name == b.name || a.name.contains(b.name)))",
            "self.labels.all(k, k.startsWith('db-') && self.labels[k] != '')",
            "self.names.all(name, name.startsWith('a'))",
            "self.few.map(m, m.name).isSorted() && self.few[0].name in ['a', 'b']",
            "self.?size.orValue('1Gi') != '' && self.at > timestamp('2026-01-01T00:00:00Z')",
            "oldSelf.members <= self.members ? true : self == oldSelf",
        ] {
            assert_eq!(errors(&with_rule(&json!({"rule": rule}))), [""; 0], "{rule}");
        }
    }

    #[test]
    fn what_a_rule_gets_wrong_is_told_at_its_place() {
        let at = "schema.properties[spec].x-kubernetes-validations[0]";
        let cases = [
            (
                json!({"rule": "self.absent > 1"}),
                "rule compilation failed: ERROR: <input>:1:5: undefined field 'absent'\n | self.absent > 1\n | ....^",
            ),
            (
                json!({"rule": "self.members > 'a'"}),
                "rule compilation failed: ERROR: <input>:1:14: found no matching overload for '_>_' applied to '(int, \
                 string)'\n | self.members > 'a'\n | .............^",
            ),
            (json!({"rule": "self.members"}), "rule cel expression must evaluate to a bool"),
            (json!({"rule": " "}), "rule rule is not specified"),
            (json!({"rule": "true", "fieldPath": ".absent"}), "fieldPath must be a valid path"),
            (
                json!({"rule": "true", "messageExpression": "1"}),
                "messageExpression messageExpression must evaluate to a string",
            ),
            (json!({"rule": "true &&\nfalse"}), "message message must be specified if rule contains line breaks"),
        ];
        for (rule, expected) in cases {
            assert_eq!(errors(&with_rule(&rule)), [format!("{at}.{expected}")], "{rule}");
        }
    }

    #[test]
    fn rules_that_may_cost_too_much_are_refused_with_the_whole_schema() {
        let found =
            errors(&with_rule(&json!({"rule": "self.names.all(a, self.names.all(b, a == b || a.contains(b)))"})));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("estimated rule cost exceeds budget by factor of more than 100x"), "{found:?}");
        assert!(found[1].contains("contributed to estimated rule cost total"), "{found:?}");
        assert!(found[2].starts_with("schema x-kubernetes-validations estimated rule cost total"), "{found:?}");
    }
}
