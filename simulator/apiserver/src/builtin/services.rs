//! Services: defaults, cluster IPs and node ports, what may change.
//!
//! Source: `pkg/apis/core/v1/defaults.go` (`SetDefaults_Service`), `pkg/registry/core/service/storage`,
//! `pkg/apis/core/validation/validation.go` (`ValidateService`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::addresses;
use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_with, fill_zero, is_empty, put, within};
use super::names::{self, NameRule};
use super::{Context, OnUpdate, Strategy, containers, go};
use crate::error::ApiError;
use crate::object::ObjectExt;

pub(super) static SERVICES: Strategy = Strategy {
    name: NameRule::Label,
    create_on_update: true,
    default,
    prepare_for_create: |service, context| allocate(service, &Value::Null, context),
    prepare_for_update: |service, old, context| {
        if !context.subresource.is_empty() {
            return Ok(());
        }
        keep_allocated(&mut service["spec"], &old["spec"]);
        allocate(service, old, context)?;
        drop_what_the_type_lacks(&mut service["spec"], &old["spec"]);
        Ok(())
    },
    validate: |service, errors| validate(&At::root(service).get("spec"), errors),
    validate_update,
    validate_status_update,
    on_update: OnUpdate::ChangesThenWhole,
    ..Strategy::PLAIN
};

fn default(service: &mut Value) {
    within(service, "spec", |spec| {
        fill_zero(spec, "sessionAffinity", "None");
        if spec["sessionAffinity"] == "None" {
            put(spec, "sessionAffinityConfig", Value::Null);
        } else if spec["sessionAffinity"] == "ClientIP" {
            fill_with(spec, "sessionAffinityConfig", || json!({}));
            within(spec, "sessionAffinityConfig", |config| {
                fill_with(config, "clientIP", || json!({}));
                within(config, "clientIP", |client| fill(client, "timeoutSeconds", 3 * 60 * 60));
            });
        }
        fill_zero(spec, "type", "ClusterIP");
        each(spec, "ports", |port| {
            fill_zero(port, "protocol", "TCP");
            let number = port["port"].as_i64().unwrap_or_default();
            fill_zero(port, "targetPort", number);
        });
        let external = !is_empty(&spec["externalIPs"]);
        let kind = spec["type"].as_str().unwrap_or_default().to_owned();
        if has_node_ports(&kind) || (kind == "ClusterIP" && external) {
            fill_zero(spec, "externalTrafficPolicy", "Cluster");
        }
        if has_cluster_ip(&kind) {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
        }
    });
    within(service, "status", |status| {
        within(status, "loadBalancer", |balancer| {
            each(balancer, "ingress", |ingress| {
                if !is_empty(&ingress["ip"]) {
                    fill(ingress, "ipMode", "VIP");
                }
            });
        });
    });
}

