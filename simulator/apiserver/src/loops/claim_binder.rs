//! Binds claims and volumes, provisions volumes for classes of the stand-in provisioner, and reclaims
//! what is released.
//!
//! After upstream's `pkg/controller/volume/persistentvolume`. Each pass over a claim or a volume sends
//! what is missing just now; the changes bring the next pass.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::quantity::Quantity;
use crate::request::{Request, Response, User, Verb};
use crate::resource::GroupResource;
use crate::selector::LabelSelector;
use crate::watch::{LogEntry, LogKind};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The provisioner that this control plane stands in for: classes that name it get volumes at once.
pub const STAND_IN_PROVISIONER: &str = "provisioner.rewake.dev";

/// The claim and volume controller.
#[derive(Clone, Default)]
pub struct ClaimBinder {
    mailbox: Mailbox<Item>,
    current: Option<Item>,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Item {
    Claim(String, String),
    Volume(String),
}

fn claims() -> GroupResource {
    GroupResource::new("", "persistentvolumeclaims")
}

fn volumes() -> GroupResource {
    GroupResource::new("", "persistentvolumes")
}

impl ControlLoop for ClaimBinder {
    fn name(&self) -> &'static str {
        "persistentvolume-binder-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        let object = &entry.object;
        match (&*entry.resource.group, &*entry.resource.resource) {
            ("", "persistentvolumeclaims") => {
                if entry.kind != LogKind::Deleted {
                    self.mailbox.add(Item::Claim(object.namespace().to_owned(), object.name().to_owned()), now);
                }
                if let Some(volume) = object["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) {
                    self.mailbox.add(Item::Volume(volume.to_owned()), now);
                }
                // A volume may be reserved for a claim that does not name it.
                for volume in view.store().list(&volumes(), "") {
                    if refers_to(volume, object) {
                        self.mailbox.add(Item::Volume(volume.name().to_owned()), now);
                    }
                }
            }
            ("", "persistentvolumes") => {
                if entry.kind != LogKind::Deleted {
                    self.mailbox.add(Item::Volume(object.name().to_owned()), now);
                }
                self.enqueue_claims(view, now, |claim| {
                    claim["spec"]["volumeName"] == object.name() || refers_to(object, claim) || is_pending(claim)
                });
            }
            ("storage.k8s.io", "storageclasses") => self.enqueue_claims(view, now, is_pending),
            ("", "pods") => {
                let claimed = object["spec"]["volumes"].as_array().into_iter().flatten();
                for claim in claimed.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str()) {
                    self.mailbox.add(Item::Claim(object.namespace().to_owned(), claim.to_owned()), now);
                }
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(item) = self.mailbox.take(now) else { return Work::default() };
        self.current = Some(item.clone());
        let pass = Pass { view, now };
        let (text, requests) = match &item {
            Item::Claim(namespace, name) => {
                let claim = view.get(&claims(), namespace, name);
                (format!("persistentvolumeclaim {namespace}/{name}"), claim.map(|claim| pass.claim(claim)))
            }
            Item::Volume(name) => {
                let volume = view.get(&volumes(), "", name);
                (format!("persistentvolume {name}"), volume.map(|volume| pass.volume(volume)))
            }
        };
        Work { item: text, requests: requests.unwrap_or_default(), ..Work::default() }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(item) = self.current.take() else { return };
        if responses.iter().any(|response| !response.is_success()) {
            self.mailbox.retry(item, now);
        } else {
            self.mailbox.succeeded(&item);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

impl ClaimBinder {
    fn enqueue_claims(&mut self, view: &View<'_>, now: Timestamp, which: impl Fn(&Object) -> bool) {
        for claim in view.store().list(&claims(), "").filter(|claim| which(claim)) {
            self.mailbox.add(Item::Claim(claim.namespace().to_owned(), claim.name().to_owned()), now);
        }
    }
}

fn is_pending(claim: &Object) -> bool {
    claim.annotation(BIND_COMPLETED).is_none()
}

/// Does the volume's `claimRef` name this claim?
fn refers_to(volume: &Object, claim: &Object) -> bool {
    let reference = &volume["spec"]["claimRef"];
    reference["name"] == claim.name() && reference["namespace"] == claim.namespace()
}

/// ... and this very claim, or any of that name?
fn is_bound_to(volume: &Object, claim: &Object) -> bool {
    let uid = volume["spec"]["claimRef"]["uid"].as_str().unwrap_or_default();
    refers_to(volume, claim) && (uid.is_empty() || uid == claim.uid())
}

fn class_of(object: &Object) -> &str {
    object["spec"]["storageClassName"]
        .as_str()
        .or(object.annotation("volume.beta.kubernetes.io/storage-class"))
        .unwrap_or_default()
}

const AGENT: &str = "kube-controller-manager";

fn request(verb: Verb, api_version: &str, resource: &str, namespace: &str, name: &str) -> Request {
    let mut user = User::service_account("kube-system", "persistent-volume-binder");
    user.groups.push("system:masters".to_owned());
    Request::new(verb, user, api_version, resource, namespace, name).agent(AGENT)
}

fn patch(object: &Object, resource: &str, subresource: &str, body: Value) -> Request {
    let mut body = body;
    body["metadata"]["uid"] = object.uid().into();
    request(Verb::Patch, "v1", resource, object.namespace(), object.name()).subresource(subresource).merge_patch(body)
}

struct Pass<'a> {
    view: &'a View<'a>,
    now: Timestamp,
}

impl<'a> Pass<'a> {
    fn claim(&self, claim: &Object) -> Vec<Request> {
        if claim.is_deleting() && is_pending(claim) {
            return Vec::new();
        }
        let name = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        let volume = self.view.get(&volumes(), "", name);
        if !is_pending(claim) {
            return match volume {
                // A reference without uid is not enough for a claim that was bound before.
                Some(volume)
                    if volume["spec"]["claimRef"].is_null()
                        || (refers_to(volume, claim) && volume["spec"]["claimRef"]["uid"] == claim.uid()) =>
                {
                    bind(volume, claim)
                }
                Some(_) => self.lost(
                    claim,
                    "ClaimMisbound",
                    "Two claims are bound to the same volume, this one is bound incorrectly",
                ),
                None => self.lost(
                    claim,
                    "ClaimLost",
                    "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
                ),
            };
        }
        if !name.is_empty() {
            return match volume {
                None => self.pending(claim, None),
                Some(volume) if volume["spec"]["claimRef"].is_null() => match unfit(volume, claim) {
                    None => bind(volume, claim),
                    Some(why) => {
                        let message = format!("Cannot bind to requested volume \"{name}\": {why}");
                        self.pending(claim, Some(("Warning", "VolumeMismatch", message)))
                    }
                },
                Some(volume) if is_bound_to(volume, claim) => bind(volume, claim),
                Some(_) => {
                    let message = format!("volume \"{name}\" already bound to a different claim.");
                    self.pending(claim, Some(("Warning", "FailedBinding", message)))
                }
            };
        }
        match self.best_volume(claim) {
            Some(volume) => bind(volume, claim),
            None => self.provision(claim),
        }
    }

    /// The smallest volume that fits; one that is reserved for the claim wins.
    fn best_volume(&self, claim: &Object) -> Option<&'a Object> {
        let selector = &claim["spec"]["selector"];
        let select = (!selector.is_null()).then(|| LabelSelector::from_object(selector));
        let fits = |volume: &&Object| {
            let labels = select.as_ref().is_none_or(|select| select.matches(&volume["metadata"]["labels"]));
            let free = volume["spec"]["claimRef"].is_null() && volume["status"]["phase"] == "Available";
            (is_bound_to(volume, claim) || (free && labels)) && !volume.is_deleting() && unfit(volume, claim).is_none()
        };
        let capacity = |volume: &Object| quantity(&volume["spec"]["capacity"]["storage"]);
        self.view.store().list(&volumes(), "").filter(fits).min_by(|a, b| {
            (!is_bound_to(a, claim), capacity(a), a.name())
                .partial_cmp(&(!is_bound_to(b, claim), capacity(b), b.name()))
                .unwrap_or(std::cmp::Ordering::Equal)
        })
    }

    fn provision(&self, claim: &Object) -> Vec<Request> {
        let class_name = class_of(claim);
        if class_name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set".to_owned();
            return self.pending(claim, Some(("Normal", "FailedBinding", message)));
        }
        let Some(class) = self.view.get(&GroupResource::new("storage.k8s.io", "storageclasses"), "", class_name) else {
            let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
            return self.pending(claim, Some(("Warning", "ProvisioningFailed", message)));
        };
        let provisioner = class["provisioner"].as_str().unwrap_or_default();
        if class["volumeBindingMode"] == "WaitForFirstConsumer" && claim.annotation(SELECTED_NODE).is_none() {
            let message = match self.unscheduled_pod(claim) {
                Some(pod) => format!("waiting for pod {pod} to be scheduled"),
                None => "waiting for first consumer to be created before binding".to_owned(),
            };
            let reason = if message.contains("pod") { "WaitForPodScheduled" } else { "WaitForFirstConsumer" };
            return self.pending(claim, Some(("Normal", reason, message)));
        }
        if provisioner == "kubernetes.io/no-provisioner" {
            let message = format!("storageclass \"{class_name}\" has no provisioner");
            return self.pending(claim, Some(("Warning", "ProvisioningFailed", message)));
        }
        if claim.annotation(PROVISIONER) != Some(provisioner) {
            let mut requests = vec![patch(
                claim,
                "persistentvolumeclaims",
                "",
                json!({"metadata": {"annotations": {
                    PROVISIONER: provisioner, PROVISIONER_BETA: provisioner,
                }}}),
            )];
            requests.extend(self.pending(claim, None));
            return requests;
        }
        if provisioner == STAND_IN_PROVISIONER {
            return vec![self.new_volume(claim, class)];
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        self.pending(claim, Some(("Normal", "ExternalProvisioning", message)))
    }

    /// A volume as an external provisioner makes it: named after the claim's uid, reserved for it.
    fn new_volume(&self, claim: &Object, class: &Object) -> Request {
        let name = format!("pvc-{}", claim.uid());
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: class["provisioner"]}},
            "spec": {
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "accessModes": claim["spec"]["accessModes"],
                "volumeMode": claim["spec"]["volumeMode"],
                "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
                "storageClassName": class.name(),
                "csi": {"driver": class["provisioner"], "volumeHandle": name},
                "claimRef": claim_reference(claim),
            },
        });
        request(Verb::Create, "v1", "persistentvolumes", "", "").json(volume)
    }

    fn unscheduled_pod(&self, claim: &Object) -> Option<String> {
        let mut pods = self.view.store().list(&GroupResource::new("", "pods"), claim.namespace());
        let names = |pod: &&Object| {
            let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim.name())
        };
        pods.find(names).map(|pod| pod.name().to_owned())
    }

    fn pending(&self, claim: &Object, event: Option<(&str, &str, String)>) -> Vec<Request> {
        let mut requests = Vec::new();
        if claim["status"]["phase"] != "Pending" {
            requests.push(patch(claim, "persistentvolumeclaims", "status", json!({"status": {"phase": "Pending"}})));
        }
        requests.extend(event.and_then(|(type_, reason, message)| self.event(claim, type_, reason, &message)));
        requests
    }

    fn lost(&self, claim: &Object, reason: &str, message: &str) -> Vec<Request> {
        if claim["status"]["phase"] == "Lost" {
            return Vec::new();
        }
        let status = json!({"status": {"phase": "Lost", "accessModes": null, "capacity": null}});
        let mut requests = vec![patch(claim, "persistentvolumeclaims", "status", status)];
        requests.extend(self.event(claim, "Warning", reason, message));
        requests
    }

    /// Records an event, unless one that says the same is there.
    fn event(&self, object: &Object, type_: &str, reason: &str, message: &str) -> Option<Request> {
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        let mut events = self.view.store().list(&GroupResource::new("", "events"), namespace);
        if events.any(|event| {
            event["involvedObject"]["uid"] == object.uid() && event["reason"] == reason && event["message"] == message
        }) {
            return None;
        }
        let time = format!("{:.0}", self.now);
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": format!("{}.", object.name()), "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": object.kind(), "name": object.name(), "namespace": object["metadata"]["namespace"],
                "uid": object.uid(), "resourceVersion": object.resource_version(),
            },
            "type": type_, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": time, "lastTimestamp": time,
            "source": {"component": "persistentvolume-controller"}, "reportingComponent": "persistentvolume-controller",
            "reportingInstance": "",
        });
        Some(request(Verb::Create, "v1", "events", namespace, "").json(event))
    }

    fn volume(&self, volume: &Object) -> Vec<Request> {
        let reference = &volume["spec"]["claimRef"];
        let uid = reference["uid"].as_str().unwrap_or_default();
        if reference.is_null() || uid.is_empty() {
            return self.phase(volume, "Available", "");
        }
        let (namespace, name) =
            (reference["namespace"].as_str().unwrap_or_default(), reference["name"].as_str().unwrap_or_default());
        let claim = self.view.get(&claims(), namespace, name).filter(|claim| claim.uid() == uid);
        let Some(claim) = claim else { return self.release(volume) };
        match claim["spec"]["volumeName"].as_str().unwrap_or_default() {
            // The claim's own pass finishes the binding.
            "" => Vec::new(),
            bound if bound == volume.name() => self.phase(volume, "Bound", ""),
            _ if volume.annotation(BOUND_BY_CONTROLLER).is_some() => {
                vec![patch(
                    volume,
                    "persistentvolumes",
                    "",
                    json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}}),
                )]
            }
            _ => vec![patch(
                volume,
                "persistentvolumes",
                "",
                json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}}),
            )],
        }
    }

    /// The claim is gone: the volume is released, and deleted where the policy says so.
    fn release(&self, volume: &Object) -> Vec<Request> {
        let phase = volume["status"]["phase"].as_str().unwrap_or_default();
        if !matches!(phase, "Released" | "Failed") {
            return self.phase(volume, "Released", "");
        }
        if volume["spec"]["persistentVolumeReclaimPolicy"] != "Delete" || volume.is_deleting() {
            return Vec::new();
        }
        // Most drivers delete for themselves, outside of the cluster's control loops.
        let source = &volume["spec"];
        let is_external = volume.annotation(PROVISIONED_BY).is_some() || !source["csi"].is_null();
        let path = source["hostPath"]["path"].as_str();
        let deletes = volume.annotation(PROVISIONED_BY) == Some(STAND_IN_PROVISIONER)
            || path.and_then(|path| path.strip_prefix("/tmp/")).is_some_and(|rest| !rest.is_empty());
        if deletes {
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": volume.uid()}});
            return vec![request(Verb::Delete, "v1", "persistentvolumes", "", volume.name()).json(options)];
        }
        if is_external || phase == "Failed" {
            return Vec::new();
        }
        let message = match path {
            Some(path) => format!("host_path deleter only supports /tmp/.+ but received provided {path}"),
            None => format!(
                "error getting deleter volume plugin for volume \"{}\": no deletable volume plugin matched",
                volume.name()
            ),
        };
        let mut requests = self.phase(volume, "Failed", &message);
        requests.extend(self.event(volume, "Warning", "VolumeFailedDelete", &message));
        requests
    }

    fn phase(&self, volume: &Object, phase: &str, message: &str) -> Vec<Request> {
        if volume["status"]["phase"] == phase {
            return Vec::new();
        }
        let message = if message.is_empty() { Value::Null } else { message.into() };
        let status = json!({"status": {"phase": phase, "message": message, "lastPhaseTransitionTime": format!("{:.0}", self.now)}});
        vec![patch(volume, "persistentvolumes", "status", status)]
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// Why a volume cannot serve a claim, if it cannot.
fn unfit(volume: &Object, claim: &Object) -> Option<&'static str> {
    let (has, wants) = (
        quantity(&volume["spec"]["capacity"]["storage"]),
        quantity(&claim["spec"]["resources"]["requests"]["storage"]),
    );
    let modes = |object: &Object| object["spec"]["accessModes"].as_array().cloned().unwrap_or_default();
    let volume_mode = |object: &Object| object["spec"]["volumeMode"].as_str().unwrap_or("Filesystem").to_owned();
    if has.zip(wants).is_some_and(|(has, wants)| has < wants) {
        return Some("requested PV is too small");
    }
    if class_of(volume) != class_of(claim) {
        return Some("storageClassName does not match");
    }
    if volume_mode(volume) != volume_mode(claim) {
        return Some("incompatible volumeMode");
    }
    let offered = modes(volume);
    if !modes(claim).iter().all(|mode| offered.contains(mode)) {
        return Some("incompatible accessMode");
    }
    None
}

