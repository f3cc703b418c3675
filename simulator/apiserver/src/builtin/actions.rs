//! Subresources that are actions: `pods/eviction`, `pods/binding`, `bindings`, `serviceaccounts/token`.
//!
//! An action reads the store and yields what to write; the pipeline writes it.
//!
//! Source: `pkg/registry/core/pod/storage/{storage,eviction}.go`,
//! `pkg/registry/core/serviceaccount/storage/token.go`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Context;
use super::at::At;
use super::fill::{object_in, put};
use crate::error::{ApiError, Cause, Details, FieldError};
use crate::object::{Object, ObjectExt, metadata_mut};
use crate::resource::GroupResource;
use crate::selector::LabelSelector;

/// What an action does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Writes, in order; the first that fails ends the action with its answer.
    pub writes: Vec<Write>,
    /// HTTP status code of the answer.
    pub code: u16,
    /// The answer.
    pub answer: Value,
}

/// One write of an action. Its stages are those of an ordinary write without admission: the action
/// itself has been admitted.
#[derive(Clone, Debug)]
pub enum Write {
    /// Replace an object, which carries the version that was read.
    Update(GroupResource, Value),
    /// Delete `namespace`/`name` with these `DeleteOptions`.
    Delete(GroupResource, String, String, Value),
}

/// Is this subresource (or, with an empty `subresource`, this resource) an action?
#[must_use]
pub fn is_action(resource: &str, subresource: &str) -> bool {
    matches!(
        (resource, subresource),
        ("pods", "eviction" | "binding") | ("bindings", "") | ("serviceaccounts", "token")
    )
}

/// Plans an action. `name` is the name in the path (for `bindings`, that in the body); `body` is
/// decoded and defaulted.
///
/// # Errors
/// As upstream refuses it.
pub fn plan(namespace: &str, name: &str, body: &Value, context: &mut Context<'_>) -> Result<Plan, ApiError> {
    match (&*context.resource.group_resource.resource, context.subresource) {
        ("pods", "eviction") => evict(namespace, name, body, context),
        ("pods", "binding") | ("bindings", _) => bind(namespace, name, body, context),
        ("serviceaccounts", "token") => token(namespace, name, body, context),
        _ => Err(ApiError::no_such_path()),
    }
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

fn stored<'a>(
    resource: &GroupResource,
    namespace: &str,
    name: &str,
    context: &Context<'a>,
) -> Result<&'a Object, ApiError> {
    context.store.get(resource, namespace, name).ok_or_else(|| ApiError::not_found(resource, name))
}

