//! Building simulated clusters.

use jiff::SignedDuration;
use rewake_apiserver::control_plane::Config;
use rewake_apiserver::request::{Request, User, Verb};
use serde_json::{Value, json};

use crate::subject::reference::{NAMESPACE, Reference, settings};
use crate::trace::Actor;
use crate::world::World;

/// A cluster with the reference controller installed and running, without the given safeguard (an
/// unknown name switches nothing off; scenarios are checked for that before anything runs).
pub async fn with_controller(seed: u64, without: Option<&str>) -> World {
    let mut world = World::new(&Config { seed, ..Config::default() });
    let settings = settings(without).unwrap_or_else(|_| settings(None).expect("every safeguard on is always possible"));
    for definition in rewake_controller::crds::documents() {
        create(&world, "apiextensions.k8s.io/v1", "customresourcedefinitions", &definition).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    create(&world, "v1", "namespaces", &namespace).await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "provisioner.rewake.dev",
    });
    create(&world, "storage.k8s.io/v1", "storageclasses", &class).await;
    world.run_for(SignedDuration::from_secs(5)).await;
    let subject = Reference::new(world.api(), settings);
    world.install(Box::new(subject));
    world.start_subject();
    world.run_for(SignedDuration::from_secs(5)).await;
    world
}

async fn create(world: &World, api_version: &str, resource: &str, object: &Value) {
    let request = Request::new(Verb::Create, User::admin("kubernetes-admin"), api_version, resource, "", "");
    // What is refused here shows at once in every scenario, with the server's words in the trace.
    let _ = world.send(&Actor::User, request.agent("kubectl").json(object.clone())).await;
}
