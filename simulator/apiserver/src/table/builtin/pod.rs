//! Pods, whose status column takes some reading.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cells, Definition, NAME, age, containers, count, created, items, name, number, text, text_or_none};

/// Columns and cells.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [Definition], Cells)> {
    match (group, kind) {
        ("", "Pod") => Some((POD, pod)),
        ("", "PodTemplate") => Some((TEMPLATE, template)),
        _ => None,
    }
}

const POD: &[Definition] = &[
    NAME,
    ("Ready", "string", "The aggregate readiness state of this pod for accepting traffic.", 0),
    ("Status", "string", "The aggregate status of the containers in this pod.", 0),
    (
        "Restarts",
        "string",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        0,
    ),
    AGE,
    (
        "IP",
        "string",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
        1,
    ),
    (
        "Node",
        "string",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
        1,
    ),
    (
        "Nominated Node",
        "string",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.",
        1,
    ),
    (
        "Readiness Gates",
        "string",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
        1,
    ),
];

/// What the containers say together.
struct Summary {
    reason: String,
    restarts: i64,
    /// RFC 3339, the latest; empty for none.
    last_restart: String,
    ready: usize,
    total: usize,
}

fn pod(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let summary = summarise(object);
    let restarts = if summary.restarts != 0 && !summary.last_restart.is_empty() {
        format!("{} ({} ago)", summary.restarts, age(&summary.last_restart.into(), now))
    } else {
        summary.restarts.to_string()
    };
    let ip = items(&status["podIPs"]).next().map_or(&status["podIP"], |first| &first["ip"]);
    let gates = &spec["readinessGates"];
    let gates = if count(gates) == 0 {
        "<none>".to_owned()
    } else {
        let met = items(gates).filter(|gate| {
            items(&status["conditions"])
                .any(|condition| condition["type"] == gate["conditionType"] && condition["status"] == "True")
        });
        format!("{}/{}", met.count(), count(gates))
    };
    vec![
        name(object),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        created(object, now),
        text_or_none(ip),
        text_or_none(&spec["nodeName"]),
        text_or_none(&status["nominatedNodeName"]),
        gates.into(),
    ]
}

fn summarise(object: &Value) -> Summary {
    let (spec, status) = (&object["spec"], &object["status"]);
    let is_sidecar = |container: &Value| container["restartPolicy"] == "Always";
    let init = |name: &Value| items(&spec["initContainers"]).find(|container| container["name"] == *name);
    let mut reason = text(&status["phase"]).to_owned();
    if !text(&status["reason"]).is_empty() {
        text(&status["reason"]).clone_into(&mut reason);
    }
    if items(&status["conditions"])
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated")
    {
        "SchedulingGated".clone_into(&mut reason);
    }
    let sidecars = items(&spec["initContainers"]).filter(|container| is_sidecar(container)).count();
    let (mut ready, mut restarts, mut last_restart) = (0, 0, String::new());
    let (mut sidecar_restarts, mut last_sidecar_restart) = (0, String::new());
    let later = |last: &mut String, container: &Value| {
        let finished = text(&container["lastState"]["terminated"]["finishedAt"]);
        // RFC 3339 in UTC sorts as text.
        if finished > last.as_str() {
            finished.clone_into(last);
        }
    };
    let mut initialising = false;
    for (index, container) in items(&status["initContainerStatuses"]).enumerate() {
        restarts += number(&container["restartCount"]);
        later(&mut last_restart, container);
        let sidecar = init(&container["name"]).is_some_and(is_sidecar);
        if sidecar {
            sidecar_restarts += number(&container["restartCount"]);
            later(&mut last_sidecar_restart, container);
        }
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            ready += usize::from(container["ready"] == true);
            continue;
        }
        reason = if terminated.is_object() {
            match (text(&terminated["reason"]), number(&terminated["signal"])) {
                ("", 0) => format!("Init:ExitCode:{}", number(&terminated["exitCode"])),
                ("", signal) => format!("Init:Signal:{signal}"),
                (why, _) => format!("Init:{why}"),
            }
        } else if !matches!(text(&waiting["reason"]), "" | "PodInitializing") {
            format!("Init:{}", text(&waiting["reason"]))
        } else {
            format!("Init:{index}/{}", count(&spec["initContainers"]))
        };
        initialising = true;
        break;
    }
    let initialised = items(&status["conditions"])
        .any(|condition| condition["type"] == "Initialized" && condition["status"] == "True");
    if !initialising || initialised {
        restarts = sidecar_restarts;
        last_restart = last_sidecar_restart;
        let mut running = false;
        let statuses: Vec<&Value> = items(&status["containerStatuses"]).collect();
        for container in statuses.into_iter().rev() {
            restarts += number(&container["restartCount"]);
            later(&mut last_restart, container);
            let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if !text(&waiting["reason"]).is_empty() {
                text(&waiting["reason"]).clone_into(&mut reason);
            } else if !text(&terminated["reason"]).is_empty() {
                text(&terminated["reason"]).clone_into(&mut reason);
            } else if terminated.is_object() {
                reason = match number(&terminated["signal"]) {
                    0 => format!("ExitCode:{}", number(&terminated["exitCode"])),
                    signal => format!("Signal:{signal}"),
                };
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        // Some containers are done and others go on.
        if reason == "Completed" && running {
            let is_ready = items(&status["conditions"])
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        if text(&status["reason"]) == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut reason);
        }
    }
    Summary { reason, restarts, last_restart, ready, total: count(&spec["containers"]) + sidecars }
}

const TEMPLATE: &[Definition] = &[
    NAME,
    ("Containers", "string", "Names of each container in the template.", 0),
    ("Images", "string", "Images referenced by each container in the template.", 0),
    ("Pod Labels", "string", "The labels for the pod template.", 0),
];

fn template(object: &Value, _now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["template"]["spec"]);
    vec![name(object), names, images, super::labels(&object["template"]["metadata"]["labels"])]
}
