//! Whole lives of a cluster, decision by decision, in a crude world.

use serde_json::{Value, json};

use crate::world::{CLUSTER, World, assert_same_picture};

pub(crate) const MANIFESTS: &str = r#"
apiVersion: kubedirector.hpe.com/v1beta1
kind: KubeDirectorConfig
metadata: {name: kd-global-config}
spec: {backupClusterStatus: true}
---
apiVersion: kubedirector.hpe.com/v1beta1
kind: KubeDirectorApp
metadata: {name: store}
spec:
  label: {name: Store}
  distroID: example/store
  version: "1"
  configSchemaVersion: 7
  defaultImageRepoTag: store:1
  defaultConfigPackage: {packageURL: "file:///opt/setup.tgz"}
  services: [{id: api, endpoint: {port: 80}}]
  roles: [{id: data, cardinality: 1+}, {id: web, cardinality: 0+}]
  config: {selectedRoles: [data, web], roleServices: [{roleID: data, serviceIDs: [api]}, {roleID: web, serviceIDs: []}]}
---
apiVersion: kubedirector.hpe.com/v1beta1
kind: KubeDirectorCluster
metadata: {name: db}
spec:
  app: store
  appCatalog: local
  serviceType: ClusterIP
  namingScheme: UID
  connections: {configmaps: [settings]}
  roles:
  - {id: data, members: 2, resources: {limits: {cpu: "1", memory: 1Gi}}, storage: {size: 1Gi, storageClassName: standard}}
  - {id: web, members: 1, resources: {limits: {cpu: "1", memory: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
"#;

pub(crate) fn running() -> World {
    let mut world = World::with(MANIFESTS);
    world.settle();
    world
}

pub(crate) fn state(world: &World) -> &str {
    world.status()["state"].as_str().unwrap_or_default()
}

/// Covers: KD-02, KD-13, KD-14, KD-24, KD-62, KD-09, KD-70, I6, B36
#[test]
fn a_new_cluster_comes_to_rest_configured_and_backed_up() {
    let world = running();
    assert_eq!(state(&world), "configured", "{}", world.log.join("\n"));
    let metadata = &world.cluster()["metadata"];
    assert_eq!(metadata["annotations"]["kubedirector.hpe.com/status-backup-exists"], "true");
    assert_eq!(metadata["finalizers"], json!(["kubedirector.hpe.com/cleanup"]));
    assert!(world.status()["restoreProgress"].is_null());
    let backup = world.get("KubeDirectorStatusBackup", CLUSTER).expect("a backup");
    assert_eq!(&backup["spec"]["statusBackup"], world.status());
    assert_eq!(world.names("StatefulSet").len(), 2);
    assert_eq!(world.names("Service").len(), 3, "headless, and one for each member with a port");
    for set in world.all("StatefulSet") {
        for template in set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
            assert!(template["metadata"]["ownerReferences"].is_null());
        }
    }
}

/// What the webhook does.
pub(crate) fn mark_restored(object: &mut Value) {
    if object["kind"] == "KubeDirectorCluster" {
        object["metadata"]["labels"] = json!({"kubedirector.hpe.com/restoring": ""});
    }
}

fn restored(order: &[&str]) -> World {
    let mut world = running();
    let archive = world.backup();
    world.wipe();
    let mut left = archive;
    for kind in order {
        let (now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|object| object["kind"] == **kind);
        left = later;
        for mut object in now {
            mark_restored(&mut object);
            // A tool skips what is there: the StatefulSet loop may have been faster with a claim.
            let _ = world.create(object);
            world.settle();
        }
    }
    assert!(left.is_empty());
    world
}

const ORDERS: [[&str; 7]; 3] = [
    [
        "PersistentVolumeClaim",
        "ConfigMap",
        "Service",
        "KubeDirectorApp",
        "KubeDirectorCluster",
        "KubeDirectorStatusBackup",
        "StatefulSet",
    ],
    [
        "KubeDirectorCluster",
        "StatefulSet",
        "KubeDirectorStatusBackup",
        "Service",
        "ConfigMap",
        "PersistentVolumeClaim",
        "KubeDirectorApp",
    ],
    [
        "KubeDirectorStatusBackup",
        "KubeDirectorCluster",
        "ConfigMap",
        "KubeDirectorApp",
        "StatefulSet",
        "Service",
        "PersistentVolumeClaim",
    ],
];

/// Covers: KD-18a, KD-38, KD-36, KD-40, KD-61, KD-66, KD-78, KD-79, I2, I3, I4, I7
#[test]
fn any_order_of_a_restore_ends_where_it_began() {
    let before = running();
    for order in ORDERS {
        let mut world = restored(&order);
        assert_same_picture(&world, &before.picture(), &format!("{order:?}"));
        world.delete("KubeDirectorCluster", CLUSTER);
        world.settle();
        assert!(world.names("StatefulSet").is_empty() && world.names("PersistentVolumeClaim").is_empty());
        assert!(world.names("Service").is_empty() && world.names("KubeDirectorStatusBackup").is_empty());
    }
}

/// Covers: KD-74, KD-75, KD-76, B23
#[test]
fn members_with_storage_are_not_set_up_again_and_others_are() {
    let world = restored(&ORDERS[0]);
    for role in world.status()["roles"].as_array().expect("roles") {
        for member in role["members"].as_array().expect("members") {
            let guest = world.guest(member["pod"].as_str().expect("a pod"));
            assert_eq!(member["state"], "configured");
            // The one without storage lost its count together with its files.
            assert_eq!(guest.configured, 1, "{}", role["id"]);
            assert!(guest.uploads >= if role["id"] == "data" { 2 } else { 1 }, "new metadata reached it");
        }
    }
}

/// Covers: I9, B37, B42
#[test]
fn a_crash_after_any_change_changes_nothing_in_the_end() {
    let restored = {
        let mut world = running();
        let archive = world.backup();
        world.wipe();
        for mut object in archive {
            mark_restored(&mut object);
            world.create(object).expect("nothing is there twice");
        }
        world
    };
    for start in [World::with(MANIFESTS), restored] {
        let mut undisturbed = start.clone();
        let changes = undisturbed.settle_with_crash(None);
        for crash in 0..changes {
            let mut world = start.clone();
            world.settle_with_crash(Some(crash));
            let lines = |world: &World| {
                // Generated names differ from run to run; what matters is how many there are of each.
                let kind = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
                let picture = world.picture();
                let mut lines: Vec<String> = picture.keys().map(|name| kind(name)).collect();
                lines.sort();
                lines
            };
            assert_eq!(lines(&world), lines(&undisturbed), "crash after {crash}:\n{}", world.log.join("\n"));
            assert_eq!(state(&world), "configured", "crash after {crash}");
        }
    }
}

/// Covers: KD-73, B4, I4
#[test]
fn a_lost_stateful_set_is_made_again_over_its_claims() {
    let mut world = running();
    let (sets, claims) = (world.names("StatefulSet"), world.picture());
    for set in &sets {
        world.delete("StatefulSet", set);
    }
    world.settle();
    assert_eq!(world.names("StatefulSet"), sets);
    assert_same_picture(&world, &claims, "after the loss");
    assert!(!world.log.iter().any(|change| change.contains("delete PersistentVolumeClaim")));
}

#[test]
fn without_the_safeguard_a_lost_stateful_set_costs_its_claims() {
    let mut world = running();
    world.settings.safeguards.keep_claims_on_lost_set = false;
    for set in world.names("StatefulSet") {
        world.delete("StatefulSet", &set);
    }
    world.settle();
    assert!(world.log.iter().any(|change| change.contains("delete PersistentVolumeClaim")), "{}", world.log.join("\n"));
}

/// Covers: KD-56, KD-57, KD-58, KD-59, KD-60, B13
#[test]
fn lost_owners_come_back() {
    let mut world = running();
    let before = world.picture();
    for kind in ["StatefulSet", "Service", "PersistentVolumeClaim", "KubeDirectorStatusBackup"] {
        for name in world.names(kind) {
            world.merge(kind, &name, &json!({"metadata": {"ownerReferences": null}}));
        }
    }
    world.settle();
    assert_same_picture(&world, &before, "after the loss");
}

/// Covers: KD-77, KD-76
#[test]
fn a_lost_pod_is_only_another_container() {
    let mut world = running();
    let before = world.picture();
    for pod in world.names("Pod") {
        world.delete("Pod", &pod);
    }
    world.settle();
    assert_same_picture(&world, &before, "after the loss");
}

#[test]
fn members_come_and_go_with_the_spec_and_the_others_are_told() {
    let mut world = running();
    let spec = |members: u64| {
        json!({"spec": {"roles": [
            {"id": "data", "members": members, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "storage": {"size": "1Gi", "storageClassName": "standard"}},
            {"id": "web", "members": 1, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        ]}})
    };
    world.merge("KubeDirectorCluster", CLUSTER, &spec(3));
    world.settle();
    assert_eq!(state(&world), "configured", "{}", world.log.join("\n"));
    assert_eq!(world.names("Pod").len(), 4);
    let first = world.names("Pod")[0].clone();
    assert!(
        world.guest(&first).notified.iter().any(|told| told.starts_with("--addnodes")),
        "{:?}",
        world.guest(&first)
    );
    world.merge("KubeDirectorCluster", CLUSTER, &spec(1));
    world.settle();
    assert_eq!(state(&world), "configured", "{}", world.log.join("\n"));
    assert_eq!((world.names("Pod").len(), world.names("PersistentVolumeClaim").len()), (2, 1));
    assert!(
        world.guest(&first).notified.iter().any(|told| told.starts_with("--delnodes")),
        "{:?}",
        world.guest(&first)
    );
}

/// Covers: KD-80, B3, B35
#[test]
fn a_changed_connection_reconnects_members() {
    let mut world = running();
    world.merge("ConfigMap", "settings", &json!({"data": {"a": "2"}}));
    world.settle();
    for pod in world.names("Pod") {
        assert_eq!(world.guest(&pod).notified, ["--reconnect"], "{pod}");
    }
    assert_eq!(state(&world), "configured");
}

#[test]
fn an_unreachable_guest_keeps_nobody_else_waiting() {
    let mut world = running();
    let pods = world.names("Pod");
    world.unreachable.push(pods[0].clone());
    world.merge("ConfigMap", "settings", &json!({"data": {"a": "2"}}));
    for _ in 0..20 {
        for change in world.plan().changes {
            if world.apply(&change).is_err() {
                break;
            }
        }
    }
    assert!(pods[1..].iter().all(|pod| world.guest(pod).notified == ["--reconnect"]), "{}", world.log.join("\n"));
    assert_eq!(state(&world), "updating");
}

#[test]
fn clusters_connected_to_each_other_come_to_rest() {
    use rewake_controller::Connection;
    let mut world = running();
    let digest = |world: &World| {
        let cluster = serde_json::from_value(world.cluster().clone()).expect("a cluster");
        Connection::cluster(CLUSTER, Some(&cluster)).content
    };
    let before = digest(&world);
    world.merge("ConfigMap", "settings", &json!({"data": {"a": "2"}}));
    world.settle();
    assert_eq!(digest(&world), before, "what a cluster is connected to is not news to those connected to it");
}
