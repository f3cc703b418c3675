//! What a cluster needs to run the controller, as objects to apply.
//!
//! The webhook configuration is not among them: the controller applies it itself at each start, with its own
//! certificate authority, and until then clusters that slip by are recognised by the controller (B8).

use serde_json::{Value, json};

use crate::crds;
use crate::kinds;
use crate::names::{FIELD_MANAGER, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
use crate::reconcile::installation::{OWN_LABEL, SERVER_PORT, webhook_service};

/// Name of everything that has no name of its own: Deployment, ServiceAccount, roles, Lease.
pub const NAME: &str = FIELD_MANAGER;
/// Port of health and metrics.
pub const HEALTH_PORT: i32 = 8080;

/// Where and how the controller is to run.
#[derive(Clone, Copy, Debug)]
pub struct Install<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its image.
    pub image: &'a str,
    /// How many replicas: one works, the others stand by and serve the webhook.
    pub replicas: u32,
}

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// No namespace can be called that.
    #[error("{0:?} cannot be the name of a namespace: lower-case letters, digits and '-' only, at most 63")]
    Namespace(String),
    /// An object cannot be written as YAML.
    #[error(transparent)]
    Yaml(#[from] serde_yaml::Error),
}

impl Install<'_> {
    /// All objects, in the order in which they are best applied.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = vec![self.namespace()];
        objects.extend(crds::documents());
        objects.extend([self.service_account(), self.cluster_role(), self.cluster_role_binding()]);
        objects.extend([self.role(), self.role_binding(), webhook_service(self.namespace)]);
        objects.extend([self.deployment(), self.disruption_budget()]);
        objects
    }

    /// As YAML documents, for `kubectl apply -f -`.
    ///
    /// # Errors
    /// The namespace is no name of a namespace.
    pub fn yaml(&self) -> Result<String, ManifestError> {
        if !is_label(self.namespace) {
            return Err(ManifestError::Namespace(self.namespace.to_owned()));
        }
        let mut text = String::new();
        for object in self.objects() {
            text.push_str("---\n");
            text.push_str(&serde_yaml::to_string(&object)?);
        }
        Ok(text)
    }

    fn metadata(&self) -> Value {
        json!({"namespace": self.namespace, "name": NAME, "labels": labels()})
    }

    fn namespace(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": self.namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        })
    }

    fn service_account(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.metadata()})
    }

    /// What the controller may do everywhere: clusters and what belongs to them may be in any namespace.
    fn cluster_role(&self) -> Value {
        let read = ["get", "list", "watch"];
        let owned = ["get", "list", "watch", "create", "patch", "delete"];
        let group = crate::api::GROUP;
        let rules = [
            rule(group, &[kinds::APP.plural], &read),
            // Finalizer, annotations and labels; users make and delete them.
            rule(group, &[kinds::CLUSTER.plural, kinds::CONFIG.plural], &["get", "list", "watch", "patch"]),
            rule(group, &[&status(kinds::CLUSTER.plural), &status(kinds::CONFIG.plural)], &["patch"]),
            rule(group, &[kinds::STATUS_BACKUP.plural], &owned),
            rule("apps", &[kinds::STATEFUL_SET.plural], &owned),
            rule("", &[kinds::SERVICE.plural], &owned),
            // StatefulSets make them; owners are put right, and those of removed members deleted.
            rule("", &[kinds::CLAIM.plural], &["get", "list", "watch", "patch", "delete"]),
            rule("", &[kinds::POD.plural], &read),
            // The setup of members. Over WebSocket this is a GET; Kubernetes 1.35 and later ask for `create` too.
            rule("", &["pods/exec"], &["get", "create"]),
            // What clusters may be connected to; the watches ask for names only.
            rule("", &[kinds::CONFIG_MAP.plural, kinds::SECRET.plural], &read),
            rule("", &[kinds::EVENT.plural], &["create"]),
            rule("", &["namespaces"], &["get"]),
            rule("storage.k8s.io", &["storageclasses"], &["list"]),
            // The name of something that is still to be created cannot be restricted.
            rule("admissionregistration.k8s.io", &[kinds::MUTATING_WEBHOOKS.plural], &["create"]),
            named(
                rule("admissionregistration.k8s.io", &[kinds::MUTATING_WEBHOOKS.plural], &["get", "patch"]),
                WEBHOOK_CONFIGURATION,
            ),
        ];
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": NAME, "labels": labels()}, "rules": rules,
        })
    }

    /// What it may do in its own namespace besides: its certificate and its lease.
    fn role(&self) -> Value {
        let rules = [
            rule("", &[kinds::SECRET.plural], &["create"]),
            named(rule("", &[kinds::SECRET.plural], &["get", "update"]), WEBHOOK_SECRET),
            rule("coordination.k8s.io", &["leases"], &["create"]),
            named(rule("coordination.k8s.io", &["leases"], &["get", "update"]), NAME),
        ];
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": self.metadata(), "rules": rules,
        })
    }

    fn cluster_role_binding(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME, "labels": labels()},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": NAME}],
        })
    }

    fn role_binding(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": self.metadata(),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": NAME}],
        })
    }

    fn deployment(&self) -> Value {
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let container = json!({
            "name": "controller",
            "image": self.image,
            "args": ["run", "--log-format=json"],
            "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
            "ports": [
                {"name": "webhook", "containerPort": SERVER_PORT, "protocol": "TCP"},
                {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            ],
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "startupProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "failureThreshold": 30, "periodSeconds": 1},
            // Endpoints take a moment to forget a pod: the webhook is served until they have.
            "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
            "resources": {
                "requests": {"cpu": "20m", "memory": "32Mi"},
                "limits": {"memory": "256Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
        });
        let (key, value) = OWN_LABEL;
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": self.metadata(),
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {key: value}},
                "template": {
                    "metadata": {
                        "labels": labels(),
                        "annotations": {
                            "prometheus.io/scrape": "true",
                            "prometheus.io/port": HEALTH_PORT.to_string(),
                        },
                    },
                    "spec": {
                        "serviceAccountName": NAME,
                        "terminationGracePeriodSeconds": 30,
                        // The webhook for clusters is hard: it must not share the fate of one machine.
                        "topologySpreadConstraints": [{
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": {key: value}},
                        }],
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": 65532,
                            "runAsGroup": 65532,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "containers": [container],
                    },
                },
            },
        })
    }

    fn disruption_budget(&self) -> Value {
        let (key, value) = OWN_LABEL;
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": self.metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {key: value}}},
        })
    }
}

fn labels() -> Value {
    let (key, value) = OWN_LABEL;
    json!({key: value, "app.kubernetes.io/name": NAME})
}

fn status(plural: &str) -> String {
    format!("{plural}/status")
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn named(mut rule: Value, name: &str) -> Value {
    rule["resourceNames"] = json!([name]);
    rule
}

/// Whether this is an RFC 1123 label.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}
