//! Truths that hold for every operator, with no expected values: what a restore must not do.
//!
//! An oracle looks at the evidence of a finished run and raises alarms. Each alarm names an object,
//! what is wrong with it, and who did it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rewake_apiserver::object::{Object, ObjectExt};
use rewake_apiserver::request::Verb;
use rewake_apiserver::resource::GroupResource;
use rewake_apiserver::store::{Revision, Store};
use serde_json::Value;

use crate::tools::Archive;
use crate::tools::archive::ItemKey;
use crate::trace::{Actor, Entry, RequestEntry, Trace};

/// What a finished run left behind.
pub struct Evidence<'a> {
    /// The final state.
    pub store: &'a Store,
    /// The story.
    pub trace: &'a Trace,
    /// The backups that were restored, with the namespaces they were mapped to.
    pub restored: &'a [Restored],
    /// Steps in which losing things is the point: disasters, and everything from the first delete or
    /// scale-down by the user on.
    pub excused: &'a BTreeSet<usize>,
    /// The user has changed the number of members since the backup.
    pub resized: bool,
}

/// A backup that was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The backup.
    pub archive: Arc<Archive>,
    /// Old namespace to new namespace.
    pub mapping: BTreeMap<String, String>,
    /// Index of the step that restored it.
    pub step: usize,
}

/// An oracle's complaint.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Alarm {
    /// Which oracle.
    pub oracle: &'static str,
    /// The object, `Kind namespace/name`.
    pub object: String,
    /// What is wrong, as one sentence.
    pub message: String,
}

/// An oracle that judges a finished run.
pub struct Oracle {
    /// Name in scenarios.
    pub name: &'static str,
    /// The invariant, as one sentence.
    pub about: &'static str,
    /// Its id in the catalogue of restore faults.
    pub id: &'static str,
    judge: fn(&Evidence<'_>) -> Vec<Alarm>,
}

/// Oracles judged on the evidence. Those that need to go on running (`settles`, `idempotent`,
/// `deletable`) are judged by the runner.
pub const ORACLES: &[Oracle] = &[
    Oracle {
        name: "dangling-owner",
        id: "O1",
        about: "every owner reference names a live object with that uid",
        judge: dangling_owner,
    },
    Oracle {
        name: "storage-safety",
        id: "O3",
        about: "no claim is deleted or made anew unless a user asked",
        judge: storage_safety,
    },
    Oracle {
        name: "self-inflicted-loss",
        id: "O4",
        about: "nothing that a restore brought back is deleted by a controller",
        judge: self_inflicted_loss,
    },
    Oracle { name: "duplicates", id: "O5", about: "no second copy of a restored child", judge: duplicates },
    Oracle {
        name: "credentials",
        id: "O6",
        about: "no restored Secret or ConfigMap has other data",
        judge: credentials,
    },
    Oracle { name: "re-owned", id: "O7", about: "what had a controller has it again", judge: re_owned },
    Oracle { name: "finalizers", id: "O8", about: "what had finalizers has them again", judge: finalizers },
    Oracle {
        name: "honest-status",
        id: "O12",
        about: "observedGeneration never exceeds generation",
        judge: honest_status,
    },
    Oracle {
        name: "uid-hygiene",
        id: "O14",
        about: "no live object still carries a uid from before the restore",
        judge: uid_hygiene,
    },
];

/// Oracles that the runner judges, with their ids and invariants.
pub const RUN_ORACLES: &[(&str, &str, &str)] = &[
    ("settles", "O2", "writes stop"),
    ("idempotent", "O11", "restarting the controller changes nothing"),
    ("deletable", "O16", "deleting the custom resources leaves none of their objects"),
];

/// Names of all oracles.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ORACLES.iter().map(|oracle| oracle.name).chain(RUN_ORACLES.iter().map(|(name, _, _)| *name)).collect()
}

