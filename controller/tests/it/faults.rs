//! Faults beside restores: writes that fail, objects that others change, setups that are interrupted.

use serde_json::{Value, json};

use crate::lives::{running, state};
use crate::world::{CLUSTER, World};

fn condition<'a>(world: &'a World, kind: &str) -> Option<&'a Value> {
    let conditions = world.status()["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Covers: KD-10, B29
#[test]
fn a_backup_that_cannot_be_written_keeps_no_status_from_being_written() {
    let mut world = running();
    world.refused_kinds = vec!["KubeDirectorStatusBackup"];
    world.merge("ConfigMap", "settings", &json!({"data": {"a": "2"}}));
    world.settle();
    assert_eq!(world.status()["hashChangeCounter"], 2);
    assert_eq!(condition(&world, "BackupStale").map(|c| &c["reason"]), Some(&json!("BackupBehind")));
    world.refused_kinds.clear();
    world.settle();
    assert_eq!(condition(&world, "BackupStale"), None);
    let backup = world.get("KubeDirectorStatusBackup", CLUSTER).expect("a backup");
    assert_eq!(&backup["spec"]["statusBackup"], world.status());
}

/// Covers: B30
#[test]
fn a_plan_made_from_a_stale_look_writes_nothing() {
    let mut world = running();
    world.merge("ConfigMap", "settings", &json!({"data": {"a": "2"}}));
    let stale = world.plan();
    world.settle();
    let before = world.status().clone();
    for change in &stale.changes {
        if world.apply(change).is_err() {
            break;
        }
    }
    assert_eq!(world.status(), &before);
}

/// Covers: B32, B44
#[test]
fn a_status_that_somebody_else_wrote_is_computed_again() {
    let mut world = running();
    let before = world.status()["roles"].clone();
    world.merge("KubeDirectorCluster", CLUSTER, &json!({"status": {"generationUID": "forged", "state": "creating", "memberStateRollup": {"membersDown": true}}}));
    world.settle();
    assert_eq!((state(&world), &world.status()["roles"]), ("configured", &before));
    assert_eq!(world.status()["memberStateRollup"]["membersDown"], false);
}

/// Covers: KD-39
#[test]
fn an_app_that_goes_again_is_awaited_again() {
    let mut world = running();
    world.delete("ConfigMap", "settings");
    world.merge(
        "KubeDirectorCluster",
        CLUSTER,
        &json!({"metadata": {"labels": {"kubedirector.hpe.com/restoring": ""}}}),
    );
    world.settle();
    assert_eq!(world.status()["restoreProgress"]["awaitingApp"], false);
    world.delete("KubeDirectorApp", "store");
    world.settle();
    assert_eq!(world.status()["restoreProgress"]["awaitingApp"], true);
}

/// Covers: B22
#[test]
fn claims_of_no_member_are_kept_and_reported() {
    let mut world = running();
    let set = world.names("StatefulSet")[0].clone();
    world
        .create(json!({"kind": "PersistentVolumeClaim", "metadata": {
            "name": format!("p-{set}-7"), "labels": {"kubedirector.hpe.com/kdcluster": CLUSTER},
        }}))
        .expect("new");
    world.merge("StatefulSet", &set, &json!({"spec": {"replicas": 5}}));
    world.settle();
    assert_eq!(world.get("StatefulSet", &set).expect("kept")["spec"]["replicas"], 2);
    let message = &condition(&world, "SurplusClaims").expect("reported")["message"];
    assert!(message.as_str().is_some_and(|message| message.contains(&format!("p-{set}-7"))), "{message}");
    assert!(world.get("PersistentVolumeClaim", &format!("p-{set}-7")).is_some());
}

/// Covers: B24
#[test]
fn another_release_of_the_app_is_worth_a_warning() {
    let mut world = running();
    world.merge("KubeDirectorApp", "store", &json!({"spec": {"version": "2"}}));
    world.settle();
    assert_eq!(condition(&world, "AppUnchanged").map(|c| &c["reason"]), Some(&json!("OtherRelease")));
    assert_eq!(state(&world), "configured");
}

/// Covers: B25
#[test]
fn a_member_whose_container_changes_during_its_setup_starts_again_without_an_error() {
    let mut world = running();
    let pod = world.names("Pod")[0].clone();
    let set = |world: &mut World, detail: Value| {
        let mut roles = world.status()["roles"].clone();
        let member = &mut roles[0]["members"][0];
        member["state"] = json!("creating");
        json_patch::merge(&mut member["stateDetail"], &detail);
        world.merge("KubeDirectorCluster", CLUSTER, &json!({"status": {"roles": roles}}));
    };
    set(&mut world, json!({"configuringContainer": "containerd://of-an-earlier-life"}));
    world.settle();
    assert_eq!(state(&world), "configured", "{}", world.log.join("\n"));
    assert_eq!(world.guest(&pod).configured, 1);
}

/// Covers: KD-57, B16
#[test]
fn a_child_controlled_by_another_is_reported_and_not_taken() {
    let mut world = running();
    let set = world.names("StatefulSet")[0].clone();
    let app = world.get("KubeDirectorApp", "store").expect("an app")["metadata"]["uid"].clone();
    world.merge(
        "StatefulSet",
        &set,
        &json!({"metadata": {"ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": "Other", "name": "o", "uid": app, "controller": true},
        ]}}),
    );
    world.settle();
    assert_eq!(world.get("StatefulSet", &set).expect("kept")["metadata"]["ownerReferences"][0]["kind"], "Other");
    assert_eq!(condition(&world, "Sound").map(|c| &c["reason"]), Some(&json!("ForeignOwner")));
}

