//! What every namespace gets: the service account `default` and the config map with the cluster's root
//! certificate. Both come again when somebody deletes them.
//!
//! After upstream's `pkg/controller/serviceaccount` and `pkg/controller/certificates/rootcacertpublisher`.

use jiff::Timestamp;
use serde_json::json;

use super::mailbox::Mailbox;
use super::{ControlLoop, Work};
use crate::control_plane::View;
use crate::object::ObjectExt;
use crate::request::{Request, Response, Verb};
use crate::resource::GroupResource;
use crate::watch::LogEntry;

const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The service account controller, and the one that publishes the root certificate.
#[derive(Clone, Default)]
pub struct ServiceAccounts {
    mailbox: Mailbox<String>,
    /// The certificate, as PEM; empty where nothing serves TLS.
    certificate: String,
    current: Option<String>,
}

impl ServiceAccounts {
    /// Publishes this certificate (PEM).
    #[must_use]
    pub fn with_certificate(certificate: String) -> Self {
        Self { certificate, ..Self::default() }
    }
}

impl ControlLoop for ServiceAccounts {
    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }

    fn notice(&mut self, entry: &LogEntry, _view: &View<'_>, now: Timestamp) {
        let object = &entry.object;
        let namespace = match (&*entry.resource.group, &*entry.resource.resource, object.name()) {
            ("", "namespaces", name) => name,
            ("", "serviceaccounts", "default") | ("", "configmaps", ROOT_CERTIFICATE) => object.namespace(),
            _ => return,
        };
        self.mailbox.add(namespace.to_owned(), now);
    }

    fn due(&self) -> Option<Timestamp> {
        self.mailbox.next_due()
    }

    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work {
        let Some(namespace) = self.mailbox.take(now) else { return Work::default() };
        let item = format!("namespace {namespace}");
        self.current = Some(namespace.clone());
        let is_active = view
            .get(&GroupResource::new("", "namespaces"), "", &namespace)
            .is_some_and(|object| object["status"]["phase"] == "Active" && !object.is_deleting());
        if !is_active {
            return Work { item, ..Work::default() };
        }
        let mut requests = Vec::new();
        if view.get(&GroupResource::new("", "serviceaccounts"), &namespace, "default").is_none() {
            let object = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            });
            requests.push(
                request("service-account-controller", Verb::Create, "serviceaccounts", &namespace, "").json(object),
            );
        }
        let data = json!({"ca.crt": self.certificate});
        let published = view.get(&GroupResource::new("", "configmaps"), &namespace, ROOT_CERTIFICATE);
        if published.is_none_or(|published| published["data"] != data) {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": ROOT_CERTIFICATE, "namespace": namespace,
                    "annotations": {"kubernetes.io/description": DESCRIPTION},
                },
                "data": data,
            });
            let (verb, name) = if published.is_some() { (Verb::Update, ROOT_CERTIFICATE) } else { (Verb::Create, "") };
            requests.push(request("root-ca-cert-publisher", verb, "configmaps", &namespace, name).json(object));
        }
        Work { item, requests, keep_going: true }
    }

    fn done(&mut self, _work: &Work, responses: &[Response], _view: &View<'_>, now: Timestamp) {
        let Some(namespace) = self.current.take() else { return };
        if responses.iter().any(|response| !response.is_success() && response.code != 404) {
            self.mailbox.retry(namespace, now);
        } else {
            self.mailbox.succeeded(&namespace);
        }
    }

    fn fork(&self) -> Box<dyn ControlLoop> {
        Box::new(self.clone())
    }
}

fn request(account: &str, verb: Verb, resource: &str, namespace: &str, name: &str) -> Request {
    Request::new(verb, super::controller_user(account), "v1", resource, namespace, name).agent(super::AGENT)
}
