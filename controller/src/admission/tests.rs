//! The tables of verdicts: one row, one rule.

use base64::Engine;
use serde_json::{Value, json};

use super::facts::Facts;
use super::request::Request;
use super::verdict::Verdict;
use super::{answer, judge};
use crate::names::{ALLOW_DELETE_WHILE_RESTORING, FINALIZER, RESTORING, STATUS_BACKUP_EXISTS};
use crate::settings::{Safeguards, Settings};

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("test object")
}

fn app() -> Value {
    json!({
        "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorApp",
        "metadata": {"name": "store", "namespace": "kd"},
        "spec": {
            "label": {"name": "Store"}, "distroID": "d", "version": "1", "configSchemaVersion": 7,
            "defaultImageRepoTag": "store:1", "services": [],
            "roles": [{"id": "data", "cardinality": "2+"}, {"id": "web", "cardinality": "1"}],
            "config": {"selectedRoles": ["data"], "roleServices": []},
        },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "reads best with JSON literals as arguments")]
fn cluster(metadata: Value, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorCluster",
        "metadata": {"name": "db", "namespace": "shop", "uid": "uid-1", "generation": 1},
        "spec": {
            "app": "store", "appCatalog": "system", "serviceType": "ClusterIP", "namingScheme": "UID",
            "roles": [{"id": "data", "members": 2, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
        },
    });
    json_patch::merge(&mut object, &json!({"metadata": metadata, "spec": spec}));
    object
}

fn known(mut object: Value) -> Value {
    object["status"] = json!({"state": "configured", "observedGeneration": 1, "roles": [{"id": "data"}]});
    object
}

fn facts() -> Facts {
    Facts {
        app: Some(parse(app())),
        storage_classes: [("standard".to_owned(), true), ("slow".to_owned(), false)].into(),
        secrets: ["held".to_owned()].into(),
        ..Facts::default()
    }
}

fn review(operation: &str, resource: &str, old: &Value, new: &Value) -> Value {
    let metadata = if new.is_null() { &old["metadata"] } else { &new["metadata"] };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "review-1", "operation": operation, "resource": {"resource": resource},
        "namespace": metadata["namespace"], "name": metadata["name"], "object": new, "oldObject": old,
    }})
}

fn verdict_with(
    settings: &Settings,
    operation: &str,
    resource: &str,
    old: &Value,
    new: &Value,
    facts: &Facts,
) -> Verdict {
    judge(&Request::parse(&review(operation, resource, old, new)).expect("a review"), facts, settings)
}

fn verdict(operation: &str, old: &Value, new: &Value, facts: &Facts) -> Verdict {
    verdict_with(&Settings::new("kd"), operation, "kubedirectorclusters", old, new, facts)
}

/// `allow`, `allow` with the patched paths, or the reasons.
fn text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow(patch) => {
            let paths: Vec<String> = patch.iter().map(|operation| operation.path().to_string()).collect();
            format!("allow {}", paths.join(" ")).trim().to_owned()
        }
        Verdict::Refuse(reasons) => reasons.join("; "),
    }
}

fn restoring() -> Value {
    json!({"labels": {RESTORING: ""}, "annotations": {STATUS_BACKUP_EXISTS: "true"}})
}

/// Covers: KD-12, KD-15, KD-16, KD-17, KD-18, KD-19
#[test]
fn a_create_with_the_annotation_is_a_restore_and_gets_the_label() {
    let none = Facts::default();
    for (name, object, facts, expected) in [
        (
            "no labels",
            cluster(json!({"annotations": {STATUS_BACKUP_EXISTS: "true"}}), json!({"app": "gone"})),
            &none,
            "allow /metadata/labels",
        ),
        (
            "labels",
            cluster(json!({"annotations": {STATUS_BACKUP_EXISTS: "false"}, "labels": {"a": "b"}}), json!({})),
            &none,
            "allow /metadata/labels/kubedirector.hpe.com~1restoring",
        ),
        ("labelled", cluster(restoring(), json!({})), &none, "allow"),
        ("finalizer only", cluster(json!({"finalizers": [FINALIZER]}), json!({})), &facts(), "allow"),
        ("no app", cluster(json!({}), json!({"app": "gone"})), &none, "spec.app: KubeDirectorApp gone does not exist"),
        ("status", known(cluster(json!({}), json!({}))), &facts(), "status is read-only: leave it out"),
    ] {
        assert_eq!(text(&verdict("CREATE", &Value::Null, &object, facts)), expected, "{name}");
    }
    let forged = known(cluster(json!({"annotations": {STATUS_BACKUP_EXISTS: ""}}), json!({})));
    assert!(verdict("CREATE", &Value::Null, &forged, &none).is_allowed(), "the server drops the status");
}