/// Every alarm that the evidence gives rise to.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let mut alarms: Vec<Alarm> = ORACLES.iter().flat_map(|oracle| (oracle.judge)(evidence)).collect();
    alarms.sort();
    alarms.dedup();
    alarms
}

/// `Kind namespace/name`.
#[must_use]
pub fn title(object: &Value) -> String {
    match object.namespace() {
        "" => format!("{} {}", object.kind(), object.name()),
        namespace => format!("{} {namespace}/{}", object.kind(), object.name()),
    }
}

impl Evidence<'_> {
    fn objects(&self) -> impl Iterator<Item = (&GroupResource, &Object)> {
        self.store.resources().flat_map(|resource| self.store.list(resource, "").map(move |object| (resource, object)))
    }

    fn live_uids(&self) -> BTreeMap<&str, &Object> {
        self.objects().map(|(_, object)| (object.uid(), object)).collect()
    }

    /// Archived objects, each with the key it was restored under.
    fn archived(&self) -> impl Iterator<Item = (ItemKey, &Arc<Value>, &Restored)> {
        self.restored.iter().flat_map(|restored| {
            restored.archive.items.iter().map(move |(key, object)| {
                let namespace = restored.mapping.get(&key.namespace).unwrap_or(&key.namespace);
                (ItemKey::new(key.resource.clone(), namespace, &key.name), object, restored)
            })
        })
    }

    fn live(&self, key: &ItemKey) -> Option<&Object> {
        self.store.get(&key.resource, &key.namespace, &key.name)
    }

    fn writer_of(&self, object: &Value) -> String {
        let revision = object.resource_version().parse().map(Revision).unwrap_or_default();
        self.trace
            .writer(revision)
            .map_or_else(|| "an unknown writer".to_owned(), |(entry, request)| blame(entry, request))
    }
}

/// `the garbage collector in step 4`.
fn blame(entry: &Entry, request: &RequestEntry) -> String {
    format!("{} in step {}", request.by, entry.step + 1)
}

fn dangling_owner(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let live = evidence.live_uids();
    let dangling = |object: &Object, owner: &Value| {
        let Some(found) = live.get(owner["uid"].as_str().unwrap_or_default()) else { return true };
        let same_kind = found.kind() == owner["kind"].as_str().unwrap_or_default()
            && found.name() == owner["name"].as_str().unwrap_or_default();
        !same_kind || !(found.namespace().is_empty() || found.namespace() == object.namespace())
    };
    evidence
        .objects()
        .flat_map(|(_, object)| object.owner_references().map(move |owner| (object, owner)))
        .filter(|(object, owner)| dangling(object, owner))
        .map(|(object, owner)| Alarm {
            oracle: "dangling-owner",
            object: title(object),
            message: format!(
                "names the owner {} {} with a uid that no live object has; last written by {}",
                owner["kind"].as_str().unwrap_or_default(),
                owner["name"].as_str().unwrap_or_default(),
                evidence.writer_of(object),
            ),
        })
        .collect()
}

/// Deletes that were carried out by controllers: the subject and control loops.
fn deletes_by_controllers<'a>(evidence: &'a Evidence<'_>) -> impl Iterator<Item = (&'a Entry, &'a RequestEntry)> {
    evidence.trace.requests().filter(|(entry, request)| {
        request.verb == Verb::Delete
            && request.revisions.is_some()
            && matches!(request.by, Actor::Subject(_) | Actor::Loop(_))
            && !evidence.excused.contains(&entry.step)
    })
}

fn storage_safety(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let deleted =
        deletes_by_controllers(evidence).filter(|(_, request)| &*request.resource == "persistentvolumeclaims");
    deleted
        .map(|(entry, request)| Alarm {
            oracle: "storage-safety",
            object: format!("PersistentVolumeClaim {}/{}", request.namespace, request.name),
            message: format!("was deleted by {}; its data is gone", blame(entry, request)),
        })
        .collect()
}

