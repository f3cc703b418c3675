//! CEL in admission: match conditions, and what expressions see.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go` and
//! `k8s.io/apiserver/pkg/admission/plugin/cel`.

use serde_json::{Map, Value};

use super::matching::{Matched, Shown};
use super::{Attributes, review};
use crate::expression::Program;
use crate::object::Object;

/// What every expression may name.
const VARIABLES: [&str; 7] = ["object", "oldObject", "request", "params", "namespaceObject", "authorizer", "variables"];

/// One expression, with its text for messages.
#[derive(Debug)]
pub(super) struct Expression {
    text: String,
    /// One that does not compile fails whenever it is evaluated. Validation lets none in, but a store
    /// may hold one from elsewhere.
    program: Result<Program, String>,
}

impl Expression {
    pub(super) fn compile(text: &str) -> Self {
        let program = Program::compile(text, &VARIABLES).map_err(|error| error.to_string());
        Self { text: text.to_owned(), program }
    }

    /// An expression that may build objects: `Object{...}`, `JSONPatch{...}`.
    pub(super) fn compile_literal(text: &str) -> Self {
        let program = Program::compile_literal(text, &VARIABLES).map_err(|error| error.to_string());
        Self { text: text.to_owned(), program }
    }

    /// The text without blanks around it.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// Does it speak of this variable of the policy?
    fn mentions(&self, variable: &str) -> bool {
        let name = format!("variables.{variable}");
        self.text.match_indices(&name).any(|(at, _)| {
            let next = self.text[at + name.len()..].chars().next();
            !next.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    }
}

/// Values of what expressions may name.
#[derive(Debug)]
pub(super) struct Bindings {
    object: Option<Object>,
    old_object: Option<Object>,
    request: Value,
    params: Option<Object>,
    namespace: Option<Object>,
    variables: Value,
    /// Variables of the policy that have no value, and why: an error only for what speaks of them.
    failed: Vec<(String, String)>,
}

impl Bindings {
    /// For a write as shown to a webhook or policy.
    pub(super) fn new(shown: &Shown, attributes: &Attributes, matched: &Matched) -> Self {
        Self {
            object: shown.object.clone(),
            old_object: shown.old_object.clone(),
            request: review::request(attributes, matched),
            params: None,
            namespace: None,
            variables: Value::Object(Map::new()),
            failed: Vec::new(),
        }
    }

    /// With `params`.
    pub(super) fn set_params(&mut self, params: Option<Object>) {
        self.params = params;
    }

    /// With `namespaceObject`.
    pub(super) fn set_namespace(&mut self, namespace: Option<Object>) {
        self.namespace = namespace;
    }

    /// Gives the variables of a policy their values, in order: each may speak of those before it.
    pub(super) fn set_variables(&mut self, variables: &[(String, Expression)]) {
        self.variables = Value::Object(Map::new());
        self.failed.clear();
        for (name, expression) in variables {
            match self.compute(expression) {
                Ok(value) => self.variables[name] = value,
                Err(why) => self.failed.push((name.clone(), why)),
            }
        }
    }

    fn compute(&self, expression: &Expression) -> Result<Value, String> {
        if let Some((name, why)) = self.failed.iter().find(|(name, _)| expression.mentions(name)) {
            return Err(format!("composited variable \"{name}\" fails to evaluate: {why}"));
        }
        let program = expression.program.as_ref().map_err(Clone::clone)?;
        let values = [
            ("object", self.object.as_deref().unwrap_or(&Value::Null)),
            ("oldObject", self.old_object.as_deref().unwrap_or(&Value::Null)),
            ("request", &self.request),
            ("params", self.params.as_deref().unwrap_or(&Value::Null)),
            ("namespaceObject", self.namespace.as_deref().unwrap_or(&Value::Null)),
            ("variables", &self.variables),
        ];
        program.evaluate(&values).map_err(|error| error.to_string())
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// Why it has none, as upstream says it.
    pub(super) fn evaluate(&self, expression: &Expression) -> Result<Value, String> {
        let text = &expression.text;
        self.compute(expression).map_err(|why| format!("expression '{text}' resulted in error: {why}"))
    }
}

/// Expressions that must all be true for a write to be reviewed.
#[derive(Debug)]
pub(super) struct Conditions {
    expressions: Vec<Expression>,
    ignores_failure: bool,
}

impl Conditions {
    /// Compiles `matchConditions`.
    pub(super) fn compile(conditions: &Value, ignores_failure: bool) -> Self {
        let texts =
            conditions.as_array().into_iter().flatten().filter_map(|condition| condition["expression"].as_str());
        Self { expressions: texts.map(Expression::compile).collect(), ignores_failure }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Do they all hold? One that is false decides, whatever else fails.
    ///
    /// # Errors
    /// When some fail, none is false, and failures are not ignored.
    pub(super) fn hold(&self, bindings: &Bindings) -> Result<bool, String> {
        let mut failures: Vec<String> = Vec::new();
        for expression in &self.expressions {
            match bindings.evaluate(expression) {
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(why) if failures.contains(&why) => {}
                Err(why) => failures.push(why),
            }
        }
        match failures.as_slice() {
            [] => Ok(true),
            _ if self.ignores_failure => Ok(false),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}
