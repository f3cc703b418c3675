//! Nobody hands out rights that they do not hold: what is checked when roles and bindings are written.
//!
//! Source: `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased` and
//! `pkg/registry/rbac/validation`.

use serde_json::{Value, json};

use super::{Attributes, Target, rules};
use crate::error::ApiError;
use crate::object::ObjectExt;
use crate::request::User;
use crate::resource::GroupResource;
use crate::store::Store;

const GROUP: &str = "rbac.authorization.k8s.io";

/// May the user write this role or binding?
///
/// # Errors
/// 403 with the rights that would be handed out and are not held.
pub(crate) fn check(
    store: &Store,
    user: &User,
    resource: &GroupResource,
    namespace: &str,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if &*resource.group != GROUP || rules::is_master(user) {
        return Ok(());
    }
    let (granted, verb, asked_about): (Vec<&Value>, _, _) = match &*resource.resource {
        "roles" | "clusterroles" => {
            if old.is_some_and(|old| {
                old["rules"] == object["rules"] && old["aggregationRule"] == object["aggregationRule"]
            }) {
                return Ok(());
            }
            (own_rules(object), "escalate", (&*resource.resource, object.name()))
        }
        "rolebindings" | "clusterrolebindings" => {
            if old.is_some_and(|old| old["subjects"] == object["subjects"] && old["roleRef"] == object["roleRef"]) {
                return Ok(());
            }
            let reference = &object["roleRef"];
            let name = reference["name"].as_str().unwrap_or_default();
            let plural = if reference["kind"] == "ClusterRole" { "clusterroles" } else { "roles" };
            let role = rules::role(store, reference, namespace);
            (role.map(own_rules).unwrap_or_default(), "bind", (plural, name))
        }
        _ => return Ok(()),
    };
    let (plural, name) = asked_about;
    let attributes = Attributes {
        verb: verb.into(),
        target: Target::Resource {
            group: GROUP.into(),
            resource: plural.into(),
            subresource: "".into(),
            namespace: namespace.into(),
            name: name.into(),
        },
    };
    if rules::evaluate(store, user, &attributes).is_ok() {
        return Ok(());
    }
    if verb == "bind" && rules::role(store, &object["roleRef"], namespace).is_none() {
        let of = GroupResource::new(GROUP, plural);
        return Err(ApiError::not_found(&of, name));
    }
    let held = rules::rules_for(store, user, namespace);
    let mut missing: Vec<Value> = Vec::new();
    for single in granted.iter().flat_map(|rule| break_down(rule)) {
        if held.iter().any(|rule| contains(rule, &single)) {
            continue;
        }
        // Rules that differ in their verb only are told as one.
        let same = |other: &&mut Value| {
            ["apiGroups", "resources", "resourceNames", "nonResourceURLs"]
                .iter()
                .all(|field| other[*field] == single[*field])
        };
        match missing.iter_mut().find(same) {
            Some(other) => {
                if let (Some(verbs), Some(more)) = (other["verbs"].as_array_mut(), single["verbs"].as_array()) {
                    verbs.extend(more.iter().cloned());
                }
            }
            None => missing.push(single),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> = missing.iter().map(shown).collect();
    missing.sort();
    let groups = user.groups.iter().map(|group| format!("{group:?}")).collect::<Vec<_>>().join(" ");
    let why = format!(
        "user {:?} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        missing.join("\n"),
    );
    Err(ApiError::forbidden(resource, object.name(), &why))
}

fn own_rules(role: &Value) -> Vec<&Value> {
    role["rules"].as_array().into_iter().flatten().collect()
}

fn texts<'v>(rule: &'v Value, field: &str) -> Vec<&'v str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Rules of one verb, one group, one resource, one name each.
fn break_down(rule: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            for verb in texts(rule, "verbs") {
                let single = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
                let names = texts(rule, "resourceNames");
                if names.is_empty() {
                    out.push(single);
                    continue;
                }
                out.extend(names.into_iter().map(|name| {
                    let mut named = single.clone();
                    named["resourceNames"] = json!([name]);
                    named
                }));
            }
        }
    }
    for path in texts(rule, "nonResourceURLs") {
        out.extend(texts(rule, "verbs").into_iter().map(|verb| json!({"nonResourceURLs": [path], "verbs": [verb]})));
    }
    out
}

/// Does `rule` hold everything that the broken-down `single` does?
fn contains(rule: &Value, single: &Value) -> bool {
    let has = |field: &str, fits: &dyn Fn(&str, &str) -> bool| {
        texts(single, field).iter().all(|wanted| texts(rule, field).iter().any(|held| fits(held, wanted)))
    };
    let any_or_same = |held: &str, wanted: &str| held == "*" || held == wanted;
    if !has("verbs", &any_or_same) {
        return false;
    }
    if !texts(single, "nonResourceURLs").is_empty() {
        return has("nonResourceURLs", &|held, wanted| {
            held == wanted || held.strip_suffix('*').is_some_and(|prefix| wanted.starts_with(prefix))
        });
    }
    let resource = |held: &str, wanted: &str| {
        any_or_same(held, wanted)
            || held
                .strip_prefix("*/")
                .is_some_and(|sub| wanted.split_once('/').is_some_and(|(_, wanted)| wanted == sub))
    };
    let names = texts(rule, "resourceNames");
    has("apiGroups", &any_or_same)
        && has("resources", &resource)
        && (names.is_empty() || texts(single, "resourceNames").first().is_some_and(|name| names.contains(name)))
}

/// A rule as the refusal prints it.
fn shown(rule: &Value) -> String {
    let fields = [
        ("APIGroups", "apiGroups"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    ];
    let shown = fields.iter().filter_map(|(name, field)| {
        let values = texts(rule, field);
        let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        (!values.is_empty()).then(|| format!("{name}:[{}]", values.join(" ")))
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}
