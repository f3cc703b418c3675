//! Names that definitions of one group claim: first come, first served.
//!
//! Source: `apiextensions-apiserver/pkg/controller/status/naming_controller.go` and
//! `.../controller/apiapproval`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::strategy::set_condition;
use crate::object::{Object, ObjectExt};

/// Marks a definition in a group of the Kubernetes project as agreed upon.
pub const APPROVAL: &str = "api-approved.kubernetes.io";

/// Is the condition `Established` true?
#[must_use]
pub fn is_established(object: &Value) -> bool {
    condition(object, "Established") == Some("True")
}

fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)?["status"].as_str()
}

/// Is the group one of the Kubernetes project, where definitions need approval?
#[must_use]
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The definition's status as it should be, judged against all definitions; `None` when it already is.
#[must_use]
pub fn settled<'o>(object: &Object, all: impl Iterator<Item = &'o Object>, now: &str) -> Option<Value> {
    let taken = Taken::by_others(object, all);
    let mut new = Value::clone(object);
    let wanted = &object["spec"]["names"];
    let mut accepted = match &object["status"]["acceptedNames"] {
        names @ Value::Object(_) => names.clone(),
        _ => json!({}),
    };
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{name:?} is already in use");
    for (field, names, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        let claimed: Vec<&str> = match &wanted[field] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let clashes: Vec<String> =
            claimed.iter().filter(|name| names.contains(**name)).map(|name| in_use(name)).collect();
        match clashes.as_slice() {
            [] if wanted[field].is_null() => {
                if let Some(accepted) = accepted.as_object_mut() {
                    accepted.remove(field);
                }
            }
            [] => accepted[field] = wanted[field].clone(),
            [one] => conflict = Some((reason, one.clone())),
            several => conflict = Some((reason, format!("[{}]", several.join(", ")))),
        }
    }
    match &wanted["categories"] {
        Value::Null => {
            if let Some(accepted) = accepted.as_object_mut() {
                accepted.remove("categories");
            }
        }
        categories => accepted["categories"] = categories.clone(),
    }
    new["status"]["acceptedNames"] = accepted;
    match &conflict {
        Some((reason, message)) => set_condition(&mut new, now, "NamesAccepted", false, reason, message),
        None => set_condition(&mut new, now, "NamesAccepted", true, "NoConflicts", "no conflicts found"),
    }
    if condition(object, "Established") != Some("True") {
        match conflict {
            Some(_) => set_condition(&mut new, now, "Established", false, "NotAccepted", "not all names are accepted"),
            None => {
                let message = "the initial names have been accepted";
                set_condition(&mut new, now, "Established", true, "InitialNamesAccepted", message);
            }
        }
    }
    approve(&mut new, now);
    (new["status"] != object["status"]).then_some(new)
}

/// The condition about approval, in groups that need it.
fn approve(object: &mut Value, now: &str) {
    const CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";
    if !is_protected(object["spec"]["group"].as_str().unwrap_or_default()) {
        return;
    }
    let approval = object.annotation(APPROVAL).unwrap_or_default().to_owned();
    if approval.starts_with("unapproved") {
        let message = format!("not approved: {approval:?}");
        set_condition(object, now, CONDITION, false, "UnapprovedAnnotation", &message);
    } else if approval.is_empty() {
        let message = format!(
            "protected groups must have approval annotation {APPROVAL:?}, see https://github.com/kubernetes/enhancements/pull/1111"
        );
        set_condition(object, now, CONDITION, false, "MissingAnnotation", &message);
    } else {
        set_condition(object, now, CONDITION, true, "ApprovedAnnotation", &format!("approved in {approval}"));
    }
}

/// Names that other definitions of the group have.
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by_others<'o>(object: &Object, all: impl Iterator<Item = &'o Object>) -> Self {
        let mut taken = Self { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        let others =
            all.filter(|other| other.uid() != object.uid() && other["spec"]["group"] == object["spec"]["group"]);
        for other in others {
            let names = &other["status"]["acceptedNames"];
            let mut add = |set: fn(&mut Self) -> &mut BTreeSet<String>, value: &Value| {
                if let Some(name) = value.as_str().filter(|name| !name.is_empty()) {
                    set(&mut taken).insert(name.to_owned());
                }
            };
            add(|taken| &mut taken.resources, &names["plural"]);
            add(|taken| &mut taken.resources, &names["singular"]);
            for name in names["shortNames"].as_array().into_iter().flatten() {
                add(|taken| &mut taken.resources, name);
            }
            add(|taken| &mut taken.kinds, &names["kind"]);
            add(|taken| &mut taken.kinds, &names["listKind"]);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn definition(uid: &str, plural: &str, kind: &str, status: &Value) -> Object {
        Arc::new(json!({
            "metadata": {"uid": uid, "name": format!("{plural}.db.example")},
            "spec": {"group": "db.example", "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}},
            "status": status,
        }))
    }

    #[test]
    fn the_first_to_claim_a_name_keeps_it() {
        let first = definition("1", "clusters", "DbCluster", &json!({"acceptedNames": {"kind": "", "plural": ""}}));
        let first = Arc::new(settled(&first, [&first].into_iter(), "now").expect("a change"));
        assert!(is_established(&first));
        assert_eq!(settled(&first, [&first].into_iter(), "later"), None, "settled for good");

        let second = definition("2", "others", "DbCluster", &json!({"acceptedNames": {"kind": "", "plural": ""}}));
        let second = settled(&second, [&first, &second].into_iter(), "now").expect("a change");
        assert!(!is_established(&second));
        assert_eq!(second["status"]["acceptedNames"], json!({"kind": "", "plural": "others"}));
        assert_eq!(second["status"]["conditions"][0]["reason"], "ListKindConflict");
        assert_eq!(second["status"]["conditions"][0]["message"], "\"DbClusterList\" is already in use");
        assert_eq!(second["status"]["conditions"][1]["reason"], "NotAccepted");
    }
}
