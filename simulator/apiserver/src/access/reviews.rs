//! Questions about access: `SubjectAccessReview` and its relatives, `SelfSubjectReview`.
//!
//! Source: `pkg/registry/authorization` and `pkg/apis/authorization/validation/validation.go`.

use serde_json::{Map, Value, json};

use super::{Attributes, Target, rules};
use crate::error::{ApiError, FieldError};
use crate::request::User;
use crate::store::Store;

/// Is this resource a question that is answered and not stored?
#[must_use]
pub fn is_review(group: &str, resource: &str) -> bool {
    matches!(
        (group, resource),
        ("authentication.k8s.io", "selfsubjectreviews")
            | (
                "authorization.k8s.io",
                "selfsubjectaccessreviews"
                    | "subjectaccessreviews"
                    | "localsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
            )
    )
}

/// The question with its answer in `status`.
///
/// # Errors
/// A question that makes no sense.
pub fn answer(
    store: &Store,
    asker: &User,
    resource: &str,
    namespace: &str,
    mut review: Value,
) -> Result<Value, ApiError> {
    let spec = review["spec"].clone();
    let status = match resource {
        "selfsubjectreviews" => json!({"userInfo": user_info(asker)}),
        "selfsubjectrulesreviews" => rules_of(store, asker, &spec)?,
        "selfsubjectaccessreviews" => {
            validate(&spec, false, None)?;
            decide(store, asker, &spec)
        }
        "localsubjectaccessreviews" => {
            validate(&spec, true, Some(namespace))?;
            decide(store, &subject(&spec), &spec)
        }
        _ => {
            validate(&spec, true, None)?;
            decide(store, &subject(&spec), &spec)
        }
    };
    review["status"] = status;
    Ok(review)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Who is asked about.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.to_ascii_lowercase(), texts(values))).collect(),
    }
}

fn decide(store: &Store, user: &User, spec: &Value) -> Value {
    let of = &spec["resourceAttributes"];
    let target = if of.is_object() {
        Target::Resource {
            group: text(of, "group").into(),
            resource: text(of, "resource").into(),
            subresource: text(of, "subresource").into(),
            namespace: text(of, "namespace").into(),
            name: text(of, "name").into(),
        }
    } else {
        Target::Path(text(&spec["nonResourceAttributes"], "path").into())
    };
    let verb = if of.is_object() { text(of, "verb") } else { text(&spec["nonResourceAttributes"], "verb") };
    match rules::evaluate(store, user, &Attributes { verb: verb.into(), target }) {
        Ok(reason) if reason.is_empty() => json!({"allowed": true}),
        Ok(reason) => json!({"allowed": true, "reason": reason}),
        Err(reason) if reason.is_empty() => json!({"allowed": false}),
        Err(reason) => json!({"allowed": false, "reason": reason}),
    }
}

/// `namespace` is that of a `LocalSubjectAccessReview`.
fn validate(spec: &Value, names_subject: bool, namespace: Option<&str>) -> Result<(), ApiError> {
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    match (resource.is_object(), other.is_object()) {
        (true, true) => {
            let shown = json!({"Path": text(other, "path"), "Verb": text(other, "verb")});
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", &shown, detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, detail));
        }
        _ => {}
    }
    let has_groups = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    if names_subject && text(spec, "user").is_empty() && !has_groups {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &Value::from(""), detail));
    }
    if let Some(namespace) = namespace {
        if other.is_object() {
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", other, detail));
        }
        let asked = text(resource, "namespace");
        if errors.is_empty() && asked != namespace {
            let detail = "must match metadata.namespace";
            errors.push(FieldError::invalid("spec.resourceAttributes.namespace", &Value::from(asked), detail));
        }
    }
    // Upstream names no kind here.
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("authorization.k8s.io", "", "", &errors)) }
}

/// Everything that the asker may do in a namespace.
fn rules_of(store: &Store, asker: &User, spec: &Value) -> Result<Value, ApiError> {
    let namespace = text(spec, "namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (mut resource_rules, mut other_rules) = (Vec::new(), Vec::new());
    let kept = |rule: &Value, fields: &[&str]| {
        let fields = fields.iter().filter(|field| rule[**field].is_array());
        Value::Object(fields.map(|field| ((*field).to_owned(), rule[*field].clone())).collect::<Map<_, _>>())
    };
    let everything = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    let mut held = rules::rules_for(store, asker, namespace);
    if rules::is_master(asker) {
        held.extend(&everything);
    }
    for rule in held {
        if rule["resources"].as_array().is_some_and(|resources| !resources.is_empty()) {
            resource_rules.push(kept(rule, &["verbs", "apiGroups", "resources", "resourceNames"]));
        }
        if rule["nonResourceURLs"].as_array().is_some_and(|urls| !urls.is_empty()) {
            other_rules.push(kept(rule, &["verbs", "nonResourceURLs"]));
        }
    }
    Ok(json!({"resourceRules": resource_rules, "nonResourceRules": other_rules, "incomplete": false}))
}

/// `UserInfo` of a user.
fn user_info(user: &User) -> Value {
    let mut info = json!({});
    if !user.name.is_empty() {
        info["username"] = user.name.as_str().into();
    }
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
