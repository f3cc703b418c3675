//! What Go's types say beyond the published schemas: which fields are pointers, and which are always written.
//!
//! A field's zero value (`0`, `""`, `false`) is dropped when the API server writes an object, unless the
//! field is a pointer, or has no `omitempty`. The published schema shows the latter by a zero `default`;
//! the rest is a fact of `k8s.io/api` (`types.go` of each group) and stands here.

/// How a value is kept in memory upstream, and so what it accepts and how it is written back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Shape {
    /// Anything: kept as it is (`RawExtension`, `JSON`, `FieldsV1`).
    #[default]
    Any,
    /// An object with known fields.
    Struct,
    /// A map with values of one type.
    Map,
    /// A list.
    List,
    /// `string`.
    Text,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `float64`.
    Float,
    /// `bool`.
    Bool,
    /// `[]byte`, base64 in JSON.
    Bytes,
    /// `resource.Quantity`.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `metav1.Time`.
    Time,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `metav1.Duration`.
    Duration,
    /// A schema, or something in its place (`JSONSchemaPropsOrBool` and its like).
    SchemaOr,
}

impl Shape {
    /// The shape of a type or field, from its published schema.
    #[must_use]
    pub fn of(node: &super::Node) -> Self {
        let name = node.name.as_deref().unwrap_or_default();
        match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" => return Self::Quantity,
            "IntOrString" => return Self::IntOrString,
            "Time" => return Self::Time,
            "MicroTime" => return Self::MicroTime,
            "Duration" => return Self::Duration,
            "CustomResourceSubresourceStatus" => return Self::Struct,
            "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => {
                return Self::SchemaOr;
            }
            _ => {}
        }
        match (node.type_.as_str(), node.format.as_str()) {
            ("object", _) if node.additional.is_some() => Self::Map,
            ("object", _) if !node.properties.is_empty() => Self::Struct,
            ("array", _) => Self::List,
            ("string", "byte") => Self::Bytes,
            ("string", _) => Self::Text,
            ("integer", "int64") => Self::Int64,
            ("integer", _) => Self::Int32,
            ("number", _) => Self::Float,
            ("boolean", _) => Self::Bool,
            _ => Self::Any,
        }
    }
}

/// Is the field a pointer, so that a zero value is kept?
#[must_use]
pub fn is_pointer(type_name: &str, field: &str, shape: Shape) -> bool {
    let type_name = short(type_name);
    match shape {
        Shape::Text => TEXT_POINTERS.iter().any(|(of, fields)| *of == type_name && fields.contains(&field)),
        Shape::Int32 | Shape::Int64 | Shape::Bool => !is_plain(type_name, field),
        Shape::List | Shape::Map | Shape::Bytes => false,
        _ => true,
    }
}

/// Is the field written as `null` when it is not set?
#[must_use]
pub fn is_nil_written(type_name: &str, field: &str, shape: Shape, required: bool) -> bool {
    let type_name = short(type_name);
    match shape {
        Shape::Time | Shape::MicroTime => TIME_TYPES.contains(&type_name) || type_name.ends_with("Condition"),
        Shape::List | Shape::Map | Shape::Bytes if required => !OMITTED_WHEN_EMPTY.contains(&(type_name, field)),
        _ => WRITTEN_AS_NULL.contains(&(type_name, field)),
    }
}

/// Lists, maps and pointers without `omitempty` that are not marked as required.
const WRITTEN_AS_NULL: &[(&str, &str)] = &[
    ("ClusterRole", "rules"),
    ("Role", "rules"),
    ("HorizontalPodAutoscalerStatus", "currentMetrics"),
    ("CustomResourceDefinitionStatus", "conditions"),
    ("CustomResourceDefinitionStatus", "storedVersions"),
    ("TypedLocalObjectReference", "apiGroup"),
    ("TypedObjectReference", "apiGroup"),
    ("EndpointSlice", "ports"),
    ("EndpointSlice", "endpoints"),
    ("CSINodeDriver", "topologyKeys"),
    ("DaemonSetSpec", "selector"),
    ("DeploymentSpec", "selector"),
    ("ReplicaSetSpec", "selector"),
    ("StatefulSetSpec", "selector"),
];

/// Fields with a zero default that are left out all the same.
pub const OMITTED_AT_ZERO: &[(&str, &str)] = &[("ScaleSpec", "replicas")];

