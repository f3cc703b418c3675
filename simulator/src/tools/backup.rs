//! Taking a backup: type by type, page by page, as the API shows it at that moment. The archive is
//! no snapshot: what changes between two requests is torn, as with the real tool.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use rewake_apiserver::object::{ObjectExt, metadata_mut};
use rewake_apiserver::request::{Request, Response, Verb};
use rewake_apiserver::resource::GroupResource;
use serde_json::Value;

use super::archive::{Archive, ItemKey};
use super::selection::EXCLUDE_LABEL;
use super::{Profile, Selection, ToolKind, ToolKinds, ToolMove, tool_user};

/// Objects per page.
const PAGE: &str = "500";

/// A backup being taken.
#[derive(Clone, Debug)]
pub struct BackupRun {
    profile: &'static Profile,
    selection: Selection,
    kinds: Arc<ToolKinds>,
    /// Lists still to do: kind, namespace (empty: all of them).
    lists: VecDeque<(ToolKind, String)>,
    /// Items still to be fetched because something taken needs them.
    additional: VecDeque<ItemKey>,
    seen: BTreeSet<ItemKey>,
    asked: Option<Asked>,
    archive: Archive,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
enum Asked {
    Page { kind: ToolKind, namespace: String },
    Item(ItemKey),
}

impl BackupRun {
    /// Starts a backup of what `selection` takes.
    #[must_use]
    pub fn new(name: &str, profile: &'static Profile, selection: Selection, kinds: Arc<ToolKinds>) -> Self {
        let exact = !selection.namespaces.is_empty() && !selection.namespaces.iter().any(|name| name.contains('*'));
        let mut lists = VecDeque::new();
        for kind in &kinds.0 {
            let wanted = if kind.namespaced {
                selection.takes_resource(&kind.resource)
            } else {
                selection.takes_cluster_scoped(&kind.resource)
            };
            // Snapshots are taken by the volume part of the tool, not collected.
            if !wanted || matches!(&*kind.resource.resource, "volumesnapshots" | "volumesnapshotcontents") {
                continue;
            }
            if kind.namespaced && exact {
                lists.extend(selection.namespaces.iter().map(|namespace| (kind.clone(), namespace.clone())));
            } else {
                lists.push_back((kind.clone(), String::new()));
            }
        }
        Self {
            profile,
            selection,
            kinds,
            lists,
            additional: VecDeque::new(),
            seen: BTreeSet::new(),
            asked: None,
            archive: Archive {
                name: name.to_owned(),
                format_version: super::archive::FORMAT_VERSION.to_owned(),
                ..Archive::default()
            },
            warnings: Vec::new(),
        }
    }

    /// What has been saved.
    #[must_use]
    pub fn into_archive(self) -> Archive {
        self.archive
    }

    /// How it ended.
    #[must_use]
    pub fn summary(&self) -> String {
        let warnings =
            if self.warnings.is_empty() { String::new() } else { format!(", warnings: {}", self.warnings.join("; ")) };
        format!("backup {} holds {} objects{warnings}", self.archive.name, self.archive.items.len())
    }

    /// The next request.
    pub fn next(&mut self, answer: Option<&Response>, _now: Timestamp) -> ToolMove {
        let mut more = None;
        match (self.asked.take(), answer) {
            (Some(Asked::Page { kind, namespace }), Some(answer)) if answer.is_success() => {
                for item in answer.json()["items"].as_array().into_iter().flatten() {
                    self.take(&kind, item.clone());
                }
                more = answer.json()["metadata"]["continue"]
                    .as_str()
                    .filter(|token| !token.is_empty())
                    .map(|token| (kind, namespace, token.to_owned()));
            }
            (Some(Asked::Page { kind, .. }), Some(answer)) => {
                self.warnings.push(format!("{} could not be listed: {}", kind.resource, message(answer)));
            }
            (Some(Asked::Item(key)), Some(answer)) if answer.is_success() => {
                if let Some(kind) = self.kinds.get(&key.resource).cloned() {
                    self.take(&kind, answer.json().clone());
                }
            }
            (Some(Asked::Item(key)), Some(answer)) => {
                self.warnings.push(format!("{key}, which another object needs: {}", message(answer)));
            }
            _ => {}
        }
        if let Some((kind, namespace, token)) = more {
            return self.page(kind, namespace, Some(token));
        }
        while let Some(key) = self.additional.pop_front() {
            if self.seen.contains(&key) {
                continue;
            }
            let Some(kind) = self.kinds.get(&key.resource) else { continue };
            let request = Request::new(
                Verb::Get,
                tool_user(),
                &kind.api_version,
                &kind.resource.resource,
                &key.namespace,
                &key.name,
            );
            self.asked = Some(Asked::Item(key));
            return ToolMove::Send(Box::new(request));
        }
        match self.lists.pop_front() {
            Some((kind, namespace)) => self.page(kind, namespace, None),
            None => ToolMove::Finished,
        }
    }