#[test]
fn detection_by_finalizer_misses_what_a_tool_stripped() {
    let mut settings = Settings::new("kd");
    settings.safeguards = Safeguards::without("detect_by_annotation").expect("known");
    let stripped = cluster(json!({"annotations": {STATUS_BACKUP_EXISTS: "true"}}), json!({}));
    let verdict = verdict_with(&settings, "CREATE", "kubedirectorclusters", &Value::Null, &stripped, &facts());
    assert_eq!(text(&verdict), "allow", "no label");
}

/// Covers: KD-41, KD-42, KD-43, KD-44, KD-45, KD-46, KD-55, B26
#[test]
fn while_restoring_the_spec_is_frozen_and_a_delete_needs_a_second_label() {
    let old = known(cluster(restoring(), json!({})));
    let change = |metadata: Value, spec: Value| {
        let mut new = old.clone();
        json_patch::merge(&mut new, &json!({"metadata": metadata, "spec": spec}));
        new
    };
    let none = Facts::default();
    let frozen = format!("the spec cannot be changed while the label {RESTORING} exists");
    for (name, new, expected) in [
        ("spec", change(json!({}), json!({"serviceType": "NodePort"})), frozen.as_str()),
        ("spec and label", change(json!({"labels": {RESTORING: null}}), json!({"serviceType": "NodePort"})), &frozen),
        ("other label", change(json!({"labels": {"a": "b"}}), json!({})), "allow"),
        ("permission", change(json!({"labels": {ALLOW_DELETE_WHILE_RESTORING: "x"}}), json!({})), "allow"),
    ] {
        assert_eq!(text(&verdict("UPDATE", &old, &new, &none)), expected, "{name}");
    }
    let refused = text(&verdict("DELETE", &old, &Value::Null, &none));
    assert!(refused.contains(RESTORING) && refused.contains(ALLOW_DELETE_WHILE_RESTORING), "{refused}");
    let going = Facts { namespace_terminating: true, ..Facts::default() };
    assert!(verdict("DELETE", &old, &Value::Null, &going).is_allowed());
    for value in ["", "anything"] {
        let permitted =
            cluster(json!({"labels": {RESTORING: "", ALLOW_DELETE_WHILE_RESTORING: value}}), json!({"app": "gone"}));
        assert!(verdict("DELETE", &permitted, &Value::Null, &none).is_allowed());
    }
    assert!(verdict("DELETE", &known(cluster(json!({}), json!({}))), &Value::Null, &none).is_allowed());
}

/// Covers: KD-47, KD-48, KD-49, KD-51, KD-81, B2, B19, B33, I5
#[test]
fn removing_the_label_asks_for_validation_but_not_for_an_empty_queue() {
    let removal = |spec: Value, status: Value, facts: &Facts| {
        let mut old = cluster(restoring(), spec);
        old["status"] = status;
        let mut new = old.clone();
        json_patch::merge(&mut new, &json!({"metadata": {"labels": {RESTORING: null}}}));
        text(&verdict("UPDATE", &old, &new, facts))
    };
    let status = json!({"observedGeneration": 0});
    let pending =
        json!({"roles": [{"id": "data", "members": [{"stateDetail": {"pendingNotifyCmds": [{"arguments": ["x"]}]}}]}]});
    assert_eq!(removal(json!({}), status.clone(), &facts()), "allow");
    assert_eq!(removal(json!({}), pending.clone(), &facts()), "allow");
    assert_eq!(removal(json!({}), status.clone(), &Facts::default()), "spec.app: KubeDirectorApp store does not exist");
    assert!(removal(json!({}), Value::Null, &facts()).contains("has not looked at this kdcluster yet"));
    let bad = json!({"defaultSecret": {"name": "absent", "mountPath": "/s"}});
    assert!(removal(bad, status.clone(), &facts()).contains("spec.defaultSecret: Secret absent does not exist"));
    let held = json!({"defaultSecret": {"name": "held", "mountPath": "/s"}});
    assert_eq!(removal(held, status, &facts()), "allow /spec/roles/0/secret");

    let mut strict = Settings::new("kd");
    strict.safeguards = Safeguards::without("skip_pending_check_on_resume").expect("known");
    let mut old = cluster(restoring(), json!({}));
    old["status"] = pending;
    let mut new = old.clone();
    json_patch::merge(&mut new, &json!({"metadata": {"labels": {RESTORING: null}}}));
    assert!(!verdict_with(&strict, "UPDATE", "kubedirectorclusters", &old, &new, &facts()).is_allowed());
}

