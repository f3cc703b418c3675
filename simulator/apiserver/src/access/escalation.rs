//! Nobody hands out rights they do not have: checks on writes of roles and bindings.
//!
//! Source: `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go`,
//! `pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/validation/{rule,policy_compact}.go`.

use serde_json::{Value, json};

use super::{Attributes, Target, rules};
use crate::error::ApiError;
use crate::object::ObjectExt;
use crate::request::User;
use crate::resource::GroupResource;
use crate::store::Store;

/// One write of a role or binding.
#[derive(Clone, Copy, Debug)]
pub struct RoleWrite<'a> {
    /// Which of the four resources.
    pub resource: &'a GroupResource,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The name in the path; empty for a create.
    pub name: &'a str,
    /// The object as it would be.
    pub object: &'a Value,
    /// The object as it is.
    pub old: Option<&'a Value>,
}

/// Refuses a role or binding that gives more than its writer has.
///
/// # Errors
/// 403 with the rights that are missing; 404 when a binding's role does not exist.
pub fn check(store: &Store, user: &User, write: &RoleWrite<'_>) -> Result<(), ApiError> {
    if &*write.resource.group != rules::GROUP || rules::is_master(user) || write.changes_only_ownership() {
        return Ok(());
    }
    let granted = match &*write.resource.resource {
        "roles" | "clusterroles" => {
            if write.allowed(store, user, "escalate", &write.resource.resource, write.name) {
                return Ok(());
            }
            if write.object["aggregationRule"].is_object() && !is_covered(store, user, write, &everything()) {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(ApiError::forbidden(write.resource, write.object.name(), why));
            }
            write.object["rules"].as_array().cloned().unwrap_or_default()
        }
        "rolebindings" | "clusterrolebindings" => {
            let reference = &write.object["roleRef"];
            let name = reference["name"].as_str().unwrap_or_default();
            let resource = if reference["kind"] == "ClusterRole" { "clusterroles" } else { "roles" };
            if write.allowed(store, user, "bind", resource, name) {
                return Ok(());
            }
            let Some(role) = rules::role(store, reference, write.namespace) else {
                return Err(ApiError::not_found(&GroupResource::new(rules::GROUP, resource), name));
            };
            role["rules"].as_array().cloned().unwrap_or_default()
        }
        _ => return Ok(()),
    };
    let missing = missing(store, user, write.namespace, &granted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = compact(missing).iter().map(describe).collect();
    lines.sort();
    lines.dedup();
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        lines.join("\n")
    );
    Err(ApiError::forbidden(write.resource, write.object.name(), &why))
}

impl RoleWrite<'_> {
    /// The garbage collector may let go of what it could not write otherwise.
    fn changes_only_ownership(&self) -> bool {
        let without = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                for field in ["ownerReferences", "finalizers", "managedFields"] {
                    metadata.remove(field);
                }
            }
            object
        };
        self.old.is_some_and(|old| without(old) == without(self.object))
    }

    fn allowed(&self, store: &Store, user: &User, verb: &'static str, resource: &str, name: &str) -> bool {
        let target = Target::Resource {
            group: rules::GROUP.into(),
            resource: resource.into(),
            subresource: "".into(),
            namespace: self.namespace.into(),
            name: name.into(),
        };
        rules::evaluate(store, user, &Attributes { verb: verb.into(), target }).is_ok()
    }
}

/// The rules of `cluster-admin`.
fn everything() -> Vec<Value> {
    vec![
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
    ]
}

fn is_covered(store: &Store, user: &User, write: &RoleWrite<'_>, granted: &[Value]) -> bool {
    missing(store, user, write.namespace, granted).is_empty()
}

/// The single rights among `granted` that no rule of the user covers.
fn missing(store: &Store, user: &User, namespace: &str, granted: &[Value]) -> Vec<Value> {
    let held = rules::rules_for(store, user, namespace);
    let single = granted.iter().flat_map(single_rights);
    single.filter(|right| !held.iter().any(|rule| covers(rule, right))).collect()
}

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A rule as rights with one group, one resource, one name and one verb each.
fn single_rights(rule: &Value) -> Vec<Value> {
    let mut rights = Vec::new();
    let verbs = texts(rule, "verbs");
    let names = texts(rule, "resourceNames");
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            for verb in &verbs {
                let right = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
                if names.is_empty() {
                    rights.push(right);
                    continue;
                }
                for name in &names {
                    let mut right = right.clone();
                    right["resourceNames"] = json!([name]);
                    rights.push(right);
                }
            }
        }
    }
    for url in texts(rule, "nonResourceURLs") {
        rights.extend(verbs.iter().map(|verb| json!({"nonResourceURLs": [url], "verbs": [verb]})));
    }
    rights
}

/// Does a rule include a single right?
fn covers(rule: &Value, right: &Value) -> bool {
    let includes = |field: &str| {
        let has = texts(rule, field);
        has.contains(&"*") || texts(right, field).iter().all(|item| has.contains(item))
    };
    let resources = || {
        let has = texts(rule, "resources");
        let of_any = |resource: &str| {
            resource.split_once('/').is_some_and(|(_, sub)| has.contains(&format!("*/{sub}").as_str()))
        };
        has.contains(&"*") || texts(right, "resources").iter().all(|item| has.contains(item) || of_any(item))
    };
    let urls = || {
        let has = texts(rule, "nonResourceURLs");
        texts(right, "nonResourceURLs").iter().all(|url| {
            has.iter().any(|it| it == url || it.strip_suffix('*').is_some_and(|prefix| url.starts_with(prefix)))
        })
    };
    let (own, asked) = (texts(rule, "resourceNames"), texts(right, "resourceNames"));
    let names = own.is_empty() || (!asked.is_empty() && asked.iter().all(|name| own.contains(name)));
    includes("verbs") && includes("apiGroups") && resources() && urls() && names
}

/// Joins rights that differ in their verb only.
fn compact(rights: Vec<Value>) -> Vec<Value> {
    let mut compacted: Vec<Value> = Vec::new();
    for right in rights {
        let of_resource = right["resources"].is_array();
        let same = |other: &&mut Value| {
            ["apiGroups", "resources", "resourceNames"].iter().all(|field| other[*field] == right[*field])
        };
        match compacted.iter_mut().find(same).filter(|_| of_resource) {
            Some(other) => {
                if let (Some(verbs), Some(more)) = (other["verbs"].as_array_mut(), right["verbs"].as_array()) {
                    verbs.extend(more.iter().cloned());
                }
            }
            None => compacted.push(right),
        }
    }
    compacted
}

/// A rule as upstream prints it: `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`.
fn describe(rule: &Value) -> String {
    let fields = [
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ];
    let parts: Vec<String> = fields
        .into_iter()
        .map(|(title, field)| (title, texts(rule, field)))
        .filter(|(_, texts)| !texts.is_empty())
        .map(|(title, texts)| {
            let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("{title}:[{}]", quoted.join(" "))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_lacks_is_told_compactly() {
        let rule = json!({"apiGroups": [""], "resources": ["secrets", "pods/log"], "verbs": ["get", "delete"]});
        let held = [
            json!({"apiGroups": ["*"], "resources": ["*/log"], "verbs": ["*"]}),
            json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["x"]}),
        ];
        let rights = single_rights(&rule);
        let missing: Vec<Value> =
            rights.into_iter().filter(|right| !held.iter().any(|rule| covers(rule, right))).collect();
        let lines: Vec<String> = compact(missing).iter().map(describe).collect();
        assert_eq!(lines, ["{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}"]);
    }
}
