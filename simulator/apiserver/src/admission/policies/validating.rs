//! `ValidatingAdmissionPolicy`: expressions that must hold.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/policy/validating/{dispatcher,validator}.go`.

use serde_json::Value;

use super::{Binding, Terms, text};
use crate::admission::conditions::{Bindings, Expression};
use crate::admission::matching::Matched;
use crate::admission::{Attributes, Context};
use crate::error::{ApiError, Cause};
use crate::object::Object;

/// Longest text of a message expression, in bytes; a longer one is not used.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    terms: Terms,
    validations: Vec<Validation>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: &'static str,
}

/// Why a write is not accepted.
struct Denial {
    message: String,
    /// Empty: `Invalid`.
    reason: &'static str,
}

impl Policy {
    /// Compiles a `ValidatingAdmissionPolicy`.
    pub(in crate::admission) fn compile(policy: &Object) -> Self {
        let validations = policy["spec"]["validations"].as_array().into_iter().flatten();
        Self { terms: Terms::compile(policy), validations: validations.map(Validation::compile).collect() }
    }

    /// What the policy has against a write, for one parameter object.
    fn check(&self, bindings: &mut Bindings) -> Vec<Denial> {
        let failed = |message| Denial { message, reason: "" };
        match self.terms.conditions.hold(bindings) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return vec![failed(why)],
        }
        bindings.set_variables(&self.terms.variables);
        let denial = |validation: &Validation| match bindings.evaluate(&validation.expression) {
            Ok(Value::Bool(true)) => None,
            Ok(_) => Some(Denial { message: validation.message(bindings), reason: validation.reason }),
            Err(_) if self.terms.ignores_failure => None,
            Err(why) => Some(failed(why)),
        };
        self.validations.iter().filter_map(denial).collect()
    }

    /// What the policy has against a write by way of one binding.
    fn apply(
        &self,
        binding: &Binding,
        matched: &Matched,
        attributes: &Attributes,
        context: &Context<'_>,
    ) -> Result<Vec<Denial>, String> {
        let mut denials = Vec::new();
        for params in self.terms.parameters(binding, attributes, context)? {
            denials.extend(self.check(&mut self.terms.bindings(params, matched, attributes, context)?));
        }
        Ok(denials)
    }
}

impl Validation {
    fn compile(validation: &Value) -> Self {
        let message_expression = text(validation, "messageExpression");
        Self {
            expression: Expression::compile(text(validation, "expression")),
            message: text(validation, "message").trim().to_owned(),
            message_expression: (!message_expression.is_empty()).then(|| Expression::compile(message_expression)),
            reason: match text(validation, "reason") {
                "Unauthorized" => "Unauthorized",
                "Forbidden" => "Forbidden",
                "RequestEntityTooLarge" => "RequestEntityTooLarge",
                _ => "Invalid",
            },
        }
    }

    /// The sentence of a failed validation.
    fn message(&self, bindings: &Bindings) -> String {
        let computed = self.message_expression.as_ref().and_then(|expression| bindings.evaluate(expression).ok());
        let computed = computed.as_ref().and_then(Value::as_str).unwrap_or_default().trim();
        if !computed.is_empty() && computed.len() <= MESSAGE_BYTES_MAX && !computed.contains('\n') {
            return computed.to_owned();
        }
        if !self.message.is_empty() {
            return self.message.clone();
        }
        format!("failed expression: {}", self.expression.text())
    }
}

/// Holds a write against every policy that is bound to it.
///
/// # Errors
/// The first denial.
pub(in crate::admission) fn validate(
    attributes: &Attributes,
    warnings: &mut Vec<String>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    if !super::concern(attributes) {
        return Ok(());
    }
    let mut first: Option<ApiError> = None;
    for (policy, bound) in context.configurations.validating_policies() {
        if !policy.terms.criteria.concerns(attributes) {
            continue;
        }
        let matched = match policy.terms.criteria.matches(attributes, context) {
            Ok(Some(matched)) => matched,
            Ok(None) => continue,
            Err(_) if policy.terms.ignores_failure => continue,
            Err(error) => {
                let message = format!("failed to configure policy: {}", error.message);
                let name = &policy.terms.name;
                first.get_or_insert(denied(
                    attributes,
                    &format!("ValidatingAdmissionPolicy '{name}'"),
                    &Denial { message, reason: "" },
                ));
                continue;
            }
        };
        for binding in bound {
            let (policy_name, binding_name) = (&policy.terms.name, &binding.name);
            let who = format!("ValidatingAdmissionPolicy '{policy_name}' with binding '{binding_name}'");
            match policy.apply(binding, &matched, attributes, context) {
                Ok(denials) => {
                    for denial in &denials {
                        if binding.denies && first.is_none() {
                            first = Some(denied(attributes, &who, denial));
                        }
                        if binding.warns {
                            warnings.push(format!("Validation failed for {who}: {}", denial.message));
                        }
                    }
                }
                // What is wrong with the binding itself denies, whatever its actions.
                Err(_) if policy.terms.ignores_failure => {}
                Err(why) => {
                    let message = format!("failed to configure binding: {why}");
                    first.get_or_insert_with(|| denied(attributes, &who, &Denial { message, reason: "" }));
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}

fn denied(attributes: &Attributes, who: &str, denial: &Denial) -> ApiError {
    let message = format!("{who} denied request: {}", denial.message);
    let mut error = attributes.forbidden(&message);
    let reason = if denial.reason.is_empty() { "Invalid" } else { denial.reason };
    error.code = match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    error.reason = reason.into();
    if let Some(details) = &mut error.details {
        details.causes.push(Cause { reason: String::new(), message, field: String::new() });
    }
    error
}
