//! What a restore waits for, takes over, and refuses.

use serde_json::{Value, json};

use crate::lives::{MANIFESTS, mark_restored, running, state};
use crate::world::{CLUSTER, World, assert_same_picture};

const RESTORING: &str = "kubedirector.hpe.com/restoring";

/// A wiped world, and what it held.
fn wiped() -> (World, Vec<Value>) {
    let mut world = running();
    let archive = world.backup();
    world.wipe();
    (world, archive)
}

fn put(world: &mut World, archive: &[Value], chosen: impl Fn(&Value) -> bool) {
    for object in archive.iter().filter(|object| chosen(object)) {
        let mut object = object.clone();
        mark_restored(&mut object);
        world.create(object).expect("nothing is there twice");
    }
}

fn is(kind: &str) -> impl Fn(&Value) -> bool + '_ {
    move |object| object["kind"] == kind
}

fn flags(world: &World) -> [bool; 3] {
    let progress = &world.status()["restoreProgress"];
    ["awaitingApp", "awaitingStatus", "awaitingResources"].map(|flag| progress[flag].as_bool().expect(flag))
}

fn reason(world: &World) -> &str {
    world.status()["restoreProgress"]["reason"].as_str().unwrap_or_default()
}

fn is_restoring(world: &World) -> bool {
    !world.cluster()["metadata"]["labels"][RESTORING].is_null()
}

/// Covers: KD-21, KD-23, KD-31, B7, B27, I1, I8
#[test]
fn a_cluster_alone_waits_for_everything_and_touches_nothing() {
    let (mut world, archive) = wiped();
    put(&mut world, &archive, is("KubeDirectorCluster"));
    put(&mut world, &archive, is("ConfigMap"));
    world.settle();
    assert_eq!(flags(&world), [true, true, true]);
    assert_eq!(world.status()["restoreProgress"]["error"], "");
    assert_eq!(reason(&world), "AwaitingApp");
    assert!(world.names("Service").is_empty() && world.names("StatefulSet").is_empty());
    let told = world.names("Event").len();
    world.settle();
    assert_eq!(world.names("Event").len(), told, "nothing new is nothing to tell");
    assert!(world.cluster()["metadata"]["finalizers"].is_null(), "the finalizer is not written while restoring");
}

/// Covers: KD-22, KD-25, KD-26, KD-27, KD-28, KD-29, KD-30, KD-32, KD-33, KD-34, KD-39
#[test]
fn each_missing_object_is_waited_for_by_name() {
    let (world, archive) = wiped();
    for held in archive.iter().filter(|object| !is("KubeDirectorCluster")(object)) {
        let (kind, name) = (held["kind"].as_str().expect("kind"), held["metadata"]["name"].as_str().expect("name"));
        let mut world = world.clone();
        put(&mut world, &archive, |object| object != held);
        world.settle();
        if kind == "PersistentVolumeClaim" {
            assert!(!is_restoring(&world), "claims are not waited for");
            continue;
        }
        let expected = match kind {
            "KubeDirectorApp" => [true, false, false],
            "KubeDirectorStatusBackup" => [false, true, true],
            _ => [false, false, true],
        };
        assert!(is_restoring(&world), "{kind} {name}");
        assert_eq!(flags(&world), expected, "{kind} {name}");
        let missing = &world.status()["restoreProgress"]["missing"];
        assert_eq!(missing, &json!([format!("{kind}/{name}")]));
        assert!(
            !world.log.iter().skip_while(|change| !change.contains("restore")).any(|change| change.contains("delete"))
        );

        world.create(held.clone()).expect("it was missing");
        world.settle();
        assert!(!is_restoring(&world), "{kind} {name}:\n{}", world.log.join("\n"));
        assert_eq!(state(&world), "configured");
    }
}

/// Covers: KD-34, KD-80
#[test]
fn connections_may_be_declared_optional_and_are_noticed_later() {
    let (mut world, archive) = wiped();
    world.merge("KubeDirectorConfig", "kd-global-config", &json!({"spec": {"allowRestoreWithoutConnections": true}}));
    put(&mut world, &archive, |object| !is("ConfigMap")(object));
    world.settle();
    assert!(!is_restoring(&world));
    put(&mut world, &archive, is("ConfigMap"));
    world.settle();
    for pod in world.names("Pod") {
        assert!(world.guest(&pod).notified.contains(&"--reconnect".to_owned()), "{pod}:\n{}", world.log.join("\n"));
    }
}

