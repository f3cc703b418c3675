//! Configuration, access, events, networking, nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Cells, Definition, NAME, age, count, created, items, labels, name, number, or_none, text, text_or_none,
};

/// Columns and cells.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [Definition], Cells)> {
    Some(match (group, kind) {
        ("", "ConfigMap") => (CONFIG_MAP, config_map),
        ("", "Secret") => (SECRET, secret),
        ("", "ServiceAccount") => (NAME_AND_AGE, name_and_age),
        ("networking.k8s.io", "NetworkPolicy") => (NETWORK_POLICY, network_policy),
        ("", "Namespace") => (NAMESPACE, namespace),
        ("", "Event") => (EVENT, core_event),
        ("events.k8s.io", "Event") => (EVENT, event),
        ("", "Endpoints") => (ENDPOINTS, endpoints),
        ("discovery.k8s.io", "EndpointSlice") => (ENDPOINT_SLICE, endpoint_slice),
        ("", "Service") => (SERVICE, service),
        ("networking.k8s.io", "Ingress") => (INGRESS, ingress),
        ("networking.k8s.io", "IngressClass") => (INGRESS_CLASS, ingress_class),
        ("", "Node") => (NODE, node),
        ("", "ResourceQuota") => (RESOURCE_QUOTA, resource_quota),
        ("", "LimitRange") => (LIMIT_RANGE, limit_range),
        ("coordination.k8s.io", "Lease") => (LEASE, lease),
        ("scheduling.k8s.io", "PriorityClass") => (PRIORITY_CLASS, priority_class),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (BINDING, binding),
        ("certificates.k8s.io", "CertificateSigningRequest") => (CERTIFICATE_REQUEST, certificate_request),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            (WEBHOOKS, webhooks)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => (VALIDATING_POLICY, validating_policy),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => (POLICY_BINDING, policy_binding),
        ("node.k8s.io", "RuntimeClass") => (RUNTIME_CLASS, runtime_class),
        ("apiregistration.k8s.io", "APIService") => (API_SERVICE, api_service),
        _ => return None,
    })
}

const NAME_AND_AGE: &[Definition] = &[NAME, AGE];

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), created(object, now)]
}

const CONFIG_MAP: &[Definition] = &[
    NAME,
    (
        "Data",
        "string",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.",
        0,
    ),
    AGE,
];

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), (count(&object["data"]) + count(&object["binaryData"])).into(), created(object, now)]
}

const SECRET: &[Definition] = &[
    NAME,
    (
        "Type",
        "string",
        "Used to facilitate programmatic handling of secret data. More info: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
        0,
    ),
    (
        "Data",
        "string",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
        0,
    ),
    AGE,
];

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["type"]).into(), count(&object["data"]).into(), created(object, now)]
}

const NAMESPACE: &[Definition] = &[NAME, ("Status", "string", "The status of the namespace", 0), AGE];

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["status"]["phase"]).into(), created(object, now)]
}

const EVENT: &[Definition] = &[
    ("Last Seen", "string", "The time at which the most recent occurrence of this event was recorded.", 0),
    ("Type", "string", "Type of this event (Normal, Warning), new types could be added in the future", 0),
    (
        "Reason",
        "string",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
        0,
    ),
    ("Object", "string", "The object that this event is about.", 0),
    (
        "Subobject",
        "string",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2].",
        1,
    ),
    ("Source", "string", "The component reporting this event. Should be a short machine understandable string.", 1),
    ("Message", "string", "A human-readable description of the status of this operation.", 0),
    (
        "First Seen",
        "string",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
        1,
    ),
    ("Count", "string", "The number of times this event has occurred.", 1),
    ("Name", "string", NAME.2, 1),
];

fn core_event(object: &Value, now: Timestamp) -> Vec<Value> {
    let involved = &object["involvedObject"];
    event_cells(
        object,
        involved,
        &object["source"],
        &object["message"],
        "firstTimestamp",
        "lastTimestamp",
        "count",
        now,
    )
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    event_cells(
        object,
        &object["regarding"],
        &object["deprecatedSource"],
        &object["note"],
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedCount",
        now,
    )
}