/// Required lists that are left out all the same when they are empty.
const OMITTED_WHEN_EMPTY: &[(&str, &str)] = &[
    ("ValidatingAdmissionPolicyBindingSpec", "validationActions"),
    ("PodExtendedResourceClaimStatus", "requestMappings"),
    ("NodeAllocatableResourceClaimStatus", "resources"),
];

/// Types, other than conditions, whose times are no pointers.
const TIME_TYPES: &[&str] =
    &["ContainerStateRunning", "ContainerStateTerminated", "Event", "EventSeries", "TokenRequestStatus", "VolumeError"];

/// Optional strings that are pointers.
const TEXT_POINTERS: &[(&str, &[&str])] = &[
    ("AppArmorProfile", &["localhostProfile"]),
    ("AzureDiskVolumeSource", &["cachingMode", "fsType", "kind"]),
    ("AzureFilePersistentVolumeSource", &["secretNamespace"]),
    ("CSIDriverSpec", &["fsGroupPolicy"]),
    ("CSIVolumeSource", &["fsType"]),
    ("ClusterTrustBundleProjection", &["name", "signerName"]),
    ("Container", &["restartPolicy"]),
    ("ContainerStatus", &["stopSignal"]),
    ("CronJobSpec", &["timeZone"]),
    ("CustomResourceDefinitionVersion", &["deprecationWarning"]),
    ("CustomResourceSubresourceScale", &["labelSelectorPath"]),
    ("DeleteOptions", &["propagationPolicy"]),
    ("Endpoint", &["hostname", "nodeName", "zone"]),
    ("EndpointAddress", &["nodeName"]),
    ("EndpointPort", &["name", "protocol", "appProtocol"]),
    ("EphemeralContainer", &["restartPolicy"]),
    ("HPAScalingRules", &["selectPolicy"]),
    ("HTTPIngressPath", &["pathType"]),
    ("HostPathVolumeSource", &["type"]),
    ("ISCSIPersistentVolumeSource", &["initiatorName"]),
    ("ISCSIVolumeSource", &["initiatorName"]),
    ("IngressClassParametersReference", &["apiGroup", "namespace", "scope"]),
    ("IngressPortStatus", &["error"]),
    ("IngressSpec", &["ingressClassName"]),
    ("JSONSchemaProps", &["$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"]),
    ("JobSpec", &["completionMode", "managedBy", "podReplacementPolicy"]),
    ("JobStatus", &["failedIndexes"]),
    ("LeaseSpec", &["holderIdentity", "preferredHolder", "strategy"]),
    ("Lifecycle", &["stopSignal"]),
    ("LoadBalancerIngress", &["ipMode"]),
    ("MatchResources", &["matchPolicy"]),
    ("MutatingWebhook", &["failurePolicy", "matchPolicy", "reinvocationPolicy", "sideEffects"]),
    ("NetworkPolicyPort", &["protocol"]),
    ("ParamRef", &["parameterNotFoundAction"]),
    ("PersistentVolumeClaimSpec", &["storageClassName", "volumeAttributesClassName", "volumeMode"]),
    ("PersistentVolumeClaimStatus", &["currentVolumeAttributesClassName"]),
    ("PersistentVolumeSpec", &["volumeAttributesClassName", "volumeMode"]),
    ("PodDisruptionBudgetSpec", &["unhealthyPodEvictionPolicy"]),
    ("PodFailurePolicyOnExitCodesRequirement", &["containerName"]),
    ("PodResourceClaim", &["resourceClaimName", "resourceClaimTemplateName"]),
    ("PodResourceClaimStatus", &["resourceClaimName"]),
    ("PodSecurityContext", &["fsGroupChangePolicy", "seLinuxChangePolicy", "supplementalGroupsPolicy"]),
    ("PodSpec", &["hostnameOverride", "preemptionPolicy", "runtimeClassName"]),
    ("PortStatus", &["error"]),
    ("Preconditions", &["resourceVersion", "uid"]),
    ("PriorityClass", &["preemptionPolicy"]),
    ("Rule", &["scope"]),
    ("RuleWithOperations", &["scope"]),
    ("NamedRuleWithOperations", &["scope"]),
    ("SeccompProfile", &["localhostProfile"]),
    ("SecurityContext", &["procMount"]),
    ("ServicePort", &["appProtocol"]),
    ("ServiceReference", &["path"]),
    ("ServiceSpec", &["internalTrafficPolicy", "ipFamilyPolicy", "loadBalancerClass", "trafficDistribution"]),
    ("StorageClass", &["reclaimPolicy", "volumeBindingMode"]),
    ("SuccessPolicyRule", &["succeededIndexes"]),
    ("TopologySpreadConstraint", &["nodeAffinityPolicy", "nodeTaintsPolicy"]),
    ("TypedLocalObjectReference", &["apiGroup"]),
    ("TypedObjectReference", &["apiGroup", "namespace"]),
    ("ValidatingWebhook", &["failurePolicy", "matchPolicy", "sideEffects"]),
    ("ValidatingAdmissionPolicySpec", &["failurePolicy"]),
    ("MutatingAdmissionPolicySpec", &["failurePolicy"]),
    ("Validation", &["reason"]),
    ("ValidationRule", &["reason"]),
    ("VolumeAttachmentSource", &["persistentVolumeName"]),
    ("VolumeMount", &["mountPropagation", "recursiveReadOnly"]),
    ("VolumeMountStatus", &["recursiveReadOnly"]),
    ("WebhookClientConfig", &["url"]),
    ("WindowsSecurityContextOptions", &["gmsaCredentialSpec", "gmsaCredentialSpecName", "runAsUserName"]),
];