fn time(context: &Context<'_>) -> String {
    context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn bind(namespace: &str, name: &str, binding: &Value, context: &Context<'_>) -> Result<Plan, ApiError> {
    if binding.name() != name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let mut errors = Vec::new();
    let target = At::root(binding);
    let target = target.get("target");
    if !target.get("kind").is_empty() {
        let kind = target.get("kind");
        if kind.text() != "Node" {
            kind.one_of(&mut errors, &["Node", "<empty>"]);
        }
    }
    target.get("name").required(&mut errors);
    if !errors.is_empty() {
        // Upstream forgets to say what kind of error this is.
        let sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let message = if let [only] = &sentences[..] { only.clone() } else { format!("[{}]", sentences.join(", ")) };
        return Err(ApiError::new(500, "", message));
    }
    let pod = stored(&pods(), namespace, name, context)?;
    let conflict = |why: String| Err(ApiError::conflict(&GroupResource::new("", "pods/binding"), name, &why));
    if pod.is_deleting() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return conflict(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = Value::clone(pod);
    put(&mut pod["spec"], "nodeName", target.get("name").value().clone());
    for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        if let Some(annotations) =
            metadata_mut(&mut pod).entry("annotations").or_insert_with(|| json!({})).as_object_mut()
        {
            annotations.insert(key.clone(), value.clone());
        }
    }
    set_condition(&mut pod, "PodScheduled", &json!({"status": "True"}), &time(context));
    Ok(Plan { writes: vec![Write::Update(pods(), pod)], code: 201, answer: success() })
}

/// Sets a condition of a pod; the time moves when its status does.
fn set_condition(pod: &mut Value, kind: &str, rest: &Value, now: &str) {
    let Some(status) = object_in(pod, "status") else { return };
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut condition = json!({"type": kind, "lastProbeTime": null, "lastTransitionTime": now});
    for (field, value) in rest.as_object().into_iter().flatten() {
        put(&mut condition, field, value.clone());
    }
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(old) => {
            if old["status"] == condition["status"] {
                let since = old["lastTransitionTime"].clone();
                condition["lastTransitionTime"] = since;
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    put(status, "conditions", conditions.into());
}

fn evict(namespace: &str, name: &str, eviction: &Value, context: &Context<'_>) -> Result<Plan, ApiError> {
    if eviction.name() != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let pod = stored(&pods(), namespace, name, context)?;
    let mut writes = Vec::new();
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let free = pod.is_deleting() || matches!(phase, "Succeeded" | "Failed" | "Pending");
    if !free {
        let budgets = GroupResource::new("policy", "poddisruptionbudgets");
        let covers = |budget: &&Object| {
            let selector = &budget["spec"]["selector"];
            !selector.is_null() && LabelSelector::from_object(selector).matches(&pod["metadata"]["labels"])
        };
        let covering: Vec<&Object> = context.store.list(&budgets, namespace).filter(covers).collect();
        match covering[..] {
            [] => {}
            [budget] => {
                if !may_skip(budget, pod) {
                    writes.push(Write::Update(budgets, take_disruption(budget, name, context)?));
                }
            }
            _ => {
                return Err(ApiError::new(
                    500,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        }
    }
    let mut marked = Value::clone(pod);
    set_condition(
        &mut marked,
        "DisruptionTarget",
        &json!({"status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}),
        &time(context),
    );
    writes.push(Write::Update(pods(), marked));
    let options = eviction["deleteOptions"].clone();
    writes.push(Write::Delete(pods(), namespace.to_owned(), name.to_owned(), options));
    Ok(Plan { writes, code: 201, answer: success() })
}

/// A pod that is not ready counts against no budget, or only against a budget in need.
fn may_skip(budget: &Value, pod: &Value) -> bool {
    let ready = pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if ready {
        return false;
    }
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0)
}

/// Evictions that a budget's controller has not yet seen, at most (`MaxDisruptedPodSize`).
const UNCONFIRMED_EVICTIONS_MAX: usize = 2000;

/// Counts one disruption off a budget, when it allows one.
fn take_disruption(budget: &Value, pod: &str, context: &Context<'_>) -> Result<Value, ApiError> {
    let name = budget.name();
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let refuse = |why: String, retry_after_seconds: u32| {
        let mut error =
            ApiError::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
        let cause = Cause { reason: "DisruptionBudget".to_owned(), message: why, field: String::new() };
        error.details = Some(Box::new(Details { causes: vec![cause], retry_after_seconds, ..Details::default() }));
        error
    };
    let budgets = GroupResource::new("policy", "poddisruptionbudgets");
    if count("observedGeneration") < budget.generation() {
        return Err(refuse(format!("The disruption budget {name} is still being processed by the server."), 10));
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return Err(ApiError::forbidden(&budgets, name, "pdb disruptions allowed is negative"));
    }
    let unconfirmed = budget["status"]["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
    if unconfirmed > UNCONFIRMED_EVICTIONS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden(&budgets, name, why));
    }
    if allowed == 0 {
        let (needs, has) = (count("desiredHealthy"), count("currentHealthy"));
        return Err(refuse(
            format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently"),
            0,
        ));
    }
    let mut budget = budget.clone();
    if let Some(status) = object_in(&mut budget, "status") {
        put(status, "disruptionsAllowed", (allowed - 1).into());
        if let Some(disrupted) = object_in(status, "disruptedPods") {
            put(disrupted, pod, time(context).into());
        }
    }
    Ok(budget)
}

/// Shortest life of a token, in seconds.
const TOKEN_SECONDS_MIN: i64 = 10 * 60;
/// Longest life of a token, in seconds.
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// Life of a token when none is asked for, in seconds.
const TOKEN_SECONDS: i64 = 60 * 60;
/// Whom a token is for when nobody is named, and who issues it.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

fn token(namespace: &str, name: &str, request: &Value, context: &mut Context<'_>) -> Result<Plan, ApiError> {
    let accounts = GroupResource::new("", "serviceaccounts");
    let account = stored(&accounts, namespace, name, context)?;
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(TOKEN_SECONDS);
    let wrong = if seconds < TOKEN_SECONDS_MIN {
        Some("may not specify a duration less than 10 minutes")
    } else if seconds > TOKEN_SECONDS_MAX {
        Some("may not specify a duration larger than 2^32 seconds")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), wrong);
        return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
    }
    let bound = &request["spec"]["boundObjectRef"];
    let bound_resource = match bound["kind"].as_str() {
        Some("Pod") => Some(pods()),
        Some("Secret") => Some(GroupResource::new("", "secrets")),
        Some("Node") => Some(GroupResource::new("", "nodes")),
        Some(other) => {
            let why = format!("cannot bind token for serviceaccount to object of type v1, Kind={other}");
            return Err(ApiError::bad_request(why));
        }
        None => None,
    };
    if let Some(resource) = bound_resource {
        let within = if &*resource.resource == "nodes" { "" } else { namespace };
        stored(&resource, within, bound["name"].as_str().unwrap_or_default(), context)?;
    }
    let audiences = match request["spec"]["audiences"].as_array() {
        Some(audiences) if !audiences.is_empty() => request["spec"]["audiences"].clone(),
        _ => json!([ISSUER]),
    };
    let expires = context.now + jiff::SignedDuration::from_secs(seconds);
    let claims = json!({
        "aud": audiences,
        "exp": expires.as_second(),
        "iat": context.now.as_second(),
        "nbf": context.now.as_second(),
        "iss": ISSUER,
        "jti": context.draws.uid(),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": account.uid()}},
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
    });
    let answer = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": time(context)},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
        "status": {
            "token": signed(&claims, context.draws.next("token")),
            "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        },
    });
    Ok(Plan { writes: Vec::new(), code: 201, answer })
}

/// The form of a JSON web token. Nobody holds a key that would verify it: the signature only makes
/// tokens differ.
fn signed(claims: &Value, salt: u64) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let content = format!("{}.{}", part(&json!({"alg": "RS256", "kid": "rewake"})), part(claims));
    let mut hash = Sha256::new();
    hash.update(content.as_bytes());
    hash.update(salt.to_le_bytes());
    format!("{content}.{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
}
