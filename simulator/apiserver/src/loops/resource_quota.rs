//! Resource quotas: what a namespace may use and what it uses, in the quota's status.
//!
//! Upstream's admission plugin counts new objects into the status before they are made, and the
//! controller counts the rest; here the controller counts everything, from the store.
//!
//! Source: `pkg/controller/resourcequota/resource_quota_controller.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::admission::plugins::quota;
use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::quantity::Quantity;
use crate::request::{Request, Response, User, Verb};
use crate::resource::GroupResource;
use crate::watch::{LogEntry, LogKind};

/// Keeps the status of resource quotas.
#[derive(Clone, Default)]
pub struct ResourceQuotas {
    /// Namespaces and names of quotas.
    mailbox: Mailbox<(String, String)>,
    current: Option<(String, String)>,
}

impl ControlLoop for ResourceQuotas {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp) {
        let quotas = quotas();
        if view.store().count(&quotas) == 0 {
            return;
        }
        let object = &entry.object;
        if entry.resource == quotas {
            self.mailbox.add((object.namespace().to_owned(), object.name().to_owned()), now);
        }
        // Of most kinds only the number counts.
        let counted_inside = matches!(
            (&*entry.resource.group, &*entry.resource.resource),
            ("", "pods" | "services" | "persistentvolumeclaims")
        );
        if entry.kind == LogKind::Modified && !counted_inside || object.namespace().is_empty() {
            return;
        }
        for quota in view.store().list(&quotas, object.namespace()) {
            self.mailbox.add((quota.namespace().to_owned(), quota.name().to_owned()), now);
        }
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(item) = self.mailbox.take(now) else { return Work::default() };
        self.current = Some(item.clone());
        let (namespace, name) = &item;
        let request = view.get(&quotas(), namespace, name).and_then(|quota| count(quota, view));
        Work {
            item: format!("resourcequota {namespace}/{name}"),
            requests: request.into_iter().collect(),
            ..Work::default()
        }
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

fn quotas() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// The write that brings a status up to date, when it is not.
fn count(quota: &Object, view: &View<'_>) -> Option<Request> {
    let used = quota::used(view.store(), quota);
    let hard = &quota["spec"]["hard"];
    let known: BTreeMap<&String, Option<Quantity>> = quota["status"]["used"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, amount)| (name, amount.as_str().and_then(|amount| amount.parse().ok())))
        .collect();
    let same = known.len() == used.len() && used.iter().all(|(name, amount)| known.get(name) == Some(&Some(*amount)));
    if same && quota["status"]["hard"] == *hard {
        return None;
    }
    let used: Map<String, Value> = used.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect();
    let mut object = (**quota).clone();
    object["status"] = json!({"hard": hard, "used": used});
    let mut user = User::service_account("kube-system", "resourcequota-controller");
    user.groups.push("system:masters".to_owned());
    Some(
        Request::new(Verb::Update, user, "v1", "resourcequotas", quota.namespace(), quota.name())
            .subresource("status")
            .agent("kube-controller-manager")
            .json(object),
    )
}