/// Covers: KD-36, KD-37, KD-06, KD-02a
#[test]
fn the_label_goes_alone_and_only_after_a_look_that_missed_nothing() {
    let (mut world, archive) = wiped();
    put(&mut world, &archive, |_| true);
    let backup = world.get("KubeDirectorStatusBackup", CLUSTER).expect("restored").clone();
    let plan = world.plan();
    assert_eq!(
        plan.changes[0].to_string(),
        "patch status of KubeDirectorCluster shop/db to say what the restore waits for"
    );
    for change in &plan.changes {
        world.apply(change).expect("applies");
    }
    assert_eq!(flags(&world), [false, false, false]);
    let before = world.status().clone();
    let plan = world.plan();
    let writes: Vec<String> = plan.changes.iter().map(ToString::to_string).filter(|c| !c.contains("Event")).collect();
    assert_eq!(writes, ["patch KubeDirectorCluster shop/db to resume"]);
    for change in &plan.changes {
        world.apply(change).expect("applies");
    }
    assert!(!is_restoring(&world));
    assert_eq!(world.status(), &before);
    assert_eq!(world.get("KubeDirectorStatusBackup", CLUSTER), Some(&backup), "not written while restoring");
}

/// Covers: KD-49, KD-50, KD-51, B14
#[test]
fn a_refusal_is_reported_and_forgotten_when_it_ends() {
    let (mut world, archive) = wiped();
    world.refusal = Some("spec.roles[data].secret: Secret s does not exist".to_owned());
    put(&mut world, &archive, |_| true);
    world.settle();
    assert!(is_restoring(&world));
    assert_eq!(flags(&world), [false, false, false]);
    assert_eq!(world.status()["restoreProgress"]["error"], "spec.roles[data].secret: Secret s does not exist");
    assert_eq!((reason(&world), state(&world)), ("ResumeRefused", "configured"));
    assert!(world.plan().next_check.is_some(), "it is tried again");
    world.refusal = None;
    world.settle();
    assert!(!is_restoring(&world));
}

/// Covers: KD-52, B6, B17, B18
#[test]
fn what_waiting_will_not_cure_is_said() {
    let annotate = |world: &mut World, key: &str, value: &str| {
        world.merge(
            "KubeDirectorCluster",
            CLUSTER,
            &json!({"metadata": {"annotations": {format!("kubedirector.hpe.com/{key}"): value}}}),
        );
    };
    let (mut world, archive) = wiped();
    put(&mut world, &archive, |object| !is("KubeDirectorStatusBackup")(object));
    annotate(&mut world, "status-backup-exists", "false");
    world.settle();
    assert_eq!(reason(&world), "StatusBackupNeverEnabled");
    assert_ne!(world.status()["restoreProgress"]["error"], "");

    let mut copied = world.clone();
    annotate(&mut copied, "origin", "other/uid-0");
    copied.settle();
    assert_eq!(reason(&copied), "CopiedUnderAnotherName");

    let backup = archive.iter().find(|object| is("KubeDirectorStatusBackup")(object)).expect("a backup");
    let mut orphaned = world.clone();
    let mut foreign = backup.clone();
    foreign["spec"]["statusBackup"]["origin"] = json!("db/uid-of-a-namesake");
    orphaned.create(foreign).expect("new");
    orphaned.settle();
    assert_eq!(reason(&orphaned), "StatusBackupOfAnotherCluster");
    assert_eq!(flags(&orphaned), [false, true, true]);

    let mut empty = world.clone();
    let mut nothing = backup.clone();
    nothing["spec"] = json!({"statusBackup": null});
    empty.create(nothing).expect("new");
    empty.settle();
    assert_eq!(flags(&empty), [false, true, true]);

    world.create(backup.clone()).expect("new");
    world.settle();
    assert!(!is_restoring(&world), "a backup that appears after all is used");
}