fn self_inflicted_loss(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let archived: BTreeMap<(String, String, String), usize> = evidence
        .archived()
        .map(|(key, _, restored)| ((key.resource.to_string(), key.namespace, key.name), restored.step))
        .collect();
    deletes_by_controllers(evidence)
        .filter(|(entry, request)| {
            let key = (request.resource.to_string(), request.namespace.to_string(), request.name.to_string());
            // Pods come and go with their StatefulSet.
            &*request.resource != "pods" && archived.get(&key).is_some_and(|step| entry.step >= *step)
        })
        .map(|(entry, request)| Alarm {
            oracle: "self-inflicted-loss",
            object: format!("{} {}/{}", request.resource, request.namespace, request.name),
            message: format!("was restored and then deleted by {}", blame(entry, request)),
        })
        .collect()
}

/// Children of one kind under one old owner, with the labels they have in common.
struct Family<'a> {
    owner: String,
    count: usize,
    labels: BTreeMap<&'a str, &'a str>,
}

fn duplicates(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let mut families: BTreeMap<(GroupResource, String, String), Family<'_>> = BTreeMap::new();
    for (key, object, _) in evidence.archived() {
        let Some(owner) = object.controller_reference() else { continue };
        // Revisions and slices are bookkeeping of built-in controllers, not children anyone counts.
        let per_member = matches!(&*key.resource.resource, "services" | "persistentvolumeclaims");
        if matches!(&*key.resource.resource, "controllerrevisions" | "endpointslices" | "pods")
            || (per_member && evidence.resized)
        {
            continue;
        }
        let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
        let labels = labels_of(object);
        let family = families.entry((key.resource.clone(), key.namespace.clone(), uid)).or_insert_with(|| Family {
            owner: format!(
                "{} {}",
                owner["kind"].as_str().unwrap_or_default(),
                owner["name"].as_str().unwrap_or_default()
            ),
            count: 0,
            labels: labels.clone(),
        });
        family.count += 1;
        family.labels.retain(|key, value| labels.get(*key) == Some(value));
    }
    let mut alarms = Vec::new();
    for ((resource, namespace, _), family) in &families {
        if family.labels.is_empty() {
            continue;
        }
        let matching = |object: &&Object| family.labels.iter().all(|(key, value)| object.label(key) == Some(value));
        let live = evidence.store.list(resource, namespace).filter(matching).count();
        if live > family.count {
            alarms.push(Alarm {
                oracle: "duplicates",
                object: format!("{resource} of {}", family.owner),
                message: format!("there are {live} where the backup held {}", family.count),
            });
        }
    }
    alarms
}

fn labels_of(object: &Value) -> BTreeMap<&str, &str> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .filter(|(key, _)| !key.starts_with("velero.io/"))
        .collect()
}

fn credentials(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let holds_data =
        |key: &ItemKey| key.resource.group.is_empty() && matches!(&*key.resource.resource, "secrets" | "configmaps");
    evidence
        .archived()
        .filter(|(key, _, _)| holds_data(key))
        .filter_map(|(key, old, _)| Some((evidence.live(&key)?, old)))
        .filter(|(live, old)| live["data"] != old["data"] && live["type"] != "kubernetes.io/service-account-token")
        .map(|(live, _)| Alarm {
            oracle: "credentials",
            object: title(live),
            message: format!("holds other data than the backup; last written by {}", evidence.writer_of(live)),
        })
        .collect()
}

fn re_owned(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let live = evidence.live_uids();
    let mut alarms = Vec::new();
    for (key, old, _) in evidence.archived() {
        let (Some(owner), Some(object)) = (old.controller_reference(), evidence.live(&key)) else { continue };
        let has_it = object.controller_reference().is_some_and(|now| {
            now["kind"] == owner["kind"]
                && now["name"] == owner["name"]
                && live.contains_key(now["uid"].as_str().unwrap_or_default())
        });
        let bookkeeping = matches!(&*key.resource.resource, "endpointslices");
        if !has_it && !bookkeeping {
            alarms.push(Alarm {
                oracle: "re-owned",
                object: title(object),
                message: format!(
                    "had the controller {} {}, and has {} now",
                    owner["kind"].as_str().unwrap_or_default(),
                    owner["name"].as_str().unwrap_or_default(),
                    object.controller_reference().map_or("none", |_| "another"),
                ),
            });
        }
    }
    alarms
}

