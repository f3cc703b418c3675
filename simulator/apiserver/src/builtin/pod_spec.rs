//! What a pod spec must be like, in a pod or in the template of a workload.
//!
//! Source of rules, order and sentences: `pkg/apis/core/validation/validation.go`
//! (`ValidatePodSpec`). Containers stand in [`super::containers`], volumes in
//! [`super::volume_sources`].

use std::collections::BTreeSet;

use super::at::{At, Errors};
use super::containers;
use super::metadata;
use super::names;
use super::volume_sources;

/// Everything wrong with a pod template at `at` (`spec.template`).
pub(super) fn template(at: &At<'_, '_>, errors: &mut Errors) {
    let labels = at.get("metadata");
    labels.get("labels").labels(errors);
    let annotations = labels.get("annotations");
    metadata::annotations(&annotations.path(), annotations.value(), errors);
    spec(&at.get("spec"), &[], errors);
}

/// Everything wrong with a pod spec. `claims` are names of claim templates, which mounts may use like
/// volumes.
pub(super) fn spec(at: &At<'_, '_>, claims: &[&str], errors: &mut Errors) {
    let mut volumes = volume_sources::pod_volumes(&at.get("volumes"), errors);
    volumes.extend(claims);
    containers::validate(at, &volumes, errors);
    containers::host_network_ports(at, errors);
    at.get("restartPolicy").one_of(errors, &["Always", "OnFailure", "Never"]);
    at.get("dnsPolicy").one_of(errors, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    dns_config(at, errors);
    at.get("nodeSelector").labels(errors);
    image_pull_secrets(&at.get("imagePullSecrets"), errors);
    affinity(&at.get("affinity"), errors);
    scheduling_gates(&at.get("schedulingGates"), errors);
    spread_constraints(&at.get("topologySpreadConstraints"), errors);
    let checked = |field: &'static str, check: fn(&str) -> Vec<String>, errors: &mut Errors| {
        let place = at.get(field);
        if !place.is_empty() {
            place.all(errors, check(place.text()));
        }
    };
    checked("serviceAccountName", names::subdomain, errors);
    checked("nodeName", names::subdomain, errors);
    let deadline = at.get("activeDeadlineSeconds");
    if !deadline.is_absent() && !(1..=i64::from(i32::MAX)).contains(&deadline.int()) {
        deadline.invalid(errors, format!("must be between 1 and {}, inclusive", i32::MAX));
    }
    checked("hostname", names::label, errors);
    checked("subdomain", names::label, errors);
    tolerations(&at.get("tolerations"), errors);
    checked("priorityClassName", names::subdomain, errors);
    checked("runtimeClassName", names::subdomain, errors);
    at.get("preemptionPolicy").optional_one_of(errors, &["Never", "PreemptLowerPriority"]);
}

/// Name servers of a pod, at most.
const NAMESERVERS_MAX: usize = 3;