    fn page(&mut self, kind: ToolKind, namespace: String, token: Option<String>) -> ToolMove {
        let mut request =
            Request::new(Verb::List, tool_user(), &kind.api_version, &kind.resource.resource, &namespace, "")
                .option("limit", PAGE);
        if !self.selection.labels.is_empty() && &*kind.resource.resource != "namespaces" {
            let labels: Vec<String> =
                self.selection.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            request = request.option("labelSelector", labels.join(","));
        }
        if let Some(token) = token {
            request = request.option("continue", token);
        }
        self.asked = Some(Asked::Page { kind, namespace });
        ToolMove::Send(Box::new(request))
    }

    /// Saves one object, unless it is left out, and notes what it needs.
    fn take(&mut self, kind: &ToolKind, mut object: Value) {
        let key = ItemKey::new(kind.resource.clone(), object.namespace(), object.name());
        if !self.seen.insert(key.clone()) {
            return;
        }
        let namespace = if &*kind.resource.resource == "namespaces" { object.name() } else { object.namespace() };
        let in_namespace = namespace.is_empty() || self.selection.takes_namespace(namespace);
        let deleting =
            object.is_deleting() && !(self.profile.saves_terminating && object.finalizers().next().is_some());
        if object.label(EXCLUDE_LABEL) == Some("true") || !in_namespace || deleting {
            return;
        }
        // Items of a list carry neither; an archived object must.
        object["apiVersion"] = kind.api_version.as_str().into();
        object["kind"] = kind.kind.as_str().into();
        self.additional.extend(self.needs(kind, &object));
        if &*kind.resource.resource == "persistentvolumeclaims" && kind.resource.group.is_empty() {
            edit_claim(&mut object, &self.archive.name);
        }
        self.archive.items.insert(key, Arc::new(object));
    }

    /// What must come along with an object: claims of a pod, the volume of a bound claim, the
    /// definition of a custom resource.
    fn needs(&self, kind: &ToolKind, object: &Value) -> Vec<ItemKey> {
        match (&*kind.resource.group, &*kind.resource.resource) {
            ("", "pods") => object["spec"]["volumes"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
                .map(|claim| ItemKey::new(GroupResource::new("", "persistentvolumeclaims"), object.namespace(), claim))
                .collect(),
            ("", "persistentvolumeclaims") if object["status"]["phase"] == "Bound" => object["spec"]["volumeName"]
                .as_str()
                .map(|volume| ItemKey::new(GroupResource::new("", "persistentvolumes"), "", volume))
                .into_iter()
                .collect(),
            (group, plural) if group.contains('.') && !group.ends_with(".k8s.io") => {
                let definitions = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
                let excluded =
                    self.selection.exclude_resources.iter().any(|name| super::selection::names(name, &definitions));
                if excluded { Vec::new() } else { vec![ItemKey::new(definitions, "", &format!("{plural}.{group}"))] }
            }
            _ => Vec::new(),
        }
    }
}

/// Velero edits its copy of a claim: what would make the restored one point at old sources goes.
fn edit_claim(claim: &mut Value, backup: &str) {
    if let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("dataSource");
        spec.remove("dataSourceRef");
        if spec.get("storageClassName").and_then(Value::as_str) != Some("") {
            spec.remove("selector");
        }
    }
    if let Some(labels) = metadata_mut(claim).get_mut("labels").and_then(Value::as_object_mut) {
        labels.remove("velero.io/restore-name");
        labels.remove("velero.io/volume-snapshot-name");
        if labels.get("velero.io/backup-name").is_some_and(|name| name != backup) {
            labels.remove("velero.io/backup-name");
        }
    }
}

/// What the server said, for warnings.
pub(super) fn message(answer: &Response) -> String {
    answer.json()["message"].as_str().unwrap_or("no reason given").to_owned()
}