/// Optional numbers and booleans that are no pointers, by field name; the types differ in these only
/// where [`PLAIN_NOT`] says so.
const PLAIN: &[&str] = &[
    "authenticated",
    "chapAuthDiscovery",
    "chapAuthSession",
    "clusterScope",
    "code",
    "denied",
    "deprecated",
    "deprecatedCount",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "failureThreshold",
    "generation",
    "globalDefault",
    "healthCheckNodePort",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "insecureSkipTLSVerify",
    "minReadySeconds",
    "nodePort",
    "nullable",
    "number",
    "observedGeneration",
    "paused",
    "periodSeconds",
    "preserveUnknownFields",
    "publishNotReadyAddresses",
    "readOnly",
    "retryAfterSeconds",
    "signal",
    "sizeBytes",
    "sslEnabled",
    "stdin",
    "stdinOnce",
    "successThreshold",
    "timeoutSeconds",
    "tty",
    "uniqueItems",
    "unschedulable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];

/// Fields that are plain in one type but pointers, or of another meaning, elsewhere.
const PLAIN_IN: &[(&str, &str)] = &[
    ("AWSElasticBlockStoreVolumeSource", "partition"),
    ("CustomResourceColumnDefinition", "priority"),
    ("Event", "count"),
    ("EventSeries", "count"),
    ("GCEPersistentDiskVolumeSource", "partition"),
    ("HorizontalPodAutoscalerStatus", "currentReplicas"),
];

/// Pointers that bear a name of [`PLAIN`].
const PLAIN_NOT: &[(&str, &str)] = &[
    ("CSIVolumeSource", "readOnly"),
    ("AzureDiskVolumeSource", "readOnly"),
    ("ClientIPConfig", "timeoutSeconds"),
    ("HorizontalPodAutoscalerStatus", "observedGeneration"),
    ("MutatingWebhook", "timeoutSeconds"),
    ("ValidatingWebhook", "timeoutSeconds"),
];

/// Counters of a status that are pointers; the others are plain.
const STATUS_POINTERS: &[&str] =
    &["collisionCount", "currentCPUUtilizationPercentage", "ready", "terminating", "terminatingReplicas"];

/// Statuses whose counters are plain.
const COUNTING: &[&str] = &[
    "DaemonSetStatus",
    "DeploymentStatus",
    "JobStatus",
    "ReplicaSetStatus",
    "ReplicationControllerStatus",
    "StatefulSetStatus",
];

fn is_plain(type_name: &str, field: &str) -> bool {
    if COUNTING.contains(&type_name) {
        return !STATUS_POINTERS.contains(&field);
    }
    PLAIN_IN.contains(&(type_name, field)) || PLAIN.contains(&field) && !PLAIN_NOT.contains(&(type_name, field))
}

/// `Container` of `io.k8s.api.core.v1.Container`.
#[must_use]
pub fn short(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}

/// `v1.Container` of `io.k8s.api.core.v1.Container`: how Go prints the type.
#[must_use]
pub fn printed(type_name: &str) -> &str {
    let mut dots = type_name.rmatch_indices('.');
    dots.next();
    dots.next().map_or(type_name, |(at, _)| &type_name[at + 1..])
}
