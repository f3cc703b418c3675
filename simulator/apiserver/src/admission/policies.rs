//! Admission policies in CEL and their bindings: what the two kinds have in common.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`.

use serde_json::Value;

use super::conditions::{Bindings, Conditions, Expression};
use super::matching::{Criteria, Matched};
use super::{Attributes, Context};
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;
use crate::selector::LabelSelector;

pub mod mutating;
pub mod validating;

/// Reviews that no policy is asked about (`k8s.io/apiserver/pkg/admission/exclusion`).
const EXCLUDED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Are policies asked about this write at all?
fn concern(attributes: &Attributes) -> bool {
    !EXCLUDED.iter().any(|(group, resource)| attributes.is_resource(group, resource))
}

/// What a policy of either kind says besides its rules: where it applies, and what its expressions see.
#[derive(Debug)]
struct Terms {
    name: String,
    ignores_failure: bool,
    criteria: Criteria,
    conditions: Conditions,
    variables: Vec<(String, Expression)>,
    /// apiVersion and kind.
    param_kind: Option<(String, String)>,
}

/// A binding: where a policy applies, with which parameters, and for a validating one what a failed
/// validation leads to.
#[derive(Debug)]
pub struct Binding {
    name: String,
    policy: String,
    criteria: Criteria,
    param_ref: Value,
    denies: bool,
    warns: bool,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

impl Binding {
    /// Reads a `ValidatingAdmissionPolicyBinding` or a `MutatingAdmissionPolicyBinding`.
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

impl Terms {
    fn compile(policy: &Object) -> Self {
        let spec = &policy["spec"];
        let ignores_failure = spec["failurePolicy"] == "Ignore";
        let variables = spec["variables"].as_array().into_iter().flatten();
        let param_kind = &spec["paramKind"];
        Self {
            name: policy.name().to_owned(),
            ignores_failure,
            criteria: Criteria::read(&spec["matchConstraints"], "resourceRules", true),
            conditions: Conditions::compile(&spec["matchConditions"], ignores_failure),
            variables: variables
                .map(|variable| (text(variable, "name").to_owned(), Expression::compile(text(variable, "expression"))))
                .collect(),
            param_kind: param_kind
                .is_object()
                .then(|| (text(param_kind, "apiVersion").to_owned(), text(param_kind, "kind").to_owned())),
        }
    }

    /// What expressions see of a write, with one parameter object.
    fn bindings(
        &self,
        params: Option<Object>,
        matched: &Matched,
        attributes: &Attributes,
        context: &Context<'_>,
    ) -> Result<Bindings, String> {
        let shown = matched.show(attributes, context).map_err(|error| error.message)?;
        let mut bindings = Bindings::new(&shown, attributes, matched);
        if !attributes.is_resource("", "namespaces") && !attributes.namespace.is_empty() {
            let namespace = context.store.get(&GroupResource::new("", "namespaces"), "", &attributes.namespace);
            bindings.set_namespace(namespace.cloned());
        }
        bindings.set_params(params);
        Ok(bindings)
    }

    /// The parameter objects with which a binding applies to a write; `None` stands for "without", and
    /// an empty list for "does not apply".
    ///
    /// # Errors
    /// When they are not to be had and must be.
    fn parameters(
        &self,
        binding: &Binding,
        attributes: &Attributes,
        context: &Context<'_>,
    ) -> Result<Vec<Option<Object>>, String> {
        if binding.criteria.matches(attributes, context).map_err(|error| error.message)?.is_none() {
            return Ok(Vec::new());
        }
        let reference = &binding.param_ref;
        let Some((api_version, kind)) = self.param_kind.as_ref().filter(|_| reference.is_object()) else {
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
        let convert =
            |object: &Object| context.interfaces.convert(object, &resource.kind).map_err(|error| error.message);
        found.into_iter().map(|object| convert(object).map(Some)).collect()
    }
}
