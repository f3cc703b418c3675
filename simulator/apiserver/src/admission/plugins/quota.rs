//! `ResourceQuota`: what objects use, and whether a namespace has room for one more.
//!
//! Upstream's plugin keeps `status.used` by itself and checks against it. Here usage is counted from the
//! store, so that it is exact whoever goes first; `status` is the quota controller's business.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go` and
//! `k8s.io/kubernetes/pkg/quota/v1/evaluator/core`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::admission::{Attributes, Context, Operation};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::quantity::Quantity;
use crate::resource::GroupResource;
use crate::store::Store;

/// Amounts by resource name, such as `pods` or `requests.cpu`.
pub type Usage = BTreeMap<String, Quantity>;

/// Core resources that a quota may also name without `count/`.
const COUNTED_BY_NAME: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"];

/// Resources that a pod's containers request and are limited in.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What one object uses.
#[must_use]
pub fn usage(resource: &GroupResource, object: &Value) -> Usage {
    let mut usage = Usage::new();
    if is(resource, "pods") && is_finished(object) {
        return usage;
    }
    usage.insert(format!("count/{resource}"), Quantity::from(1));
    if resource.group.is_empty() && COUNTED_BY_NAME.contains(&&*resource.resource) {
        usage.insert(resource.resource.to_string(), Quantity::from(1));
    }
    match (&*resource.group, &*resource.resource) {
        ("", "pods") => add_pod(object, &mut usage),
        ("", "services") => add_service(object, &mut usage),
        ("", "persistentvolumeclaims") => add_claim(object, &mut usage),
        _ => {}
    }
    usage
}

/// What a namespace uses of everything that a quota limits: its `status.used`.
#[must_use]
pub fn used(store: &Store, quota: &Value) -> Usage {
    let hard = amounts(&quota["spec"]["hard"]);
    let mut used: Usage = hard.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
    for resource in store.resources() {
        for object in store.list(resource, quota.namespace()).filter(|object| in_scope(quota, resource, object)) {
            for (name, amount) in usage(resource, object) {
                if let Some(sum) = used.get_mut(&name) {
                    *sum = sum.plus(amount);
                }
            }
        }
    }
    used
}

/// Refuses a write for which there is no room.
pub(super) fn charge(attributes: &Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    let (true, Some(new)) = (attributes.subresource.is_empty(), &attributes.object) else { return Ok(()) };
    let resource = &attributes.resource.group_resource;
    let changes = ["pods", "services", "persistentvolumeclaims"].iter().any(|name| is(resource, name));
    match attributes.operation {
        Operation::Create => {}
        Operation::Update if changes => {}
        _ => return Ok(()),
    }
    let quotas = GroupResource::new("", "resourcequotas");
    for quota in context.store.list(&quotas, &attributes.namespace) {
        if attributes.namespace.is_empty() || !in_scope(quota, resource, new) {
            continue;
        }
        let hard = amounts(&quota["status"]["hard"]);
        let demanded = usage(resource, new);
        let limited = |name: &String| hard.contains_key(name) || !quota["spec"]["hard"][name].is_null();
        let names: Vec<&String> = demanded.keys().filter(|name| limited(name)).collect();
        let unspecified = missing_compute(resource, new, &hard);
        if let (false, Operation::Create) = (unspecified.is_empty(), attributes.operation) {
            return Err(attributes.forbidden(&format!("failed quota: {}: must specify {unspecified}", quota.name())));
        }
        if names.is_empty() {
            continue;
        }
        let before = attributes.old_object.as_ref().map_or_else(Usage::new, |old| usage(resource, old));
        let requested: Usage = names
            .iter()
            .map(|name| {
                let old = before.get(*name).copied().unwrap_or(Quantity::ZERO);
                ((*name).clone(), demanded[*name].minus(old))
            })
            .filter(|(_, amount)| !amount.is_zero() && !amount.is_negative())
            .collect();
        if requested.is_empty() {
            continue;
        }
        let unknown: Vec<&str> =
            names.iter().map(|name| name.as_str()).filter(|name| !hard.contains_key(*name)).collect();
        if !unknown.is_empty() {
            let (name, resources) = (quota.name(), unknown.join(","));
            return Err(attributes.forbidden(&format!("status unknown for quota: {name}, resources: {resources}")));
        }
        refuse_excess(attributes, context, quota, &requested, &hard)?;
    }
    Ok(())
}

fn refuse_excess(
    attributes: &Attributes,
    context: &Context<'_>,
    quota: &Object,
    requested: &Usage,
    hard: &Usage,
) -> Result<(), ApiError> {
    let resource = &attributes.resource.group_resource;
    let mut used: Usage = requested.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
    let objects = context.store.list(resource, &attributes.namespace);
    for object in objects.filter(|object| in_scope(quota, resource, object)) {
        for (name, amount) in usage(resource, object) {
            if let Some(sum) = used.get_mut(&name) {
                *sum = sum.plus(amount);
            }
        }
    }
    let exceeded: Vec<&String> = requested
        .iter()
        .filter(|(name, amount)| used[*name].plus(**amount) > hard[*name])
        .map(|(name, _)| name)
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let print = |of: &Usage| {
        let amounts: Vec<String> = exceeded.iter().map(|name| format!("{name}={}", of[*name])).collect();
        amounts.join(",")
    };
    Err(attributes.forbidden(&format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name(),
        print(requested),
        print(&used),
        print(hard)
    )))
}

fn is(resource: &GroupResource, name: &str) -> bool {
    resource.group.is_empty() && &*resource.resource == name
}

fn amounts(list: &Value) -> Usage {
    let parse = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.parse().ok()?));
    list.as_object().into_iter().flatten().filter_map(parse).collect()
}

