//! Protection of claims and volumes: the finalizer goes once nothing uses them any more.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, Response, User, Verb};
use crate::resource::GroupResource;
use crate::watch::{LogEntry, LogKind};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Claim and volume protection, two of upstream's controllers in one.
#[derive(Clone, Default)]
pub struct Protection {
    mailbox: Mailbox<Item>,
    current: Option<Item>,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Item {
    Claim(String, String),
    Volume(String),
}

impl ControlLoop for Protection {
    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection-controller"
    }

    fn notice(&mut self, entry: &LogEntry, _view: &View<'_>, now: Timestamp) {
        let object = &entry.object;
        match (&*entry.resource.group, &*entry.resource.resource) {
            ("", "persistentvolumeclaims") if entry.kind != LogKind::Deleted => {
                self.mailbox.add(Item::Claim(object.namespace().to_owned(), object.name().to_owned()), now);
            }
            ("", "persistentvolumes") if entry.kind != LogKind::Deleted => {
                self.mailbox.add(Item::Volume(object.name().to_owned()), now);
            }
            ("", "pods") => {
                for claim in claims_of(object) {
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
        let (text, request) = match &item {
            Item::Claim(namespace, name) => {
                let claim = view.get(&GroupResource::new("", "persistentvolumeclaims"), namespace, name);
                (
                    format!("persistentvolumeclaim {namespace}/{name}"),
                    claim.and_then(|claim| look_at_claim(claim, view)),
                )
            }
            Item::Volume(name) => {
                let volume = view.get(&GroupResource::new("", "persistentvolumes"), "", name);
                (format!("persistentvolume {name}"), volume.and_then(look_at_volume))
            }
        };
        Work { item: text, requests: request.into_iter().collect(), ..Work::default() }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(item) = self.current.take() else { return };
        if responses.iter().any(|response| !response.is_success() && response.code != 404) {
            self.mailbox.retry(item, now);
        } else {
            self.mailbox.succeeded(&item);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn claims_of(pod: &Object) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// A deleted claim goes when no scheduled, unfinished pod uses it; a live one without the finalizer
/// gets it.
fn look_at_claim(claim: &Object, view: &View<'_>) -> Option<Request> {
    let protected = claim.finalizers().any(|finalizer| finalizer == CLAIM_FINALIZER);
    match (claim.is_deleting(), protected) {
        (true, true) => {
            let mut pods = view.store().list(&GroupResource::new("", "pods"), claim.namespace());
            let uses = |pod: &&Object| {
                let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
                let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
                scheduled && !finished && claims_of(pod).any(|name| name == claim.name())
            };
            if pods.any(|pod| uses(&pod)) {
                None
            } else {
                Some(set_finalizer(claim, "persistentvolumeclaims", CLAIM_FINALIZER, false))
            }
        }
        (false, false) => Some(set_finalizer(claim, "persistentvolumeclaims", CLAIM_FINALIZER, true)),
        _ => None,
    }
}

fn look_at_volume(volume: &Object) -> Option<Request> {
    let protected = volume.finalizers().any(|finalizer| finalizer == VOLUME_FINALIZER);
    match (volume.is_deleting(), protected) {
        (true, true) if volume["status"]["phase"] != "Bound" => {
            Some(set_finalizer(volume, "persistentvolumes", VOLUME_FINALIZER, false))
        }
        (false, false) => Some(set_finalizer(volume, "persistentvolumes", VOLUME_FINALIZER, true)),
        _ => None,
    }
}

fn set_finalizer(object: &Object, resource: &str, finalizer: &str, on: bool) -> Request {
    let mut finalizers: Vec<&str> = object.finalizers().filter(|has| *has != finalizer).collect();
    if on {
        finalizers.push(finalizer);
    }
    let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    let mut user = User::service_account("kube-system", "pvc-protection-controller");
    user.groups.push("system:masters".to_owned());
    Request::new(Verb::Patch, user, "v1", resource, object.namespace(), object.name())
        .agent("kube-controller-manager")
        .merge_patch(json!({"metadata": {
            "uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": finalizers,
        }}))
}
