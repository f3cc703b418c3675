//! Where volumes come from: the sources of pod volumes and of PersistentVolumes.
//!
//! Source: `pkg/apis/core/validation/validation.go` (`ValidateVolumes`, `validateVolumeSource`,
//! `ValidatePersistentVolumeSpec`).

use std::collections::BTreeSet;

use super::at::{At, Errors};
use super::containers::{descending_path, no_back_steps};
use super::names;
use super::pod_defaults::VOLUME_SOURCES;

/// Everything wrong with the volumes of a pod; answers the names that mounts may use.
pub(super) fn pod_volumes<'v>(at: &At<'v, '_>, errors: &mut Errors) -> BTreeSet<&'v str> {
    let mut seen = BTreeSet::new();
    for volume in at.items() {
        let before = errors.len();
        one_source(&volume, &VOLUME_SOURCES, errors);
        // Upstream reports a volume's name before its source.
        let of_source = errors.split_off(before);
        let name = volume.get("name");
        if name.required(errors) {
            name.all(errors, names::label(name.text()));
        }
        if !name.is_empty() && seen.contains(name.text()) {
            name.duplicate(errors);
        }
        if errors.len() == before && of_source.is_empty() {
            seen.insert(name.text());
        }
        errors.extend(of_source);
    }
    seen
}

/// Exactly one source, and that one in order. `sources` is upstream's order.
pub(super) fn one_source(at: &At<'_, '_>, sources: &[&'static str], errors: &mut Errors) -> bool {
    let mut found = false;
    for kind in sources {
        let source = at.get(kind);
        if source.is_absent() {
            continue;
        }
        if found {
            source.forbidden(errors, "may not specify more than 1 volume type");
        } else {
            self::source(kind, &source, errors);
        }
        found = true;
    }
    if !found {
        at.missing(errors, "must specify a volume type");
    }
    found
}

/// Fields that a source must have; sources not listed have none or rules of their own.
const REQUIRED: [(&str, &[&str]); 14] = [
    ("secret", &["secretName"]),
    ("configMap", &["name"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("azureDisk", &["diskName", "diskURI"]),
];

fn source(kind: &str, at: &At<'_, '_>, errors: &mut Errors) {
    if let Some((_, fields)) = REQUIRED.iter().find(|(name, _)| *name == kind) {
        for field in *fields {
            at.get(field).required(errors);
        }
    }
    match kind {
        "hostPath" => {
            let path = at.get("path");
            if path.required(errors) {
                no_back_steps(&path, errors);
            }
            let kinds =
                ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
            let type_ = at.get("type");
            if !type_.is_absent() && !kinds.contains(&type_.text()) {
                type_.one_of(errors, &kinds[1..]);
            }
        }
        "nfs" if !at.get("path").text().starts_with('/') && !at.get("path").is_empty() => {
            at.get("path").invalid(errors, "must be an absolute path");
        }
        "local" => {
            let path = at.get("path");
            if path.required(errors) {
                no_back_steps(&path, errors);
            }
        }
        "csi" => csi(at, errors),
        "secret" | "configMap" | "downwardAPI" => {
            mode(&at.get("defaultMode"), errors);
            items(kind, at, errors);
        }
        "projected" => {
            mode(&at.get("defaultMode"), errors);
            projected(at, errors);
        }
        _ => {}
    }
}

fn csi(at: &At<'_, '_>, errors: &mut Errors) {
    let driver = at.get("driver");
    if driver.is_empty() {
        driver.missing(errors, "");
    } else {
        driver.all(errors, names::subdomain(&driver.text().to_lowercase()));
    }
}

/// A CSI source of a PersistentVolume also has a handle.
pub(super) fn persistent_csi(at: &At<'_, '_>, errors: &mut Errors) {
    at.get("volumeHandle").required(errors);
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
        "nodeStageSecretRef",
    ] {
        let reference = at.get(field);
        if !reference.is_absent() {
            reference.get("name").required(errors);
            reference.get("namespace").required(errors);
        }
    }
}

fn mode(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.is_absent() && !(0..=0o777).contains(&at.int()) {
        at.invalid(errors, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn items(kind: &str, at: &At<'_, '_>, errors: &mut Errors) {
    for item in at.get("items").items() {
        if kind == "downwardAPI" {
            let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
            if !field.is_absent() {
                field.get("fieldPath").required(errors);
                if !resource.is_absent() {
                    item.invalid_as(
                        errors,
                        "\"resource\"",
                        "fieldRef and resourceFieldRef can not be specified simultaneously",
                    );
                }
            } else if resource.is_absent() {
                item.missing(errors, "one of fieldRef and resourceFieldRef is required");
            }
        } else {
            item.get("key").required(errors);
        }
        let path = item.get("path");
        if path.required(errors) {
            descending_path(&path, errors);
        }
        mode(&item.get("mode"), errors);
    }
}

fn projected(at: &At<'_, '_>, errors: &mut Errors) {
    let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    for projection in at.get("sources").items() {
        let mut found = false;
        for kind in kinds {
            let source = projection.get(kind);
            if source.is_absent() {
                continue;
            }
            if found {
                source.forbidden(errors, "may not specify more than 1 volume type");
                continue;
            }
            found = true;
            match kind {
                "secret" | "configMap" => {
                    source.get("name").required(errors);
                    items(kind, &source, errors);
                }
                "downwardAPI" => items(kind, &source, errors),
                "serviceAccountToken" => {
                    let (path, seconds) = (source.get("path"), source.get("expirationSeconds"));
                    if seconds.int() < 10 * 60 {
                        seconds.int_error(errors, "may not specify a duration less than 10 minutes");
                    }
                    if seconds.int() > 1 << 32 {
                        seconds.int_error(errors, "may not specify a duration larger than 2^32 seconds");
                    }
                    if path.required(errors) {
                        descending_path(&path, errors);
                    }
                }
                _ => {}
            }
        }
        if !found {
            projection.missing(errors, "must specify a volume type");
        }
    }
}