fn has_cluster_ip(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn has_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

fn kind(spec: &Value) -> &str {
    spec["type"].as_str().unwrap_or_default()
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIP"] == "None"
}

/// An update that leaves allocated values out means those that are there
/// (`patchAllocatedValues`, `normalizeClusterIPs`).
fn keep_allocated(spec: &mut Value, old: &Value) {
    if has_cluster_ip(kind(old)) && has_cluster_ip(kind(spec)) {
        if is_empty(&spec["clusterIP"]) {
            put(spec, "clusterIP", old["clusterIP"].clone());
        }
        if is_empty(&spec["clusterIPs"]) && spec["clusterIP"] == old["clusterIP"] {
            put(spec, "clusterIPs", old["clusterIPs"].clone());
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            fill_with(spec, field, || old[field].clone());
        }
    }
    let chosen = spec["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty());
    let list_follows = is_empty(&spec["clusterIPs"]) || spec["clusterIPs"] == old["clusterIPs"];
    if chosen && spec["clusterIP"] != old["clusterIP"] && list_follows {
        let ip = spec["clusterIP"].clone();
        put(spec, "clusterIPs", json!([ip]));
    }
    if has_node_ports(kind(old)) && has_node_ports(kind(spec)) {
        let before: Vec<Value> = old["ports"].as_array().cloned().unwrap_or_default();
        each(spec, "ports", |port| {
            let same_port = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
            if let Some(other) = before.iter().find(same_port) {
                let node_port = other["nodePort"].clone();
                fill_zero(port, "nodePort", node_port);
            }
        });
        if needs_health_check(spec) {
            let health = old["healthCheckNodePort"].clone();
            fill_zero(spec, "healthCheckNodePort", health);
        }
    }
}

/// Fields that only the old type had go with it, unless the client changed them
/// (`dropTypeDependentFields`).
fn drop_what_the_type_lacks(spec: &mut Value, old: &Value) {
    let unchanged = |spec: &Value, field: &str| spec[field] == old[field];
    if has_cluster_ip(kind(old)) && !has_cluster_ip(kind(spec)) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if unchanged(spec, field) {
                put(spec, field, Value::Null);
            }
        }
    }
    if has_node_ports(kind(old)) && !has_node_ports(kind(spec)) {
        let before: Vec<Value> =
            old["ports"].as_array().into_iter().flatten().map(|port| port["nodePort"].clone()).collect();
        each(spec, "ports", |port| {
            if before.contains(&port["nodePort"]) {
                put(port, "nodePort", Value::Null);
            }
        });
        if is_empty(&spec["externalIPs"]) && unchanged(spec, "externalTrafficPolicy") {
            put(spec, "externalTrafficPolicy", Value::Null);
        }
    }
    if needs_health_check(old) && !needs_health_check(spec) && unchanged(spec, "healthCheckNodePort") {
        put(spec, "healthCheckNodePort", Value::Null);
    }
    if kind(old) == "LoadBalancer" && kind(spec) != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if unchanged(spec, field) {
                put(spec, field, Value::Null);
            }
        }
    }
}

