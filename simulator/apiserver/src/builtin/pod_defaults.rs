//! What is filled into a pod and into the pod templates of workloads.
//!
//! Source: `pkg/apis/core/v1/defaults.go` (`SetDefaults_Pod`, `SetDefaults_PodSpec`,
//! `SetDefaults_Container`, …).

use serde_json::{Value, json};

use super::fill::{each, fill, fill_with, fill_zero, object_in, put, within};

/// Lists of containers in a pod spec.
pub(super) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Defaults of a pod: those of its spec, and what a template does not get.
pub(super) fn pod(pod: &mut Value) {
    within(pod, "spec", |spec| {
        fill(spec, "enableServiceLinks", true);
        for list in ["initContainers", "containers"] {
            each(spec, list, requests_from_limits);
        }
        within(spec, "resources", pod_requests_from_limits);
        if spec["hostNetwork"] == true {
            for list in ["initContainers", "containers"] {
                each(spec, list, |container| {
                    each(container, "ports", |port| {
                        let container_port = port["containerPort"].clone();
                        fill_zero(port, "hostPort", container_port);
                    });
                });
            }
        }
        pod_spec(spec);
    });
}

/// Defaults of a pod template, in the field `template` of `spec`.
pub(super) fn template(spec: &mut Value) {
    within(spec, "template", |template| within(template, "spec", pod_spec));
}

/// Defaults of a pod spec wherever it stands.
pub(super) fn pod_spec(spec: &mut Value) {
    fill_zero(spec, "dnsPolicy", "ClusterFirst");
    fill_zero(spec, "restartPolicy", "Always");
    fill_with(spec, "securityContext", || json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill_zero(spec, "schedulerName", "default-scheduler");
    // Two names of one field: the newer one wins.
    let account = match &spec["serviceAccountName"] {
        Value::String(name) if !name.is_empty() => spec["serviceAccountName"].clone(),
        _ => spec["serviceAccount"].clone(),
    };
    if account.as_str().is_some_and(|name| !name.is_empty()) {
        put(spec, "serviceAccount", account.clone());
        put(spec, "serviceAccountName", account);
    }
    for list in CONTAINER_LISTS {
        each(spec, list, container);
    }
    each(spec, "volumes", volume);
}

/// An absent request is the limit (pods only: templates are filled when pods are made of them).
fn requests_from_limits(container: &mut Value) {
    within(container, "resources", |resources| {
        let Some(limits) = resources["limits"].as_object().filter(|limits| !limits.is_empty()).cloned() else { return };
        let Some(requests) = object_in(resources, "requests") else { return };
        for (name, limit) in limits {
            fill(requests, &name, limit);
        }
    });
}

/// Pod-level requests follow pod-level limits for the resources that a pod can have as a whole.
fn pod_requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources["limits"].as_object().filter(|limits| !limits.is_empty()).cloned() else { return };
    let Some(requests) = object_in(resources, "requests") else { return };
    for (name, limit) in limits {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            fill(requests, &name, limit);
        }
    }
}

fn container(container: &mut Value) {
    let policy = if is_latest(container["image"].as_str().unwrap_or_default()) { "Always" } else { "IfNotPresent" };
    fill_zero(container, "imagePullPolicy", policy);
    fill_zero(container, "terminationMessagePath", "/dev/termination-log");
    fill_zero(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| fill_zero(port, "protocol", "TCP"));
    each(container, "env", |variable| within(variable, "valueFrom", references));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, probe, |probe| {
            for (field, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                fill_zero(probe, field, value);
            }
            within(probe, "httpGet", http_get);
            within(probe, "grpc", |grpc| fill(grpc, "service", ""));
        });
    }
    within(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            within(lifecycle, hook, |handler| within(handler, "httpGet", http_get));
        }
    });
}

fn http_get(action: &mut Value) {
    fill_zero(action, "path", "/");
    fill_zero(action, "scheme", "HTTP");
}

fn references(source: &mut Value) {
    within(source, "fieldRef", |reference| fill_zero(reference, "apiVersion", "v1"));
    within(source, "resourceFieldRef", |reference| fill(reference, "divisor", "0"));
}

/// Is the image's tag `latest`, given or implied? An image with a digest has no implied tag.
fn is_latest(image: &str) -> bool {
    if image.is_empty() || image.contains('@') {
        return image.split('@').next().is_some_and(|name| name.ends_with(":latest"));
    }
    let last_part = image.rsplit('/').next().unwrap_or(image);
    last_part.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Sources of volumes, in the order in which upstream looks for them
/// (`pkg/apis/core/validation/validation.go`, `validateVolumeSource`).
pub(super) const VOLUME_SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "scaleIO",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

/// `0644`.
const DEFAULT_MODE: i64 = 0o644;

fn volume(volume: &mut Value) {
    if VOLUME_SOURCES.iter().all(|source| volume[*source].is_null()) {
        put(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        within(volume, source, |source| fill(source, "defaultMode", DEFAULT_MODE));
    }
    let downward_items = |source: &mut Value| each(source, "items", references);
    within(volume, "downwardAPI", downward_items);
    within(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            within(source, "downwardAPI", downward_items);
            within(source, "serviceAccountToken", |token| fill(token, "expirationSeconds", 3600));
        });
    });
    within(volume, "image", |image| {
        let latest = is_latest(image["reference"].as_str().unwrap_or_default());
        fill_zero(image, "pullPolicy", if latest { "Always" } else { "IfNotPresent" });
    });
    within(volume, "ephemeral", |ephemeral| {
        within(ephemeral, "volumeClaimTemplate", |template| {
            within(template, "spec", |spec| fill(spec, "volumeMode", "Filesystem"));
        });
    });
    shared_volume_sources(volume);
}

/// Sources that pods and PersistentVolumes share.
pub(super) fn shared_volume_sources(holder: &mut Value) {
    within(holder, "hostPath", |source| fill(source, "type", ""));
    within(holder, "iscsi", |source| fill_zero(source, "iscsiInterface", "default"));
    within(holder, "rbd", |source| {
        fill_zero(source, "pool", "rbd");
        fill_zero(source, "user", "admin");
        fill_zero(source, "keyring", "/etc/ceph/keyring");
    });
    within(holder, "azureDisk", |source| {
        fill(source, "cachingMode", "ReadWrite");
        fill(source, "kind", "Shared");
        fill(source, "fsType", "ext4");
        fill(source, "readOnly", false);
    });
    within(holder, "scaleIO", |source| {
        fill_zero(source, "storageMode", "ThinProvisioned");
        fill_zero(source, "fsType", "xfs");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_implied_or_given_latest_is_always_pulled() {
        for (image, latest) in [
            ("db", true),
            ("db:latest", true),
            ("registry.example:5000/db", true),
            ("registry.example:5000/db:1", false),
            ("db@sha256:00", false),
            ("db:1", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
