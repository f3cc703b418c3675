//! What is refused about the validation rules of a definition: they have to compile, to be boolean and cheap.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation` (`validateCustomResourceDefinitionOpenAPISchema`)
//! and `.../apiserver/schema/cel/compilation.go`.

use serde_json::Value;

use crate::error::FieldError;
use crate::expression::Program;

/// Everything wrong with the rules of a schema that is otherwise sound.
pub(super) fn validate(schema: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let _ = old;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (index, rule) in schema["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        if text(&rule["rule"]).trim().is_empty() {
            errors.push(FieldError::required(format!("{path}.rule"), "rule is not specified"));
            continue;
        }
        if let Err(error) = Program::compile(&text(&rule["rule"]), &["self", "oldSelf"]) {
            let mut wrong = FieldError::invalid(format!("{path}.rule"), rule, format!("compilation failed: {error}"));
            wrong.value = printed(rule);
            errors.push(wrong);
        }
    }
    let below = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in below {
        validate(property, None, &format!("{path}.properties[{name}]"), errors);
    }
    for keyword in ["items", "additionalProperties"] {
        if schema[keyword].is_object() {
            validate(&schema[keyword], None, &format!("{path}.{keyword}"), errors);
        }
    }
}

/// A rule as Go prints its internal form.
pub(super) fn printed(rule: &Value) -> String {
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