fn claim_reference(claim: &Object) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.name(), "namespace": claim.namespace(),
        "uid": claim.uid(), "resourceVersion": claim.resource_version(),
    })
}

/// Whatever is still missing of a binding, on both sides, in upstream's order: the volume's claim, the
/// volume's phase, the claim's volume, the claim's phase.
fn bind(volume: &Object, claim: &Object) -> Vec<Request> {
    let mut requests = Vec::new();
    if volume["spec"]["claimRef"]["uid"] != claim.uid() {
        let mut body = json!({"spec": {"claimRef": claim_reference(claim)}});
        if !refers_to(volume, claim) {
            body["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
        }
        requests.push(patch(volume, "persistentvolumes", "", body));
    }
    if volume["status"]["phase"] != "Bound" {
        requests.push(patch(
            volume,
            "persistentvolumes",
            "status",
            json!({"status": {"phase": "Bound", "message": null}}),
        ));
    }
    let mut annotations = json!({});
    if claim["spec"]["volumeName"] != volume.name() {
        annotations[BOUND_BY_CONTROLLER] = "yes".into();
    }
    if claim.annotation(BIND_COMPLETED).is_none() {
        annotations[BIND_COMPLETED] = "yes".into();
        let body = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name()}});
        requests.push(patch(claim, "persistentvolumeclaims", "", body));
    }
    let wanted = json!({
        "phase": "Bound", "accessModes": volume["spec"]["accessModes"],
        "capacity": {"storage": volume["spec"]["capacity"]["storage"]},
    });
    if claim["status"]["phase"] != "Bound" || claim["status"]["capacity"]["storage"] != wanted["capacity"]["storage"] {
        requests.push(patch(claim, "persistentvolumeclaims", "status", json!({"status": wanted})));
    }
    requests
}