/// Covers: B1
#[test]
fn services_of_leaving_members_are_not_waited_for_and_others_not_beyond_the_limit() {
    let (mut world, archive) = wiped();
    let service = archive.iter().find(|object| {
        object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("s-") && name.ends_with("-1"))
    });
    let service = service.expect("a member service").clone();
    put(&mut world, &archive, |object| *object != service);
    world.settle();
    assert!(is_restoring(&world));
    let mut patient = world.clone();
    patient.settings.service_wait_max = Some(std::time::Duration::from_secs(0));
    patient.settle();
    assert!(!is_restoring(&patient));
    assert_eq!(state(&patient), "configured");
    assert!(patient.get("Service", service["metadata"]["name"].as_str().expect("name")).is_some());
}

/// Covers: B16
#[test]
fn objects_of_others_are_not_taken_over_because_a_backup_names_them() {
    let (mut world, archive) = wiped();
    put(&mut world, &archive, |object| !is("StatefulSet")(object));
    for set in archive.iter().filter(|object| is("StatefulSet")(object)) {
        let mut foreign = set.clone();
        foreign["metadata"]["labels"]["kubedirector.hpe.com/role"] = json!("another");
        world.create(foreign).expect("new");
    }
    world.settle();
    assert!(is_restoring(&world));
    assert_eq!(reason(&world), "ForeignResources");
}

/// Covers: B8, B43
#[test]
fn a_restored_cluster_that_slipped_past_the_webhook_is_noticed() {
    for status_restored in [false, true] {
        let before = running();
        let archive = before.backup();
        let mut world = before.clone();
        world.wipe();
        for object in &archive {
            world.create(object.clone()).expect("nothing is there twice");
        }
        if status_restored {
            world.merge("KubeDirectorCluster", CLUSTER, &json!({"status": before.status()}));
        }
        assert_eq!(
            world.plan().changes[0].to_string(),
            "patch KubeDirectorCluster shop/db to wait for the rest of the restore"
        );
        world.settle();
        assert_same_picture(&world, &before.picture(), "in the end");
    }
}