fn add(usage: &mut Usage, name: String, amount: Quantity) {
    let sum = usage.get(&name).map_or(amount, |sum| sum.plus(amount));
    usage.insert(name, sum);
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["spec"]["containers"].as_array().into_iter().flatten()
}

fn is_finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// A pod uses what its containers request together, or its largest init container.
fn add_pod(pod: &Value, usage: &mut Usage) {
    for list in ["requests", "limits"] {
        let mut total = Usage::new();
        for container in containers(pod) {
            for (name, amount) in amounts(&container["resources"][list]) {
                add(&mut total, name, amount);
            }
        }
        for container in pod["spec"]["initContainers"].as_array().into_iter().flatten() {
            for (name, amount) in amounts(&container["resources"][list]) {
                let most = total.get(&name).map_or(amount, |most| amount.max(*most));
                total.insert(name, most);
            }
        }
        for (name, amount) in total {
            // A bare name means the request; extended resources are limited by request only.
            if list == "requests" && (COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-")) {
                usage.insert(name.clone(), amount);
            }
            if list == "requests" || COMPUTE.contains(&name.as_str()) {
                usage.insert(format!("{list}.{name}"), amount);
            }
        }
    }
}

fn add_service(service: &Value, usage: &mut Usage) {
    let spec = &service["spec"];
    let ports = i64::try_from(spec["ports"].as_array().map_or(0, Vec::len)).unwrap_or(i64::MAX);
    let (balancers, node_ports) = match spec["type"].as_str() {
        Some("NodePort") => (0, ports),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => (1, 0),
        Some("LoadBalancer") => (1, ports),
        _ => (0, 0),
    };
    usage.insert("services.loadbalancers".to_owned(), Quantity::from(balancers));
    usage.insert("services.nodeports".to_owned(), Quantity::from(node_ports));
}

fn add_claim(claim: &Value, usage: &mut Usage) {
    let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let of_class = |what: &str| format!("{class}.storageclass.storage.k8s.io/{what}");
    if !class.is_empty() {
        usage.insert(of_class("persistentvolumeclaims"), Quantity::from(1));
    }
    let requested = claim["spec"]["resources"]["requests"]["storage"].as_str();
    if let Some(requested) = requested.and_then(|text| text.parse().ok()) {
        usage.insert("requests.storage".to_owned(), requested);
        if !class.is_empty() {
            usage.insert(of_class("requests.storage"), requested);
        }
    }
}

/// What a quota limits and a pod's containers leave open, as upstream lists it:
/// `requests.cpu for: a,b; requests.memory for: a`.
fn missing_compute(resource: &GroupResource, pod: &Value, hard: &Usage) -> String {
    if !is(resource, "pods") {
        return String::new();
    }
    let mut missing: Vec<String> = Vec::new();
    for name in hard.keys() {
        let (list, compute) = match name.split_once('.') {
            Some((list @ ("requests" | "limits"), compute)) => (list, compute),
            _ => ("requests", name.as_str()),
        };
        if !COMPUTE.contains(&compute) {
            continue;
        }
        let init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
        let open = containers(pod).chain(init).filter(|container| container["resources"][list][compute].is_null());
        let mut open: Vec<&str> = open.filter_map(|container| container["name"].as_str()).collect();
        open.sort_unstable();
        if !open.is_empty() {
            missing.push(format!("{name} for: {}", open.join(",")));
        }
    }
    missing.join("; ")
}

/// Does a quota count this object? Scopes are about pods only.
fn in_scope(quota: &Value, resource: &GroupResource, object: &Value) -> bool {
    let spec = &quota["spec"];
    let named = spec["scopes"].as_array().into_iter().flatten();
    let mut named = named.filter_map(Value::as_str).peekable();
    let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    let mut selected = selected.peekable();
    if named.peek().is_none() && selected.peek().is_none() {
        return true;
    }
    is(resource, "pods")
        && named.all(|scope| has_scope(object, scope))
        && selected.all(|expression| {
            let scope = expression["scopeName"].as_str().unwrap_or_default();
            let operator = expression["operator"].as_str().unwrap_or_default();
            if scope != "PriorityClass" {
                return has_scope(object, scope);
            }
            let class = object["spec"]["priorityClassName"].as_str();
            let listed = expression["values"].as_array().into_iter().flatten().any(|value| value.as_str() == class);
            match operator {
                "In" => class.is_some() && listed,
                "NotIn" => !listed,
                "Exists" => class.is_some(),
                _ => class.is_none(),
            }
        })
}

fn has_scope(pod: &Value, scope: &str) -> bool {
    let terminating = pod["spec"]["activeDeadlineSeconds"].is_number();
    let best_effort = containers(pod).all(|container| {
        let empty = |list: &str| container["resources"][list].as_object().is_none_or(serde_json::Map::is_empty);
        empty("requests") && empty("limits")
    });
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => pod["spec"]["priorityClassName"].is_string(),
        "CrossNamespacePodAffinity" => has_foreign_affinity(&pod["spec"]["affinity"]),
        _ => false,
    }
}

/// Does an affinity term look into other namespaces?
fn has_foreign_affinity(affinity: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let of = &affinity[*kind];
        let required = of["requiredDuringSchedulingIgnoredDuringExecution"].as_array().into_iter().flatten();
        let preferred = of["preferredDuringSchedulingIgnoredDuringExecution"].as_array().into_iter().flatten();
        required.chain(preferred.map(|term| &term["podAffinityTerm"])).any(|term| {
            term["namespaces"].as_array().is_some_and(|names| !names.is_empty())
                || term["namespaceSelector"].is_object()
        })
    })
}