fn dns_config(spec: &At<'_, '_>, errors: &mut Errors) {
    let config = spec.get("dnsConfig");
    let nameservers = config.get("nameservers");
    if spec.get("dnsPolicy").text() == "None" {
        if config.is_absent() {
            config.missing(errors, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if nameservers.is_empty() {
            nameservers.missing(errors, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if nameservers.items().count() > NAMESERVERS_MAX {
        nameservers.invalid(errors, format!("must not have more than {NAMESERVERS_MAX} nameservers"));
    }
    for server in nameservers.items() {
        if server.text().parse::<std::net::IpAddr>().is_err() {
            server.invalid(errors, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }
}

fn image_pull_secrets(at: &At<'_, '_>, errors: &mut Errors) {
    for secret in at.items() {
        secret.get("name").required(errors);
    }
}

fn scheduling_gates(at: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for gate in at.items() {
        let name = gate.get("name");
        name.all(errors, names::qualified_name(name.text()));
        if !seen.insert(name.text()) {
            gate.duplicate(errors);
        }
    }
}

fn spread_constraints(at: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for constraint in at.items() {
        let skew = constraint.get("maxSkew");
        if skew.int() <= 0 {
            skew.int_error(errors, "must be greater than zero");
        }
        let key = constraint.get("topologyKey");
        if key.is_empty() {
            key.missing(errors, "can not be empty");
        }
        let policy = constraint.get("whenUnsatisfiable");
        policy.one_of(errors, &["DoNotSchedule", "ScheduleAnyway"]);
        if !seen.insert((key.text(), policy.text())) {
            let pair = format!("{{{}, {}}}", key.text(), policy.text());
            constraint.under("{topologyKey, whenUnsatisfiable}", &serde_json::Value::Null).duplicate_as(errors, &pair);
        }
        label_selector(&constraint.get("labelSelector"), errors);
    }
}

/// Everything wrong with a `metav1.LabelSelector`; an absent one is fine.
pub(super) fn label_selector(at: &At<'_, '_>, errors: &mut Errors) {
    at.get("matchLabels").labels(errors);
    let expressions = at.get("matchExpressions");
    for expression in expressions.items() {
        let (operator, values) = (expression.get("operator"), expression.get("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                values.missing(errors, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.forbidden(errors, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => operator.text_error(errors, "not a valid selector operator"),
        }
        let key = expression.get("key");
        key.all(errors, names::qualified_name(key.text()));
        for value in values.items() {
            value.all(errors, names::label_value(value.text()));
        }
    }
}

/// Everything wrong with a `NodeSelector`'s terms.
pub(super) fn node_selector(at: &At<'_, '_>, errors: &mut Errors) {
    let terms = at.get("nodeSelectorTerms");
    if terms.is_empty() {
        terms.missing(errors, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(&term, errors);
    }
}

fn node_selector_term(at: &At<'_, '_>, errors: &mut Errors) {
    for expression in at.get("matchExpressions").items() {
        let (operator, values) = (expression.get("operator"), expression.get("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                values.missing(errors, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.forbidden(errors, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.items().count() != 1 => {
                values.missing(errors, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => operator.text_error(errors, "not a valid selector operator"),
        }
        let key = expression.get("key");
        key.all(errors, names::qualified_name(key.text()));
    }
}

fn affinity(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_absent() {
        return;
    }
    let node = at.get("nodeAffinity");
    let required = node.get("requiredDuringSchedulingIgnoredDuringExecution");
    if !required.is_absent() {
        node_selector(&required, errors);
    }
    for preferred in node.get("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&preferred.get("weight"), errors);
        node_selector_term(&preferred.get("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = at.get(kind);
        for term in pods.get("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_affinity_term(&term, errors);
        }
        for preferred in pods.get("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(&preferred.get("weight"), errors);
            pod_affinity_term(&preferred.get("podAffinityTerm"), errors);
        }
    }
}

fn weight(at: &At<'_, '_>, errors: &mut Errors) {
    if !(1..=100).contains(&at.int()) {
        at.int_error(errors, "must be in the range 1-100");
    }
}

fn pod_affinity_term(at: &At<'_, '_>, errors: &mut Errors) {
    label_selector(&at.get("labelSelector"), errors);
    label_selector(&at.get("namespaceSelector"), errors);
    let key = at.get("topologyKey");
    if key.is_empty() {
        key.missing(errors, "can not be empty");
    }
    key.all(errors, names::qualified_name(key.text()));
}

fn tolerations(at: &At<'_, '_>, errors: &mut Errors) {
    for toleration in at.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if !key.is_empty() {
            key.all(errors, names::qualified_name(key.text()));
        } else if operator.text() != "Exists" {
            operator.text_error(
                errors,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if !toleration.get("tolerationSeconds").is_absent() && effect.text() != "NoExecute" {
            effect.text_error(errors, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.text() {
            "Equal" | "" => operator.all(errors, names::label_value(value.text())),
            "Exists" if !value.is_empty() => {
                operator.invalid_as(
                    errors,
                    value.value().to_string(),
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            _ => operator.one_of(errors, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(&effect, errors);
        }
    }
}

/// The effect of a taint or toleration.
pub(super) fn taint_effect(at: &At<'_, '_>, errors: &mut Errors) {
    at.one_of(errors, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}