/// Covers: KD-62, KD-64
#[test]
fn a_stateful_set_whose_template_names_an_owner_is_made_again_without_losing_claims() {
    let mut world = running();
    let before = world.picture();
    for set in world.names("StatefulSet") {
        let stale = json!([{"apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorCluster", "name": CLUSTER, "uid": "before", "controller": true}]);
        let mut templates = world.get("StatefulSet", &set).expect("a set")["spec"]["volumeClaimTemplates"].clone();
        for template in templates.as_array_mut().into_iter().flatten() {
            template["metadata"]["ownerReferences"] = stale.clone();
        }
        world.merge("StatefulSet", &set, &json!({"spec": {"volumeClaimTemplates": templates}}));
    }
    world.settle();
    crate::world::assert_same_picture(&world, &before, "in the end");
    for set in world.all("StatefulSet") {
        for template in set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
            assert!(template["metadata"]["ownerReferences"].is_null());
        }
    }
    assert!(!world.log.iter().any(|change| change.contains("delete PersistentVolumeClaim")));
}

/// Covers: B29
#[test]
fn a_cluster_is_built_although_its_backup_can_never_be_written() {
    let mut world = World::with(crate::lives::MANIFESTS);
    world.refused_kinds = vec!["KubeDirectorStatusBackup"];
    for _ in 0..100 {
        world.settle();
    }
    assert_eq!(state(&world), "configured", "{}", world.log.join("\n"));
}

#[test]
fn a_guest_that_always_fails_keeps_nobody_else_from_being_told() {
    let mut world = running();
    let pods = world.names("Pod");
    for pod in &pods {
        let mut world = world.clone();
        world.failing = vec![pod.clone()];
        world.merge("ConfigMap", "settings", &json!({"data": {"a": "2"}}));
        for _ in 0..50 {
            world.settle();
        }
        for other in pods.iter().filter(|other| *other != pod) {
            assert_eq!(world.guest(other).notified, ["--reconnect"], "{other} while {pod} fails");
        }
    }
    world.settle();
}

/// Covers: B29
#[test]
fn a_backup_that_cannot_be_read_keeps_no_status_from_being_written() {
    let world = running();
    let mut facts = world.facts();
    facts.backup = None;
    facts.backup_unreadable = Some("failed to get KubeDirectorStatusBackup shop/db: forbidden".to_owned());
    let plan = world.plan_for(facts);
    let changes: Vec<String> = plan.changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes, ["patch status of KubeDirectorCluster shop/db to say how it stands"]);
    assert_eq!(plan.next_check, Some(world.settings.retry));
}

/// A status may come out of a backup that anybody could write. Whatever it says, a look ends, and nothing of
/// others is touched.
#[test]
fn whatever_a_status_says_a_look_at_it_ends() {
    let world = running();
    let first = |status: &Value| status["roles"][0]["members"][0].clone();
    type Spoiler = Box<dyn Fn(&mut Value)>;
    let hostile: Vec<(&str, Spoiler)> = vec![
        (
            "numbers at their limits",
            Box::new(|status| {
                for field in ["lastNodeID", "specGenerationToProcess", "hashChangeCounter"] {
                    status[field] = json!(i64::MAX);
                }
            }),
        ),
        (
            "the same role twice",
            Box::new(|status| {
                let role = status["roles"][0].clone();
                status["roles"].as_array_mut().expect("roles").push(role);
            }),
        ),
        (
            "members in disorder",
            Box::new(|status| {
                let mut member = status["roles"][0]["members"][0].clone();
                member["state"] = json!("deleting");
                status["roles"][0]["members"].as_array_mut().expect("members").insert(0, member);
            }),
        ),
        (
            "members without names",
            Box::new(|status| {
                for field in ["pod", "pvc", "service", "state"] {
                    status["roles"][0]["members"][0][field] = json!("");
                }
            }),
        ),
        (
            "a role nobody asked for",
            Box::new(move |status| {
                let member = first(status);
                status["roles"]
                    .as_array_mut()
                    .expect("roles")
                    .push(json!({"id": "x", "statefulSet": "../x", "members": [member]}));
            }),
        ),
        ("nothing", Box::new(|status| *status = json!({}))),
        (
            "nulls",
            Box::new(|status| {
                status["roles"] = Value::Null;
                status["conditions"] = Value::Null;
            }),
        ),
    ];
    for (what, spoil) in hostile {
        let mut world = world.clone();
        let mut status = world.status().clone();
        spoil(&mut status);
        for paused in [false, true] {
            let label = if paused { json!("") } else { Value::Null };
            let mut cluster = world.cluster().clone();
            cluster["status"] = status.clone();
            json_patch::merge(
                &mut cluster,
                &json!({"metadata": {"labels": {"kubedirector.hpe.com/restoring": label}}}),
            );
            world.put("KubeDirectorCluster", CLUSTER, cluster);
            let plan = world.plan();
            assert!(plan.changes.len() < 50, "{what}: {plan}");
        }
    }
}

#[test]
fn a_spec_past_the_webhook_does_not_ask_for_more_members_than_there_may_be() {
    let mut world = World::with(crate::lives::MANIFESTS);
    let mut spec = world.cluster()["spec"].clone();
    spec["roles"][0]["members"] = json!(i64::MAX);
    world.merge("KubeDirectorCluster", CLUSTER, &json!({"spec": spec}));
    for _ in 0..4 {
        for change in world.plan().changes {
            world.apply(&change).expect("applies");
        }
    }
    assert_eq!(world.status()["roles"][0]["members"].as_array().map(Vec::len), Some(1000));
    assert_eq!(condition(&world, "Sound").map(|c| &c["reason"]), Some(&json!("TooManyMembers")));
}
