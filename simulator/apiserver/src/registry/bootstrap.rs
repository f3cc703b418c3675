//! What upstream makes at start.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::state::State;
use crate::access;
use crate::control_plane::Progress;
use crate::request::{Request, User, Verb};

/// Makes the objects that every cluster has: namespaces, priority classes, the `kubernetes` Service, roles.
pub(crate) fn run(state: &mut State, now: Timestamp) {
    for (api_version, resource, namespace, object) in objects(&first_address(state)) {
        let user = User::admin("system:apiserver");
        let request = Request::new(Verb::Create, user, api_version, resource, namespace, "")
            .agent("kube-apiserver/v1.36.0")
            .json(object);
        match super::begin(state, request, now) {
            Progress::Done(response) if response.is_success() => {}
            Progress::Done(response) => unreachable!("our own {resource} is refused: {}", response.json()),
            Progress::Ask(..) => unreachable!("an empty store holds no webhook"),
        }
    }
    // Versions before the first that a client can know are too old to watch from.
    state.store.compact(state.store.revision());
}

fn first_address(state: &State) -> String {
    std::net::Ipv4Addr::from(u32::from(state.network.service_base) + 1).to_string()
}

fn objects(address: &str) -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let namespace = |name: &str| ("v1", "namespaces", "", json!({ "metadata": { "name": name } }));
    let priority = |name: &str, value: i64, what: &str| {
        let object = json!({ "metadata": { "name": name }, "value": value, "description": what });
        ("scheduling.k8s.io/v1", "priorityclasses", "", object)
    };
    let mut objects = vec![
        namespace("kube-system"),
        namespace("kube-public"),
        namespace("kube-node-lease"),
        namespace("default"),
        priority(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        priority(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "v1",
            "services",
            "default",
            json!({
                "metadata": {
                    "name": "kubernetes",
                    "labels": { "component": "apiserver", "provider": "kubernetes" },
                },
                "spec": {
                    "clusterIP": address,
                    "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }],
                    "sessionAffinity": "None",
                    "type": "ClusterIP",
                },
            }),
        ),
    ];
    let access = access::bootstrap::objects().iter();
    objects.extend(access.map(|(resource, object)| ("rbac.authorization.k8s.io/v1", *resource, "", object.clone())));
    objects
}
