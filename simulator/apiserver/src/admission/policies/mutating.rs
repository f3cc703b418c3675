//! `MutatingAdmissionPolicy`: expressions that say what is to be changed.
//!
//! An apply configuration is merged as server-side apply merges, a JSON patch applied as one.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,compilation}.go` and
//! `.../mutating/patch`.

use std::sync::Arc;

use serde_json::Value;

use super::{Binding, Terms, text};
use crate::admission::conditions::{Bindings, Expression};
use crate::admission::matching::Matched;
use crate::admission::{Attributes, Context};
use crate::error::ApiError;
use crate::managed_fields;
use crate::object::Object;
use crate::patch::json;

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    terms: Terms,
    mutations: Vec<Mutation>,
    /// `reinvocationPolicy: IfNeeded`.
    again_if_needed: bool,
}

#[derive(Debug)]
enum Mutation {
    /// `Object{...}`: fields to set.
    Apply(Expression),
    /// A list of `JSONPatch{...}`.
    Patch(Expression),
}

impl Policy {
    /// Compiles a `MutatingAdmissionPolicy`.
    pub(in crate::admission) fn compile(policy: &Object) -> Self {
        let spec = &policy["spec"];
        let mutations = spec["mutations"].as_array().into_iter().flatten();
        Self {
            terms: Terms::compile(policy),
            mutations: mutations.map(Mutation::compile).collect(),
            again_if_needed: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }
}

impl Mutation {
    fn compile(mutation: &Value) -> Self {
        match text(mutation, "patchType") {
            "JSONPatch" => Self::Patch(Expression::compile_literal(text(&mutation["jsonPatch"], "expression"))),
            _ => Self::Apply(Expression::compile_literal(text(&mutation["applyConfiguration"], "expression"))),
        }
    }

    /// The object with the mutation, not yet decoded.
    fn apply(&self, object: &Value, bindings: &Bindings, matched: &Matched) -> Result<Value, String> {
        match self {
            Self::Apply(expression) => {
                let fields = bindings.evaluate(expression)?;
                managed_fields::merged(&matched.resource, object, &fields)
                    .map_err(|why| format!("error applying patch: {why}"))
            }
            Self::Patch(expression) => {
                let operations = bindings.evaluate(expression)?;
                let (operations, _) = json::decode(&operations, true)?;
                json::try_apply(object, &operations).map_err(|why| format!("JSON Patch: {why}"))
            }
        }
    }
}

/// Lets every bound policy change the object; in the second round those that want it again. Answers
/// whether one did.
///
/// # Errors
/// The first policy that fails and may not be ignored.
pub(in crate::admission) fn mutate(
    attributes: &mut Attributes,
    second_round: bool,
    context: &Context<'_>,
) -> Result<bool, ApiError> {
    if attributes.object.is_none() || !super::concern(attributes) {
        return Ok(false);
    }
    let mut changed = false;
    for (policy, bound) in context.configurations.mutating_policies() {
        let asked = policy.terms.criteria.concerns(attributes) && (!second_round || policy.again_if_needed);
        if !asked {
            continue;
        }
        let name = &policy.terms.name;
        let matched = match policy.terms.criteria.matches(attributes, context) {
            Ok(Some(matched)) => matched,
            Ok(None) => continue,
            Err(_) if policy.terms.ignores_failure => continue,
            Err(error) => return Err(denied(attributes, &format!("policy {name:?}"), &error.message)),
        };
        for binding in bound {
            match policy.apply(binding, &matched, attributes, context) {
                Ok(Some(object)) => {
                    attributes.object = Some(object);
                    changed = true;
                }
                Ok(None) => {}
                Err(_) if policy.terms.ignores_failure => {}
                Err(why) => {
                    let who = format!("policy '{name}' with binding '{}'", binding.name);
                    return Err(denied(attributes, &who, &why));
                }
            }
        }
    }
    Ok(changed)
}

fn denied(attributes: &Attributes, who: &str, why: &str) -> ApiError {
    let mut error = attributes.forbidden(&format!("{who} denied request: {why}"));
    error.code = 422;
    error.reason = "Invalid".into();
    error
}

impl Policy {
    /// The object as the policy wants it by way of one binding; `None` when it stays as it is.
    fn apply(
        &self,
        binding: &Binding,
        matched: &Matched,
        attributes: &Attributes,
        context: &Context<'_>,
    ) -> Result<Option<Object>, String> {
        let mut changed = attributes.clone();
        for params in self.terms.parameters(binding, attributes, context)? {
            for mutation in &self.mutations {
                // Each mutation sees what the one before it did.
                let mut bindings = self.terms.bindings(params.clone(), matched, &changed, context)?;
                if !self.terms.conditions.hold(&bindings)? {
                    break;
                }
                bindings.set_variables(&self.terms.variables);
                let shown = matched.show(&changed, context).map_err(|error| error.message)?;
                let Some(object) = shown.object else { return Ok(None) };
                let mutated = mutation.apply(&object, &bindings, matched)?;
                let decoded = context.interfaces.decode(&matched.kind, mutated).map_err(|error| error.message)?;
                let decoded = Arc::new(decoded);
                changed.object = Some(if matched.kind == attributes.kind {
                    decoded
                } else {
                    context.interfaces.convert(&decoded, &attributes.kind).map_err(|error| error.message)?
                });
            }
        }
        Ok(changed.object.filter(|object| attributes.object.as_ref() != Some(object)))
    }
}
