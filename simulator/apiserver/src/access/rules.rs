//! Roles and bindings: which rules a user has, and what they cover.
//!
//! Source: `pkg/registry/rbac/validation/rule.go` and `policy_comparator.go`.

use std::sync::OnceLock;

use serde_json::Value;

use super::{Attributes, Target};
use crate::object::ObjectExt;
use crate::request::User;
use crate::resource::GroupResource;
use crate::store::Store;

const GROUP: &str = "rbac.authorization.k8s.io";

struct Resources {
    roles: GroupResource,
    cluster_roles: GroupResource,
    role_bindings: GroupResource,
    cluster_role_bindings: GroupResource,
}

fn resources() -> &'static Resources {
    static RESOURCES: OnceLock<Resources> = OnceLock::new();
    RESOURCES.get_or_init(|| Resources {
        roles: GroupResource::new(GROUP, "roles"),
        cluster_roles: GroupResource::new(GROUP, "clusterroles"),
        role_bindings: GroupResource::new(GROUP, "rolebindings"),
        cluster_role_bindings: GroupResource::new(GROUP, "clusterrolebindings"),
    })
}

/// Is it granted, and why? If not, why: usually nothing, else the bindings whose role is missing.
pub(super) fn evaluate(store: &Store, user: &User, attributes: &Attributes<'_>) -> Result<String, String> {
    if is_master(user) {
        return Ok(String::new());
    }
    let namespace = match &attributes.target {
        Target::Resource { namespace, .. } => namespace.as_ref(),
        Target::Path(_) => "",
    };
    let mut missing = Vec::new();
    let mut reason = None;
    visit_rules(store, user, namespace, &mut missing, &mut |rule, binding, subject| {
        if covers(rule, attributes) {
            reason = Some(granted_by(binding, subject));
        }
        reason.is_some()
    });
    if let Some(reason) = reason {
        return Ok(reason);
    }
    Err(match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    })
}

/// `RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "u"`.
fn granted_by(binding: &Value, subject: &Value) -> String {
    let qualified = |name: &str, namespace: &str| {
        if namespace.is_empty() { name.to_owned() } else { format!("{name}/{namespace}") }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = binding.namespace();
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    format!(
        "RBAC: allowed by {kind} {:?} of {} {:?} to {} {:?}",
        qualified(binding.name(), namespace),
        text(&binding["roleRef"]["kind"]),
        text(&binding["roleRef"]["name"]),
        text(&subject["kind"]),
        qualified(&text(&subject["name"]), &text(&subject["namespace"])),
    )
}

/// Members of `system:masters` are asked nothing.
pub(super) fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == "system:masters")
}

/// The rules that a user has in a namespace (empty: in the whole cluster).
pub(super) fn rules_for<'s>(store: &'s Store, user: &User, namespace: &str) -> Vec<&'s Value> {
    let mut rules = Vec::new();
    visit_rules(store, user, namespace, &mut Vec::new(), &mut |rule, _, _| {
        rules.push(rule);
        false
    });
    rules
}

/// Hands each rule of the user to `stop`, with its binding and subject, until it answers true.
fn visit_rules<'s>(
    store: &'s Store,
    user: &User,
    namespace: &str,
    missing: &mut Vec<String>,
    stop: &mut dyn FnMut(&'s Value, &Value, &Value) -> bool,
) {
    let resources = resources();
    let cluster = store.list(&resources.cluster_role_bindings, "").map(|binding| (binding, ""));
    let namespaced = (!namespace.is_empty())
        .then(|| store.list(&resources.role_bindings, namespace).map(|binding| (binding, namespace)))
        .into_iter()
        .flatten();
    for (binding, binding_namespace) in cluster.chain(namespaced) {
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        let Some(subject) = subjects.find(|subject| is_subject(subject, user, binding_namespace)) else { continue };
        let reference = &binding["roleRef"];
        let name = reference["name"].as_str().unwrap_or_default();
        match role(store, reference, binding_namespace) {
            Some(role) => {
                for rule in role["rules"].as_array().into_iter().flatten() {
                    if stop(rule, binding, subject) {
                        return;
                    }
                }
            }
            None if reference["kind"] == "ClusterRole" => {
                missing.push(format!("clusterrole.{GROUP} \"{name}\" not found"));
            }
            None => missing.push(format!("role.{GROUP} \"{name}\" not found")),
        }
    }
}

/// The role that a binding in `namespace` (empty: a cluster role binding) refers to.
pub(super) fn role<'s>(store: &'s Store, reference: &Value, namespace: &str) -> Option<&'s Value> {
    let name = reference["name"].as_str().unwrap_or_default();
    let role = match reference["kind"].as_str() {
        Some("ClusterRole") => store.get(&resources().cluster_roles, "", name),
        Some("Role") => store.get(&resources().roles, namespace, name),
        _ => None,
    };
    role.map(|role| &**role)
}

fn is_subject(subject: &Value, user: &User, binding_namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => name == user.name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().filter(|namespace| !namespace.is_empty());
            let namespace = namespace.unwrap_or(binding_namespace);
            !namespace.is_empty() && crate::http::authenticate::service_account(&user.name) == Some((namespace, name))
        }
        _ => false,
    }
}

/// Does a rule cover what is asked for?
pub(super) fn covers(rule: &Value, attributes: &Attributes<'_>) -> bool {
    let any = |field: &str, fits: &dyn Fn(&str) -> bool| {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).any(|entry| entry == "*" || fits(entry))
    };
    if !any("verbs", &|verb| verb == attributes.verb) {
        return false;
    }
    match &attributes.target {
        Target::Path(path) => any("nonResourceURLs", &|url| {
            url == path || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
        }),
        Target::Resource { group, resource, subresource, name, .. } => {
            let resource_fits = |entry: &str| {
                if subresource.is_empty() {
                    return entry == resource;
                }
                entry.split_once('/').is_some_and(|(of, sub)| sub == subresource && (of == resource || of == "*"))
            };
            let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
            any("apiGroups", &|entry| entry == group)
                && any("resources", &resource_fits)
                && names.is_none_or(|names| names.iter().any(|entry| entry == name.as_ref()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_covers_verbs_groups_resources_names_and_paths() {
        let of = |resource: &'static str, subresource: &'static str, name: &'static str| Attributes {
            verb: "get".into(),
            target: Target::Resource {
                group: "apps".into(),
                resource: resource.into(),
                subresource: subresource.into(),
                namespace: "a".into(),
                name: name.into(),
            },
        };
        let path = |path: &'static str| Attributes { verb: "get".into(), target: Target::Path(path.into()) };
        let apps = |resources: &[&str]| json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": resources});
        let table = [
            (apps(&["deployments"]), of("deployments", "", "x"), true),
            (apps(&["deployments"]), of("deployments", "scale", "x"), false),
            (apps(&["*/scale"]), of("deployments", "scale", "x"), true),
            (apps(&["*"]), of("deployments", "scale", "x"), true),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}), of("deployments", "", "x"), false),
            (json!({"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"]}), of("deployments", "", "x"), false),
            (
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["y"]}),
                of("deployments", "", "x"),
                false,
            ),
            (json!({"verbs": ["get"], "nonResourceURLs": ["/apis/*"]}), path("/apis/apps"), true),
            (json!({"verbs": ["get"], "nonResourceURLs": ["/api"]}), path("/api/v1"), false),
        ];
        for (rule, attributes, want) in table {
            assert_eq!(covers(&rule, &attributes), want, "{rule} {attributes:?}");
        }
    }
}