fn finalizers(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    for (key, old, _) in evidence.archived() {
        let Some(object) = evidence.live(&key) else { continue };
        let now: BTreeSet<&str> = object.finalizers().collect();
        let missing: Vec<&str> = old.finalizers().filter(|finalizer| !now.contains(finalizer)).collect();
        if !missing.is_empty() {
            alarms.push(Alarm {
                oracle: "finalizers",
                object: title(object),
                message: format!("has lost {}", missing.join(", ")),
            });
        }
    }
    alarms
}

fn honest_status(evidence: &Evidence<'_>) -> Vec<Alarm> {
    evidence
        .objects()
        .filter(|(_, object)| {
            object["status"]["observedGeneration"].as_i64().is_some_and(|seen| seen > object.generation())
        })
        .map(|(_, object)| Alarm {
            oracle: "honest-status",
            object: title(object),
            message: format!(
                "claims to have seen generation {}, but is at {}",
                object["status"]["observedGeneration"],
                object.generation()
            ),
        })
        .collect()
}

fn uid_hygiene(evidence: &Evidence<'_>) -> Vec<Alarm> {
    let live = evidence.live_uids();
    let old: BTreeMap<&str, String> = evidence
        .archived()
        .filter(|(_, object, _)| !object.uid().is_empty() && !live.contains_key(object.uid()))
        .map(|(_, object, _)| (object.uid(), title(object)))
        .collect();
    let mut alarms = Vec::new();
    for (resource, object) in evidence.objects() {
        // Volumes are named after the claim they were first made for, and events tell history.
        if matches!(&*resource.resource, "persistentvolumes" | "events") || old.is_empty() {
            continue;
        }
        let mut found = BTreeSet::new();
        walk("", object, &mut |path, text| {
            if path != ".spec.volumeName" && !path.starts_with(".metadata.ownerReferences") {
                found.extend(
                    uids_in(text).filter(|uid| old.contains_key(uid)).map(|uid| (path.to_owned(), uid.to_owned())),
                );
            }
        });
        alarms.extend(found.into_iter().map(|(path, uid)| Alarm {
            oracle: "uid-hygiene",
            object: title(object),
            message: format!("{} still holds the old uid of {}", path.trim_start_matches('.'), old[uid.as_str()]),
        }));
    }
    alarms
}

/// Every string in a value with its path.
fn walk<'a>(path: &str, value: &'a Value, visit: &mut impl FnMut(&str, &'a str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| walk(&format!("{path}[{at}]"), item, visit));
        }
        Value::Object(fields) => {
            for (key, field) in fields.iter().filter(|(key, _)| *key != "managedFields") {
                walk(&format!("{path}.{key}"), field, visit);
            }
        }
        _ => {}
    }
}

/// Everything in a text that has the form of a uid.
pub(crate) fn uids_in(text: &str) -> impl Iterator<Item = &str> {
    const LENGTH: usize = 36;
    let is_uid = |candidate: &str| {
        candidate
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() })
    };
    (0..text.len().saturating_sub(LENGTH - 1))
        .filter_map(move |at| text.get(at..at + LENGTH))
        .filter(move |candidate| is_uid(candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_found_inside_other_text() {
        let text = "pvc-0a1b2c3d-0000-4000-8000-00000000abcd/x";
        assert_eq!(uids_in(text).collect::<Vec<_>>(), ["0a1b2c3d-0000-4000-8000-00000000abcd"]);
        assert_eq!(uids_in("none here").count(), 0);
    }

    #[test]
    fn oracle_names_are_unique() {
        let names = names();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
