//! The single checks, each with the reason and detail that upstream gives.

use serde_json::Value;

use super::Level;

/// A check: what is forbidden about a pod, as `reason (detail)`.
type Check = fn(metadata: &Value, spec: &Value) -> Option<String>;

/// Checks of the baseline standard by name. The restricted standard replaces the three marked ones.
const BASELINE: [(Check, bool); 10] = [
    (app_armor, false),
    (added_capabilities, true),
    (host_namespaces, false),
    (host_path_volumes, true),
    (host_ports, false),
    (privileged, false),
    (proc_mount, false),
    (se_linux, false),
    (unconfined_seccomp, true),
    (sysctls, false),
];

/// Checks of the restricted standard by name.
const RESTRICTED: [Check; 6] =
    [privilege_escalation, dropped_capabilities, volume_types, run_as_non_root, run_as_user, restricted_seccomp];

/// What a standard forbids about a pod.
pub(super) fn run(level: Level, metadata: &Value, spec: &Value) -> Vec<String> {
    let baseline =
        BASELINE.iter().filter(|(_, replaced)| level == Level::Baseline || !replaced).map(|(check, _)| check);
    let restricted = RESTRICTED.iter().filter(|_| level == Level::Restricted);
    baseline.chain(restricted).filter_map(|check| check(metadata, spec)).collect()
}

fn list<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    of[field].as_array().into_iter().flatten()
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|kind| list(spec, kind))
}

fn name(object: &Value) -> &str {
    object["name"].as_str().unwrap_or_default()
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}

/// `container "a"`, `containers "a", "b"`.
fn counted(singular: &str, names: &[&str]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{singular}{plural} {}", quoted(names))
}

/// Names of the containers for which something holds.
fn named(spec: &Value, wrong: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(spec).filter(|container| wrong(&container["securityContext"])).map(name).collect()
}

/// One reason for the pod and its containers together.
fn pod_and_containers(pod_is_wrong: bool, containers: &[&str]) -> Option<String> {
    match (pod_is_wrong, containers.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(counted("container", containers)),
        (true, false) => Some(format!("pod and {}", counted("container", containers))),
    }
}

fn app_armor(metadata: &Value, spec: &Value) -> Option<String> {
    let unconfined = |context: &Value| context["appArmorProfile"]["type"] == "Unconfined";
    let who = pod_and_containers(unconfined(&spec["securityContext"]), &named(spec, unconfined));
    let annotated = metadata["annotations"].as_object().into_iter().flatten().find(|(key, value)| {
        let profile = value.as_str().unwrap_or_default();
        key.starts_with("container.apparmor.security.beta.kubernetes.io/")
            && !(profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/"))
    });
    let detail = match (who, annotated) {
        (Some(who), _) => {
            format!("{who} must not set securityContext.appArmorProfile.type to \"Unconfined\"")
        }
        (None, Some((key, value))) => {
            format!("annotation must not set AppArmor profile type to \"{key}={}\"", value.as_str().unwrap_or_default())
        }
        (None, None) => return None,
    };
    Some(format!("forbidden AppArmor profile ({detail})"))
}

/// Capabilities that containers may add under the baseline standard.
const ADDABLE: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn capabilities_beyond<'a>(spec: &'a Value, allowed: &[&str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut who = Vec::new();
    let mut what: Vec<&str> = Vec::new();
    for container in containers(spec) {
        let added = list(&container["securityContext"]["capabilities"], "add").filter_map(Value::as_str);
        let beyond: Vec<&str> = added.filter(|capability| !allowed.contains(capability)).collect();
        if !beyond.is_empty() {
            who.push(name(container));
            what.extend(beyond);
        }
    }
    what.sort_unstable();
    what.dedup();
    (who, what)
}

fn added_capabilities(_: &Value, spec: &Value) -> Option<String> {
    let (who, what) = capabilities_beyond(spec, &ADDABLE);
    let detail = || {
        format!("{} must not include {} in securityContext.capabilities.add", counted("container", &who), quoted(&what))
    };
    (!who.is_empty()).then(|| format!("non-default capabilities ({})", detail()))
}

fn host_namespaces(_: &Value, spec: &Value) -> Option<String> {
    let used = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| spec[*field] == true);
    let used: Vec<String> = used.map(|field| format!("{field}=true")).collect();
    (!used.is_empty()).then(|| format!("host namespaces ({})", used.join(", ")))
}