/// Covers: KD-47, KD-54, B9, B10
#[test]
fn an_early_removal_of_the_label_adopts_what_is_there_and_spares_the_backup() {
    let before = running();
    let (mut world, archive) = wiped();
    put(&mut world, &archive, |object| !is("KubeDirectorStatusBackup")(object));
    world.settle();
    assert_eq!(flags(&world), [false, true, true]);
    let backup = archive.iter().find(|object| is("KubeDirectorStatusBackup")(object)).expect("a backup");
    world.create(backup.clone()).expect("new");
    world.merge("KubeDirectorCluster", CLUSTER, &json!({"metadata": {"labels": {RESTORING: null}}}));
    world.settle();
    assert_eq!(world.names("StatefulSet"), before.names("StatefulSet"), "{}", world.log.join("\n"));
    assert_eq!(world.names("Service"), before.names("Service"));
    assert_eq!(world.names("PersistentVolumeClaim"), before.names("PersistentVolumeClaim"));
    assert_eq!(state(&world), "configured");
    let kept = world.get("KubeDirectorStatusBackup", CLUSTER).expect("kept");
    assert_eq!(kept["spec"], backup["spec"], "a backup that nobody used is not overwritten");
    let conditions = world.status()["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|condition| condition["reason"] == "ForeignBackup"));
}

#[test]
fn without_adoption_an_early_removal_makes_everything_twice() {
    let (mut world, archive) = wiped();
    world.settings.safeguards.adopt_by_label = false;
    put(&mut world, &archive, |object| !is("KubeDirectorStatusBackup")(object));
    world.settle();
    world.merge("KubeDirectorCluster", CLUSTER, &json!({"metadata": {"labels": {RESTORING: null}}}));
    world.settle();
    assert_eq!(world.names("StatefulSet").len(), 4);
}

/// Covers: KD-44, KD-46, KD-53, B17
#[test]
fn a_forced_deletion_takes_the_backup_along_and_touches_nothing_else() {
    let (mut world, archive) = wiped();
    put(&mut world, &archive, |object| !is("KubeDirectorApp")(object));
    world.merge("KubeDirectorCluster", CLUSTER, &json!({"metadata": {"finalizers": ["kubedirector.hpe.com/cleanup"]}}));
    world.settle();
    let sets = world.names("StatefulSet");
    world.delete("KubeDirectorCluster", CLUSTER);
    world.settle();
    assert!(world.names("KubeDirectorCluster").is_empty() && world.names("KubeDirectorStatusBackup").is_empty());
    assert_eq!(world.names("StatefulSet"), sets);
}

/// Covers: KD-81, B2
#[test]
fn notifications_still_owed_survive_a_restore() {
    let (mut world, mut archive) = wiped();
    for object in &mut archive {
        if is("KubeDirectorStatusBackup")(object) {
            let member = &mut object["spec"]["statusBackup"]["roles"][0]["members"][0]["stateDetail"];
            member["pendingNotifyCmds"] = json!([{"arguments": ["--addnodes", "--role", "web"]}]);
        }
    }
    put(&mut world, &archive, |_| true);
    world.settle();
    assert_eq!(state(&world), "configured");
    let pod = world.status()["roles"][0]["members"][0]["pod"].as_str().expect("a pod").to_owned();
    assert!(world.guest(&pod).notified.contains(&"--addnodes --role web".to_owned()), "{}", world.log.join("\n"));
    assert!(world.status()["roles"][0]["members"][0]["stateDetail"]["pendingNotifyCmds"].is_null());
}

/// Covers: KD-03, KD-04, KD-05, KD-06, KD-07, B31
#[test]
fn the_backup_follows_the_switch_and_the_status() {
    let mut world = running();
    let switch = |world: &mut World, on: bool| {
        world.merge("KubeDirectorConfig", "kd-global-config", &json!({"spec": {"backupClusterStatus": on}}));
    };
    let backed_up =
        |world: &World| world.get("KubeDirectorStatusBackup", CLUSTER).map(|b| b["spec"]["statusBackup"].clone());
    world.delete("KubeDirectorStatusBackup", CLUSTER);
    world.settle();
    assert_eq!(backed_up(&world).as_ref(), Some(world.status()));
    world.merge("KubeDirectorStatusBackup", CLUSTER, &json!({"spec": {"statusBackup": {"state": "forged"}}}));
    world.settle();
    assert_eq!(backed_up(&world).as_ref(), Some(world.status()));

    switch(&mut world, false);
    world.settle();
    assert_eq!(backed_up(&world), None);
    assert_eq!(world.cluster()["metadata"]["annotations"]["kubedirector.hpe.com/status-backup-exists"], "false");

    switch(&mut world, true);
    let told: Vec<String> = world.plan().changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "patch KubeDirectorCluster shop/db to note whether there is a backup, and of what",
            "patch status of KubeDirectorCluster shop/db to say how it stands",
            "create KubeDirectorStatusBackup shop/db to mirror the status",
        ]
    );
    world.settle();
    assert_eq!(backed_up(&world).as_ref(), Some(world.status()));
    assert_eq!(state(&world), "configured");
}

/// Covers: B28
#[test]
fn without_a_config_backups_are_kept_and_with_the_variant_they_are_lost() {
    for (safeguard, kept) in [(true, true), (false, false)] {
        let mut world = running();
        world.settings.safeguards.backup_unknown_is_not_false = safeguard;
        world.delete("KubeDirectorConfig", "kd-global-config");
        world.settle();
        assert_eq!(world.get("KubeDirectorStatusBackup", CLUSTER).is_some(), kept);
    }
}

/// Covers: KD-18, KD-20
#[test]
fn a_cluster_without_the_annotation_is_a_new_one_whatever_its_finalizers() {
    let mut world = World::with(MANIFESTS);
    world.merge("KubeDirectorCluster", CLUSTER, &json!({"metadata": {"finalizers": ["kubedirector.hpe.com/cleanup"]}}));
    world.settle();
    assert_eq!(state(&world), "configured");
    assert!(!world.log.iter().any(|change| change.contains("restore")));
}
