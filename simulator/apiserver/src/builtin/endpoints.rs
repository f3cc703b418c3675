//! Endpoints and EndpointSlices.
//!
//! Source: `pkg/apis/core/v1/defaults.go`, `pkg/apis/discovery/v1/defaults.go`,
//! `pkg/registry/discovery/endpointslice/strategy.go`.

use serde_json::Value;

use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_zero};
use super::names;
use super::{OnUpdate, Status, Strategy};

pub(super) static ENDPOINTS: Strategy = Strategy {
    create_on_update: true,
    status: Status::Keep,
    default: |endpoints| {
        each(endpoints, "subsets", |subset| each(subset, "ports", |port| fill_zero(port, "protocol", "TCP")));
    },
    validate: validate_endpoints,
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static ENDPOINT_SLICES: Strategy = Strategy {
    generation: &["/metadata/labels", "/addressType", "/endpoints", "/ports"],
    status: Status::Keep,
    default: |slice| {
        each(slice, "ports", |port| {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        });
    },
    validate: validate_slice,
    validate_update: |new, old, errors| {
        let root = At::root(new);
        let kind = root.get("addressType");
        if !same(kind.value(), &old["addressType"]) {
            kind.invalid(errors, "field is immutable");
        }
    },
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

const BAD_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

fn validate_endpoints(endpoints: &Value, errors: &mut Errors) {
    let root = At::root(endpoints);
    for subset in root.get("subsets").items() {
        let (ready, not_ready) = (subset.get("addresses"), subset.get("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            subset.missing(errors, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in ready.items().chain(not_ready.items()) {
            let (ip, hostname) = (address.get("ip"), address.get("hostname"));
            if ip.text().parse::<std::net::IpAddr>().is_err() {
                ip.text_error(errors, BAD_ADDRESS);
            }
            if !hostname.is_empty() {
                hostname.all(errors, names::label(hostname.text()));
            }
            let node = address.get("nodeName");
            if !node.is_absent() {
                node.all(errors, names::subdomain(node.text()));
            }
        }
        let ports = subset.get("ports");
        let several = ports.items().count() > 1;
        for port in ports.items() {
            let name = port.get("name");
            if name.is_empty() && several {
                name.missing(errors, "");
            } else if !name.is_empty() {
                name.all(errors, names::label(name.text()));
            }
            port.get("port").port(errors);
            let protocol = port.get("protocol");
            if protocol.required(errors) {
                protocol.one_of(errors, &["SCTP", "TCP", "UDP"]);
            }
        }
    }
}

/// Addresses of one endpoint, endpoints and ports of one slice.
const ADDRESSES_MAX: usize = 100;

fn validate_slice(slice: &Value, errors: &mut Errors) {
    let root = At::root(slice);
    let kind = root.get("addressType");
    if kind.is_empty() {
        kind.missing(errors, "");
    } else {
        kind.one_of(errors, &["FQDN", "IPv4", "IPv6"]);
    }
    for endpoint in root.get("endpoints").items() {
        let addresses = endpoint.get("addresses");
        let count = addresses.items().count();
        if count == 0 {
            addresses.missing(errors, "must contain at least 1 address");
        } else if count > ADDRESSES_MAX {
            errors.push(crate::error::FieldError {
                field: addresses.path(),
                kind: crate::error::FieldErrorKind::TooMany,
                value: count.to_string(),
                detail: format!("must have at most {ADDRESSES_MAX} items"),
            });
        }
        for address in addresses.items() {
            match kind.text() {
                "IPv4" if address.text().parse::<std::net::Ipv4Addr>().is_err() => {
                    address.invalid(errors, "must be an IPv4 address");
                }
                "IPv6" if address.text().parse::<std::net::Ipv6Addr>().is_err() => {
                    address.invalid(errors, "must be an IPv6 address");
                }
                "FQDN" => address.all(errors, names::subdomain(address.text())),
                _ => {}
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for port in root.get("ports").items() {
        let name = port.get("name");
        if !name.is_empty() {
            name.all(errors, names::label(name.text()));
        }
        if !seen.insert(name.text()) {
            name.duplicate(errors);
        }
        port.get("protocol").optional_one_of(errors, &["SCTP", "TCP", "UDP"]);
    }
}