#[expect(clippy::too_many_arguments, reason = "the two versions of one kind differ in these names only")]
fn event_cells(
    object: &Value,
    about: &Value,
    source: &Value,
    message: &Value,
    first: &str,
    last: &str,
    times: &str,
    now: Timestamp,
) -> Vec<Value> {
    let since = |field: &str| object[field].is_string().then(|| age(&object[field], now));
    let first_seen = since(first).unwrap_or_else(|| age(&object["eventTime"], now));
    let mut last_seen = since(last).unwrap_or_else(|| first_seen.clone());
    let mut times = number(&object[times]).max(1);
    if object["series"].is_object() {
        last_seen = age(&object["series"]["lastObservedTime"], now);
        times = number(&object["series"]["count"]);
    }
    let kind = text(&about["kind"]).to_lowercase();
    let object_name = text(&about["name"]);
    let target = if object_name.is_empty() { kind } else { format!("{kind}/{object_name}") };
    let component =
        [source["component"].as_str(), object["reportingComponent"].as_str(), object["reportingController"].as_str()]
            .into_iter()
            .flatten()
            .find(|component| !component.is_empty())
            .unwrap_or_default();
    let from = match text(&source["host"]) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        last_seen.into(),
        text(&object["type"]).into(),
        text(&object["reason"]).into(),
        target.into(),
        text(&about["fieldPath"]).into(),
        from.into(),
        text(message).trim().into(),
        first_seen.into(),
        times.into(),
        name(object),
    ]
}

const ENDPOINTS: &[Definition] = &[
    NAME,
    (
        "Endpoints",
        "string",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
        0,
    ),
    AGE,
];

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    const SHOWN_MAX: usize = 3;
    let mut all = Vec::new();
    for subset in items(&object["subsets"]) {
        for address in items(&subset["addresses"]) {
            let ip = text(&address["ip"]);
            if count(&subset["ports"]) == 0 {
                all.push(ip.to_owned());
            }
            all.extend(items(&subset["ports"]).map(|port| host_port(ip, number(&port["port"]))));
        }
    }
    let mut shown = all.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(",");
    if all.len() > SHOWN_MAX {
        shown.push_str(&format!(" + {} more...", all.len() - SHOWN_MAX));
    }
    vec![name(object), or_none(shown), created(object, now)]
}

fn host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

const ENDPOINT_SLICE: &[Definition] = &[
    NAME,
    (
        "AddressType",
        "string",
        "addressType specifies the type of address carried by this EndpointSlice. All addresses in this slice must be the same type. This field is immutable after creation. The following address types are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 Address. * FQDN: Represents a Fully Qualified Domain Name.",
        0,
    ),
    (
        "Ports",
        "string",
        "ports specifies the list of network ports exposed by each endpoint in this slice. Each port must have a unique name. When ports is empty, it indicates that there are no defined ports. When a port is defined with a nil port value, it indicates \"all ports\". Each slice may include a maximum of 100 ports.",
        0,
    ),
    (
        "Endpoints",
        "string",
        "endpoints is a list of unique endpoints in this slice. Each slice may include a maximum of 1000 endpoints.",
        0,
    ),
    AGE,
];

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    const SHOWN_MAX: usize = 3;
    let limited = |all: &[String], unset: &str| {
        if all.is_empty() {
            return unset.to_owned();
        }
        let mut shown = all.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(",");
        if all.len() > SHOWN_MAX {
            shown.push_str(&format!(" + {} more...", all.len() - SHOWN_MAX));
        }
        shown
    };
    let ports: Vec<String> = items(&object["ports"])
        .map(|port| port["port"].as_i64().map_or_else(|| "*".to_owned(), |port| port.to_string()))
        .collect();
    let addresses: Vec<String> = items(&object["endpoints"])
        .flat_map(|endpoint| items(&endpoint["addresses"]))
        .map(|address| text(address).to_owned())
        .collect();
    vec![
        name(object),
        text(&object["addressType"]).into(),
        limited(&ports, "<unset>").into(),
        limited(&addresses, "<unset>").into(),
        created(object, now),
    ]
}

