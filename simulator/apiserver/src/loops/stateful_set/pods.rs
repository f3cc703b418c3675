//! Pods of a set: their names, what they are made of, and in which state they are.

use serde_json::{Value, json};

use super::{Pass, controller_of};
use crate::object::{Object, ObjectExt, metadata_mut};

/// The ordinal in a pod's name, when the name is one that the set gives (`SET-N`).
pub(super) fn ordinal(set: &Object, pod: &Object) -> Option<i64> {
    let digits = pod.name().strip_prefix(set.name())?.strip_prefix('-')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}

pub(super) fn is_finished(pod: &Object) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// The moment since which the pod is ready, when it runs and is.
pub(super) fn ready_since(pod: &Object) -> Option<&str> {
    if pod["status"]["phase"] != "Running" {
        return None;
    }
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready" && condition["status"] == "True")?;
    Some(ready["lastTransitionTime"].as_str().unwrap_or_default())
}

pub(super) fn is_running_and_ready(pod: &Object) -> bool {
    ready_since(pod).is_some()
}

/// The revision that the pod was made from.
pub(super) fn revision(pod: &Object) -> &str {
    pod.label("controller-revision-hash").unwrap_or_default()
}

impl Pass<'_> {
    /// Is the pod ready for as long as `minReadySeconds` asks? If not yet, the pass comes again.
    pub(super) fn is_available(&mut self, pod: &Object) -> bool {
        let wait = self.min_ready();
        match ready_since(pod).map(|since| since.parse::<jiff::Timestamp>()) {
            None => false,
            Some(_) if wait.is_zero() => true,
            Some(Err(_)) => false,
            Some(Ok(since)) if since + wait <= self.now => true,
            Some(Ok(since)) => {
                self.look_again(since + wait);
                false
            }
        }
    }

    /// The pod of an ordinal, made from the template of `revision`.
    pub(super) fn new_pod(&self, ordinal: i64, template: &Value, revision: &str) -> Value {
        let set = self.set;
        let name = format!("{}-{ordinal}", set.name());
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
        let metadata = metadata_mut(&mut pod);
        metadata.retain(|field, _| ["labels", "annotations", "finalizers"].contains(&field.as_str()));
        metadata.insert("name".to_owned(), name.as_str().into());
        metadata.insert("generateName".to_owned(), format!("{}-", set.name()).into());
        metadata.insert("namespace".to_owned(), set.namespace().into());
        metadata.insert("ownerReferences".to_owned(), json!([controller_of(set)]));
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        labels["statefulset.kubernetes.io/pod-name"] = name.as_str().into();
        labels["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
        labels["controller-revision-hash"] = revision.into();
        pod["spec"]["hostname"] = name.as_str().into();
        if let Some(service) = set["spec"]["serviceName"].as_str().filter(|service| !service.is_empty()) {
            pod["spec"]["subdomain"] = service.into();
        }
        let claims = self.claim_names(ordinal);
        if !claims.is_empty() {
            pod["spec"]["volumes"] = with_claims(&pod["spec"]["volumes"], &claims);
        }
        pod
    }
}

/// The template's volumes with those of the claims in front; a claim takes the place of a volume of
/// the same name.
fn with_claims(volumes: &Value, claims: &[(String, String)]) -> Value {
    let claimed =
        claims.iter().map(|(template, claim)| json!({"name": template, "persistentVolumeClaim": {"claimName": claim}}));
    let own = volumes
        .as_array()
        .into_iter()
        .flatten()
        .filter(|volume| !claims.iter().any(|(template, _)| volume["name"] == template.as_str()));
    claimed.chain(own.cloned()).collect()
}
