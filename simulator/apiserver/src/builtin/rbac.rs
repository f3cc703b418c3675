//! Roles and bindings, as objects; what they allow is [`crate::access`].
//!
//! Source: `pkg/apis/rbac/v1/defaults.go`, `pkg/apis/rbac/validation/validation.go`.

use serde_json::Value;

use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_zero, within};
use super::names::{self, NameRule};
use super::{OnUpdate, Status, Strategy, go, pod_spec};

const GROUP: &str = "rbac.authorization.k8s.io";

const KIND: Strategy = Strategy {
    name: NameRule::PathSegment,
    create_on_update: true,
    status: Status::Keep,
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

pub(super) static ROLES: Strategy = Strategy { validate: |role, errors| rules(role, true, errors), ..KIND };

pub(super) static CLUSTER_ROLES: Strategy = Strategy { validate: cluster_role, ..KIND };

pub(super) static ROLE_BINDINGS: Strategy = Strategy {
    default: default_binding,
    validate: |binding, errors| validate_binding(binding, &["Role", "ClusterRole"], errors),
    validate_update: role_ref_is_immutable,
    ..KIND
};

pub(super) static CLUSTER_ROLE_BINDINGS: Strategy = Strategy {
    validate: |binding, errors| {
        validate_binding(binding, &["ClusterRole"], errors);
        let root = At::root(binding);
        for subject in root.get("subjects").items() {
            if subject.get("kind").text() == "ServiceAccount" {
                subject.get("namespace").required(errors);
            }
        }
    },
    ..ROLE_BINDINGS_TEMPLATE
};

const ROLE_BINDINGS_TEMPLATE: Strategy =
    Strategy { default: default_binding, validate_update: role_ref_is_immutable, ..KIND };

fn default_binding(binding: &mut Value) {
    within(binding, "roleRef", |reference| fill_zero(reference, "apiGroup", GROUP));
    each(binding, "subjects", |subject| {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            fill(subject, "apiGroup", GROUP);
        }
    });
}

fn cluster_role(role: &Value, errors: &mut Errors) {
    rules(role, false, errors);
    let root = At::root(role);
    let aggregation = root.get("aggregationRule");
    if aggregation.is_absent() {
        return;
    }
    let selectors = aggregation.get("clusterRoleSelectors");
    if selectors.is_empty() {
        selectors.missing(errors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.items() {
        pod_spec::label_selector(&selector, errors);
    }
}

fn rules(role: &Value, namespaced: bool, errors: &mut Errors) {
    let root = At::root(role);
    for rule in root.get("rules").items() {
        let verbs = rule.get("verbs");
        if verbs.is_empty() {
            verbs.missing(errors, "verbs must contain at least one value");
        }
        let (urls, groups, resources) = (rule.get("nonResourceURLs"), rule.get("apiGroups"), rule.get("resources"));
        if !urls.is_empty() {
            if namespaced {
                urls.invalid(errors, "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !rule.get("resourceNames").is_empty() {
                urls.invalid(errors, "rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        if groups.is_empty() {
            groups.missing(errors, "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            resources.missing(errors, "resource rules must supply at least one resource");
        }
    }
}

fn validate_binding(binding: &Value, kinds: &[&str], errors: &mut Errors) {
    let root = At::root(binding);
    let reference = root.get("roleRef");
    let group = reference.get("apiGroup");
    if group.text() != GROUP {
        group.one_of(errors, &[GROUP]);
    }
    reference.get("kind").one_of(errors, kinds);
    let name = reference.get("name");
    if name.required(errors) {
        name.all(errors, names::path_segment(name.text(), false));
    }
    for subject in root.get("subjects").items() {
        let (name, group, kind) = (subject.get("name"), subject.get("apiGroup"), subject.get("kind"));
        name.required(errors);
        match kind.text() {
            "ServiceAccount" => {
                if !name.is_empty() {
                    name.all(errors, names::subdomain(name.text()));
                }
                if !group.is_empty() {
                    group.one_of(errors, &[""]);
                }
            }
            "User" | "Group" => {
                if group.text() != GROUP {
                    group.one_of(errors, &[GROUP]);
                }
            }
            _ => kind.one_of(errors, &["ServiceAccount", "User", "Group"]),
        }
    }
}

fn role_ref_is_immutable(new: &Value, old: &Value, errors: &mut Errors) {
    if !same(&new["roleRef"], &old["roleRef"]) {
        let root = At::root(new);
        root.get("roleRef").invalid_as(errors, go::ROLE_REF.print(&new["roleRef"]), "cannot change roleRef");
    }
}