fn needs_health_check(spec: &Value) -> bool {
    kind(spec) == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Fills in IP families, cluster IPs and node ports, or refuses those that were chosen.
fn allocate(service: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), ApiError> {
    let name = service.name().to_owned();
    let invalid = |errors: Errors| ApiError::invalid("", "Service", &name, &errors);
    let spec = &mut service["spec"];
    if old.is_null() && !is_empty(&spec["clusterIP"]) && is_empty(&spec["clusterIPs"]) {
        let ip = spec["clusterIP"].clone();
        put(spec, "clusterIPs", json!([ip]));
    }
    let mut errors = Errors::new();
    cluster_ip_fields(&At::named("spec", spec), &old["spec"], &mut errors);
    if !errors.is_empty() {
        return Err(invalid(errors));
    }
    if kind(spec) != "ExternalName" {
        families(spec, &mut errors);
        if !errors.is_empty() {
            return Err(invalid(errors));
        }
        if is_headless(spec) {
            put(spec, "clusterIPs", json!(["None"]));
        } else if old.is_null() || old["spec"]["clusterIP"] != spec["clusterIP"] || is_empty(&spec["clusterIP"]) {
            addresses::cluster_ip(spec, context).map_err(|error| error.into_api(&name))?;
        }
    }
    if has_node_ports(kind(spec)) && (kind(spec) != "LoadBalancer" || spec["allocateLoadBalancerNodePorts"] != false) {
        addresses::node_ports(spec, &old["spec"], context).map_err(|error| error.into_api(&name))?;
    }
    if needs_health_check(spec) {
        addresses::health_check_port(spec, &old["spec"], context).map_err(|error| error.into_api(&name))?;
    }
    Ok(())
}

/// IP families of a cluster that has IPv4 alone.
fn families(spec: &mut Value, errors: &mut Errors) {
    let selectorless_headless = is_headless(spec) && is_empty(&spec["selector"]);
    if selectorless_headless {
        // Nothing is allocated and nobody fills in endpoints: both families are taken at their word.
        if is_empty(&spec["ipFamilyPolicy"]) && is_empty(&spec["ipFamilies"]) {
            put(spec, "ipFamilyPolicy", "RequireDualStack".into());
        }
        let policy = spec["ipFamilyPolicy"].clone();
        fill_with(
            spec,
            "ipFamilies",
            || {
                if policy == "SingleStack" { json!(["IPv4"]) } else { json!(["IPv4", "IPv6"]) }
            },
        );
        fill(spec, "ipFamilyPolicy", "SingleStack");
        return;
    }
    fill_zero(spec, "ipFamilyPolicy", "SingleStack");
    let at = At::named("spec", spec);
    if at.get("ipFamilyPolicy").text() == "RequireDualStack" {
        at.get("ipFamilyPolicy").invalid(errors, "this cluster is not configured for dual-stack services");
    }
    for family in at.get("ipFamilies").items() {
        if family.text() != "IPv4" {
            family.invalid(errors, "not configured on this cluster");
        }
    }
    if errors.is_empty() && is_empty(&spec["ipFamilies"]) {
        put(spec, "ipFamilies", json!(["IPv4"]));
    }
}

/// `clusterIP` and `clusterIPs` agree with each other, with the type and with what was there.
fn cluster_ip_fields(spec: &At<'_, '_>, old: &Value, errors: &mut Errors) {
    let (ip, ips) = (spec.get("clusterIP"), spec.get("clusterIPs"));
    if spec.get("type").text() == "ExternalName" {
        let leaving = has_cluster_ip(kind(old));
        for (place, changed) in [(&ip, ip.value() != &old["clusterIP"]), (&ips, ips.value() != &old["clusterIPs"])] {
            if !place.is_empty() && (changed || !leaving) {
                place.forbidden(errors, "may not be set for ExternalName services");
            }
        }
        return;
    }
    if !ips.is_empty() {
        let first = ips.items().next().map(|first| first.text());
        if ip.is_empty() || first != Some(ip.text()) {
            ips.invalid(errors, "first value must match `clusterIP`");
        }
    }
    let several = ips.value().as_array().is_some_and(|list| list.len() > 1);
    for (index, one) in ips.items().enumerate() {
        match one.text() {
            "None" if index > 0 || several => one.invalid(errors, "'None' must be the first and only value"),
            "None" => {}
            text if text.parse::<std::net::IpAddr>().is_err() => {
                one.invalid(errors, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
            }
            _ => {}
        }
    }
    if !errors.is_empty() {
        return;
    }
    let was = old["clusterIPs"].as_array().filter(|ips| !ips.is_empty());
    if let Some(was) = was.filter(|_| has_cluster_ip(kind(old))) {
        let is = ips.items().next();
        match is {
            Some(is) if is.value() != &was[0] => {
                is.invalid_as(errors, ips.value().to_string(), "may not change once set");
            }
            _ => {}
        }
    }
}

fn validate(spec: &At<'_, '_>, errors: &mut Errors) {
    let ports = spec.get("ports");
    let headless = is_headless(spec.value());
    let kind = spec.get("type");
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        ports.missing(errors, "");
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if headless => {
            let ips = spec.get("clusterIPs");
            if let Some(first) = ips.items().next() {
                first.invalid(errors, format!("may not be set to 'None' for {} services", kind.text()));
            }
        }
        "ExternalName" => {
            let name = spec.get("externalName");
            if name.is_empty() {
                name.missing(errors, "");
            } else {
                name.all(errors, names::subdomain(name.text().trim_end_matches('.')));
            }
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    let several = ports.value().as_array().is_some_and(|list| list.len() > 1);
    for port in ports.items() {
        service_port(&port, several, &mut seen, errors);
    }
    spec.get("selector").labels(errors);
    let affinity = spec.get("sessionAffinity");
    if affinity.required(errors) {
        affinity.one_of(errors, &["ClientIP", "None"]);
    }
    if affinity.text() == "ClientIP" {
        let config = spec.get("sessionAffinityConfig");
        let client = config.get("clientIP");
        let timeout = client.get("timeoutSeconds");
        if !(1..=86_400).contains(&timeout.int()) {
            timeout.int_error(errors, "must be greater than 0 and less than 86400");
        }
    }
    cluster_ip_fields(spec, &Value::Null, errors);
    for ip in spec.get("externalIPs").items() {
        if ip.text().parse::<std::net::IpAddr>().is_err() {
            ip.invalid(errors, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }
    if kind.is_empty() {
        kind.missing(errors, "");
    } else {
        kind.one_of(errors, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    }
    if kind.text() == "ClusterIP" {
        for port in ports.items() {
            let node_port = port.get("nodePort");
            if node_port.int() != 0 {
                node_port.forbidden(errors, "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    duplicate_ports(&ports, errors);
    let traffic = spec.get("externalTrafficPolicy");
    let externally = has_node_ports(kind.text()) || (kind.text() == "ClusterIP" && !spec.get("externalIPs").is_empty());
    if !externally && !traffic.is_empty() {
        traffic.invalid(errors, "may only be set for externally-accessible services");
    } else if externally {
        traffic.one_of(errors, &["Cluster", "Local"]);
    }
    let internal = spec.get("internalTrafficPolicy");
    if kind.text() == "ExternalName" {
        return;
    }
    internal.optional_one_of(errors, &["Cluster", "Local"]);
}

fn service_port<'v>(port: &At<'v, '_>, name_needed: bool, seen: &mut BTreeSet<&'v str>, errors: &mut Errors) {
    let name = port.get("name");
    if name.is_empty() {
        if name_needed {
            name.missing(errors, "");
        }
    } else {
        name.all(errors, names::label(name.text()));
        if !seen.insert(name.text()) {
            name.duplicate(errors);
        }
    }
    port.get("port").port(errors);
    let protocol = port.get("protocol");
    if protocol.required(errors) {
        protocol.one_of(errors, &["SCTP", "TCP", "UDP"]);
    }
    let target = port.get("targetPort");
    containers::port_number_or_name(&target, errors);
    let application = port.get("appProtocol");
    if !application.is_absent() {
        application.all(errors, names::qualified_name(application.text()));
    }
}

fn duplicate_ports(ports: &At<'_, '_>, errors: &mut Errors) {
    let mut node_ports = BTreeSet::new();
    for port in ports.items() {
        let node_port = port.get("nodePort");
        if node_port.int() != 0 && !node_ports.insert((port.get("protocol").text(), node_port.int())) {
            node_port.duplicate(errors);
        }
    }
    let mut pairs = BTreeSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.get("protocol"), port.get("port"));
        if !pairs.insert((protocol.text(), number.int())) {
            let pair = json!({"protocol": protocol.value(), "port": number.value()});
            port.duplicate_as(errors, &go::SERVICE_PORT.print(&pair));
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.get("spec");
    let class = spec.get("loadBalancerClass");
    let both = kind(&old["spec"]) == "LoadBalancer" && kind(&new["spec"]) == "LoadBalancer";
    if both && !same(class.value(), &old["spec"]["loadBalancerClass"]) {
        class.invalid(errors, "may not change once set");
    }
}

fn validate_status_update(new: &Value, _old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.get("status");
    let balancer = status.get("loadBalancer");
    let ingress = balancer.get("ingress");
    if !ingress.is_empty() && kind(&new["spec"]) != "LoadBalancer" {
        ingress.forbidden(errors, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for point in ingress.items() {
        let (ip, hostname) = (point.get("ip"), point.get("hostname"));
        if !ip.is_empty() && ip.text().parse::<std::net::IpAddr>().is_err() {
            ip.invalid(errors, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
        if !hostname.is_empty() {
            hostname.all(errors, names::subdomain(hostname.text()));
        }
    }
}
