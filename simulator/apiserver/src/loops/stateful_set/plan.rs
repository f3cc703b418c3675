//! One pass over a set: which pods are made, replaced or deleted, and what its status says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::pods::{is_finished, is_running_and_ready, ordinal, revision};
use super::revisions::Revision;
use super::{Pass, controller_of, first_ordinal, replicas, request, selector};
use crate::object::{Object, ObjectExt};
use crate::request::Verb;
use crate::resource::GroupResource;

/// Pods in place and pods beyond the wanted number, by ordinal.
#[derive(Default)]
struct Pods<'a> {
    wanted: BTreeMap<i64, &'a Object>,
    condemned: BTreeMap<i64, &'a Object>,
}

impl<'a> Pass<'a> {
    /// Everything that one pass does.
    pub(super) fn run(&mut self) {
        let set = self.set;
        let pods = self.claim_pods();
        let (current, update) = self.revisions(&pods);
        if !set.is_deleting() {
            self.update_pods(&pods, &current, &update);
        }
        self.update_status(&pods, &current, &update);
    }

    /// The pods that the set controls. Orphans that match are adopted, pods that no longer match are
    /// let go; pods of another controller are left alone.
    pub(super) fn claim_pods(&mut self) -> Vec<&'a Object> {
        let (set, view) = (self.set, self.view);
        let select = selector(set);
        let mut pods = Vec::new();
        for pod in view.store().list(&GroupResource::new("", "pods"), set.namespace()) {
            let is_member = ordinal(set, pod).is_some() && select.matches(&pod["metadata"]["labels"]);
            match pod.controller_reference() {
                Some(owner) if owner["uid"] == set.uid() => {
                    if is_member {
                        pods.push(pod);
                    } else if !set.is_deleting() {
                        let owners: Vec<&Value> =
                            pod.owner_references().filter(|owner| owner["uid"] != set.uid()).collect();
                        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
                        self.patch_pod(pod, json!({"metadata": {"uid": pod.uid(), "ownerReferences": owners}}));
                    }
                }
                None if is_member && !set.is_deleting() && !pod.is_deleting() => {
                    let mut owners: Vec<Value> = pod.owner_references().cloned().collect();
                    owners.push(controller_of(set));
                    self.patch_pod(pod, json!({"metadata": {"uid": pod.uid(), "ownerReferences": owners}}));
                    pods.push(pod);
                }
                Some(_) | None => {}
            }
        }
        pods
    }

    fn patch_pod(&mut self, pod: &Object, patch: Value) {
        self.requests.push(request(Verb::Patch, "v1", "pods", pod.namespace(), pod.name()).merge_patch(patch));
    }

    fn delete_pod(&mut self, pod: &Object) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid()}});
        self.requests.push(request(Verb::Delete, "v1", "pods", pod.namespace(), pod.name()).json(options));
        let message = format!("Delete Pod {} in StatefulSet {} successful", pod.name(), self.set.name());
        self.event("Normal", "SuccessfulDelete", message);
    }

    fn sort<'p>(&self, pods: &[&'p Object]) -> Pods<'p> {
        let (first, count) = (first_ordinal(self.set), replicas(self.set));
        let mut sorted = Pods::default();
        for pod in pods {
            match ordinal(self.set, pod) {
                Some(ordinal) if (first..first + count).contains(&ordinal) => sorted.wanted.insert(ordinal, pod),
                Some(ordinal) => sorted.condemned.insert(ordinal, pod),
                None => None,
            };
        }
        sorted
    }

    fn update_pods(&mut self, pods: &[&Object], current: &Revision, update: &Revision) {
        let set = self.set;
        let parallel = set["spec"]["podManagementPolicy"] == "Parallel";
        let sorted = self.sort(pods);
        let (first, count) = (first_ordinal(set), replicas(set));
        // Pods of a later ordinal wait for all before them, unless the policy is Parallel.
        for ordinal in first..first + count {
            let go_on = match sorted.wanted.get(&ordinal) {
                None => self.create_pod(ordinal, current, update),
                Some(pod) => self.keep_pod(ordinal, pod),
            };
            if !go_on && !parallel {
                return;
            }
        }
        for (ordinal, pod) in &sorted.condemned {
            self.retain_claims(*ordinal, pod, true);
        }
        if !self.shrink(&sorted, parallel) {
            return;
        }
        self.roll(&sorted, update);
    }

    /// Makes the pod of an ordinal, and its claims first. Answers `false`: a new pod is not ready.
    fn create_pod(&mut self, ordinal: i64, current: &Revision, update: &Revision) -> bool {
        if !self.ensure_claims(ordinal) {
            return false;
        }
        let revision = if self.starts_at_current(ordinal, current) { current } else { update };
        let pod = self.new_pod(ordinal, &revision.template, &revision.name);
        let name = pod.name().to_owned();
        let namespace = self.namespace().to_owned();
        self.requests.push(request(Verb::Create, "v1", "pods", &namespace, "").json(pod));
        let message = format!("Create Pod {name} in StatefulSet {} successful", self.set.name());
        self.event("Normal", "SuccessfulCreate", message);
        false
    }

    /// Is a new pod of this ordinal still made from the current revision? (`newVersionedStatefulSetPod`)
    fn starts_at_current(&self, ordinal: i64, current: &Revision) -> bool {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return false;
        }
        let current_replicas = self.set["status"]["currentReplicas"].as_i64().unwrap_or_default();
        let partition = strategy["rollingUpdate"]["partition"].as_i64();
        let first = first_ordinal(self.set);
        match partition {
            None => ordinal < first + current_replicas,
            Some(partition) => ordinal < first + partition && !current.name.is_empty(),
        }
    }

    /// Looks after a pod that is in place. Answers whether the pods after it may be looked at.
    fn keep_pod(&mut self, ordinal: i64, pod: &Object) -> bool {
        if is_finished(pod) {
            if !pod.is_deleting() {
                self.delete_pod(pod);
            }
            return false;
        }
        if pod.is_deleting() {
            return false;
        }
        // A pending pod whose claim has vanished gets a fresh one.
        if pod["status"]["phase"] == "Pending" || pod["status"]["phase"].is_null() {
            self.ensure_claims(ordinal);
        }
        self.retain_claims(ordinal, pod, false);
        is_running_and_ready(pod) && self.is_available(pod)
    }

    /// Deletes condemned pods, the highest ordinal first; one at a time unless the policy is Parallel.
    /// Answers whether nothing is left to be shrunk.
    fn shrink(&mut self, sorted: &Pods<'_>, parallel: bool) -> bool {
        let first_unhealthy = sorted
            .wanted
            .values()
            .chain(sorted.condemned.values())
            .find(|pod| !is_running_and_ready(pod) || pod.is_deleting())
            .map(|pod| pod.name().to_owned());
        for pod in sorted.condemned.values().rev() {
            if pod.is_deleting() {
                if parallel {
                    continue;
                }
                return false;
            }
            let healthy = is_running_and_ready(pod);
            // An unhealthy pod before it holds back the deletion of a condemned one.
            if !parallel && !healthy && first_unhealthy.as_deref().is_some_and(|name| name != pod.name()) {
                return false;
            }
            self.delete_pod(pod);
            if !parallel {
                return false;
            }
        }
        sorted.condemned.is_empty()
    }

    /// Replaces pods of an old revision, the highest ordinal first, one at a time.
    fn roll(&mut self, sorted: &Pods<'_>, update: &Revision) {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return;
        }
        let partition = strategy["rollingUpdate"]["partition"].as_i64().unwrap_or_default();
        let from = first_ordinal(self.set) + partition;
        for (_, pod) in sorted.wanted.range(from..).rev() {
            if revision(pod) != update.name && !pod.is_deleting() {
                self.delete_pod(pod);
                return;
            }
            if pod.is_deleting() || !is_running_and_ready(pod) {
                return;
            }
        }
    }

    pub(super) fn update_status(&mut self, pods: &[&Object], current: &Revision, update: &Revision) {
        let set = self.set;
        let live: Vec<&&Object> = pods.iter().filter(|pod| !pod.is_deleting() || !is_finished(pod)).collect();
        let of = |name: &str| live.iter().filter(|pod| revision(pod) == name && !pod.is_deleting()).count();
        let ready = live.iter().filter(|pod| is_running_and_ready(pod) && !pod.is_deleting()).count();
        let available = pods.iter().filter(|pod| !pod.is_deleting()).copied().collect::<Vec<_>>();
        let available = available.into_iter().filter(|pod| self.is_available(pod)).count();
        let updated = of(&update.name);
        let wanted = usize::try_from(replicas(set)).unwrap_or_default();
        let rolled = set["spec"]["updateStrategy"]["type"] != "OnDelete"
            && updated == wanted
            && live.len() == wanted
            && ready == wanted;
        let (current_name, current_count) =
            if rolled { (&update.name, updated) } else { (&current.name, of(&current.name)) };
        let mut status = json!({
            "observedGeneration": set.generation(),
            "replicas": live.len(),
            "readyReplicas": ready,
            "availableReplicas": available,
            "currentReplicas": current_count,
            "updatedReplicas": updated,
            "currentRevision": current_name,
            "updateRevision": update.name,
            "collisionCount": self.collisions,
        });
        // Go leaves out zero counts; so does the comparison with what is stored.
        if let Some(status) = status.as_object_mut() {
            for field in ["readyReplicas", "currentReplicas", "updatedReplicas"] {
                if status[field] == 0 {
                    status.remove(field);
                }
            }
        }
        if set["status"] == status {
            return;
        }
        let object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": set["metadata"], "spec": set["spec"], "status": status,
        });
        self.requests.push(
            request(Verb::Update, "apps/v1", "statefulsets", set.namespace(), set.name())
                .subresource("status")
                .json(object),
        );
    }
}