const SERVICE: &[Definition] = &[
    NAME,
    (
        "Type",
        "string",
        "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If clusterIP is \"None\", no virtual IP is allocated and the endpoints are published as a set of endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on every node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP. \"ExternalName\" aliases this service to the specified externalName. Several other fields do not apply to ExternalName services. More info: https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
        0,
    ),
    (
        "Cluster-IP",
        "string",
        "clusterIP is the IP address of the service and is usually assigned randomly. If an address is specified manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; otherwise creation of the service will fail. This field may not be changed through updates unless the type field is also being changed to ExternalName (which requires this field to be blank) or the type field is being changed from ExternalName (in which case this field may optionally be specified, as describe above).  Valid values are \"None\", empty string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no virtual IP), which is useful when direct endpoint connections are preferred and proxying is not required.  Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service of type ExternalName, creation will fail. This field will be wiped when updating a Service to type ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        0,
    ),
    (
        "External-IP",
        "string",
        "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.  These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node with this IP.  A common example is external load-balancers that are not part of the Kubernetes system.",
        0,
    ),
    (
        "Port(s)",
        "string",
        "The list of ports that are exposed by this service. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        0,
    ),
    AGE,
    (
        "Selector",
        "string",
        "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/",
        1,
    ),
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let external_ips = items(&spec["externalIPs"]).map(text).collect::<Vec<_>>().join(",");
    let external = match text(&spec["type"]) {
        "ExternalName" => or_none(text(&spec["externalName"]).to_owned()),
        "LoadBalancer" => {
            let ingress: Vec<&str> = items(&object["status"]["loadBalancer"]["ingress"])
                .map(|ingress| ingress["ip"].as_str().or(ingress["hostname"].as_str()).unwrap_or_default())
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> =
                ingress.into_iter().chain((!external_ips.is_empty()).then_some(external_ips.as_str())).collect();
            if all.is_empty() { "<pending>".into() } else { all.join(",").into() }
        }
        _ => or_none(external_ips),
    };
    let ports = items(&spec["ports"]).map(|port| {
        let (number_, protocol) = (number(&port["port"]), text(&port["protocol"]));
        match number(&port["nodePort"]) {
            0 => format!("{number_}/{protocol}"),
            node_port => format!("{number_}:{node_port}/{protocol}"),
        }
    });
    vec![
        name(object),
        text(&spec["type"]).into(),
        text_or_none(&spec["clusterIP"]),
        external,
        or_none(ports.collect::<Vec<_>>().join(",")),
        created(object, now),
        labels(&spec["selector"]),
    ]
}

const INGRESS: &[Definition] = &[
    NAME,
    ("Class", "string", "The name of the IngressClass resource that should be used for additional configuration", 0),
    ("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule", 0),
    (
        "Address",
        "string",
        "Address is a list containing ingress points for the load-balancer. Traffic intended for the service should be sent to these ingress points.",
        0,
    ),
    ("Ports", "string", "Ports of TLS configurations that open", 0),
    AGE,
];

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let hosts: Vec<&str> =
        items(&spec["rules"]).map(|rule| text(&rule["host"])).filter(|host| !host.is_empty()).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
    let addresses: Vec<&str> = items(&object["status"]["loadBalancer"]["ingress"])
        .map(|ingress| ingress["ip"].as_str().or(ingress["hostname"].as_str()).unwrap_or_default())
        .collect();
    let ports = if count(&spec["tls"]) > 0 { "80, 443" } else { "80" };
    vec![
        name(object),
        text_or_none(&spec["ingressClassName"]),
        hosts.into(),
        addresses.join(",").into(),
        ports.into(),
        created(object, now),
    ]
}

const INGRESS_CLASS: &[Definition] = &[
    NAME,
    ("Controller", "string", "Controller that is responsible for handling this class", 0),
    ("Parameters", "string", "A reference to a resource with additional parameters", 0),
    AGE,
];

fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = &object["spec"]["parameters"];
    let shown = match (parameters.is_object(), text(&parameters["apiGroup"])) {
        (false, _) => String::new(),
        (true, "") => format!("{}/{}", text(&parameters["kind"]), text(&parameters["name"])),
        (true, group) => format!("{}.{group}/{}", text(&parameters["kind"]), text(&parameters["name"])),
    };
    vec![name(object), text(&object["spec"]["controller"]).into(), or_none(shown), created(object, now)]
}