#[test]
fn a_spec_is_validated_and_filled_in() {
    let role = |id: &str, members: Value| json!({"id": id, "members": members, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    let stored = |class: Value| {
        let mut role = role("data", json!(2));
        role["storage"] = json!({"size": "1Gi", "storageClassName": class});
        role
    };
    for (roles, expected) in [
        (json!([role("data", json!(1))]), "spec.roles[data].members: 1 does not fit the app's cardinality 2+"),
        (
            json!([role("data", json!(2)), role("web", json!(2))]),
            "spec.roles[web].members: 2 does not fit the app's cardinality 1",
        ),
        (json!([role("data", json!(2)), role("data", json!(2))]), "spec.roles[data]: the role is listed twice"),
        (
            json!([role("data", json!(2)), role("x", json!(1))]),
            "spec.roles[x]: the app has no such role, only data, web",
        ),
        (json!([]), "spec.roles: role data is missing, of which the app needs 2+"),
        (json!([role("data", json!(1001))]), "spec.roles: 1001 members are more than 1000"),
        (json!([role("data", Value::Null)]), "allow /spec/roles/0/members"),
        (json!([stored(Value::Null)]), "allow /spec/roles/0/storage/storageClassName"),
        (json!([stored(json!("fast"))]), "spec.roles[data].storage: StorageClass fast does not exist"),
    ] {
        let mut new = cluster(json!({}), json!({}));
        new["spec"]["roles"] = roles;
        assert_eq!(text(&verdict("CREATE", &Value::Null, &new, &facts())), expected);
    }
    let bare = cluster(json!({}), json!({"appCatalog": null, "serviceType": null, "namingScheme": null}));
    assert_eq!(
        text(&verdict("CREATE", &Value::Null, &bare, &facts())),
        "allow /spec/appCatalog /spec/serviceType /spec/namingScheme"
    );
}

#[test]
fn of_a_running_role_only_the_number_of_members_changes() {
    let old = known(cluster(json!({}), json!({})));
    let change = |spec: Value| {
        let mut new = old.clone();
        json_patch::merge(&mut new, &json!({"spec": spec}));
        text(&verdict("UPDATE", &old, &new, &facts()))
    };
    let role = |members: u64, memory: &str| json!([{"id": "data", "members": members, "resources": {"limits": {"cpu": "1", "memory": memory}}}]);
    assert_eq!(change(json!({"roles": role(3, "1Gi")})), "allow");
    assert_eq!(
        change(json!({"roles": role(2, "2Gi")})),
        "spec.roles[data]: only members can be changed while the role runs"
    );
    assert_eq!(change(json!({"app": "other"})), "spec.app: cannot be changed");

    let mut busy = old.clone();
    busy["metadata"]["generation"] = json!(2);
    let mut new = busy.clone();
    new["spec"]["roles"] = role(3, "1Gi");
    assert!(text(&verdict("UPDATE", &busy, &new, &facts())).contains("has not been taken up yet"));
}

/// Covers: KD-63, KD-64, KD-65, KD-66, KD-67, KD-68, KD-69, KD-70, B12, B40
#[test]
fn member_claims_get_their_owner_and_others_are_left_alone() {
    let owner: Value = cluster(json!({"labels": {"a": "b"}}), json!({}));
    let reference = json!({
        "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorCluster", "name": "db", "uid": "uid-1",
        "controller": true, "blockOwnerDeletion": false,
    });
    let stale = json!([{"apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorCluster", "name": "db", "uid": "before", "controller": true}]);
    let claim = |name: &str, labels: Value, owners: Value| json!({"metadata": {"name": name, "namespace": "shop", "labels": labels, "ownerReferences": owners}});
    let label = json!({"kubedirector.hpe.com/kdcluster": "db"});
    let with = Facts { owner: Some(parse(owner)), ..Facts::default() };
    let none = Facts::default();
    let judged = |claim: &Value, facts: &Facts| {
        verdict_with(&Settings::new("kd"), "CREATE", "persistentvolumeclaims", &Value::Null, claim, facts)
    };
    for (name, claim, facts, expected) in [
        ("a member's", claim("p-kdss-x-0", label.clone(), Value::Null), &with, Some(json!([reference]))),
        ("stale", claim("p-kdss-x-0", label.clone(), stale.clone()), &with, Some(json!([reference]))),
        ("right already", claim("p-kdss-x-0", label.clone(), json!([reference])), &with, None),
        ("no label", claim("p-kdss-x-0", json!({}), stale.clone()), &with, None),
        ("no cluster yet", claim("p-kdss-x-0", label.clone(), Value::Null), &none, None),
        ("no cluster yet, stale", claim("p-kdss-x-0", label.clone(), stale), &none, Some(json!([]))),
        ("labelled by hand", claim("scratch", label, Value::Null), &with, None),
    ] {
        match (judged(&claim, facts), expected) {
            (Verdict::Allow(patch), None) => assert!(patch.is_empty(), "{name}"),
            (Verdict::Allow(patch), Some(owners)) => {
                let mut patched = claim.clone();
                json_patch::patch(&mut patched, &patch).expect("a strict server can apply it");
                assert_eq!(patched["metadata"]["ownerReferences"], owners, "{name}");
            }
            (Verdict::Refuse(reasons), _) => panic!("{name}: {reasons:?}"),
        }
    }
}

/// Covers: B11
#[test]
fn owners_of_an_earlier_life_do_not_come_back_with_children() {
    let stale = json!([{"apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorCluster", "name": "db", "uid": "before", "controller": true}]);
    let child = json!({"metadata": {"name": "db", "namespace": "shop", "labels": {"kubedirector.hpe.com/kdcluster": "db"}, "ownerReferences": stale}});
    for resource in ["statefulsets", "services", "kubedirectorstatusbackups"] {
        for (owner, left) in [(None, 0), (Some(parse(cluster(json!({}), json!({})))), 1)] {
            let facts = Facts { owner, ..Facts::default() };
            let Verdict::Allow(patch) =
                verdict_with(&Settings::new("kd"), "CREATE", resource, &Value::Null, &child, &facts)
            else {
                panic!("refused")
            };
            let mut patched = child.clone();
            json_patch::patch(&mut patched, &patch).expect("applies");
            assert_eq!(patched["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(left), "{resource}");
        }
    }
}

/// Covers: KD-20, B5
#[test]
fn an_app_in_use_is_neither_changed_nor_deleted_and_a_restoring_cluster_does_not_use_it() {
    let mut changed = app();
    changed["spec"]["version"] = json!("2");
    for (metadata, in_use) in [(json!({}), true), (restoring(), false)] {
        let facts = Facts { clusters: vec![parse(cluster(metadata, json!({})))], ..Facts::default() };
        let settings = Settings::new("kd");
        let judged = |operation: &str, new: &Value| {
            verdict_with(&settings, operation, "kubedirectorapps", &app(), new, &facts).is_allowed()
        };
        assert_eq!(judged("DELETE", &Value::Null), !in_use);
        assert_eq!(judged("UPDATE", &changed), !in_use);
        assert!(judged("UPDATE", &app()));
    }
    let mut wrong = app();
    wrong["spec"]["config"]["selectedRoles"] = json!(["ghost"]);
    let verdict =
        verdict_with(&Settings::new("kd"), "CREATE", "kubedirectorapps", &Value::Null, &wrong, &Facts::default());
    assert_eq!(text(&verdict), "spec.config.selectedRoles: there is no role ghost");
}

/// Covers: KD-01, KD-35
#[test]
fn a_config_is_filled_in_and_counts_only_beside_the_controller() {
    let config = |namespace: &str, spec: Value| {
        json!({
            "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorConfig",
            "metadata": {"name": "kd-global-config", "namespace": namespace}, "spec": spec,
        })
    };
    let judged = |object: &Value| {
        verdict_with(&Settings::new("kd"), "CREATE", "kubedirectorconfigs", &Value::Null, object, &facts())
    };
    let filled = text(&judged(&config("kd", Value::Null)));
    assert!(
        filled.starts_with("allow /spec /spec/backupClusterStatus /spec/allowRestoreWithoutConnections"),
        "{filled}"
    );
    let set = text(&judged(&config("kd", json!({"backupClusterStatus": true}))));
    assert!(!set.contains("backupClusterStatus"), "{set}");
    assert!(text(&judged(&config("shop", json!({})))).contains("only in namespace kd"));
    let class = judged(&config("kd", json!({"defaultStorageClassName": "fast"})));
    assert_eq!(text(&class), "spec.defaultStorageClassName: StorageClass fast does not exist");
}

/// Covers: KD-19
#[test]
fn an_answer_echoes_its_review_and_never_carries_both_patch_and_refusal() {
    let patch = json_patch::Patch(vec![crate::reconcile::status::add(["spec", "x"], json!(1))]);
    let review = review("CREATE", "kubedirectorclusters", &Value::Null, &json!({"metadata": {}}));
    let allowed = answer(&review, &Verdict::of(Vec::new(), patch.clone()));
    assert_eq!(allowed["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(allowed["response"]["uid"], "review-1");
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(allowed["response"]["patch"].as_str().expect("a patch"));
    assert_eq!(
        serde_json::from_slice::<Value>(&bytes.expect("base64")).expect("JSON"),
        json!([{"op": "add", "path": "/spec/x", "value": 1}])
    );
    let refused = answer(&review, &Verdict::of(vec!["no".to_owned()], patch));
    assert!(refused["response"]["patch"].is_null());
    assert_eq!(refused["response"]["status"]["message"], "no");
}

/// Every manifest of KubeDirector's is accepted: apps as they are, clusters of the apps that are there. Needs
/// the manifests at hand.
#[test]
fn manifests_of_kubedirector_are_accepted() {
    use serde::Deserialize;
    let Some(folder) = std::env::var_os("KUBEDIRECTOR_MANIFESTS").map(std::path::PathBuf::from) else {
        eprintln!("SKIPPED: set KUBEDIRECTOR_MANIFESTS to a checkout's manifests");
        return;
    };
    let read = |folder: std::path::PathBuf| -> Vec<Value> {
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        let texts = files.iter().map(|file| std::fs::read_to_string(file).expect("text"));
        texts
            .flat_map(|text| {
                let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
                documents.map(|document| document.expect("YAML")).collect::<Vec<_>>()
            })
            .filter(|document| document["kind"].as_str().is_some_and(|kind| kind.starts_with("KubeDirector")))
            .map(|mut document| {
                document["metadata"]["namespace"] = json!("kd");
                document
            })
            .collect()
    };
    let settings = Settings::new("kd");
    let apps = read(folder.join("example_catalog"));
    for app in &apps {
        let verdict = verdict_with(&settings, "CREATE", "kubedirectorapps", &Value::Null, app, &Facts::default());
        assert_eq!(text(&verdict), "allow", "{}", app["metadata"]["name"]);
    }
    for config in read(folder.join("configs")) {
        let facts = Facts { storage_classes: [("gp2-for-kd".to_owned(), false)].into(), ..Facts::default() };
        let verdict = verdict_with(&settings, "CREATE", "kubedirectorconfigs", &Value::Null, &config, &facts);
        assert!(verdict.is_allowed(), "{}", text(&verdict));
    }
    for cluster in read(folder.join("example_clusters")) {
        let app = apps.iter().find(|app| app["metadata"]["name"] == cluster["spec"]["app"]);
        let facts = Facts {
            app: app.cloned().map(parse),
            storage_classes: [("standard".to_owned(), true), ("local-path".to_owned(), false)].into(),
            ..Facts::default()
        };
        let verdict = verdict_with(&settings, "CREATE", "kubedirectorclusters", &Value::Null, &cluster, &facts);
        eprintln!("{} {}: {}", cluster["metadata"]["name"], app.is_some(), text(&verdict));
        let unfit = cluster["metadata"]["name"] == "training-environment";
        assert!(verdict.is_allowed() || app.is_none() || unfit, "{}: {}", cluster["metadata"]["name"], text(&verdict));
    }
}
