//! Questions about access: `SubjectAccessReview` and its kin, `SelfSubjectReview`, `TokenReview`. They are
//! created, answered, and never stored.
//!
//! Source: `pkg/registry/authorization` and `pkg/registry/authentication`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Attributes, Authorization, Target, rules};
use crate::error::{ApiError, FieldError};
use crate::object::set_meta;
use crate::request::User;
use crate::resource::GroupResource;
use crate::store::Store;

/// Is this a question rather than an object?
pub(crate) fn is_review(resource: &GroupResource) -> bool {
    match &*resource.group {
        "authorization.k8s.io" => matches!(
            &*resource.resource,
            "subjectaccessreviews"
                | "localsubjectaccessreviews"
                | "selfsubjectaccessreviews"
                | "selfsubjectrulesreviews"
        ),
        "authentication.k8s.io" => matches!(&*resource.resource, "selfsubjectreviews" | "tokenreviews"),
        _ => false,
    }
}

/// Fills in the answer.
///
/// # Errors
/// 400 and 422 for questions that cannot be understood.
pub(crate) fn answer(
    store: &Store,
    authorization: Authorization,
    user: &User,
    resource: &GroupResource,
    namespace: &str,
    mut review: Value,
    now: Timestamp,
) -> Result<Value, ApiError> {
    let may = |user: &User, attributes: &Attributes<'_>| match authorization {
        Authorization::AlwaysAllow => Ok(String::new()),
        Authorization::Rbac => rules::evaluate(store, user, attributes),
    };
    match &*resource.resource {
        "selfsubjectreviews" => {
            let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            set_meta(&mut review, "creationTimestamp", time);
            review["status"] = json!({"userInfo": user_info(user)});
        }
        "tokenreviews" => {
            // Tokens are known to the shell that accepted the request, not here.
            review["status"] = json!({"user": {}, "error": "invalid bearer token"});
        }
        "selfsubjectrulesreviews" => {
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
            if namespace.is_empty() {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            review["status"] = rules_status(store, user, &namespace);
        }
        kind => {
            let spec = &review["spec"];
            let errors = validate(kind, spec, namespace);
            if !errors.is_empty() {
                return Err(ApiError::invalid(&resource.group, "", "", &errors));
            }
            let subject = if kind == "selfsubjectaccessreviews" { user.clone() } else { subject(spec) };
            review["status"] = match may(&subject, &attributes(spec)) {
                Ok(reason) => status(true, &reason),
                Err(reason) => status(false, &reason),
            };
        }
    }
    Ok(review)
}

fn status(allowed: bool, reason: &str) -> Value {
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

/// `pkg/apis/authorization/validation`.
fn validate(kind: &str, spec: &Value, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() && path.is_object() {
        let shown = json!({"Path": path["path"].as_str().unwrap_or_default(), "Verb": path["verb"].as_str().unwrap_or_default()});
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", &shown, detail));
    }
    if !resource.is_object() && !path.is_object() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, detail));
    }
    if kind != "selfsubjectaccessreviews"
        && spec["user"].as_str().unwrap_or_default().is_empty()
        && spec["groups"].as_array().is_none_or(Vec::is_empty)
    {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &"".into(), detail));
    }
    if kind == "localsubjectaccessreviews" {
        if path.is_object() {
            let shown = json!({"Path": path["path"].as_str().unwrap_or_default(), "Verb": path["verb"].as_str().unwrap_or_default()});
            errors.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                &shown,
                "disallowed on this kind of request",
            ));
        }
        if resource.is_object() && resource["namespace"].as_str().unwrap_or_default() != namespace {
            let detail = "must match metadata.namespace";
            let given = resource["namespace"].as_str().unwrap_or_default();
            errors.push(FieldError::invalid("spec.resourceAttributes.namespace", &given.into(), detail));
        }
    }
    errors
}

fn subject(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

fn attributes(spec: &Value) -> Attributes<'_> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    fn text<'v>(of: &'v Value, field: &str) -> std::borrow::Cow<'v, str> {
        of[field].as_str().unwrap_or_default().into()
    }
    if path.is_object() {
        return Attributes { verb: text(path, "verb"), target: Target::Path(text(path, "path")) };
    }
    Attributes {
        verb: text(resource, "verb"),
        target: Target::Resource {
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
        },
    }
}

fn rules_status(store: &Store, user: &User, namespace: &str) -> Value {
    let (mut resource_rules, mut path_rules) = (Vec::new(), Vec::new());
    for rule in rules::rules_for(store, user, namespace) {
        let kept = |fields: &[&str]| {
            let mut out = json!({});
            for field in fields {
                if rule[*field].as_array().is_some_and(|values| !values.is_empty()) {
                    out[*field] = rule[*field].clone();
                }
            }
            out
        };
        if rule["resources"].as_array().is_some_and(|resources| !resources.is_empty()) {
            resource_rules.push(kept(&["verbs", "apiGroups", "resources", "resourceNames"]));
        }
        if rule["nonResourceURLs"].as_array().is_some_and(|urls| !urls.is_empty()) {
            path_rules.push(kept(&["verbs", "nonResourceURLs"]));
        }
    }
    json!({"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": false})
}

/// `UserInfo` of `authentication.k8s.io`.
fn user_info(user: &User) -> Value {
    let mut out = json!({"username": user.name});
    if !user.uid.is_empty() {
        out["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        out["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        out["extra"] = json!(user.extra);
    }
    out
}