const NETWORK_POLICY: &[Definition] = &[
    NAME,
    (
        "Pod-Selector",
        "string",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
        0,
    ),
    AGE,
];

fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), super::selector(&object["spec"]["podSelector"]), created(object, now)]
}

const NODE: &[Definition] = &[
    NAME,
    ("Status", "string", "The status of the node", 0),
    ("Roles", "string", "The roles of the node", 0),
    AGE,
    ("Version", "string", "Kubelet Version reported by the node.", 0),
    (
        "Internal-IP",
        "string",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
        1,
    ),
    (
        "External-IP",
        "string",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
        1,
    ),
    ("OS-Image", "string", "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).", 1),
    ("Kernel-Version", "string", "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).", 1),
    (
        "Container-Runtime",
        "string",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
        1,
    ),
];

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
    let ready = items(&object["status"]["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            key.strip_prefix(ROLE_PREFIX)
                .filter(|role| !role.is_empty())
                .or_else(|| (key == "kubernetes.io/role").then(|| text(value)).filter(|role| !role.is_empty()))
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = items(&object["status"]["addresses"]).find(|address| address["type"] == kind);
        or_none(found.map_or(String::new(), |address| text(&address["address"]).to_owned()))
    };
    let info = &object["status"]["nodeInfo"];
    let or_unknown = |value: &Value| if text(value).is_empty() { "<unknown>".into() } else { value.clone() };
    vec![
        name(object),
        status.into(),
        or_none(roles.join(",")),
        created(object, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        or_unknown(&info["osImage"]),
        or_unknown(&info["kernelVersion"]),
        or_unknown(&info["containerRuntimeVersion"]),
    ]
}

const RESOURCE_QUOTA: &[Definition] = &[
    NAME,
    ("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume.", 0),
    (
        "Limit",
        "string",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        0,
    ),
    AGE,
];

fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object["status"]["hard"].as_object().into_iter().flatten() {
        let used = object["status"]["used"][resource].as_str().unwrap_or("0");
        let shown = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), created(object, now)]
}

const LIMIT_RANGE: &[Definition] = &[NAME, ("Created At", "date", super::AGE_DESCRIPTION, 0)];

fn limit_range(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["metadata"]["creationTimestamp"]).into()]
}

const LEASE: &[Definition] = &[
    NAME,
    (
        "Holder",
        "string",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
        0,
    ),
    AGE,
];

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["spec"]["holderIdentity"]).into(), created(object, now)]
}

const PRIORITY_CLASS: &[Definition] = &[
    NAME,
    (
        "Value",
        "integer",
        "value represents the integer value of this priority class. This is the actual priority that pods receive when they have the name of this class in their pod spec.",
        0,
    ),
    (
        "Global-Default",
        "boolean",
        "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default PriorityClasses will be used as the default priority.",
        0,
    ),
    AGE,
    (
        "PreemptionPolicy",
        "string",
        "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
        0,
    ),
];

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        number(&object["value"]).into(),
        (object["globalDefault"] == true).into(),
        created(object, now),
        object["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").into(),
    ]
}

