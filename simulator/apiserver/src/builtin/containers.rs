//! What containers of a pod spec must be like.
//!
//! Source: `pkg/apis/core/validation/validation.go` (`validateContainers` and what it calls).

use std::collections::BTreeSet;

use super::at::{At, Errors};
use super::names;

/// Kinds of containers: their rules differ a little.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Role {
    Main,
    Init,
    Ephemeral,
}

/// Everything wrong with the containers of a pod spec. `volumes` are the names that mounts may use.
pub(super) fn validate(spec: &At<'_, '_>, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let main = spec.get("containers");
    if main.is_empty() {
        main.missing(errors, "");
    }
    let mut seen = BTreeSet::new();
    for (field, role) in
        [("containers", Role::Main), ("initContainers", Role::Init), ("ephemeralContainers", Role::Ephemeral)]
    {
        let list = spec.get(field);
        for container in list.items() {
            common(&container, role, volumes, errors);
            let name = container.get("name");
            if !name.is_empty() && !seen.insert(name.text()) {
                name.duplicate(errors);
            }
            match role {
                Role::Main => hooks_and_probes(&container, errors),
                Role::Init if container.get("restartPolicy").text() == "Always" => {
                    hooks_and_probes(&container, errors);
                }
                Role::Init => {
                    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                        let place = container.get(field);
                        if !place.is_absent() {
                            place.forbidden(errors, "may not be set for init containers without restartPolicy=Always");
                        }
                    }
                }
                Role::Ephemeral => {
                    let target = container.get("targetContainerName");
                    let exists =
                        |name: &str| spec.get("containers").items().any(|other| other.get("name").text() == name);
                    if !target.is_empty() && !exists(target.text()) {
                        target.not_found(errors);
                    }
                    for field in ["ports", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                        let place = container.get(field);
                        if !place.is_empty() {
                            place.forbidden(errors, "cannot be set for an Ephemeral Container");
                        }
                    }
                }
            }
        }
        if role != Role::Ephemeral {
            host_port_conflicts(&list, errors);
        }
    }
}

/// On the host's network a container port is the host's port.
pub(super) fn host_network_ports(spec: &At<'_, '_>, errors: &mut Errors) {
    if !spec.get("hostNetwork").is_true() {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let number = port.get("containerPort");
            if port.get("hostPort").int() != number.int() {
                number.invalid(errors, "must match `hostPort` when `hostNetwork` is true");
            }
        }
    }
}

/// Two containers cannot have the same port of the host.
fn host_port_conflicts(containers: &At<'_, '_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for container in containers.items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            if host.int() == 0 {
                continue;
            }
            let place = format!("{}/{}/{}", port.get("protocol").text(), port.get("hostIP").text(), host.int());
            if taken.contains(&place) {
                host.duplicate_as(errors, &serde_json::Value::from(place.as_str()).to_string());
            }
            taken.insert(place);
        }
    }
}

