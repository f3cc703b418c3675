//! What the controller needs around it, applied as it should be at each start: the Service in front of its
//! webhook server and the webhook configuration. Neither is deleted first; there is never a moment without.

use serde_json::{Value, json};

use super::plan::{Act, ObjectRef, Plan};
use crate::kinds;
use crate::names::{WEBHOOK_CONFIGURATION, WEBHOOK_PATH, WEBHOOK_SERVICE};
use crate::settings::{Settings, WebhookAddress};

/// Port of the webhook Service.
const SERVICE_PORT: i32 = 443;
/// Port of the webhook server.
pub const SERVER_PORT: i32 = 8443;
/// Label of the controller's own pods, which the webhook Service selects.
pub const OWN_LABEL: (&str, &str) = ("name", "rewake-controller");

/// One look at the installation.
pub(super) fn decide(settings: &Settings) -> Plan {
    let mut plan = Plan::default();
    let Some(address) = &settings.webhook else { return plan };
    if address.url.is_none() {
        let on = ObjectRef::new(&kinds::SERVICE, &settings.namespace, WEBHOOK_SERVICE);
        plan.push(on, Act::Apply(Box::new(webhook_service(&settings.namespace))), "be reached by the API server");
    }
    let on = ObjectRef { namespace: None, ..ObjectRef::new(&kinds::MUTATING_WEBHOOKS, "", WEBHOOK_CONFIGURATION) };
    let configuration = webhook_configuration(&settings.namespace, address);
    plan.push(on, Act::Apply(Box::new(configuration)), "be asked by the API server");
    plan
}

/// The Service in front of the webhook server.
pub fn webhook_service(namespace: &str) -> Value {
    let (key, value) = OWN_LABEL;
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": WEBHOOK_SERVICE},
        "spec": {
            "selector": {key: value},
            "ports": [{"name": "webhook", "port": SERVICE_PORT, "targetPort": SERVER_PORT}],
        },
    })
}

/// The webhook configuration. The webhook for our own kinds is hard: without it they cannot be written, or a
/// restored cluster would slip in unnoticed. Those for claims and other children are soft: workloads must be
/// able to restart while the controller is down.
pub fn webhook_configuration(namespace: &str, address: &WebhookAddress) -> Value {
    let mut client = match &address.url {
        Some(url) => json!({"url": url}),
        None => json!({"service": {
            "namespace": namespace, "name": WEBHOOK_SERVICE, "path": WEBHOOK_PATH, "port": SERVICE_PORT,
        }}),
    };
    if let Some(bundle) = &address.ca_bundle {
        use base64::Engine;
        client["caBundle"] = json!(base64::engine::general_purpose::STANDARD.encode(bundle));
    }
    let webhook = |name: &str, policy: &str, rules: Value| {
        json!({
            "name": format!("{name}.kubedirector.hpe.com"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": policy,
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 10,
            "clientConfig": client,
            // Said although it is the default: a selector that somebody added is taken back.
            "namespaceSelector": {},
            "objectSelector": {},
            "rules": rules,
        })
    };
    let rule = |group: &str, version: &str, operations: &[&str], resources: &[&str]| {
        json!({
            "apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources,
            "scope": "Namespaced",
        })
    };
    let (group, version) = (crate::api::GROUP, crate::api::VERSION);
    let ours = [kinds::CONFIG.plural, kinds::APP.plural, kinds::CLUSTER.plural];
    json!({
        "apiVersion": kinds::MUTATING_WEBHOOKS.api_version,
        "kind": kinds::MUTATING_WEBHOOKS.kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION},
        "webhooks": [
            webhook("hard-validate-cr", "Fail", json!([rule(group, version, &["CREATE", "UPDATE", "DELETE"], &ours)])),
            webhook("soft-validate-cr", "Ignore", json!([rule("", "v1", &["CREATE"], &[kinds::CLAIM.plural])])),
            webhook("soft-validate-children", "Ignore", json!([
                rule("apps", "v1", &["CREATE"], &[kinds::STATEFUL_SET.plural]),
                rule("", "v1", &["CREATE"], &[kinds::SERVICE.plural]),
                rule(group, version, &["CREATE"], &[kinds::STATUS_BACKUP.plural]),
            ])),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: KD-71
    #[test]
    fn each_start_applies_the_service_and_the_webhooks_as_they_should_be() {
        let mut settings = Settings::new("kd");
        assert!(decide(&settings).changes.is_empty(), "nobody serves the webhook");
        settings.webhook = Some(WebhookAddress { ca_bundle: Some("pem".to_owned()), url: None });
        let changes: Vec<String> = decide(&settings).changes.iter().map(ToString::to_string).collect();
        assert_eq!(
            changes,
            [
                "apply Service kd/kubedirector-validator to be reached by the API server",
                "apply MutatingWebhookConfiguration kubedirector-webhook to be asked by the API server",
            ]
        );
        let configuration = webhook_configuration("kd", settings.webhook.as_ref().expect("set above"));
        let policies: Vec<(&str, &str)> = (configuration["webhooks"].as_array().into_iter().flatten())
            .filter_map(|webhook| Some((webhook["name"].as_str()?, webhook["failurePolicy"].as_str()?)))
            .collect();
        assert_eq!(
            policies,
            [
                ("hard-validate-cr.kubedirector.hpe.com", "Fail"),
                ("soft-validate-cr.kubedirector.hpe.com", "Ignore"),
                ("soft-validate-children.kubedirector.hpe.com", "Ignore"),
            ]
        );
    }
}