fn host_path_volumes(_: &Value, spec: &Value) -> Option<String> {
    let volumes: Vec<&str> = list(spec, "volumes").filter(|volume| volume["hostPath"].is_object()).map(name).collect();
    (!volumes.is_empty()).then(|| format!("hostPath volumes ({})", counted("volume", &volumes)))
}

fn host_ports(_: &Value, spec: &Value) -> Option<String> {
    let mut who = Vec::new();
    let mut ports: Vec<u64> = Vec::new();
    for container in containers(spec) {
        let used = list(container, "ports").filter_map(|port| port["hostPort"].as_u64()).filter(|port| *port != 0);
        let used: Vec<u64> = used.collect();
        if !used.is_empty() {
            who.push(name(container));
            ports.extend(used);
        }
    }
    ports.sort_unstable();
    ports.dedup();
    let texts: Vec<String> = ports.iter().map(u64::to_string).collect();
    let (verb, plural) = (if who.len() == 1 { "uses" } else { "use" }, if ports.len() == 1 { "" } else { "s" });
    let detail = || format!("{} {verb} hostPort{plural} {}", counted("container", &who), texts.join(", "));
    (!who.is_empty()).then(|| format!("hostPort ({})", detail()))
}

fn privileged(_: &Value, spec: &Value) -> Option<String> {
    let who = named(spec, |context| context["privileged"] == true);
    let detail = || format!("{} must not set securityContext.privileged=true", counted("container", &who));
    (!who.is_empty()).then(|| format!("privileged ({})", detail()))
}

fn proc_mount(_: &Value, spec: &Value) -> Option<String> {
    let who = named(spec, |context| !matches!(context["procMount"].as_str(), None | Some("Default")));
    let mut types: Vec<&str> = containers(spec)
        .filter_map(|container| container["securityContext"]["procMount"].as_str())
        .filter(|kind| *kind != "Default")
        .collect();
    types.sort_unstable();
    types.dedup();
    let detail =
        || format!("{} must not set securityContext.procMount to {}", counted("container", &who), quoted(&types));
    (!who.is_empty()).then(|| format!("procMount ({})", detail()))
}

fn se_linux(_: &Value, spec: &Value) -> Option<String> {
    let text = |context: &Value, field: &str| context["seLinuxOptions"][field].as_str().unwrap_or_default().to_owned();
    let known = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    let contexts =
        || std::iter::once(&spec["securityContext"]).chain(containers(spec).map(|it| &it["securityContext"]));
    let mut types: Vec<String> =
        contexts().map(|context| text(context, "type")).filter(|kind| !known.contains(&kind.as_str())).collect();
    types.sort();
    types.dedup();
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let sets_user = contexts().any(|context| !text(context, "user").is_empty());
    let sets_role = contexts().any(|context| !text(context, "role").is_empty());
    let wrong = |context: &Value| {
        !known.contains(&text(context, "type").as_str())
            || !text(context, "user").is_empty()
            || !text(context, "role").is_empty()
    };
    let who = pod_and_containers(wrong(&spec["securityContext"]), &named(spec, wrong))?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("type{} {}", if types.len() == 1 { "" } else { "s" }, quoted(&types)));
    }
    what.extend(sets_user.then(|| "user may not be set".to_owned()));
    what.extend(sets_role.then(|| "role may not be set".to_owned()));
    Some(format!("seLinuxOptions ({who} set forbidden securityContext.seLinuxOptions: {})", what.join("; ")))
}

fn unconfined_seccomp(_: &Value, spec: &Value) -> Option<String> {
    let unconfined = |context: &Value| context["seccompProfile"]["type"] == "Unconfined";
    let who = pod_and_containers(unconfined(&spec["securityContext"]), &named(spec, unconfined))?;
    Some(format!("seccompProfile ({who} must not set securityContext.seccompProfile.type to \"Unconfined\")"))
}

/// Kernel parameters that only concern the pod.
const SAFE_SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];

