//! Which objects a backup or a restore takes.

use std::collections::BTreeMap;

use rewake_apiserver::object::ObjectExt;
use rewake_apiserver::resource::GroupResource;
use serde_json::Value;

/// Filters, as Velero's include and exclude lists. Empty include lists mean everything; excludes win.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Namespaces taken.
    pub namespaces: Vec<String>,
    /// Namespaces left out.
    pub exclude_namespaces: Vec<String>,
    /// Types taken, as `plural` or `plural.group`.
    pub resources: Vec<String>,
    /// Types left out.
    pub exclude_resources: Vec<String>,
    /// Labels that an object must have, all of them.
    pub labels: BTreeMap<String, String>,
    /// Cluster-scoped objects: always, never, or (by default) only when every namespace is taken.
    pub cluster_resources: Option<bool>,
}

/// Objects so labelled are never saved.
pub const EXCLUDE_LABEL: &str = "velero.io/exclude-from-backup";

impl Selection {
    /// Is this namespace taken?
    #[must_use]
    pub fn takes_namespace(&self, namespace: &str) -> bool {
        takes(&self.namespaces, &self.exclude_namespaces, |pattern| glob(pattern, namespace))
    }

    /// Is this type taken?
    #[must_use]
    pub fn takes_resource(&self, resource: &GroupResource) -> bool {
        takes(&self.resources, &self.exclude_resources, |pattern| names(pattern, resource))
    }

    /// Are cluster-scoped objects of this type collected from their list? (They may still come along
    /// as additional items.)
    #[must_use]
    pub fn takes_cluster_scoped(&self, resource: &GroupResource) -> bool {
        let all_namespaces = self.namespaces.is_empty() && self.exclude_namespaces.is_empty();
        let by_scope = self.cluster_resources.unwrap_or(all_namespaces) || &*resource.resource == "namespaces";
        by_scope && self.takes_resource(resource)
    }

    /// Does the object carry the labels asked for?
    #[must_use]
    pub fn takes_labels(&self, object: &Value) -> bool {
        self.labels.iter().all(|(key, value)| object.label(key) == Some(value))
    }
}

fn takes(include: &[String], exclude: &[String], is: impl Fn(&str) -> bool) -> bool {
    (include.is_empty() || include.iter().any(|pattern| is(pattern))) && !exclude.iter().any(|pattern| is(pattern))
}

/// Does `pattern` (`plural`, `plural.group`, `*`) name this type?
#[must_use]
pub fn names(pattern: &str, resource: &GroupResource) -> bool {
    pattern == "*" || pattern == resource.to_string() || (pattern == &*resource.resource)
}

/// Globs as namespaces have them: `*` stands for any number of characters.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            if after.is_empty() {
                true
            } else {
                (0..=rest.len()).any(|at| rest.is_char_boundary(at) && glob(after, &rest[at..]))
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("team", "team", true)]
    #[case("team-*", "team-a", true)]
    #[case("*-a", "team-a", true)]
    #[case("t*m*", "team-a", true)]
    #[case("*", "", true)]
    #[case("team", "team-a", false)]
    #[case("*b", "team-a", false)]
    fn globs_match_as_velero_reads_them(#[case] pattern: &str, #[case] text: &str, #[case] matches: bool) {
        assert_eq!(glob(pattern, text), matches);
    }

    #[test]
    fn a_namespace_filter_switches_cluster_scoped_objects_off_but_not_namespaces() {
        let selection = Selection { namespaces: vec!["team".into()], ..Selection::default() };
        assert!(!selection.takes_cluster_scoped(&GroupResource::new("", "persistentvolumes")));
        assert!(selection.takes_cluster_scoped(&GroupResource::new("", "namespaces")));
        assert!(Selection::default().takes_cluster_scoped(&GroupResource::new("", "persistentvolumes")));
    }
}
