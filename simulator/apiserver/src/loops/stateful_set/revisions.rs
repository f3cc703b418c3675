//! Revisions of a set's template: `ControllerRevision`s, compared by their data.

use serde_json::{Value, json};

use super::{Pass, controller_of, request, selector};
use crate::object::{Object, ObjectExt};
use crate::request::Verb;
use crate::resource::GroupResource;

/// A revision that exists or is being made in this pass.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) name: String,
    /// The pod template.
    pub(super) template: Value,
}

/// What the data of a revision is: a patch that replaces the template.
fn data_of(set: &Object) -> Value {
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

fn template_of(data: &Value) -> Value {
    let mut template = data["spec"]["template"].clone();
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    template
}

/// The hash in a revision's name (`pkg/controller/history`): FNV-1 of the data and of the number of
/// collisions so far, as letters that spell no words.
fn hash(data: &Value, collisions: i64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = data.to_string().into_bytes();
    bytes.extend_from_slice(collisions.to_string().as_bytes());
    let sum = bytes.iter().fold(2_166_136_261_u32, |hash, byte| hash.wrapping_mul(16_777_619) ^ u32::from(*byte));
    sum.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

impl Pass<'_> {
    /// Current and update revision. Makes, adopts or renumbers revisions as needed, and drops old ones.
    pub(super) fn revisions(&mut self, pods: &[&Object]) -> (Revision, Revision) {
        let set = self.set;
        let data = data_of(set);
        let resource = GroupResource::new("apps", "controllerrevisions");
        let select = selector(set);
        let mut known: Vec<&Object> = self
            .view
            .store()
            .list(&resource, set.namespace())
            .filter(|revision| match revision.controller_reference() {
                Some(owner) => owner["uid"] == set.uid(),
                None => select.matches(&revision["metadata"]["labels"]),
            })
            .collect();
        known.sort_by_key(|revision| (revision["revision"].as_i64(), revision.name().to_owned()));
        for orphan in known.iter().filter(|revision| revision.controller_reference().is_none() && !set.is_deleting()) {
            let patch = json!({"metadata": {"uid": orphan.uid(), "ownerReferences": [controller_of(set)]}});
            self.requests.push(
                request(Verb::Patch, "apps/v1", "controllerrevisions", set.namespace(), orphan.name())
                    .merge_patch(patch),
            );
        }
        let as_revision =
            |object: &Object| Revision { name: object.name().to_owned(), template: template_of(&object["data"]) };
        let next = known.last().map_or(1, |last| last["revision"].as_i64().unwrap_or_default() + 1);
        let equal = known.iter().rev().find(|revision| revision["data"] == data).copied();
        let update = match (equal, known.last()) {
            (Some(equal), Some(last)) if equal.name() == last.name() => as_revision(equal),
            (Some(equal), _) => {
                // The template went back to an earlier one: that revision becomes the newest.
                let mut renumbered = (**equal).clone();
                renumbered["revision"] = next.into();
                self.requests.push(
                    request(Verb::Update, "apps/v1", "controllerrevisions", set.namespace(), equal.name())
                        .json(renumbered),
                );
                as_revision(equal)
            }
            (None, _) => self.new_revision(&data, next),
        };
        let current = set["status"]["currentRevision"].as_str().unwrap_or_default();
        let current = known
            .iter()
            .find(|revision| revision.name() == current)
            .map_or_else(|| update.clone(), |object| as_revision(object));
        self.drop_old_revisions(&known, &[&current.name, &update.name], pods);
        (current, update)
    }

    fn new_revision(&mut self, data: &Value, number: i64) -> Revision {
        let set = self.set;
        let resource = GroupResource::new("apps", "controllerrevisions");
        // The label keeps the hash from before any collision; a name that is taken by other data moves on.
        let suffix = hash(data, self.collisions);
        let name = loop {
            let name = format!("{}-{}", set.name(), hash(data, self.collisions));
            match self.view.get(&resource, set.namespace(), &name) {
                Some(taken) if taken["data"] != *data => self.collisions += 1,
                _ => break name,
            }
        };
        if set.is_deleting() {
            // The collector takes its revisions away; made again, they would go and come without end.
            return Revision { name, template: template_of(data) };
        }
        let mut labels = set["spec"]["selector"]["matchLabels"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        for (key, value) in set["spec"]["template"]["metadata"]["labels"].as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        labels["controller.kubernetes.io/hash"] = suffix.into();
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": name, "namespace": set.namespace(), "labels": labels, "ownerReferences": [controller_of(set)],
            },
            "data": data, "revision": number,
        });
        self.requests.push(request(Verb::Create, "apps/v1", "controllerrevisions", set.namespace(), "").json(object));
        Revision { name, template: template_of(data) }
    }

    /// Revisions beyond `revisionHistoryLimit` that nothing uses any more.
    fn drop_old_revisions(&mut self, known: &[&Object], used: &[&String], pods: &[&Object]) {
        let limit = self.set["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(10);
        let unused: Vec<&&Object> = known
            .iter()
            .filter(|revision| !used.iter().any(|used| *used == revision.name()))
            .filter(|revision| !pods.iter().any(|pod| super::pods::revision(pod) == revision.name()))
            .collect();
        let surplus = unused.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for revision in unused.into_iter().take(surplus) {
            self.requests.push(request(
                Verb::Delete,
                "apps/v1",
                "controllerrevisions",
                self.set.namespace(),
                revision.name(),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name that upstream 1.36 gives to this template.
    #[test]
    fn a_revision_is_named_as_upstream_names_it() {
        let data = json!({"spec": {"template": {
            "$patch": "replace", "metadata": {"labels": {"app": "db"}},
            "spec": {
                "containers": [{
                    "image": "registry.example/db:1", "imagePullPolicy": "IfNotPresent", "name": "db", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "volumeMounts": [{"mountPath": "/data", "name": "data"}],
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
        }}});
        assert_eq!(hash(&data, 0), "6dbf686b94");
    }
}
