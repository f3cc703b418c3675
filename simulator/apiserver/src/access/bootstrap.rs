//! Roles and bindings that are there from the start, from `data/bootstrap-access.yaml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Deserialize)]
struct Policy {
    roles: Vec<Role>,
    bindings: Vec<Binding>,
}

#[derive(Deserialize)]
struct Role {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Gathers the rules of the roles that are labelled `aggregate-to-NAME`.
    #[serde(default)]
    aggregate: Vec<String>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    verbs: Vec<String>,
    #[serde(default)]
    resources: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Deserialize)]
struct Binding {
    role: String,
    groups: Vec<String>,
}

/// The objects, with the plural of each: first roles, then bindings, without system fields.
pub(crate) fn objects() -> &'static [(&'static str, Value)] {
    static OBJECTS: OnceLock<Vec<(&'static str, Value)>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let policy: Policy = serde_yaml::from_str(include_str!("../../data/bootstrap-access.yaml"))
            .expect("data/ is valid: a test reads it");
        let roles = policy.roles.iter().map(|role| ("clusterroles", role_object(role, &policy)));
        let bindings = policy.bindings.iter().map(|binding| ("clusterrolebindings", binding_object(binding)));
        roles.chain(bindings).collect()
    })
}

fn metadata(name: &str, labels: &BTreeMap<String, String>) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    metadata["labels"]["kubernetes.io/bootstrapping"] = "rbac-defaults".into();
    metadata
}

fn role_object(role: &Role, policy: &Policy) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(&role.name, &role.labels),
        "rules": rules(role, policy, 0),
    });
    if !role.aggregate.is_empty() {
        let selectors =
            role.aggregate.iter().map(|to| json!({"matchLabels": {(format!("{GROUP}/aggregate-to-{to}")): "true"}}));
        object["aggregationRule"] = json!({"clusterRoleSelectors": selectors.collect::<Vec<_>>()});
    }
    object
}

/// A role's own rules, or those that it gathers: `admin` gathers `edit`, which gathers `view`.
fn rules(role: &Role, policy: &Policy, depth: u32) -> Vec<Value> {
    const DEPTH_MAX: u32 = 4;
    let own = role.rules.iter().map(|rule| {
        if !rule.paths.is_empty() {
            return json!({"nonResourceURLs": rule.paths, "verbs": rule.verbs});
        }
        let groups: Vec<&String> = rule.resources.keys().collect();
        let resources: Vec<&String> = rule.resources.values().flatten().collect();
        json!({"apiGroups": groups, "resources": resources, "verbs": rule.verbs})
    });
    let mut all: Vec<Value> = own.collect();
    if depth < DEPTH_MAX {
        for to in &role.aggregate {
            let label = format!("{GROUP}/aggregate-to-{to}");
            let parts = policy.roles.iter().filter(|part| part.labels.contains_key(&label));
            all.extend(parts.flat_map(|part| rules(part, policy, depth + 1)));
        }
    }
    all
}

fn binding_object(binding: &Binding) -> Value {
    let subjects: Vec<Value> =
        binding.groups.iter().map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group})).collect();
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata(&binding.role, &BTreeMap::new()),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": binding.role},
        "subjects": subjects,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregated_role_has_the_rules_of_its_parts() {
        let rules = |name: &str| {
            let (_, role) = objects().iter().find(|(_, object)| object["metadata"]["name"] == name).expect("a role");
            role["rules"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(rules("view"), rules("system:aggregate-to-view"));
        assert_eq!(rules("edit"), rules("view") + rules("system:aggregate-to-edit"));
        assert_eq!(rules("admin"), rules("edit") + rules("system:aggregate-to-admin"));
    }
}
