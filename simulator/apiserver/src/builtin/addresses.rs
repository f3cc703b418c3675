//! Cluster IPs and node ports: what is free follows from the Services that exist, so nothing has to be
//! kept, freed or repaired.
//!
//! Sentences: `pkg/registry/core/service/ipallocator`, `.../portallocator`, `.../storage/alloc.go`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Context;
use super::fill::put;
use crate::error::{ApiError, FieldError};
use crate::resource::GroupResource;

/// Why something cannot be allocated.
pub(super) enum AllocationError {
    /// The client chose something that cannot be had.
    Refused(Box<FieldError>),
    /// Nothing is left to choose from; the name of the thing.
    Exhausted(&'static str),
}

impl AllocationError {
    /// The answer about the Service of this name.
    pub(super) fn into_api(self, name: &str) -> ApiError {
        match self {
            Self::Refused(error) => ApiError::invalid("", "Service", name, &[*error]),
            Self::Exhausted(what) => ApiError::internal(format!("failed to allocate a {what}: range is full")),
        }
    }
}

fn refused(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> AllocationError {
    AllocationError::Refused(Box::new(FieldError::invalid(field, value, detail)))
}

fn services<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    let resource = GroupResource::new("", "services");
    context.store.list(&resource, "").map(|service| &service["spec"]).collect::<Vec<_>>().into_iter()
}

/// Gives a Service its cluster IP, or takes the one it chose.
pub(super) fn cluster_ip(spec: &mut Value, context: &mut Context<'_>) -> Result<(), AllocationError> {
    let used: BTreeSet<Ipv4Addr> = services(context)
        .flat_map(|spec| spec["clusterIPs"].as_array().into_iter().flatten())
        .filter_map(|ip| ip.as_str()?.parse().ok())
        .collect();
    let base = u32::from(context.network.service_base);
    let size = 1_u64 << (32 - u32::from(context.network.service_prefix.min(30)));
    let chosen = spec["clusterIP"].as_str().unwrap_or_default();
    if !chosen.is_empty() {
        let value = spec["clusterIPs"].clone();
        let fail =
            |why: &str| Err(refused("spec.clusterIPs", &value, format!("failed to allocate IP {chosen}: {why}")));
        let Ok(ip) = chosen.parse::<Ipv4Addr>() else {
            return fail("the provided network does not match the current range");
        };
        let offset = u64::from(u32::from(ip).wrapping_sub(base));
        // The first address names the network and the last one is its broadcast address.
        if offset == 0 || offset >= size - 1 {
            return fail("the provided network does not match the current range");
        }
        return if used.contains(&ip) { fail("provided IP is already allocated") } else { Ok(()) };
    }
    // The lower band is left to those who choose their address themselves, as long as there is another.
    let band = (size / 16).clamp(16, 256);
    let upper = (size - 1).saturating_sub(band);
    let free = |offset: u64| {
        let ip = Ipv4Addr::from(base.wrapping_add(u32::try_from(offset).unwrap_or_default()));
        (!used.contains(&ip)).then_some(ip)
    };
    let start = if upper > 0 { context.draws.below("cluster-ip", upper) } else { 0 };
    let ip = (0..upper)
        .map(|step| band + (start + step) % upper)
        .chain(1..band.min(size - 1))
        .find_map(free)
        .ok_or(AllocationError::Exhausted("serviceIP"))?;
    put(spec, "clusterIP", ip.to_string().into());
    put(spec, "clusterIPs", json!([ip.to_string()]));
    Ok(())
}

fn used_ports(context: &Context<'_>, own: &Value) -> BTreeSet<(i64, String)> {
    let of = |spec: &Value| {
        let mut ports: Vec<(i64, String)> = spec["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|port| Some((port["nodePort"].as_i64()?, protocol(port))))
            .collect();
        ports.extend(spec["healthCheckNodePort"].as_i64().map(|port| (port, "TCP".to_owned())));
        ports
    };
    let mut used: BTreeSet<_> = services(context).flat_map(of).collect();
    for port in of(own) {
        used.remove(&port);
    }
    used
}

fn protocol(port: &Value) -> String {
    port["protocol"].as_str().unwrap_or("TCP").to_owned()
}

/// Gives every port of a Service its node port, or takes those that it chose. `old` is the Service as
/// it was, whose ports are its own.
pub(super) fn node_ports(spec: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), AllocationError> {
    let mut used = used_ports(context, old);
    let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
    for (index, port) in ports.iter().enumerate() {
        let Some(chosen) = port["nodePort"].as_i64().filter(|chosen| *chosen != 0) else { continue };
        check_port(&format!("spec.ports[{index}].nodePort"), chosen, &protocol(port), &used, context)?;
        used.insert((chosen, protocol(port)));
    }
    // A port that is served under several protocols gets one number for all of them.
    let mut drawn: Vec<(i64, i64)> = Vec::new();
    for port in ports.iter_mut().filter(|port| port["nodePort"].as_i64().unwrap_or_default() == 0) {
        let number = port["port"].as_i64().unwrap_or_default();
        let shared = drawn.iter().find(|(of, _)| *of == number).map(|(_, node_port)| *node_port);
        let node_port = match shared.filter(|shared| !used.contains(&(*shared, protocol(port)))) {
            Some(shared) => shared,
            None => draw_port(&used, context)?,
        };
        drawn.push((number, node_port));
        used.insert((node_port, protocol(port)));
        put(port, "nodePort", node_port.into());
    }
    Ok(())
}

/// Gives a Service its port for health checks, or takes the one it chose.
pub(super) fn health_check_port(
    spec: &mut Value,
    old: &Value,
    context: &mut Context<'_>,
) -> Result<(), AllocationError> {
    let used = used_ports(context, old);
    match spec["healthCheckNodePort"].as_i64().filter(|chosen| *chosen != 0) {
        Some(chosen) => check_port("spec.healthCheckNodePort", chosen, "TCP", &used, context),
        None => {
            let port = draw_port(&used, context)?;
            put(spec, "healthCheckNodePort", port.into());
            Ok(())
        }
    }
}

fn check_port(
    field: &str,
    chosen: i64,
    protocol: &str,
    used: &BTreeSet<(i64, String)>,
    context: &Context<'_>,
) -> Result<(), AllocationError> {
    let range = &context.network.node_ports;
    if !u16::try_from(chosen).is_ok_and(|port| range.contains(&port)) {
        let range = format!("{}-{}", range.start(), range.end());
        let why = format!("provided port is not in the valid range. The range of valid ports is {range}");
        return Err(refused(field, &chosen.into(), why));
    }
    if used.contains(&(chosen, protocol.to_owned())) {
        return Err(refused(field, &chosen.into(), "provided port is already allocated"));
    }
    Ok(())
}

fn draw_port(used: &BTreeSet<(i64, String)>, context: &mut Context<'_>) -> Result<i64, AllocationError> {
    let (first, last) = (u64::from(*context.network.node_ports.start()), u64::from(*context.network.node_ports.end()));
    let size = last + 1 - first;
    let start = context.draws.below("node-port", size);
    let free = |port: &i64| !used.iter().any(|(taken, _)| taken == port);
    (0..size)
        .map(|step| i64::try_from(first + (start + step) % size).unwrap_or_default())
        .find(free)
        .ok_or(AllocationError::Exhausted("nodePort"))
}
