//! What `rewake-controller manifests` prints.

use rewake_controller::manifests::{Install, ManifestError, NAME};
use serde_json::Value;

use crate::world::documents;

const INSTALL: Install<'static> = Install { namespace: "kd", image: "example.org/rewake-controller:1", replicas: 2 };

/// The definitions are the business of the tests in `crds.rs`.
#[test]
fn manifests_are_yaml_that_is_read_back_as_it_was_meant() {
    let text = INSTALL.yaml().expect("a namespace that can be");
    let (definitions, others): (Vec<Value>, Vec<Value>) =
        documents(&text).into_iter().partition(|object| object["kind"] == "CustomResourceDefinition");
    assert_eq!(definitions.len(), 4);
    assert_eq!(definitions, rewake_controller::crds::documents());
    let shown: Vec<String> = others.iter().map(|object| serde_yaml::to_string(object).expect("YAML")).collect();
    insta::assert_snapshot!(shown.join("---\n"));
}

#[test]
fn roles_ask_for_nothing_by_wildcard_and_cover_what_is_watched() {
    let objects = INSTALL.objects();
    let role = objects.iter().find(|object| object["kind"] == "ClusterRole").expect("a ClusterRole");
    let rules: Vec<&Value> = role["rules"].as_array().into_iter().flatten().collect();
    for rule in &rules {
        assert!(!rule.to_string().contains('*'), "{rule}");
    }
    let allows = |group: &str, plural: &str, verb: &str| {
        let has = |list: &Value, wanted: &str| list.as_array().is_some_and(|list| list.iter().any(|v| v == wanted));
        let fits = |rule: &&&Value| {
            has(&rule["apiGroups"], group) && has(&rule["resources"], plural) && has(&rule["verbs"], verb)
        };
        rules.iter().find(fits).is_some()
    };
    for kind in rewake_controller::watched() {
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
        assert!(allows(group, kind.plural, "list") && allows(group, kind.plural, "watch"), "{kind:?}");
    }
}

#[test]
fn a_namespace_that_cannot_be_is_refused() {
    for namespace in ["", "Kd", "a b", "-a", "a\nb", "kube.system"] {
        let refused = Install { namespace, ..INSTALL }.yaml();
        assert!(matches!(refused, Err(ManifestError::Namespace(_))), "{namespace:?}");
    }
    assert!(Install { namespace: NAME, ..INSTALL }.yaml().is_ok());
}
