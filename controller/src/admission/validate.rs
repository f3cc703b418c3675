//! Validation and defaults of a cluster's spec: all complaints at once, with field paths. What runs again when
//! the label `restoring` is removed is only what reconciliation relies on: no service of the outside world can
//! keep a restore from ending.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::{Patch, PatchOperation};
use kube::ResourceExt;
use serde_json::json;

use super::facts::Facts;
use crate::api::{Catalog, ClusterSpec, KubeDirectorApp, KubeDirectorCluster, NamingScheme, Role, ServiceType};
use crate::names::MEMBERS_MAX;
use crate::reconcile::status::add;

/// Longest name part of a label or annotation key, and longest label value.
pub(super) const LABEL_MAX: usize = 63;
/// Longest prefix of a label or annotation key.
const PREFIX_MAX: usize = 253;

/// A spec with everything filled in that its user left out, and the patch that does it.
pub(super) struct Defaulted {
    pub(super) spec: ClusterSpec,
    pub(super) patch: Patch,
}

/// Fills in what the user left out.
pub(super) fn with_defaults(new: &KubeDirectorCluster, app: &KubeDirectorApp, facts: &Facts) -> Defaulted {
    let mut spec = new.spec.clone();
    let mut patch: Vec<PatchOperation> = Vec::new();
    let config = facts.config.as_ref();
    if spec.app_catalog.is_none() {
        let catalog = if app.namespace() == new.namespace() { Catalog::Local } else { Catalog::System };
        patch.push(add(["spec", "appCatalog"], json!(catalog)));
        spec.app_catalog = Some(catalog);
    }
    if spec.service_type.is_none() {
        let kind = config.and_then(|config| config.default_service_type).unwrap_or(ServiceType::LoadBalancer);
        patch.push(add(["spec", "serviceType"], json!(kind)));
        spec.service_type = Some(kind);
    }
    if spec.naming_scheme.is_none() {
        let scheme = config.and_then(|config| config.default_naming_scheme).unwrap_or(NamingScheme::Uid);
        patch.push(add(["spec", "namingScheme"], json!(scheme)));
        spec.naming_scheme = Some(scheme);
    }
    let class = default_class(facts);
    let secret = spec.default_secret.clone();
    for (index, role) in spec.roles.iter_mut().enumerate() {
        let index = index.to_string();
        if role.members.is_none()
            && let Some(known) = app.spec.role(&role.id)
        {
            role.members = Some(known.members().0);
            patch.push(add(["spec", "roles", &index, "members"], json!(role.members)));
        }
        if role.secret.is_none()
            && let Some(secret) = &secret
        {
            role.secret = Some(secret.clone());
            patch.push(add(["spec", "roles", &index, "secret"], json!(secret)));
        }
        if let Some(storage) = role.storage.as_mut().filter(|storage| storage.storage_class_name.is_none())
            && let Some(class) = &class
        {
            storage.storage_class_name = Some(class.clone());
            patch.push(add(["spec", "roles", &index, "storage", "storageClassName"], json!(class)));
        }
    }
    Defaulted { spec, patch: Patch(patch) }
}

/// The config's StorageClass, else the platform's default.
fn default_class(facts: &Facts) -> Option<String> {
    let configured = facts.config.as_ref().and_then(|config| config.default_storage_class_name.clone());
    configured.or_else(|| facts.storage_classes.iter().find(|(_, default)| **default).map(|(name, _)| name.clone()))
}

