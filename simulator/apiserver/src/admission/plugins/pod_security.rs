//! `PodSecurity`: the pod security standards that a namespace's labels ask for.
//!
//! Checks are those of the latest version, whatever version the labels name.
//!
//! Source: `k8s.io/pod-security-admission/{admission,api,policy}`.

use serde_json::Value;

use crate::admission::{Attributes, Context, Operation};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;

mod checks;

/// A standard. Ordered: a stricter one includes those before it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A standard as a label names it: `restricted:latest`.
struct Policy {
    level: Level,
    text: String,
}

impl Policy {
    /// From `pod-security.kubernetes.io/MODE` and `…-version`; what is not understood asks for the
    /// most, as upstream has it.
    fn of(namespace: &Object, mode: &str) -> Self {
        let label = |suffix: &str| namespace.label(&format!("pod-security.kubernetes.io/{mode}{suffix}"));
        let (level, name) = match label("") {
            None | Some("privileged") => (Level::Privileged, "privileged"),
            Some("baseline") => (Level::Baseline, "baseline"),
            Some(_) => (Level::Restricted, "restricted"),
        };
        Self { level, text: format!("{name}:{}", label("-version").unwrap_or("latest")) }
    }

    /// What a pod has that this standard forbids; empty when it conforms.
    fn violations(&self, metadata: &Value, spec: &Value) -> String {
        let found: Vec<String> =
            if self.level == Level::Privileged { Vec::new() } else { checks::run(self.level, metadata, spec) };
        found.join(", ")
    }
}

/// Where pods are in an object that makes them.
fn template<'a>(attributes: &Attributes, object: &'a Object) -> Option<&'a Value> {
    let of = &attributes.resource.group_resource;
    match (&*of.group, &*of.resource) {
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs")
        | ("", "replicationcontrollers") => Some(&object["spec"]["template"]),
        ("batch", "cronjobs") => Some(&object["spec"]["jobTemplate"]["spec"]["template"]),
        ("", "podtemplates") => Some(&object["template"]),
        _ => None,
    }
}

/// Holds a pod against what the namespace enforces, and warns of what it only warns of; of objects that
/// make pods it only warns.
pub(super) fn validate(
    attributes: &Attributes,
    warnings: &mut Vec<String>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    let Some(object) = &attributes.object else { return Ok(()) };
    let is_pod = attributes.is_resource("", "pods");
    let pod = match (is_pod, attributes.subresource.as_str()) {
        (true, "" | "ephemeralcontainers") => &**object,
        (false, "") => match template(attributes, object) {
            Some(template) => template,
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let Some(namespace) = context.store.get(&GroupResource::new("", "namespaces"), "", &attributes.namespace) else {
        return Ok(());
    };
    let unchanged = match (attributes.operation, &attributes.old_object) {
        (Operation::Create, _) => false,
        (Operation::Update, Some(old)) => is_pod && old["spec"] == object["spec"],
        _ => true,
    };
    if unchanged {
        return Ok(());
    }
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    if is_pod {
        let enforced = Policy::of(namespace, "enforce");
        let violations = enforced.violations(metadata, spec);
        if !violations.is_empty() {
            return Err(attributes.forbidden(&format!("violates PodSecurity \"{}\": {violations}", enforced.text)));
        }
    }
    let warned = Policy::of(namespace, "warn");
    let violations = warned.violations(metadata, spec);
    if !violations.is_empty() {
        warnings.push(format!("would violate PodSecurity \"{}\": {violations}", warned.text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_standards_forbid() {
        let container = |context: Value| json!({"containers": [{"name": "c", "securityContext": context}]});
        let sound = json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"}});
        let mut privileged = sound.clone();
        privileged["privileged"] = true.into();
        for (level, spec, violations) in [
            (Level::Restricted, container(sound), ""),
            (Level::Baseline, container(json!({})), ""),
            (
                Level::Baseline,
                json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"hostPort": 80}]}],
                    "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
                "host namespaces (hostNetwork=true), hostPath volumes (volume \"v\"), hostPort (container \"c\" uses \
                 hostPort 80)",
            ),
            (
                Level::Restricted,
                container(privileged),
                "privileged (container \"c\" must not set securityContext.privileged=true)",
            ),
            (
                Level::Restricted,
                container(json!({})),
                "allowPrivilegeEscalation != false (container \"c\" must set \
                 securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
                 securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
                 securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
                 securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
            ),
        ] {
            let policy = Policy { level, text: String::new() };
            assert_eq!(policy.violations(&Value::Null, &spec), violations, "{spec}");
        }
    }
}
