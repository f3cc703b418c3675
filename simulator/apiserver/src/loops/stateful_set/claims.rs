//! Claims of a set: made from its templates, matched by name, owned only where a retention policy
//! says so.

use serde_json::{Value, json};

use super::{Pass, controller_of, request};
use crate::object::{Object, ObjectExt, metadata_mut};
use crate::request::Verb;
use crate::resource::GroupResource;

fn claims() -> GroupResource {
    GroupResource::new("", "persistentvolumeclaims")
}

impl Pass<'_> {
    /// Template name and claim name, for each template.
    pub(super) fn claim_names(&self, ordinal: i64) -> Vec<(String, String)> {
        let templates = self.set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
        templates
            .map(|template| (template.name().to_owned(), format!("{}-{}-{ordinal}", template.name(), self.set.name())))
            .collect()
    }

    /// Makes the claims of a pod that do not exist. Answers `false` when one of them is being deleted:
    /// the pod must wait until a fresh one can be made.
    pub(super) fn ensure_claims(&mut self, ordinal: i64) -> bool {
        let templates = self.set["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
        for template in &templates {
            let name = format!("{}-{}-{ordinal}", template.name(), self.set.name());
            match self.view.get(&claims(), self.namespace(), &name) {
                Some(claim) if claim.is_deleting() => {
                    let (pod, set) = (format!("{}-{ordinal}", self.set.name()), self.set.name());
                    let message =
                        format!("Create Pod {pod} in StatefulSet {set} failed error: pvc {name} is being deleted");
                    self.event("Warning", "FailedCreate", message);
                    return false;
                }
                Some(_) => {}
                None => {
                    let claim = self.new_claim(template, &name);
                    let namespace = self.namespace().to_owned();
                    self.requests
                        .push(request(Verb::Create, "v1", "persistentvolumeclaims", &namespace, "").json(claim));
                    let (pod, set) = (format!("{}-{ordinal}", self.set.name()), self.set.name());
                    let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                    self.event("Normal", "SuccessfulCreate", message);
                }
            }
        }
        true
    }

    /// A claim as the template has it: its metadata with the name changed and the set's selector
    /// labels added. An owner reference that stands in the template comes along.
    fn new_claim(&self, template: &Value, name: &str) -> Value {
        let mut claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": template["metadata"], "spec": template["spec"],
        });
        let metadata = metadata_mut(&mut claim);
        metadata.remove("creationTimestamp");
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("namespace".to_owned(), self.set.namespace().into());
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        for (key, value) in self.set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        claim
    }

    fn retention(&self, when: &str) -> bool {
        self.set["spec"]["persistentVolumeClaimRetentionPolicy"][when] == "Delete"
    }

    /// Brings the owner references of a pod's claims in line with the retention policy: the set owns
    /// them under `whenDeleted: Delete`, the condemned pod under `whenScaled: Delete`. Answers whether
    /// anything had to be changed.
    pub(super) fn retain_claims(&mut self, ordinal: i64, pod: &Object, condemned: bool) -> bool {
        let mut wanted = Vec::new();
        if condemned && self.retention("whenScaled") {
            wanted.push(json!({
                "apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid(),
                "controller": true, "blockOwnerDeletion": true,
            }));
        } else if self.retention("whenDeleted") {
            wanted.push(controller_of(self.set));
        }
        let mut changed = false;
        for (_, name) in self.claim_names(ordinal) {
            let Some(claim) = self.view.get(&claims(), self.namespace(), &name) else { continue };
            let ours = |owner: &Value| {
                (owner["kind"] == "StatefulSet" && owner["name"] == self.set.name())
                    || (owner["kind"] == "Pod" && owner["name"] == pod.name())
            };
            let before: Vec<&Value> = claim.owner_references().collect();
            // Somebody else's controller is respected: the claim is not ours to own.
            if before.iter().any(|owner| owner["controller"] == true && !ours(owner)) {
                continue;
            }
            let mut after: Vec<Value> =
                before.iter().filter(|owner| !ours(owner)).map(|owner| (*owner).clone()).collect();
            after.extend(wanted.iter().cloned());
            // Without a policy there is nothing that the set ever wrote, unless the policy was changed.
            let same = after.len() == before.len()
                && after.iter().all(|owner| before.iter().any(|old| old["uid"] == owner["uid"]));
            if same {
                continue;
            }
            changed = true;
            let owners = if after.is_empty() { Value::Null } else { json!(after) };
            let patch = json!({"metadata": {"uid": claim.uid(), "resourceVersion": claim.resource_version(), "ownerReferences": owners}});
            let namespace = self.namespace().to_owned();
            self.requests
                .push(request(Verb::Patch, "v1", "persistentvolumeclaims", &namespace, &name).merge_patch(patch));
        }
        changed
    }
}
