//! Any folder of KubeDirector manifests: each cluster goes through create, backup, wipe, restore,
//! delete; apps and configs are accepted or not.
//!
//! What a cluster mentions and the folder does not hold (its app or one of its roles, Secrets, ConfigMaps,
//! claims, storage classes) is made up, and said so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rewake_apiserver::object::ObjectExt;
use serde_json::{Value, json};

use crate::cli::BadInput;
use crate::scenario::model::{Action, Check, Disaster, Expectation, Given, Restore, Step, Target};
use crate::scenario::read::{QUIET_DEFAULT, SETTLE_DEFAULT, WITHIN_DEFAULT, manifests};
use crate::scenario::run::{Options, Verdict, run as run_scenario};
use crate::scenario::yaml::Mark;
use crate::scenario::{Scenario, ScenarioError};
use crate::suite::on_runtime;
use crate::tools::{Profile, Selection};

/// Namespace in which clusters are made.
const NAMESPACE: &str = "team";
/// Most files read from a folder.
const FILES_MAX: usize = 2_000;

/// Runs every cluster found below `folder`, and prints how each went.
///
/// # Errors
/// When the folder cannot be read, or a manifest in it.
pub fn run(folder: &Path, profile: Option<&'static Profile>, seed: u64) -> anyhow::Result<bool> {
    let found = read(folder)?;
    let apps: BTreeMap<&str, &Given> = found
        .iter()
        .filter(|given| given.object.kind() == "KubeDirectorApp")
        .map(|given| (given.object.name(), given))
        .collect();
    let clusters: Vec<&Given> = found.iter().filter(|given| given.object.kind() == "KubeDirectorCluster").collect();
    if clusters.is_empty() && apps.is_empty() {
        return Err(
            BadInput(format!("there is no KubeDirectorCluster or KubeDirectorApp in {}", folder.display())).into()
        );
    }
    let mut passed = 0;
    let mut failed = 0;
    let mut tell = |given: &Given, what: &str, problem: Option<String>| {
        let name = format!("{} {}", given.object.kind(), given.object.name());
        match problem {
            None => {
                passed += 1;
                println!("ok     {name:<52} {what}");
            }
            Some(problem) => {
                failed += 1;
                println!("FAILED {name:<52} {what}\n       {}: {problem}", given.from.display());
            }
        }
    };
    for given in found
        .iter()
        .filter(|given| matches!(given.object.kind(), "KubeDirectorApp" | "KubeDirectorConfig" | "StorageClass"))
    {
        let class = given.object["spec"]["defaultStorageClassName"].as_str();
        let classes = found.iter().filter(|other| {
            other.object.kind() == "StorageClass" && class.is_some_and(|class| other.object.name() == class)
        });
        let objects: Vec<Given> = classes.chain([given]).map(in_place).collect();
        let scenario = scenario(given, vec![step(Action::Apply(objects))]);
        tell(given, "accepted", run_one(&scenario, profile, seed));
    }
    for given in clusters {
        let (app, invented) = app_for(given, &apps);
        let made_up = made_up(given);
        let scenario = scenario(given, life(given, &app, &made_up));
        let mut what = "created, backed up, wiped, restored, deleted".to_owned();
        let names: Vec<String> = invented
            .into_iter()
            .chain(made_up.iter().map(|given| format!("{} {}", given.object.kind(), given.object.name())))
            .collect();
        if !names.is_empty() {
            what.push_str(&format!(" (made up for it: {})", names.join(", ")));
        }
        tell(given, &what, run_one(&scenario, profile, seed));
    }
    println!("\n{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn run_one(scenario: &Scenario, profile: Option<&'static Profile>, seed: u64) -> Option<String> {
    let options = Options { profile, variant: None, hold_before: None, only_steps: false };
    let outcome =
        on_runtime(async { run_scenario(scenario, crate::cluster::with_controller(seed, None).await, &options).await });
    (outcome.verdict == Verdict::Failed)
        .then(|| outcome.failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn read(folder: &Path) -> anyhow::Result<Vec<Given>> {
    let mut files = Vec::new();
    find(folder, 0, &mut files).map_err(|error| BadInput(format!("{}: {error}", folder.display())))?;
    files.sort();
    if files.len() > FILES_MAX {
        return Err(BadInput(format!(
            "{} holds {} files; at most {FILES_MAX} are read",
            folder.display(),
            files.len()
        ))
        .into());
    }
    let mut found = Vec::new();
    for file in files {
        let objects = manifests(&file).map_err(|error: ScenarioError| BadInput(error.to_string()))?;
        // Definitions are the controller's own here.
        found.extend(objects.into_iter().filter(|given| given.object.kind() != "CustomResourceDefinition"));
    }
    Ok(found)
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    const DEPTH_MAX: usize = 8;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if depth < DEPTH_MAX && !path.ends_with("crds") {
                find(&path, depth + 1, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// A config belongs into the controller's namespace, whatever the file says.
fn in_place(given: &Given) -> Given {
    let mut given = given.clone();
    if given.object.kind() == "KubeDirectorConfig" {
        rewake_apiserver::object::set_meta(&mut given.object, "namespace", crate::subject::reference::NAMESPACE);
    }
    given
}

/// The cluster's app: the folder's, with the roles that it lacks, or one made from the cluster's roles. Answers what
/// had to be made up.
fn app_for(cluster: &Given, apps: &BTreeMap<&str, &Given>) -> (Given, Option<String>) {
    let name = cluster.object["spec"]["app"].as_str().unwrap_or_default();
    let roles = cluster.object["spec"]["roles"].as_array().into_iter().flatten();
    let wanted: Vec<&str> = roles.filter_map(|role| role["id"].as_str()).collect();
    let Some(known) = apps.get(name) else {
        let role = |id: &&str| json!({"id": id, "cardinality": "0+"});
        let object = json!({
            "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorApp", "metadata": {"name": name},
            "spec": {
                "label": {"name": name}, "distroID": format!("made-up/{name}"), "version": "1", "configSchemaVersion": 7,
                "defaultImageRepoTag": "registry.example/made-up:1",
                "roles": wanted.iter().map(role).collect::<Vec<Value>>(),
                "config": {"selectedRoles": wanted, "roleServices": []},
            },
        });
        let app = Given { object, ..cluster.clone() };
        return (app, Some(format!("KubeDirectorApp {name}")));
    };
    let mut app = (*known).clone();
    let mut missing = Vec::new();
    if let Some(roles) = app.object["spec"]["roles"].as_array_mut() {
        missing = wanted.into_iter().filter(|id| roles.iter().all(|role| role["id"] != **id)).collect();
        for id in &missing {
            let image = "registry.example/made-up:1";
            roles.push(json!({"id": id, "cardinality": "0+", "imageRepoTag": image}));
        }
    }
    let invented = (!missing.is_empty()).then(|| format!("role {} of KubeDirectorApp {name}", missing.join(", ")));
    (app, invented)
}

/// What the cluster mentions in its own namespace, and the storage classes it asks for.
fn made_up(cluster: &Given) -> Vec<Given> {
    let spec = &cluster.object["spec"];
    let mut objects: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut add = |kind: &str, api_version: &str, name: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        if let (Some(object), Some(rest)) = (object.as_object_mut(), rest.as_object()) {
            object.extend(rest.clone());
        }
        objects.insert((kind.to_owned(), name.to_owned()), object);
    };
    let texts = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let secret = || json!({"stringData": {"made-up": "yes"}});
    for name in texts(&spec["connections"]["secrets"]) {
        add("Secret", "v1", &name, secret());
    }
    for name in texts(&spec["connections"]["configmaps"]) {
        add("ConfigMap", "v1", &name, json!({"data": {"made-up": "yes"}}));
    }
    if let Some(name) = spec["defaultSecret"]["name"].as_str() {
        add("Secret", "v1", name, secret());
    }
    for role in spec["roles"].as_array().into_iter().flatten() {
        if let Some(name) = role["secret"]["name"].as_str() {
            add("Secret", "v1", name, secret());
        }
        if let Some(name) = role["serviceAccountName"].as_str() {
            add("ServiceAccount", "v1", name, json!({}));
        }
        for projection in role["volumeProjections"].as_array().into_iter().flatten() {
            if let Some(name) = projection["pvcName"].as_str() {
                let spec = json!({"accessModes": ["ReadWriteMany"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}});
                add("PersistentVolumeClaim", "v1", name, json!({"spec": spec}));
            }
        }
        for class in [&role["storage"]["storageClassName"], &role["blockStorage"]["storageClassName"]] {
            if let Some(name) = class.as_str().filter(|name| *name != "standard") {
                add(
                    "StorageClass",
                    "storage.k8s.io/v1",
                    name,
                    json!({"provisioner": rewake_apiserver::loops::claim_binder::STAND_IN_PROVISIONER}),
                );
            }
        }
    }
    objects.into_values().map(|object| Given { from: cluster.from.clone(), mark: cluster.mark, object }).collect()
}

/// The life of a cluster, as steps.
fn life(cluster: &Given, app: &Given, made_up: &[Given]) -> Vec<Step> {
    let config = json!({
        "apiVersion": "kubedirector.hpe.com/v1beta1", "kind": "KubeDirectorConfig",
        "metadata": {"name": "kd-global-config", "namespace": crate::subject::reference::NAMESPACE},
        "spec": {"backupClusterStatus": true, "defaultServiceType": "ClusterIP"},
    });
    let name = cluster.object.name();
    let mut given = vec![Given { object: config, ..cluster.clone() }, app.clone()];
    given.extend(made_up.iter().cloned());
    let configured = json!({
        "kind": "KubeDirectorCluster", "metadata": {"name": name, "labels": {"kubedirector.hpe.com/restoring": null}},
        "status": {"state": "configured", "restoreProgress": null},
    });
    let labels = BTreeMap::from([("kubedirector.hpe.com/kdcluster".to_owned(), name.to_owned())]);
    let none_left = |kind: &str| {
        check(Expectation::Count {
            target: Target { kind: kind.to_owned(), labels: labels.clone(), ..Target::default() },
            is: 0,
        })
    };
    let settle = || step(Action::Settle { quiet: QUIET_DEFAULT, within: SETTLE_DEFAULT });
    let restore = Restore {
        from: "before".to_owned(),
        profile: None,
        selection: Selection::default(),
        mapping: BTreeMap::new(),
        order: None,
        shuffle: false,
        existing: None,
        restore_status: Vec::new(),
        owner_references: None,
        stop_after: None,
        with_volumes: true,
        background: false,
        pace: jiff::SignedDuration::from_millis(50),
    };
    vec![
        step(Action::Apply(given)),
        step(Action::Apply(vec![cluster.clone()])),
        settle(),
        check(Expectation::Assert(configured.clone())),
        step(Action::Backup {
            name: "before".to_owned(),
            selection: Selection { namespaces: vec![NAMESPACE.to_owned()], ..Selection::default() },
            profile: None,
        }),
        step(Action::Disaster(Disaster::Namespaces(vec![NAMESPACE.to_owned()]))),
        step(Action::Restore(restore)),
        settle(),
        check(Expectation::Assert(configured)),
        step(Action::Delete {
            target: Target { kind: "KubeDirectorCluster".to_owned(), name: Some(name.to_owned()), ..Target::default() },
            propagation: String::new(),
            refused: None,
        }),
        settle(),
        none_left("StatefulSet"),
        none_left("Service"),
        none_left("Pod"),
        none_left("PersistentVolumeClaim"),
    ]
}

fn step(action: Action) -> Step {
    Step { mark: Mark::default(), id: None, action }
}

fn check(expectation: Expectation) -> Step {
    step(Action::Check(Check { mark: Mark::default(), expectation, within: WITHIN_DEFAULT }))
}

fn scenario(given: &Given, steps: Vec<Step>) -> Scenario {
    Scenario {
        name: given.object.name().to_owned(),
        path: given.from.clone(),
        question: format!("Does {} survive its life?", given.object.name()),
        covers: Vec::new(),
        namespace: NAMESPACE.to_owned(),
        profile: Profile::newest(),
        starts_without_controller: false,
        steps,
        accepts: BTreeMap::new(),
        variants: Vec::new(),
        needs: Vec::new(),
    }
}
