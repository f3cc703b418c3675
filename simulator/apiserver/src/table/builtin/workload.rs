//! Controllers of pods and their budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::super::human_duration;
use super::{
    AGE, Cells, Definition, NAME, age, containers, count, created, name, number, selector, text, text_or_none,
};

const CONTAINERS: Definition = ("Containers", "string", "Names of each container in the template.", 1);
const IMAGES: Definition = ("Images", "string", "Images referenced by each container in the template.", 1);
const DESIRED: &str = "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller";

/// Columns and cells.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [Definition], Cells)> {
    Some(match (group, kind) {
        ("apps", "StatefulSet") => (STATEFUL_SET, stateful_set),
        ("apps", "Deployment") => (DEPLOYMENT, deployment),
        ("apps", "ReplicaSet") => (REPLICA_SET, replica_set),
        ("", "ReplicationController") => (REPLICA_SET, replication_controller),
        ("apps", "DaemonSet") => (DAEMON_SET, daemon_set),
        ("apps", "ControllerRevision") => (CONTROLLER_REVISION, controller_revision),
        ("batch", "Job") => (JOB, job),
        ("batch", "CronJob") => (CRON_JOB, cron_job),
        ("policy", "PodDisruptionBudget") => (DISRUPTION_BUDGET, disruption_budget),
        ("autoscaling", "HorizontalPodAutoscaler") => (AUTOSCALER, autoscaler),
        _ => return None,
    })
}

const STATEFUL_SET: &[Definition] =
    &[NAME, ("Ready", "string", "Number of the pod with ready state", 0), AGE, CONTAINERS, IMAGES];

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["spec"]["template"]["spec"]);
    let ready = format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"]));
    vec![name(object), ready.into(), created(object, now), names, images]
}

const DEPLOYMENT: &[Definition] = &[
    NAME,
    ("Ready", "string", "Number of the pod with ready state", 0),
    (
        "Up-to-date",
        "string",
        "Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
        0,
    ),
    (
        "Available",
        "string",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.",
        0,
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    (
        "Selector",
        "string",
        "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this deployment. It must match the pod template's labels.",
        1,
    ),
];

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let (names, images) = containers(&object["spec"]["template"]["spec"]);
    let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&object["spec"]["replicas"]));
    vec![
        name(object),
        ready.into(),
        number(&status["updatedReplicas"]).into(),
        number(&status["availableReplicas"]).into(),
        created(object, now),
        names,
        images,
        selector(&object["spec"]["selector"]),
    ]
}

const REPLICA_SET: &[Definition] = &[
    NAME,
    ("Desired", "integer", DESIRED, 0),
    (
        "Current",
        "integer",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
        0,
    ),
    ("Ready", "integer", "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    (
        "Selector",
        "string",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    replica_cells(object, selector(&object["spec"]["selector"]), now)
}

fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    replica_cells(object, super::labels(&object["spec"]["selector"]), now)
}

fn replica_cells(object: &Value, selector: Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["spec"]["template"]["spec"]);
    vec![
        name(object),
        number(&object["spec"]["replicas"]).into(),
        number(&object["status"]["replicas"]).into(),
        number(&object["status"]["readyReplicas"]).into(),
        created(object, now),
        names,
        images,
        selector,
    ]
}

const DAEMON_SET: &[Definition] = &[
    NAME,
    (
        "Desired",
        "integer",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        0,
    ),
    (
        "Current",
        "integer",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        0,
    ),
    (
        "Ready",
        "integer",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod running with a Ready Condition.",
        0,
    ),
    ("Up-to-date", "integer", "The total number of nodes that are running updated daemon pod", 0),
    (
        "Available",
        "integer",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available (ready for at least spec.minReadySeconds)",
        0,
    ),
    (
        "Node Selector",
        "string",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's labels for the pod to be scheduled on that node. More info: https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
        0,
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    (
        "Selector",
        "string",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let (names, images) = containers(&object["spec"]["template"]["spec"]);
    vec![
        name(object),
        number(&status["desiredNumberScheduled"]).into(),
        number(&status["currentNumberScheduled"]).into(),
        number(&status["numberReady"]).into(),
        number(&status["updatedNumberScheduled"]).into(),
        number(&status["numberAvailable"]).into(),
        super::labels(&object["spec"]["template"]["spec"]["nodeSelector"]),
        created(object, now),
        names,
        images,
        selector(&object["spec"]["selector"]),
    ]
}

const CONTROLLER_REVISION: &[Definition] = &[
    NAME,
    ("Controller", "string", "Controller of the object", 0),
    ("Revision", "string", "Revision indicates the revision of the state represented by Data.", 0),
    AGE,
];

fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    use crate::object::ObjectExt;
    let controller = object.controller_reference().map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let (group, _) = crate::resource::split_api_version(text(&owner["apiVersion"]));
            let kind = text(&owner["kind"]).to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(&owner["name"]))
        },
    );
    vec![name(object), controller.into(), number(&object["revision"]).into(), created(object, now)]
}