fn common(container: &At<'_, '_>, role: Role, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let name = container.get("name");
    if name.required(errors) {
        name.all(errors, names::label(name.text()));
    }
    let image = container.get("image");
    if image.is_empty() {
        image.missing(errors, "");
    } else if image.text().trim() != image.text() {
        image.invalid(errors, "must not have leading or trailing whitespace");
    }
    let policy = container.get("terminationMessagePolicy");
    if policy.required(errors) {
        policy.one_of(errors, &["FallbackToLogsOnError", "File"]);
    }
    ports(&container.get("ports"), errors);
    environment(&container.get("env"), errors);
    for source in container.get("envFrom").items() {
        environment_source(&source, errors);
    }
    mounts(container, volumes, errors);
    container.get("imagePullPolicy").one_of(errors, &["Always", "IfNotPresent", "Never"]);
    if role != Role::Ephemeral {
        resources(&container.get("resources"), errors);
    }
    let security = container.get("securityContext");
    if security.get("privileged").is_true() && *security.get("allowPrivilegeEscalation").value() == false {
        security.invalid(errors, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
}

fn ports(at: &At<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in at.items() {
        let name = port.get("name");
        if !name.is_empty() {
            let wrong = names::port_name(name.text());
            if wrong.is_empty() && !seen.insert(name.text()) {
                name.duplicate(errors);
            }
            name.all(errors, wrong);
        }
        let number = port.get("containerPort");
        if number.int() == 0 {
            number.missing(errors, "");
        } else {
            number.port(errors);
        }
        let host = port.get("hostPort");
        if host.int() != 0 {
            host.port(errors);
        }
        let protocol = port.get("protocol");
        if protocol.required(errors) {
            protocol.one_of(errors, &["SCTP", "TCP", "UDP"]);
        }
    }
}

fn environment(at: &At<'_, '_>, errors: &mut Errors) {
    for variable in at.items() {
        let name = variable.get("name");
        if name.required(errors) {
            name.all(errors, names::environment_name(name.text()));
        }
        let source = variable.get("valueFrom");
        if source.is_absent() {
            continue;
        }
        let mut count = 0;
        for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
            let reference = source.get(kind);
            if reference.is_absent() {
                continue;
            }
            count += 1;
            let required: &[&str] = match kind {
                "fieldRef" => &["apiVersion", "fieldPath"],
                "resourceFieldRef" => &["resource"],
                "fileKeyRef" => &["volumeName", "path", "key"],
                _ => &["name", "key"],
            };
            for field in required {
                reference.get(field).required(errors);
            }
        }
        if !variable.get("value").is_empty() {
            if count > 0 {
                source.invalid_as(errors, "\"\"", "may not be specified when `value` is not empty");
            }
        } else if count > 1 {
            source.invalid_as(errors, "\"\"", "may not have more than one field specified at a time");
        }
        if count == 0 {
            source.invalid_as(
                errors,
                "\"\"",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            );
        }
    }
}

fn environment_source(source: &At<'_, '_>, errors: &mut Errors) {
    let prefix = source.get("prefix");
    if !prefix.is_empty() {
        prefix.all(errors, names::environment_name(prefix.text()));
    }
    let (config, secret) = (source.get("configMapRef"), source.get("secretRef"));
    for reference in [&config, &secret] {
        if !reference.is_absent() {
            reference.get("name").required(errors);
        }
    }
    match (config.is_absent(), secret.is_absent()) {
        (true, true) => source.invalid_as(errors, "\"\"", "must specify one of: `configMapRef` or `secretRef`"),
        (false, false) => {
            source.invalid_as(errors, "\"\"", "may not have more than one field specified at a time");
        }
        _ => {}
    }
}

fn mounts(container: &At<'_, '_>, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let mut paths = BTreeSet::new();
    for mount in container.get("volumeMounts").items() {
        let name = mount.get("name");
        name.required(errors);
        if !volumes.contains(name.text()) {
            name.not_found(errors);
        }
        let path = mount.get("mountPath");
        path.required(errors);
        if !paths.insert(path.text()) {
            path.invalid(errors, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            let inner = mount.get(field);
            if !inner.is_empty() {
                descending_path(&inner, errors);
            }
        }
        if !mount.get("subPath").is_empty() && !mount.get("subPathExpr").is_empty() {
            mount.get("subPathExpr").invalid(errors, "subPathExpr and subPath are mutually exclusive");
        }
    }
    let mut devices = BTreeSet::new();
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        if name.required(errors) && !volumes.contains(name.text()) {
            name.not_found(errors);
        }
        if path.required(errors) {
            if !devices.insert(path.text()) {
                path.invalid(errors, "must be unique");
            }
            if has_back_steps(path.text()) {
                path.invalid(errors, "can not contain backsteps ('..')");
            }
        }
    }
}

fn has_back_steps(path: &str) -> bool {
    path.split(['/', '\\']).any(|part| part == "..")
}

/// A relative path that stays below where it starts.
pub(super) fn descending_path(at: &At<'_, '_>, errors: &mut Errors) {
    if at.text().starts_with('/') {
        at.invalid(errors, "must be a relative path");
    }
    no_back_steps(at, errors);
}

/// A path without `..`.
pub(super) fn no_back_steps(at: &At<'_, '_>, errors: &mut Errors) {
    if has_back_steps(at.text()) {
        at.invalid(errors, "must not contain '..'");
    }
}

fn resources(at: &At<'_, '_>, errors: &mut Errors) {
    let (limits, requests) = (at.get("limits"), at.get("requests"));
    for list in [&limits, &requests] {
        for (name, amount) in list.entries() {
            let named = list.key(name);
            if !name.contains('/') && !is_standard_container_resource(name) {
                named.invalid_as(
                    errors,
                    serde_json::Value::from(name).to_string(),
                    "must be a standard resource type or fully qualified",
                );
            }
            if amount.quantity().is_some_and(|quantity| quantity.is_negative()) {
                amount.invalid(errors, "must be greater than or equal to 0");
            }
        }
    }
    for (name, request) in requests.entries() {
        let limit = limits.key(name);
        match (request.quantity(), limit.quantity()) {
            (Some(asked), Some(bound)) if asked > bound => requests.invalid_as(
                errors,
                format!("\"{asked}\""),
                format!("must be less than or equal to {name} limit of {bound}"),
            ),
            (Some(asked), Some(bound)) if asked != bound && !may_overcommit(name) => {
                requests.invalid_as(
                    errors,
                    format!("\"{asked}\""),
                    format!("must be equal to {name} limit of {bound}"),
                );
            }
            _ => {}
        }
    }
}

fn is_standard_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn may_overcommit(name: &str) -> bool {
    !name.starts_with("hugepages-") && (!name.contains('/') || name.contains("kubernetes.io/"))
}

fn hooks_and_probes(container: &At<'_, '_>, errors: &mut Errors) {
    let lifecycle = container.get("lifecycle");
    for hook in ["postStart", "preStop"] {
        let handler = lifecycle.get(hook);
        if !handler.is_absent() {
            self::handler(&handler, errors);
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(field);
        if probe.is_absent() {
            continue;
        }
        handler(&probe, errors);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.get(number).non_negative(errors);
        }
        let threshold = probe.get("successThreshold");
        if field != "readinessProbe" && threshold.int() != 1 {
            threshold.int_error(errors, "must be 1");
        }
    }
}

fn handler(at: &At<'_, '_>, errors: &mut Errors) {
    let mut count = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = at.get(kind);
        if action.is_absent() {
            continue;
        }
        count += 1;
        if count > 1 {
            action.forbidden(errors, "may not specify more than 1 handler type");
            continue;
        }
        match kind {
            "exec" => {
                action.get("command").required(errors);
            }
            "httpGet" => {
                action.get("path").required(errors);
                port_number_or_name(&action.get("port"), errors);
                action.get("scheme").one_of(errors, &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => port_number_or_name(&action.get("port"), errors),
            "grpc" => action.get("port").port(errors),
            _ => {}
        }
    }
    if count == 0 {
        at.missing(errors, "must specify a handler type");
    }
}

/// An `IntOrString` that names a port.
pub(super) fn port_number_or_name(at: &At<'_, '_>, errors: &mut Errors) {
    match at.value() {
        serde_json::Value::String(name) => at.all(errors, names::port_name(name)),
        _ => at.port(errors),
    }
}