/// Everything that is wrong with a spec.
pub(super) fn complaints(spec: &ClusterSpec, app: &KubeDirectorApp, facts: &Facts) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for role in &spec.roles {
        let at = format!("spec.roles[{}]", role.id);
        if !seen.insert(role.id.as_str()) {
            complaints.push(format!("{at}: the role is listed twice"));
        }
        cardinality(&at, role, app, &mut complaints);
        labels(&at, role, &mut complaints);
        storage(&at, role, facts, &mut complaints);
        if let Some(secret) = &role.secret {
            mounted_secret(&format!("{at}.secret"), &secret.name, facts, &mut complaints);
        }
    }
    if let Some(secret) = &spec.default_secret {
        mounted_secret("spec.defaultSecret", &secret.name, facts, &mut complaints);
    }
    for role in app.spec.roles.iter().filter(|role| app.spec.config.selected_roles.contains(&role.id)) {
        if role.members().0 > 0 && !seen.contains(role.id.as_str()) {
            complaints
                .push(format!("spec.roles: role {} is missing, of which the app needs {}", role.id, role.cardinality));
        }
    }
    let total = spec.roles.iter().filter_map(|role| role.members).fold(0i64, i64::saturating_add);
    if usize::try_from(total).is_ok_and(|total| total > MEMBERS_MAX) {
        complaints.push(format!("spec.roles: {total} members are more than {MEMBERS_MAX}"));
    }
    complaints
}

fn cardinality(at: &str, role: &Role, app: &KubeDirectorApp, complaints: &mut Vec<String>) {
    let Some(known) = app.spec.role(&role.id) else {
        let ids: Vec<&str> = app.spec.roles.iter().map(|role| role.id.as_str()).collect();
        return complaints.push(format!("{at}: the app has no such role, only {}", ids.join(", ")));
    };
    let (least, open) = known.members();
    let asked = role.members.unwrap_or(least);
    if asked < least || (asked > least && !open) {
        complaints.push(format!("{at}.members: {asked} does not fit the app's cardinality {}", known.cardinality));
    }
}

fn labels(at: &str, role: &Role, complaints: &mut Vec<String>) {
    for (field, map, is_label) in [
        ("podLabels", &role.pod_labels, true),
        ("serviceLabels", &role.service_labels, true),
        ("podAnnotations", &role.pod_annotations, false),
        ("serviceAnnotations", &role.service_annotations, false),
    ] {
        complaints.extend(bad_labels(map.as_ref(), is_label).map(|key| format!("{at}.{field}: {key:?} is not valid")));
    }
}

/// Keys of a map that are no label (or annotation) keys, or whose values are no label values.
pub(super) fn bad_labels(map: Option<&BTreeMap<String, String>>, is_label: bool) -> impl Iterator<Item = &String> {
    let wrong =
        move |(key, value): &(&String, &String)| !is_key(key) || (is_label && !value.is_empty() && !is_name(value));
    map.into_iter().flatten().filter(wrong).map(|(key, _)| key)
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => !prefix.is_empty() && prefix.len() <= PREFIX_MAX && is_dns(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= LABEL_MAX
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_dns(name: &str) -> bool {
    name.split('.').all(|part| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    })
}

fn storage(at: &str, role: &Role, facts: &Facts, complaints: &mut Vec<String>) {
    let exists = |class: &str| facts.storage_classes.contains_key(class);
    if let Some(storage) = &role.storage {
        match &storage.storage_class_name {
            Some(class) if exists(class) => {}
            Some(class) => complaints.push(format!("{at}.storage: StorageClass {class} does not exist")),
            None => complaints.push(format!("{at}.storage: no StorageClass is named and there is no default one")),
        }
    }
    if let Some(storage) = role.block_storage.as_ref().filter(|storage| !exists(&storage.storage_class_name)) {
        complaints.push(format!("{at}.blockStorage: StorageClass {} does not exist", storage.storage_class_name));
    }
}

fn mounted_secret(at: &str, name: &str, facts: &Facts, complaints: &mut Vec<String>) {
    let prefix = facts.config.as_ref().and_then(|config| config.required_secret_prefix.as_deref()).unwrap_or_default();
    if !name.starts_with(prefix) {
        complaints.push(format!("{at}: the name of Secret {name} does not start with {prefix}"));
    } else if !facts.secrets.contains(name) {
        complaints.push(format!("{at}: Secret {name} does not exist"));
    }
}
