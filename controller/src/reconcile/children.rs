//! Builders of the objects a cluster consists of. Pure: from a view to a manifest.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::owners;
use super::view::View;
use crate::api::{AppSpec, KubeDirectorApp, Role, ServiceType};
use crate::guest;
use crate::kinds::{self, Kind};
use crate::names;

/// Size of a block device that names none.
const BLOCK_DEVICE_SIZE: &str = "1Gi";

type Labels = BTreeMap<String, String>;

/// A manifest of a child: its identity, labels and owner, without a spec yet. Without a name the server
/// makes one from `prefix`.
fn child(
    view: &View<'_>,
    kind: &Kind,
    name: Option<&str>,
    prefix: &str,
    labels: &Labels,
    annotations: &Labels,
) -> Value {
    let mut metadata = json!({
        "namespace": view.namespace(),
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owners::reference(view.cluster)],
    });
    match name {
        Some(name) => metadata["name"] = json!(name),
        None => metadata["generateName"] = json!(prefix),
    }
    json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
}

fn common_labels(view: &View<'_>, app: &KubeDirectorApp) -> Labels {
    [
        (names::CLUSTER, view.name()),
        (names::APP, view.cluster.spec.app.as_str()),
        (names::APP_CATALOG, view.catalog(app).as_str()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

fn pretty_name(app: &KubeDirectorApp) -> Labels {
    Labels::from([(names::APP_PRETTY_NAME.to_owned(), app.spec.label.name.clone())])
}

/// `base`, then the config's additions, then the role's; what comes first wins, so that nobody can take
/// our own labels away.
fn with_additions(base: Labels, config: Option<&Labels>, role: Option<&Labels>) -> Labels {
    let mut all = role.cloned().unwrap_or_default();
    all.extend(config.cloned().unwrap_or_default());
    all.extend(base);
    all
}

/// The headless Service, which gives members their DNS names.
pub(super) fn headless_service(view: &View<'_>, app: &KubeDirectorApp, name: Option<&str>) -> Value {
    let config = view.facts.config.as_ref();
    let labels = with_additions(common_labels(view, app), config.and_then(|c| c.service_labels.as_ref()), None);
    let annotations = with_additions(pretty_name(app), config.and_then(|c| c.service_annotations.as_ref()), None);
    let prefix = names::headless_prefix(view.name(), view.naming_scheme());
    let mut service = child(view, &kinds::SERVICE, name, &prefix, &labels, &annotations);
    service["spec"] = json!({
        "clusterIP": "None",
        "selector": {names::HEADLESS: view.name()},
        "publishNotReadyAddresses": true,
        // A Service must have a port; nothing listens on this one.
        "ports": [{"name": "port", "port": names::HEADLESS_PORT}],
    });
    service
}

/// The type of members' Services.
pub(super) fn service_type(view: &View<'_>) -> ServiceType {
    let configured = view.facts.config.as_ref().and_then(|config| config.default_service_type);
    view.cluster.spec.service_type.or(configured).unwrap_or(ServiceType::LoadBalancer)
}

/// The Service of one member.
pub(super) fn member_service(view: &View<'_>, app: &KubeDirectorApp, role: &Role, pod: &str, name: &str) -> Value {
    let config = view.facts.config.as_ref();
    let mut own = common_labels(view, app);
    own.insert(names::ROLE.to_owned(), role.id.clone());
    let labels = with_additions(own, config.and_then(|c| c.service_labels.as_ref()), role.service_labels.as_ref());
    let annotations = with_additions(
        pretty_name(app),
        config.and_then(|c| c.service_annotations.as_ref()),
        role.service_annotations.as_ref(),
    );
    let ports: Vec<Value> = ports(&app.spec, role).map(|(id, port)| json!({"name": id, "port": port})).collect();
    let mut service = child(view, &kinds::SERVICE, Some(name), "", &labels, &annotations);
    service["spec"] = json!({
        "type": service_type(view).as_str(),
        "selector": {"statefulset.kubernetes.io/pod-name": pod},
        "publishNotReadyAddresses": true,
        "ports": ports,
    });
    service
}

/// Names and numbers of a role's ports. Services that share a port share an entry.
fn ports<'a>(app: &'a AppSpec, role: &Role) -> impl Iterator<Item = (&'a str, i32)> {
    let mut seen = Vec::new();
    app.endpoints(&role.id).into_iter().filter_map(move |(service, endpoint)| {
        let first = !seen.contains(&endpoint.port);
        seen.push(endpoint.port);
        first.then_some((service.id.as_str(), endpoint.port))
    })
}

/// Labels of a role's pods. The StatefulSet selects by all of them, and its claims carry them too.
pub(super) fn pod_labels(view: &View<'_>, app: &KubeDirectorApp, role: &Role) -> Labels {
    let mut own = common_labels(view, app);
    own.insert(names::ROLE.to_owned(), role.id.clone());
    own.insert(names::HEADLESS.to_owned(), view.name().to_owned());
    let config = view.facts.config.as_ref().and_then(|config| config.pod_labels.as_ref());
    with_additions(own, config, role.pod_labels.as_ref())
}

/// The StatefulSet of a role.
pub(super) fn stateful_set(
    view: &View<'_>,
    app: &KubeDirectorApp,
    role: &Role,
    headless: &str,
    name: Option<&str>,
    replicas: usize,
) -> Value {
    let labels = pod_labels(view, app, role);
    let config = view.facts.config.as_ref().and_then(|config| config.pod_annotations.as_ref());
    let annotations = with_additions(pretty_name(app), config, role.pod_annotations.as_ref());
    let prefix = names::set_prefix(view.name(), role, view.naming_scheme());
    let mut set = child(view, &kinds::STATEFUL_SET, name, &prefix, &labels, &pretty_name(app));
    set["spec"] = json!({
        "replicas": replicas,
        "serviceName": headless,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": pod_spec(view, &app.spec, role),
        },
    });
    let templates = claim_templates(view, role);
    if !templates.is_empty() {
        set["spec"]["volumeClaimTemplates"] = Value::Array(templates);
    }
    set
}

fn pod_spec(view: &View<'_>, app: &AppSpec, role: &Role) -> Value {
    let app_role = app.role(&role.id);
    let mut mounts = Vec::new();
    let mut volumes = Vec::new();
    if role.storage.is_some() {
        let persist_dirs = app_role.map_or(&[][..], |found| app.persist_dirs(found));
        for path in persist_dirs.iter().map(String::as_str).filter(|path| *path != guest::DIR).chain([guest::DIR]) {
            let sub_path = path.trim_matches('/');
            mounts.push(json!({"name": names::CLAIM_TEMPLATE, "mountPath": path, "subPath": sub_path}));
        }
    }
    if let Some(secret) = role.secret.as_ref().or(view.cluster.spec.default_secret.as_ref()) {
        let read_only = secret.read_only.unwrap_or(false);
        mounts.push(json!({"name": "secret", "mountPath": secret.mount_path, "readOnly": read_only}));
        let mut source = json!({"secretName": secret.name});
        if let Some(mode) = secret.default_mode {
            source["defaultMode"] = json!(mode);
        }
        volumes.push(json!({"name": "secret", "secret": source}));
    }
    if let Some(size) = &role.shared_memory {
        mounts.push(json!({"name": "shared-memory", "mountPath": "/dev/shm"}));
        volumes.push(json!({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}));
    }
    let mut container = Map::new();
    container.insert("name".into(), json!(names::CONTAINER));
    container.insert("image".into(), json!(app_role.and_then(|found| app.image(found)).unwrap_or_default()));
    let mut resources = json!({"limits": role.resources.limits});
    if let Some(requests) = &role.resources.requests {
        resources["requests"] = json!(requests);
    }
    container.insert("resources".into(), resources);
    let mut optional = |key: &str, list: Vec<Value>| {
        if !list.is_empty() {
            container.insert(key.to_owned(), Value::Array(list));
        }
    };
    optional("ports", ports(app, role).map(|(id, port)| json!({"name": id, "containerPort": port})).collect());
    optional("env", role.env.iter().map(|var| json!({"name": var.name, "value": var.value})).collect());
    optional("volumeMounts", mounts);
    optional(
        "volumeDevices",
        block_devices(role).map(|(name, path)| json!({"name": name, "devicePath": path})).collect(),
    );
    if !app.capabilities.is_empty() {
        container.insert("securityContext".into(), json!({"capabilities": {"add": app.capabilities}}));
    }
    if let Some(terminal) = app_role.and_then(|found| found.container_spec.as_ref()) {
        container.insert("stdin".into(), json!(terminal.stdin.unwrap_or(false)));
        container.insert("tty".into(), json!(terminal.tty.unwrap_or(false)));
    }
    let mut spec = json!({"containers": [container]});
    if !volumes.is_empty() {
        spec["volumes"] = Value::Array(volumes);
    }
    if let Some(account) = &role.service_account_name {
        spec["serviceAccountName"] = json!(account);
    }
    if let Some(affinity) = &role.affinity {
        spec["affinity"] = affinity.0.clone();
    }
    spec
}

/// Template names and device paths of a role's block devices.
pub(super) fn block_devices(role: &Role) -> impl Iterator<Item = (String, String)> {
    role.block_storage.iter().flat_map(|storage| {
        (0..storage.num_devices)
            .map(|device| (names::block_template(device), format!("{}{device}", storage.path_prefix)))
    })
}

/// Claims are made from these by the StatefulSet loop, with everything in them. An owner reference here would
/// name this life of the cluster for ever: the field cannot be changed, and after a restore each new claim
/// would be collected at once. The claim webhook and reconciliation give claims their owner instead.
fn claim_templates(view: &View<'_>, role: &Role) -> Vec<Value> {
    let mut templates = Vec::new();
    if let Some(storage) = &role.storage {
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage.size}},
        });
        if let Some(class) = &storage.storage_class_name {
            spec["storageClassName"] = json!(class);
        }
        templates.push(json!({"metadata": {"name": names::CLAIM_TEMPLATE}, "spec": spec}));
    }
    if let Some(storage) = &role.block_storage {
        templates.extend(block_devices(role).map(|(name, _)| {
            json!({"metadata": {"name": name}, "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "storageClassName": storage.storage_class_name,
                "resources": {"requests": {"storage": storage.size.as_deref().unwrap_or(BLOCK_DEVICE_SIZE)}},
            }})
        }));
    }
    if !view.safeguards().clean_claim_template {
        for template in &mut templates {
            template["metadata"]["ownerReferences"] = json!([owners::reference(view.cluster)]);
        }
    }
    templates
}
