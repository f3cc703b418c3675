//! The definitions against KubeDirector's own.

use rewake_controller::crds;

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