const JOB: &[Definition] = &[
    NAME,
    ("Status", "string", "Status of the job.", 0),
    (
        "Completions",
        "string",
        "Specifies the desired number of successfully finished pods the job should be run with.  Setting to null means that the success of any pod signals the success of all pods, and allows parallelism to have any positive value.  Setting to 1 means that parallelism is limited to 1 and the success of that pod signals the success of the job. More info: https://kubernetes.io/docs/concepts/workloads/controllers/jobs-run-to-completion/",
        0,
    ),
    ("Duration", "string", "Time required to complete the job.", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    (
        "Selector",
        "string",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = containers(&spec["template"]["spec"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let second =
        |value: &Value| value.as_str().and_then(|time| time.parse::<Timestamp>().ok()).map(|time| time.as_second());
    let duration = second(&status["startTime"])
        .map(|start| human_duration(second(&status["completionTime"]).unwrap_or_else(|| now.as_second()) - start));
    let holds = |kind: &str| {
        super::items(&status["conditions"]).any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let state = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if object["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    vec![
        name(object),
        state.into(),
        completions.into(),
        duration.unwrap_or_default().into(),
        created(object, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

const CRON_JOB: &[Definition] = &[
    NAME,
    ("Schedule", "string", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron.", 0),
    (
        "Timezone",
        "string",
        "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API server during CronJob validation and the controller manager during execution. If no system-wide time zone database can be found a bundled version of the database is used instead. If the time zone name becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
        0,
    ),
    (
        "Suspend",
        "boolean",
        "This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.  Defaults to false.",
        0,
    ),
    ("Active", "integer", "A list of pointers to currently running jobs.", 0),
    ("Last Schedule", "string", "Information when was the last time the job was successfully scheduled.", 0),
    AGE,
    CONTAINERS,
    IMAGES,
    (
        "Selector",
        "string",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = containers(&spec["jobTemplate"]["spec"]["template"]["spec"]);
    let last = &status["lastScheduleTime"];
    vec![
        name(object),
        text(&spec["schedule"]).into(),
        text_or_none(&spec["timeZone"]),
        if spec["suspend"] == true { "True" } else { "False" }.into(),
        count(&status["active"]).into(),
        if last.is_string() { age(last, now).into() } else { "<none>".into() },
        created(object, now),
        names,
        images,
        selector(&spec["jobTemplate"]["spec"]["selector"]),
    ]
}

const DISRUPTION_BUDGET: &[Definition] = &[
    NAME,
    (
        "Min Available",
        "string",
        "An eviction is allowed if at least \"minAvailable\" pods selected by \"selector\" will still be available after the eviction, i.e. even in the absence of the evicted pod.  So for example you can prevent all voluntary evictions by specifying \"100%\".",
        0,
    ),
    (
        "Max Unavailable",
        "string",
        "An eviction is allowed if at most \"maxUnavailable\" pods selected by \"selector\" are unavailable after the eviction, i.e. even in absence of the evicted pod. For example, one can prevent all voluntary evictions by specifying 0. This is a mutually exclusive setting with \"minAvailable\".",
        0,
    ),
    ("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time.", 0),
    AGE,
];

fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |field: &str| match &object["spec"][field] {
        Value::Null => "N/A".to_owned(),
        Value::String(share) => share.clone(),
        number => number.to_string(),
    };
    vec![
        name(object),
        bound("minAvailable").into(),
        bound("maxUnavailable").into(),
        number(&object["status"]["disruptionsAllowed"]).into(),
        created(object, now),
    ]
}

const AUTOSCALER: &[Definition] = &[
    NAME,
    (
        "Reference",
        "string",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.",
        0,
    ),
    (
        "Targets",
        "string",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
        0,
    ),
    (
        "MinPods",
        "string",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.",
        0,
    ),
    (
        "MaxPods",
        "string",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.",
        0,
    ),
    (
        "Replicas",
        "string",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
        0,
    ),
    AGE,
];

fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let target = &spec["scaleTargetRef"];
    // Metrics of resources by utilisation, the kind that both versions have; nothing measures here, so
    // the current value is never known.
    let mut targets: Vec<String> = spec["targetCPUUtilizationPercentage"]
        .as_i64()
        .map(|percent| format!("cpu: <unknown>/{percent}%"))
        .into_iter()
        .collect();
    for metric in super::items(&spec["metrics"]) {
        let resource = &metric["resource"];
        let shown = match resource["target"]["averageUtilization"].as_i64() {
            Some(percent) => format!("{}: <unknown>/{percent}%", text(&resource["name"])),
            None => "<unknown>/<auto>".to_owned(),
        };
        targets.push(shown);
    }
    let targets = if targets.is_empty() { "<none>".to_owned() } else { targets.join(", ") };
    let minimum = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |minimum| minimum.to_string());
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        targets.into(),
        minimum.into(),
        number(&spec["maxReplicas"]).into(),
        number(&object["status"]["currentReplicas"]).into(),
        created(object, now),
    ]
}
