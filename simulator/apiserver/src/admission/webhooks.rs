//! One webhook of a configuration, compiled.

use std::sync::Arc;

use serde_json::Value;

use super::conditions::{Bindings, Conditions};
use super::matching::{Criteria, Matched};
use super::{Attributes, Context};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;

/// Seconds that a webhook has to answer when its configuration says nothing.
const TIMEOUT_SECONDS_DEFAULT: u32 = 10;

/// A webhook of a `MutatingWebhookConfiguration` or a `ValidatingWebhookConfiguration`.
#[derive(Debug)]
pub(super) struct Webhook {
    /// Name of the configuration.
    pub(super) configuration: String,
    /// Name of the webhook.
    pub(super) name: String,
    /// What tells it from every other webhook: configuration, name, and which of that name.
    pub(super) identity: String,
    /// `clientConfig`.
    pub(super) client_config: Value,
    /// Seconds that it has to answer.
    pub(super) timeout_seconds: u32,
    /// `failurePolicy: Ignore`: what goes wrong with the call is no reason to refuse.
    pub(super) ignores_failure: bool,
    /// May it be asked about a dry run?
    pub(super) knows_dry_run: bool,
    /// `reinvocationPolicy: IfNeeded`.
    pub(super) again_if_needed: bool,
    /// Version of the reviews it is sent: the first of its list that the server speaks.
    pub(super) review_version: &'static str,
    criteria: Criteria,
    conditions: Conditions,
}

impl Webhook {
    /// The webhooks of a configuration, in order.
    pub(super) fn read_all(configuration: &Object) -> Vec<Arc<Self>> {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        let mut read: Vec<Arc<Self>> = Vec::new();
        for webhook in webhooks {
            let name = webhook["name"].as_str().unwrap_or_default();
            let same_name = read.iter().filter(|other| other.name == name).count();
            read.push(Arc::new(Self::read(configuration.name(), name, same_name, webhook)));
        }
        read
    }

    fn read(configuration: &str, name: &str, same_name: usize, webhook: &Value) -> Self {
        let versions = webhook["admissionReviewVersions"].as_array().into_iter().flatten();
        let ignores_failure = webhook["failurePolicy"] == "Ignore";
        Self {
            configuration: configuration.to_owned(),
            name: name.to_owned(),
            identity: format!("{configuration}/{name}/{same_name}"),
            client_config: webhook["clientConfig"].clone(),
            timeout_seconds: webhook["timeoutSeconds"]
                .as_u64()
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or(TIMEOUT_SECONDS_DEFAULT),
            ignores_failure,
            knows_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            again_if_needed: webhook["reinvocationPolicy"] == "IfNeeded",
            review_version: versions
                .filter_map(Value::as_str)
                .find_map(|version| ["v1", "v1beta1"].into_iter().find(|spoken| *spoken == version))
                .unwrap_or("v1"),
            criteria: Criteria::read(webhook, "rules", false),
            conditions: Conditions::compile(&webhook["matchConditions"], ignores_failure),
        }
    }

    /// Is it to be asked about this write, and as what?
    ///
    /// # Errors
    /// When the namespace to select by is missing, or a match condition fails and the failure policy
    /// is `Fail`.
    pub(super) fn wants(&self, attributes: &Attributes, context: &Context<'_>) -> Result<Option<Matched>, ApiError> {
        if !self.criteria.concerns(attributes) {
            return Ok(None);
        }
        let Some(matched) = self.criteria.matches(attributes, context)? else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(matched));
        }
        let shown = matched.show(attributes, context)?;
        match self.conditions.hold(&Bindings::new(&shown, attributes, &matched)) {
            Ok(true) => Ok(Some(matched)),
            Ok(false) => Ok(None),
            Err(why) => Err(ApiError::forbidden(&attributes.resource.group_resource, &attributes.name, &why)),
        }
    }

    /// The address it is asked at, as Go's client prints it.
    pub(super) fn url(&self) -> String {
        let timeout = self.timeout_seconds;
        if let Some(url) = self.client_config["url"].as_str() {
            // A URL without a path is asked at the root.
            let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
            return format!("{url}{}?timeout={timeout}s", if has_path { "" } else { "/" });
        }
        let service = &self.client_config["service"];
        let part = |field: &str| service[field].as_str().unwrap_or_default();
        let (name, namespace, path) = (part("name"), part("namespace"), part("path").trim_start_matches('/'));
        format!("https://{name}.{namespace}.svc:{}/{path}?timeout={timeout}s", self.service_port())
    }

    fn service_port(&self) -> u64 {
        self.client_config["service"]["port"].as_u64().unwrap_or(443)
    }

    /// Is there such a service, with such a port? Webhooks at a URL need none.
    ///
    /// # Errors
    /// What upstream's service resolver says
    /// (`k8s.io/apiserver/pkg/util/proxy/proxy.go`, `ResolveCluster`).
    pub(super) fn resolve(&self, context: &Context<'_>) -> Result<(), String> {
        let service = &self.client_config["service"];
        let (Some(name), Some(namespace)) = (service["name"].as_str(), service["namespace"].as_str()) else {
            return Ok(());
        };
        let services = GroupResource::new("", "services");
        let Some(found) = context.store.get(&services, namespace, name) else {
            return Err(format!("service \"{name}\" not found"));
        };
        let spec = &found["spec"];
        match spec["type"].as_str().unwrap_or("ClusterIP") {
            "ExternalName" => Ok(()),
            "ClusterIP" | "NodePort" | "LoadBalancer" => {
                let port = self.service_port();
                let mut ports = spec["ports"].as_array().into_iter().flatten();
                if ports.any(|listed| listed["port"] == port) {
                    return Ok(());
                }
                Err(format!("no service port {port} found for service \"{name}\""))
            }
            other => Err(format!("unsupported service type \"{other}\"")),
        }
    }
}