fn sysctls(_: &Value, spec: &Value) -> Option<String> {
    let set = list(&spec["securityContext"], "sysctls").map(name);
    let forbidden: Vec<&str> = set
        .filter(|name| !SAFE_SYSCTLS.contains(name) && !["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].contains(name))
        .collect();
    (!forbidden.is_empty()).then(|| format!("forbidden sysctls ({})", forbidden.join(", ")))
}

fn privilege_escalation(_: &Value, spec: &Value) -> Option<String> {
    let who = named(spec, |context| context["allowPrivilegeEscalation"] != false);
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", counted("container", &who));
    (!who.is_empty()).then(|| format!("allowPrivilegeEscalation != false ({})", detail()))
}

fn dropped_capabilities(_: &Value, spec: &Value) -> Option<String> {
    let keeps = named(spec, |context| !list(&context["capabilities"], "drop").any(|capability| capability == "ALL"));
    let (who, what) = capabilities_beyond(spec, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeps.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", counted("container", &keeps)));
    }
    if !who.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            counted("container", &who),
            quoted(&what)
        ));
    }
    (!details.is_empty()).then(|| format!("unrestricted capabilities ({})", details.join("; ")))
}

/// Sources of volumes that the restricted standard allows.
const VOLUME_TYPES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn volume_types(_: &Value, spec: &Value) -> Option<String> {
    let mut who = Vec::new();
    let mut types: Vec<&str> = Vec::new();
    for volume in list(spec, "volumes") {
        let source = volume.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        let forbidden: Vec<&str> = source.filter(|field| *field != "name" && !VOLUME_TYPES.contains(field)).collect();
        if !forbidden.is_empty() {
            who.push(name(volume));
            types.extend(forbidden);
        }
    }
    types.sort_unstable();
    types.dedup();
    let (verb, plural) = if who.len() == 1 { ("uses", "") } else { ("use", "") };
    let detail = || format!("{} {verb} restricted volume type{plural} {}", counted("volume", &who), quoted(&types));
    (!who.is_empty()).then(|| format!("restricted volume types ({})", detail()))
}

fn run_as_non_root(_: &Value, spec: &Value) -> Option<String> {
    let pod = &spec["securityContext"]["runAsNonRoot"];
    let explicit = named(spec, |context| context["runAsNonRoot"] == false);
    let open = named(spec, |context| context["runAsNonRoot"].is_null());
    let mut details = Vec::new();
    if let Some(who) = pod_and_containers(pod == false, &explicit) {
        details.push(format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    if pod.is_null() && !open.is_empty() && details.is_empty() {
        details.push(format!("pod or {} must set securityContext.runAsNonRoot=true", counted("container", &open)));
    }
    (!details.is_empty()).then(|| format!("runAsNonRoot != true ({})", details.join("; ")))
}

fn run_as_user(_: &Value, spec: &Value) -> Option<String> {
    let root = |context: &Value| context["runAsUser"] == 0;
    let who = pod_and_containers(root(&spec["securityContext"]), &named(spec, root))?;
    Some(format!("runAsUser=0 ({who} must not set runAsUser=0)"))
}

fn restricted_seccomp(_: &Value, spec: &Value) -> Option<String> {
    let kind = |context: &Value| context["seccompProfile"]["type"].as_str().map(str::to_owned);
    let sound = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let pod = kind(&spec["securityContext"]);
    let pod_wrong = pod.as_deref().is_some_and(|kind| !sound(kind));
    let wrong = named(spec, |context| kind(context).is_some_and(|kind| !sound(&kind)));
    if let Some(who) = pod_and_containers(pod_wrong, &wrong) {
        let mut kinds: Vec<String> = std::iter::once(&spec["securityContext"])
            .chain(containers(spec).map(|container| &container["securityContext"]))
            .filter_map(kind)
            .filter(|kind| !sound(kind))
            .collect();
        kinds.sort();
        kinds.dedup();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds));
        return Some(format!("seccompProfile ({detail})"));
    }
    let open = named(spec, |context| kind(context).is_none());
    let detail = || {
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            counted("container", &open)
        )
    };
    (pod.is_none() && !open.is_empty()).then(|| format!("seccompProfile ({})", detail()))
}
