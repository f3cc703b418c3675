//! The definitions, by themselves and against KubeDirector's own.

use std::path::PathBuf;

use rewake_controller::crds;
use serde_json::Value;

use crate::world::documents;

/// Covers: KD-08
#[test]
fn four_kinds_are_defined_and_the_backup_is_one_of_them() {
    let names: Vec<String> = crds::all().into_iter().filter_map(|definition| definition.metadata.name).collect();
    assert_eq!(
        names,
        [
            "kubedirectorconfigs.kubedirector.hpe.com",
            "kubedirectorapps.kubedirector.hpe.com",
            "kubedirectorclusters.kubedirector.hpe.com",
            "kubedirectorstatusbackups.kubedirector.hpe.com",
        ]
    );
}

#[test]
fn no_definition_lets_the_server_write_defaults() {
    fn look(schema: &Value, path: &str) {
        for (field, value) in schema.as_object().into_iter().flatten() {
            assert!(field != "default" || path.ends_with("properties"), "{path}");
            look(value, &format!("{path}/{field}"));
        }
    }
    for definition in crds::documents() {
        look(&definition["spec"]["versions"][0]["schema"], "schema");
    }
}

/// A folder with KubeDirector's own definitions, for comparison; none when it is not at hand.
fn upstream() -> Option<PathBuf> {
    let folder = std::env::var_os("KUBEDIRECTOR_MANIFESTS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: set KUBEDIRECTOR_MANIFESTS to a checkout's manifests to compare with");
    }
    folder
}

/// Every field KubeDirector knows is known here, so that nothing of a manifest is silently dropped.
#[test]
fn no_field_of_kubedirector_is_missing() {
    let Some(folder) = upstream() else { return };
    for ours in crds::documents() {
        let name = ours["metadata"]["name"].as_str().expect("a name");
        let (plural, group) = name.split_once('.').expect("plural and group");
        let file = folder.join(format!("crds/{group}_{plural}_crd.yaml"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let theirs = &documents(&text)[0];
        for field in [
            "scope",
            "names/plural",
            "names/kind",
            "names/shortNames",
            "versions/0/subresources",
            "versions/0/additionalPrinterColumns",
        ] {
            let pointer = format!("/spec/{field}");
            assert_eq!(ours.pointer(&pointer), theirs.pointer(&pointer), "{name} {field}");
        }
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let (ours, theirs) = (ours.pointer(schema).expect("a schema"), theirs.pointer(schema).expect("a schema"));
        for part in ["spec", "status"] {
            compare(&ours["properties"][part], &theirs["properties"][part], &format!("{plural}.{part}"));
        }
    }
}

fn compare(ours: &Value, theirs: &Value, path: &str) {
    if theirs.is_null() {
        return;
    }
    for keyword in ["type", "pattern", "minLength", "maxLength", "x-kubernetes-preserve-unknown-fields"] {
        let same_words = ours["enum"].is_array() && keyword == "pattern";
        assert!(
            same_words || ours[keyword] == theirs[keyword] || path.contains("affinity"),
            "{path} {keyword}: {} {}",
            ours[keyword],
            theirs[keyword]
        );
    }
    assert!(theirs["nullable"].is_null() || ours["nullable"] == true, "{path} may be null");
    for required in ours["required"].as_array().into_iter().flatten() {
        let known = theirs["required"].as_array().is_some_and(|theirs| theirs.contains(required));
        assert!(known || path.contains("affinity"), "{path}.{required} is required only here");
    }
    for (field, schema) in theirs["properties"].as_object().into_iter().flatten() {
        compare(&ours["properties"][field], schema, &format!("{path}.{field}"));
    }
    compare(&ours["items"], &theirs["items"], &format!("{path}[]"));
}
