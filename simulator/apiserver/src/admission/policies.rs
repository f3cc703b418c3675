//! `ValidatingAdmissionPolicy` and its bindings.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/policy/validating/{dispatcher,validator}.go` and
//! `k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`.

use serde_json::Value;

use super::conditions::{Bindings, Conditions, Expression};
use super::matching::{Criteria, Matched};
use super::{Attributes, Context};
use crate::error::{ApiError, Cause};
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;
use crate::selector::LabelSelector;

/// Longest text of a message expression, in bytes; a longer one is not used.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Reviews that no policy is asked about (`k8s.io/apiserver/pkg/admission/exclusion`).
const EXCLUDED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    name: String,
    ignores_failure: bool,
    criteria: Criteria,
    conditions: Conditions,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    /// apiVersion and kind.
    param_kind: Option<(String, String)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: &'static str,
}

/// A binding: where a policy applies, and what a failed validation leads to.
#[derive(Debug)]
pub struct Binding {
    name: String,
    policy: String,
    criteria: Criteria,
    param_ref: Value,
    denies: bool,
    warns: bool,
}

/// Why a write is not accepted.
struct Denial {
    message: String,
    /// Empty: `Invalid`.
    reason: &'static str,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

impl Policy {
    /// Compiles a `ValidatingAdmissionPolicy`.
    pub(super) fn compile(policy: &Object) -> Self {
        let spec = &policy["spec"];
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let ignores_failure = spec["failurePolicy"] == "Ignore";
        let param_kind = &spec["paramKind"];
        Self {
            name: policy.name().to_owned(),
            ignores_failure,
            criteria: Criteria::read(&spec["matchConstraints"], "resourceRules", true),
            conditions: Conditions::compile(&spec["matchConditions"], ignores_failure),
            variables: list("variables")
                .map(|variable| (text(variable, "name").to_owned(), Expression::compile(text(variable, "expression"))))
                .collect(),
            validations: list("validations").map(Validation::compile).collect(),
            param_kind: param_kind
                .is_object()
                .then(|| (text(param_kind, "apiVersion").to_owned(), text(param_kind, "kind").to_owned())),
        }
    }

    /// What the policy has against a write, for one parameter object.
    fn check(&self, bindings: &mut Bindings) -> Vec<Denial> {
        let failed = |message| Denial { message, reason: "" };
        match self.conditions.hold(bindings) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return vec![failed(why)],
        }
        bindings.set_variables(&self.variables);
        let denial = |validation: &Validation| match bindings.evaluate(&validation.expression) {
            Ok(Value::Bool(true)) => None,
            Ok(_) => Some(Denial { message: validation.message(bindings), reason: validation.reason }),
            Err(_) if self.ignores_failure => None,
            Err(why) => Some(failed(why)),
        };
        self.validations.iter().filter_map(denial).collect()
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

impl Binding {
    /// Reads a `ValidatingAdmissionPolicyBinding`.
    pub(super) fn read(binding: &Object) -> Self {
        let spec = &binding["spec"];
        let acts = |action: &str| spec["validationActions"].as_array().into_iter().flatten().any(|it| it == action);
        Self {
            name: binding.name().to_owned(),
            policy: text(spec, "policyName").to_owned(),
            criteria: Criteria::read(&spec["matchResources"], "resourceRules", true),
            param_ref: spec["paramRef"].clone(),
            denies: acts("Deny"),
            warns: acts("Warn"),
        }
    }

    /// Name of the policy that it binds.
    pub(super) fn policy_name(&self) -> &str {
        &self.policy
    }
}

/// Holds a write against every policy that is bound to it.
///
/// # Errors
/// The first denial.
pub(super) fn validate(
    attributes: &Attributes,
    warnings: &mut Vec<String>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    if EXCLUDED.iter().any(|(group, resource)| attributes.is_resource(group, resource)) {
        return Ok(());
    }
    let mut first: Option<ApiError> = None;
    for (policy, bound) in context.configurations.policies() {
        if !policy.criteria.concerns(attributes) {
            continue;
        }
        let matched = match policy.criteria.matches(attributes, context) {
            Ok(Some(matched)) => matched,
            Ok(None) => continue,
            Err(_) if policy.ignores_failure => continue,
            Err(error) => {
                let message = format!("failed to configure policy: {}", error.message);
                let name = &policy.name;
                first.get_or_insert(denied(
                    attributes,
                    &format!("ValidatingAdmissionPolicy '{name}'"),
                    &Denial { message, reason: "" },
                ));
                continue;
            }
        };
        for binding in bound {
            let (policy_name, binding_name) = (&policy.name, &binding.name);
            let who = format!("ValidatingAdmissionPolicy '{policy_name}' with binding '{binding_name}'");
            match apply(policy, binding, &matched, attributes, context) {
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
                Err(_) if policy.ignores_failure => {}
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

/// What a policy has against a write by way of one binding.
fn apply(
    policy: &Policy,
    binding: &Binding,
    matched: &Matched,
    attributes: &Attributes,
    context: &Context<'_>,
) -> Result<Vec<Denial>, String> {
    if binding.criteria.matches(attributes, context).map_err(|error| error.message)?.is_none() {
        return Ok(Vec::new());
    }
    let params = parameters(policy, binding, attributes, context)?;
    if params.is_empty() {
        return Ok(Vec::new());
    }
    let shown = matched.show(attributes, context).map_err(|error| error.message)?;
    let mut bindings = Bindings::new(&shown, attributes, matched);
    if !attributes.is_resource("", "namespaces") && !attributes.namespace.is_empty() {
        let namespace = context.store.get(&GroupResource::new("", "namespaces"), "", &attributes.namespace);
        bindings.set_namespace(namespace.cloned());
    }
    let mut denials = Vec::new();
    for object in params {
        bindings.set_params(object);
        denials.extend(policy.check(&mut bindings));
    }
    Ok(denials)
}

/// The parameter objects of a binding; `None` stands for "without parameters".
///
/// # Errors
/// When they are not to be had and must be.
fn parameters(
    policy: &Policy,
    binding: &Binding,
    attributes: &Attributes,
    context: &Context<'_>,
) -> Result<Vec<Option<Object>>, String> {
    let reference = &binding.param_ref;
    let Some((api_version, kind)) = policy.param_kind.as_ref().filter(|_| reference.is_object()) else {
        return Ok(vec![None]);
    };
    let Some(resource) = context.interfaces.by_kind(api_version, kind) else {
        return Err(format!("paramKind kind `{api_version}, Kind={kind}` not known"));
    };
    let named = text(reference, "namespace");
    let namespace = match (resource.namespaced, named, attributes.namespace.as_str()) {
        (false, "", _) => "",
        (false, _, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "", "") => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()
            );
        }
        (true, "", own) => own,
        (true, named, _) => named,
    };
    let of = &resource.group_resource;
    let found: Vec<&Object> = match text(reference, "name") {
        "" => {
            let selector = LabelSelector::from_object(&reference["selector"]);
            let selected = |object: &&Object| selector.matches(&object["metadata"]["labels"]);
            context.store.list(of, namespace).filter(selected).collect()
        }
        name => context.store.get(of, namespace, name).into_iter().collect(),
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let convert = |object: &Object| context.interfaces.convert(object, &resource.kind).map_err(|error| error.message);
    found.into_iter().map(|object| convert(object).map(Some)).collect()
}
