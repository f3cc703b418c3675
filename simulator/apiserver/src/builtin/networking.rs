//! Ingresses, IngressClasses, NetworkPolicies, IPAddresses.
//!
//! Source: `pkg/apis/networking/v1/defaults.go`, `pkg/apis/networking/validation/validation.go`.

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_zero, is_empty, put, within};
use super::names::{self, NameRule};
use super::{OnUpdate, Status, Strategy, pod_spec};

pub(super) static INGRESSES: Strategy = Strategy {
    generation: &["/spec"],
    validate: |ingress, errors| validate_ingress(&At::root(ingress).get("spec"), errors),
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

pub(super) static INGRESS_CLASSES: Strategy = Strategy {
    generation: &["/spec"],
    status: Status::Keep,
    default: |class| {
        within(class, "spec", |spec| {
            within(spec, "parameters", |parameters| fill_zero(parameters, "scope", "Cluster"));
        });
    },
    validate_update: |new, old, errors| {
        let root = At::root(new);
        let spec = root.get("spec");
        let controller = spec.get("controller");
        if !same(controller.value(), &old["spec"]["controller"]) {
            controller.invalid(errors, "field is immutable");
        }
    },
    ..Strategy::PLAIN
};

pub(super) static NETWORK_POLICIES: Strategy = Strategy {
    generation: &["/spec"],
    status: Status::Keep,
    default: |policy| within(policy, "spec", default_policy),
    validate: |policy, errors| validate_policy(&At::root(policy).get("spec"), errors),
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static IP_ADDRESSES: Strategy =
    Strategy { name: NameRule::IpAddress, status: Status::Keep, ..Strategy::PLAIN };

fn validate_ingress(spec: &At<'_, '_>, errors: &mut Errors) {
    let default_backend = spec.get("defaultBackend");
    let rules = spec.get("rules");
    if rules.is_empty() && default_backend.is_absent() {
        spec.invalid_as(errors, "[]", "either `defaultBackend` or `rules` must be specified");
    }
    if !default_backend.is_absent() {
        backend(&default_backend, errors);
    }
    for rule in rules.items() {
        let host = rule.get("host");
        if !host.is_empty() {
            if host.text().parse::<std::net::IpAddr>().is_ok() {
                host.invalid(errors, "must be a DNS name, not an IP address");
            } else {
                host.all(errors, names::subdomain(host.text().strip_prefix("*.").unwrap_or(host.text())));
            }
        }
        let http = rule.get("http");
        let paths = http.get("paths");
        if !http.is_absent() && paths.is_empty() {
            paths.missing(errors, "");
        }
        for path in paths.items() {
            let (kind, text) = (path.get("pathType"), path.get("path"));
            if kind.is_empty() {
                kind.missing(errors, "pathType must be specified");
            } else {
                kind.one_of(errors, &["Exact", "ImplementationSpecific", "Prefix"]);
            }
            let absolute = text.text().starts_with('/');
            if !absolute && (kind.text() != "ImplementationSpecific" || !text.is_empty()) {
                text.text_error(errors, "must be an absolute path");
            }
            backend(&path.get("backend"), errors);
        }
    }
    let class = spec.get("ingressClassName");
    if !class.is_empty() {
        class.all(errors, names::subdomain(class.text()));
    }
}

fn backend(at: &At<'_, '_>, errors: &mut Errors) {
    let (service, resource) = (at.get("service"), at.get("resource"));
    match (service.is_absent(), resource.is_absent()) {
        (false, false) => at.invalid_as(errors, "\"\"", "cannot set both resource and service backends"),
        (true, true) => at.missing(errors, "resource or service backend is required"),
        (false, true) => {
            let name = service.get("name");
            if name.required(errors) {
                name.all(errors, names::label(name.text()));
            }
            let port = service.get("port");
            let (number, text) = (port.get("number"), port.get("name"));
            if number.int() == 0 && text.is_empty() {
                port.missing(errors, "port name or number is required");
            } else if number.int() != 0 {
                number.port(errors);
            } else {
                text.all(errors, names::port_name(text.text()));
            }
        }
        (true, false) => {}
    }
}

fn default_policy(spec: &mut Value) {
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| each(rule, "ports", |port| fill(port, "protocol", "TCP")));
    }
    if is_empty(&spec["policyTypes"]) {
        let types = if is_empty(&spec["egress"]) { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        put(spec, "policyTypes", types);
    }
}

fn validate_policy(spec: &At<'_, '_>, errors: &mut Errors) {
    pod_spec::label_selector(&spec.get("podSelector"), errors);
    for direction in ["ingress", "egress"] {
        for rule in spec.get(direction).items() {
            for port in rule.get("ports").items() {
                let protocol = port.get("protocol");
                protocol.optional_one_of(errors, &["SCTP", "TCP", "UDP"]);
            }
            for peers in ["from", "to"] {
                for peer in rule.get(peers).items() {
                    pod_spec::label_selector(&peer.get("podSelector"), errors);
                    pod_spec::label_selector(&peer.get("namespaceSelector"), errors);
                }
            }
        }
    }
    let types = spec.get("policyTypes");
    for kind in types.items() {
        kind.one_of(errors, &["Egress", "Ingress"]);
    }
}