const BINDING: &[Definition] = &[
    NAME,
    (
        "Role",
        "string",
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error. This field is immutable.",
        0,
    ),
    AGE,
    ("Users", "string", "Users in the roleBinding", 1),
    ("Groups", "string", "Groups in the roleBinding", 1),
    ("ServiceAccounts", "string", "ServiceAccounts in the roleBinding", 1),
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| {
        let subjects = items(&object["subjects"]).filter(|subject| subject["kind"] == kind).map(|subject| {
            if kind == "ServiceAccount" {
                format!("{}/{}", text(&subject["namespace"]), text(&subject["name"]))
            } else {
                text(&subject["name"]).to_owned()
            }
        });
        Value::from(subjects.collect::<Vec<_>>().join(", "))
    };
    let role = &object["roleRef"];
    vec![
        name(object),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        created(object, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

const CERTIFICATE_REQUEST: &[Definition] = &[
    NAME,
    AGE,
    (
        "SignerName",
        "string",
        "signerName indicates the requested signer, and is a qualified name. List/watch requests for CertificateSigningRequests can filter on this field using a \"spec.signerName=NAME\" fieldSelector. Well-known Kubernetes signers are: 1. \"kubernetes.io/kube-apiserver-client\": issues client certificates that can be used to authenticate to kube-apiserver. 2. \"kubernetes.io/kube-apiserver-client-kubelet\": issues client certificates that kubelets use to authenticate to kube-apiserver. 3. \"kubernetes.io/kubelet-serving\" issues serving certificates that kubelets use to serve TLS endpoints, which kube-apiserver can connect to securely. More details are available at https://k8s.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers Custom signerNames can also be specified.",
        0,
    ),
    ("Requestor", "string", "The username of the requestor", 0),
    ("RequestedDuration", "string", "The requested duration of the certificate", 0),
    ("Condition", "string", "The conditions of the request", 0),
];

fn certificate_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let has = |kind: &str| items(&object["status"]["conditions"]).any(|condition| condition["type"] == kind);
    let mut condition = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        condition.push_str(",Failed");
    }
    if !text(&object["status"]["certificate"]).is_empty() {
        condition.push_str(",Issued");
    }
    let duration = spec["expirationSeconds"].as_i64();
    vec![
        name(object),
        created(object, now),
        text_or_none(&spec["signerName"]),
        text(&spec["username"]).into(),
        duration.map_or_else(|| "<none>".into(), |seconds| super::super::human_duration(seconds).into()),
        condition.into(),
    ]
}

const WEBHOOKS: &[Definition] = &[
    NAME,
    ("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration", 0),
    AGE,
];

fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), count(&object["webhooks"]).into(), created(object, now)]
}

const VALIDATING_POLICY: &[Definition] = &[
    NAME,
    ("Validations", "integer", "Validations indicates the number of validation rules defined in this configuration", 0),
    ("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy", 0),
    AGE,
];

fn validating_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let kind = &object["spec"]["paramKind"];
    let param = if kind.is_object() {
        format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
    } else {
        "<unset>".to_owned()
    };
    vec![name(object), count(&object["spec"]["validations"]).into(), param.into(), created(object, now)]
}

const POLICY_BINDING: &[Definition] = &[
    NAME,
    ("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to", 0),
    ("ParamRef", "string", "ParamRef indicates the param resource which sets the configration param", 0),
    AGE,
];

fn policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let reference = &object["spec"]["paramRef"];
    let param = match (reference.is_object(), text(&reference["namespace"]), text(&reference["name"])) {
        (false, _, _) => "<unset>".to_owned(),
        (true, _, "") => "*".to_owned(),
        (true, "", name) => name.to_owned(),
        (true, namespace, name) => format!("{namespace}/{name}"),
    };
    vec![name(object), text(&object["spec"]["policyName"]).into(), param.into(), created(object, now)]
}

const RUNTIME_CLASS: &[Definition] = &[
    NAME,
    (
        "Handler",
        "string",
        "handler specifies the underlying runtime and configuration that the CRI implementation will use to handle pods of this class. The possible values are specific to the node & CRI configuration.  It is assumed that all handlers are available on every node, and handlers of the same name are equivalent on every node. For example, a handler called \"runc\" might specify that the runc OCI runtime (using native Linux containers) will be used to run the containers in a pod. The Handler must be lowercase, conform to the DNS Label (RFC 1123) requirements, and is immutable.",
        0,
    ),
    AGE,
];

fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["handler"]).into(), created(object, now)]
}

const API_SERVICE: &[Definition] = &[
    NAME,
    ("Service", "string", "The reference to the service that hosts this API endpoint.", 0),
    ("Available", "string", "Whether this service is available.", 0),
    AGE,
];

fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = &object["spec"]["service"];
    let hosted = if service.is_object() {
        format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
    } else {
        "Local".to_owned()
    };
    let available = items(&object["status"]["conditions"]).find(|condition| condition["type"] == "Available");
    let shown = match available {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".to_owned(),
        Some(condition) => format!("{} ({})", text(&condition["status"]), text(&condition["reason"])),
    };
    vec![name(object), hosted.into(), shown.into(), created(object, now)]
}
