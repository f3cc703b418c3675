//! In which order a restore creates things.

use std::collections::BTreeMap;
use std::sync::Arc;

use rewake_apiserver::object::ObjectExt;
use serde_json::Value;

use super::archive::{Archive, ItemKey};
use super::selection::names;
use crate::decisions::Decisions;

/// Orders items as Velero does: the `high` types in their order, then every other type sorted as a
/// string, then the `low` types; within a type, namespaces in an order that is up to chance (Velero
/// ranges over a map) and names sorted.
#[must_use]
pub fn by_type(
    keys: Vec<ItemKey>,
    high: &[impl AsRef<str>],
    low: &[impl AsRef<str>],
    decisions: &mut Decisions,
) -> Vec<ItemKey> {
    let rank = |key: &ItemKey| {
        let high = high.iter().position(|name| names(name.as_ref(), &key.resource));
        let low = low.iter().position(|name| names(name.as_ref(), &key.resource));
        match (high, low) {
            (Some(at), _) => (0, at, String::new()),
            (None, Some(at)) => (2, at, String::new()),
            (None, None) => (1, 0, key.resource.to_string()),
        }
    };
    let mut types: BTreeMap<_, BTreeMap<String, Vec<ItemKey>>> = BTreeMap::new();
    for key in keys {
        types.entry(rank(&key)).or_default().entry(key.namespace.clone()).or_default().push(key);
    }
    let mut ordered = Vec::new();
    for namespaces in types.into_values() {
        let mut namespaces: Vec<Vec<ItemKey>> = namespaces.into_values().collect();
        for at in decisions.permute("restore namespace order", namespaces.len()) {
            let mut items = std::mem::take(&mut namespaces[at]);
            items.sort_by(|a, b| a.name.cmp(&b.name));
            ordered.extend(items);
        }
    }
    ordered
}

/// Orders owners before what they own, and otherwise keeps the order (Rancher, clusterctl).
#[must_use]
pub fn owners_first(keys: Vec<ItemKey>, archive: &Archive) -> Vec<ItemKey> {
    let by_uid: BTreeMap<&str, &ItemKey> =
        archive.items.iter().map(|(key, object): (_, &Arc<Value>)| (object.uid(), key)).collect();
    let mut depth: BTreeMap<ItemKey, usize> = BTreeMap::new();
    // Owners of owners of owners: chains are short, and a cycle must not go round for ever.
    for _ in 0..8 {
        for key in &keys {
            let owners = archive.items.get(key).into_iter().flat_map(|object| object.owner_references());
            let deepest = owners
                .filter_map(|owner| by_uid.get(owner["uid"].as_str()?))
                .map(|owner| depth.get(*owner).copied().unwrap_or_default() + 1)
                .max();
            depth.insert(key.clone(), deepest.unwrap_or_default());
        }
    }
    let mut keys = keys;
    keys.sort_by_key(|key| depth.get(key).copied().unwrap_or_default());
    keys
}

#[cfg(test)]
mod tests {
    use rewake_apiserver::resource::GroupResource;

    use super::*;
    use crate::tools::Profile;

    fn key(resource: &str, group: &str, namespace: &str, name: &str) -> ItemKey {
        ItemKey::new(GroupResource::new(group, resource), namespace, name)
    }

    #[test]
    fn the_sorted_middle_puts_statefulsets_after_kubedirector_clusters() {
        let profile = Profile::newest();
        let keys = vec![
            key("statefulsets", "apps", "team", "s"),
            key("kubedirectorstatusbackups", "kubedirector.hpe.com", "team", "c"),
            key("kubedirectorclusters", "kubedirector.hpe.com", "team", "c"),
            key("services", "", "team", "h"),
            key("kubedirectorapps", "kubedirector.hpe.com", "team", "a"),
            key("namespaces", "", "", "team"),
        ];
        let ordered = by_type(keys, profile.high, profile.low, &mut Decisions::new(1));
        let types: Vec<String> = ordered.iter().map(|key| key.resource.resource.to_string()).collect();
        assert_eq!(
            types,
            [
                "namespaces",
                "services",
                "kubedirectorapps",
                "kubedirectorclusters",
                "kubedirectorstatusbackups",
                "statefulsets"
            ]
        );
    }
}
