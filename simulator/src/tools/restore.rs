//! Restoring a backup, item by item, as `velero-semantics` describes Velero's `restoreItem`; what
//! other tools do differently is in the [`Profile`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::object::{ObjectExt, set_meta};
use rewake_apiserver::request::{Request, Response, Verb};
use rewake_apiserver::resource::{GroupResource, split_api_version};
use serde_json::{Value, json};

use super::archive::{Archive, ItemKey};
use super::backup::message;
use super::profile::{Existing, OwnerReferences};
use super::reset::{label, merge_patch, reset};
use super::selection::names;
use super::{Profile, Selection, ToolKind, ToolKinds, ToolMove, item_actions, order, tool_user};
use crate::decisions::Decisions;

/// Types that are never restored.
const NEVER_RESTORED: &[&str] = &[
    "nodes",
    "events",
    "events.events.k8s.io",
    "backups.velero.io",
    "restores.velero.io",
    "resticrepositories.velero.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "backuprepositories.velero.io",
];

/// Types that no author writes into git.
const MADE_BY_CONTROLLERS: &[&str] = &[
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "controllerrevisions.apps",
    "replicasets.apps",
    "leases.coordination.k8s.io",
    "kubedirectorstatusbackups.kubedirector.hpe.com",
];

/// Polls of a definition that does not become established, or of a namespace that does not go away
/// (one second apart), before the item is given up: Velero's ten minutes.
const POLLS_MAX: u32 = 600;

/// What to restore, and how.
#[derive(Clone, Debug)]
pub struct RestoreSpec {
    /// Name of the restore.
    pub name: String,
    /// The tool.
    pub profile: &'static Profile,
    /// Which of the archived objects.
    pub selection: Selection,
    /// Old namespace to new namespace.
    pub mapping: BTreeMap<String, String>,
    /// Types in this order first, instead of the profile's list.
    pub order: Option<Vec<String>>,
    /// Items in an order that is up to chance, instead of any list.
    pub shuffle: bool,
    /// What to do with what exists, instead of the profile's default.
    pub existing: Option<Existing>,
    /// Types whose status is restored too.
    pub restore_status: Vec<String>,
    /// Owner references, instead of the profile's treatment.
    pub owner_references: Option<OwnerReferences>,
    /// Items kept back for later.
    pub holds: Vec<Hold>,
    /// Give up after this many items, as when the tool's pod is killed.
    pub stop_after: Option<usize>,
    /// Volume contents come back with their claims.
    pub with_volumes: bool,
}

/// Items that a restore keeps back until they are released.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hold {
    /// Name of the hold, for releasing it.
    pub id: String,
    /// The type, `plural` or `plural.group`.
    pub resource: String,
    /// Name, with `*` as a glob; empty means every name.
    pub name: String,
    /// Labels that the object must have.
    pub labels: BTreeMap<String, String>,
}

/// How one item ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ItemOutcome {
    /// It was created.
    Created,
    /// It existed and was changed.
    Updated,
    /// It existed, or is of a sort that is not restored.
    Skipped,
    /// The server refused it.
    Failed,
}

/// A restore at work.
#[derive(Clone, Debug)]
pub struct RestoreRun {
    spec: RestoreSpec,
    archive: Arc<Archive>,
    kinds: Arc<ToolKinds>,
    /// Items in order, still to do; `None` until the order has been decided.
    items: Option<VecDeque<ItemKey>>,
    /// Items that something else needs, done before the rest.
    first: Vec<ItemKey>,
    seen: BTreeSet<ItemKey>,
    held: Vec<ItemKey>,
    current: Option<Current>,
    ready_namespaces: BTreeSet<String>,
    /// Old uid to new uid of what this restore created or found.
    uids: BTreeMap<String, String>,
    done: usize,
    outcomes: BTreeMap<ItemKey, ItemOutcome>,
    errors: Vec<String>,
    warnings: Vec<String>,
    prune: Option<VecDeque<ToolKind>>,
    pruning: VecDeque<Request>,
    killed: bool,
    /// Volume contents to be put behind a claim, by its new uid, as soon as the tool has moved on.
    volumes: Vec<(String, rewake_apiserver::guest::VolumeData)>,
}

/// The item at work.
#[derive(Clone, Debug)]
struct Current {
    key: ItemKey,
    kind: ToolKind,
    /// The object to send, in its target namespace.
    object: Value,
    stage: Stage,
    polls: u32,
    /// Owner references still to be looked up, by their place in the list.
    owners: VecDeque<Value>,
    relinked: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    LookForNamespace,
    CreateNamespace,
    LookForOwner,
    Look,
    Create,
    LookAgain,
    Reconcile,
    Status,
    StatusLook,
    ManagedFields,
    AwaitDefinition,
}

impl RestoreRun {
    /// Starts a restore of `archive`.
    #[must_use]
    pub fn new(spec: RestoreSpec, archive: Arc<Archive>, kinds: Arc<ToolKinds>) -> Self {
        Self {
            spec,
            archive,
            kinds,
            items: None,
            first: Vec::new(),
            seen: BTreeSet::new(),
            held: Vec::new(),
            current: None,
            ready_namespaces: BTreeSet::new(),
            uids: BTreeMap::new(),
            done: 0,
            outcomes: BTreeMap::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            prune: None,
            pruning: VecDeque::new(),
            killed: false,
            volumes: Vec::new(),
        }
    }

    /// What it was asked to do.
    #[must_use]
    pub fn spec(&self) -> &RestoreSpec {
        &self.spec
    }

    /// A restore of the items that were held back by hold `id` (all of them when `None`), as part of
    /// the same restore. What stays held stays with `self`.
    #[must_use]
    pub fn release(&mut self, id: Option<&str>) -> Self {
        let holds = self.spec.holds.clone();
        let archive = Arc::clone(&self.archive);
        let released = |key: &ItemKey| {
            id.is_none_or(|id| holds.iter().any(|hold| hold.id == id && holds_item(hold, key, &archive)))
        };
        let (free, held): (VecDeque<ItemKey>, Vec<ItemKey>) = {
            let (free, held): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().partition(released);
            (free.into(), held)
        };
        self.held = held;
        let mut run = Self::new(
            RestoreSpec { holds: Vec::new(), stop_after: None, ..self.spec.clone() },
            archive,
            Arc::clone(&self.kinds),
        );
        run.uids.clone_from(&self.uids);
        run.items = Some(free);
        run
    }

    /// Items still held back.
    #[must_use]
    pub fn held(&self) -> &[ItemKey] {
        &self.held
    }

    /// What could not be restored.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// How each item ended.
    #[must_use]
    pub fn outcomes(&self) -> &BTreeMap<ItemKey, ItemOutcome> {
        &self.outcomes
    }

    /// Volume contents that have become due since the last call, by the uid of their new claim.
    pub fn take_volumes(&mut self) -> Vec<(String, rewake_apiserver::guest::VolumeData)> {
        std::mem::take(&mut self.volumes)
    }

    /// `Completed`, `PartiallyFailed` or `Failed`, in Velero's sense.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        match (self.killed, self.errors.is_empty()) {
            (true, _) => "Failed",
            (false, false) => "PartiallyFailed",
            (false, true) => "Completed",
        }
    }

    /// How it ended.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |outcome| self.outcomes.values().filter(|one| **one == outcome).count();
        let mut text = format!(
            "restore {} of {} is {}: {} created, {} updated, {} skipped, {} failed",
            self.spec.name,
            self.archive.name,
            self.phase(),
            count(ItemOutcome::Created),
            count(ItemOutcome::Updated),
            count(ItemOutcome::Skipped),
            count(ItemOutcome::Failed),
        );
        if !self.held.is_empty() {
            text.push_str(&format!(", {} held back", self.held.len()));
        }
        for error in &self.errors {
            text.push_str(&format!("; error: {error}"));
        }
        text
    }

    /// The next request.
    pub fn next(&mut self, answer: Option<&Response>, decisions: &mut Decisions, _now: Timestamp) -> ToolMove {
        if self.items.is_none() {
            let ordered = self.ordered(decisions);
            let (held, free): (Vec<_>, VecDeque<_>) = partition(ordered, |key| self.is_held(key));
            self.items = Some(free);
            self.held = held;
        }
        let mut answer = answer;
        loop {
            if let Some(current) = self.current.take() {
                match self.advance(current, answer.take()) {
                    Some(next) => return next,
                    None => continue,
                }
            }
            if self.spec.stop_after.is_some_and(|limit| self.done >= limit) {
                self.killed = true;
                return ToolMove::Finished;
            }
            let Some(key) = self.first.pop().or_else(|| self.items.as_mut().and_then(VecDeque::pop_front)) else {
                return self.prune_next(answer);
            };
            if self.seen.insert(key.clone()) {
                self.start(key);
            }
        }
    }

    fn ordered(&self, decisions: &mut Decisions) -> Vec<ItemKey> {
        let keys: Vec<ItemKey> = self.archive.items.keys().filter(|key| self.selects(key)).cloned().collect();
        if self.spec.shuffle {
            let order = decisions.permute("restore order", keys.len());
            return order.into_iter().filter_map(|at| keys.get(at).cloned()).collect();
        }
        let profile = self.spec.profile;
        let ordered = match &self.spec.order {
            Some(high) => order::by_type(keys, high, profile.low, decisions),
            None => order::by_type(keys, profile.high, profile.low, decisions),
        };
        match self.owner_references() {
            OwnerReferences::FromLiveOwner | OwnerReferences::Rebuilt => order::owners_first(ordered, &self.archive),
            OwnerReferences::Dropped | OwnerReferences::KeptStale => ordered,
        }
    }

    fn owner_references(&self) -> OwnerReferences {
        self.spec.owner_references.unwrap_or(self.spec.profile.owner_references)
    }

    fn selects(&self, key: &ItemKey) -> bool {
        let selection = &self.spec.selection;
        let Some(object) = self.archive.items.get(key) else { return false };
        if NEVER_RESTORED.iter().any(|name| *name == key.resource.to_string()) {
            return false;
        }
        if self.spec.profile.authored_only
            && (object.owner_references().next().is_some()
                || MADE_BY_CONTROLLERS.iter().any(|name| names(name, &key.resource)))
        {
            return false;
        }
        let is_definition = &*key.resource.resource == "customresourcedefinitions";
        let place = if key.namespace.is_empty() {
            &*key.resource.resource == "namespaces" && selection.takes_namespace(&key.name)
                || &*key.resource.resource != "namespaces"
                    && (is_definition || selection.cluster_resources != Some(false))
        } else {
            selection.takes_namespace(&key.namespace)
        };
        place && selection.takes_resource(&key.resource) && selection.takes_labels(object)
    }

    fn is_held(&self, key: &ItemKey) -> bool {
        self.spec.holds.iter().any(|hold| holds_item(hold, key, &self.archive))
    }

    fn target(&self, namespace: &str) -> String {
        self.spec.mapping.get(namespace).cloned().unwrap_or_else(|| namespace.to_owned())
    }

    /// Prepares an item; leaves `current` unset when it is skipped.
    fn start(&mut self, key: ItemKey) {
        let Some(archived) = self.archive.items.get(&key).map(Arc::clone) else {
            self.warnings.push(format!("{key} is needed but not in the backup"));
            return;
        };
        if self.is_held(&key) {
            self.held.push(key);
            return;
        }
        let known = self.kinds.of_object(archived.api_version(), archived.kind()).cloned();
        // A kind whose definition this restore has just made is not in the list from the start.
        let (group, _) = split_api_version(archived.api_version());
        let kind = known.unwrap_or_else(|| ToolKind {
            resource: GroupResource::new(group, &key.resource.resource),
            api_version: archived.api_version().to_owned(),
            kind: archived.kind().to_owned(),
            namespaced: !key.namespace.is_empty(),
            has_status: true,
        });
        let mut object = (*archived).clone();
        if self.spec.profile.item_actions {
            let verdict = item_actions::apply(&key.resource, &mut object, &archived, &self.spec.mapping);
            if let Some(why) = verdict.skip {
                self.warnings.push(format!("{key} is not restored: {why}"));
                self.finish(&key, ItemOutcome::Skipped);
                return;
            }
            let missing: Vec<ItemKey> = verdict
                .first
                .into_iter()
                .filter(|needed| !self.seen.contains(needed) && self.selects_additional(needed))
                .collect();
            if !missing.is_empty() {
                // The whole procedure for what is needed, then this item again.
                self.seen.remove(&key);
                self.first.push(key);
                self.first.extend(missing.into_iter().rev());
                return;
            }
            if &*key.resource.resource == "persistentvolumes" && self.is_provisioned_anew(&archived) {
                self.finish(&key, ItemOutcome::Skipped);
                return;
            }
            if &*key.resource.resource == "persistentvolumeclaims"
                && self.volume_is_provisioned_anew(&archived)
                && let Some(spec) = object["spec"].as_object_mut()
            {
                spec.remove("volumeName");
            }
        }
        let profile = Profile { owner_references: self.owner_references(), ..self.spec.profile.clone() };
        reset(&mut object, &profile);
        if !key.namespace.is_empty() {
            set_meta(&mut object, "namespace", self.target(&key.namespace));
        } else if &*key.resource.resource == "namespaces" {
            set_meta(&mut object, "name", self.target(&key.name));
        }
        if self.spec.profile.labels {
            label(&mut object, &self.archive.name, &self.spec.name);
        }
        let relinks = matches!(profile.owner_references, OwnerReferences::FromLiveOwner | OwnerReferences::Rebuilt);
        let owners: VecDeque<Value> =
            if relinks { archived.owner_references().cloned().collect() } else { VecDeque::new() };
        let stage = if key.namespace.is_empty() { Stage::LookForOwner } else { Stage::LookForNamespace };
        self.current = Some(Current { key, kind, object, stage, polls: 0, owners, relinked: Vec::new() });
    }

    /// Additional items pass type and namespace filters, not label selectors, and must be archived.
    fn selects_additional(&self, key: &ItemKey) -> bool {
        self.archive.items.contains_key(key)
            && self.spec.selection.takes_resource(&key.resource)
            && (key.namespace.is_empty() || self.spec.selection.takes_namespace(&key.namespace))
    }

    /// Volumes whose data the tool keeps itself, or whose policy is Delete, are not restored: their
    /// claims are provisioned anew.
    fn is_provisioned_anew(&self, volume: &Value) -> bool {
        self.spec.with_volumes || volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    }

    fn volume_is_provisioned_anew(&self, claim: &Value) -> bool {
        let name = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        let key = ItemKey::new(GroupResource::new("", "persistentvolumes"), "", name);
        self.archive.items.get(&key).is_some_and(|volume| self.is_provisioned_anew(volume))
    }

    fn finish(&mut self, key: &ItemKey, outcome: ItemOutcome) {
        self.done += 1;
        self.outcomes.insert(key.clone(), outcome);
    }

    fn fail(&mut self, current: &Current, answer: &Response) {
        self.errors.push(format!("{}: {}", current.key, message(answer)));
        self.finish(&current.key, ItemOutcome::Failed);
    }

    fn request(&self, verb: Verb, current: &Current) -> Request {
        let name = if verb == Verb::Create { "" } else { current.object.name() };
        Request::new(
            verb,
            tool_user(),
            &current.kind.api_version,
            &current.kind.resource.resource,
            current.object.namespace(),
            name,
        )
        .agent(self.agent())
    }

    fn agent(&self) -> &'static str {
        match self.spec.profile.name {
            "kubectl-apply" | "gitops" => "kubectl",
            "rancher" => "backup-restore-operator",
            "clusterctl-move" => "clusterctl",
            _ => "velero-server",
        }
    }

    /// Takes the item one stage on. `None` means that there is nothing to send for it just now: it is
    /// finished, or its next stage is at once.
    fn advance(&mut self, mut current: Current, answer: Option<&Response>) -> Option<ToolMove> {
        match (current.stage, answer) {
            (Stage::LookForNamespace, None) => {
                let namespace = current.object.namespace().to_owned();
                if self.ready_namespaces.contains(&namespace) {
                    return self.enter(current, Stage::LookForOwner);
                }
                let request = Request::new(Verb::Get, tool_user(), "v1", "namespaces", "", &namespace);
                self.send(current, request)
            }
            (Stage::LookForNamespace, Some(answer)) if answer.code == 404 => {
                let namespace = current.object.namespace().to_owned();
                let request = Request::new(Verb::Create, tool_user(), "v1", "namespaces", "", "")
                    .agent(self.agent())
                    .json(self.namespace_object(&namespace, &current.key.namespace));
                current.stage = Stage::CreateNamespace;
                self.send(current, request)
            }
            (Stage::LookForNamespace, Some(answer))
                if answer.json().is_deleting() || answer.json()["status"]["phase"] == "Terminating" =>
            {
                current.polls += 1;
                if current.polls > POLLS_MAX {
                    self.errors
                        .push(format!("{}: the namespace is still being deleted after ten minutes", current.key));
                    self.finish(&current.key, ItemOutcome::Failed);
                    return None;
                }
                self.current = Some(current);
                Some(ToolMove::Wait(SignedDuration::from_secs(1)))
            }
            (Stage::LookForNamespace | Stage::CreateNamespace, Some(answer)) => {
                if !answer.is_success() && answer.code != 409 {
                    self.fail(&current, answer);
                    return None;
                }
                self.ready_namespaces.insert(current.object.namespace().to_owned());
                self.enter(current, Stage::LookForOwner)
            }
            (Stage::LookForOwner, answer) => self.relink(current, answer),
            (Stage::Look, None) => {
                let request = self.request(Verb::Get, &current);
                self.send(current, request)
            }
            (Stage::Look | Stage::LookAgain, Some(found)) if found.is_success() => self.reconcile(current, found),
            (Stage::Look, Some(_)) => self.enter(current, Stage::Create),
            (Stage::LookAgain, Some(answer)) => {
                self.warnings.push(format!("{} exists but cannot be read: {}", current.key, message(answer)));
                self.finish(&current.key, ItemOutcome::Skipped);
                None
            }
            (Stage::Create, None) => {
                let request = self.request(Verb::Create, &current).json(current.object.clone());
                self.send(current, request)
            }
            (Stage::Create, Some(answer)) if answer.is_success() => self.created(current, answer),
            (Stage::Create, Some(answer)) if answer.json()["reason"] == "AlreadyExists" => {
                let request = self.request(Verb::Get, &current);
                current.stage = Stage::LookAgain;
                self.send(current, request)
            }
            (Stage::Reconcile, Some(answer)) => {
                if answer.is_success() {
                    self.finish(&current.key, ItemOutcome::Updated);
                } else {
                    self.warnings.push(format!("{} could not be updated: {}", current.key, message(answer)));
                    self.finish(&current.key, ItemOutcome::Skipped);
                }
                None
            }
            (Stage::Status, None) => self.enter(current, Stage::ManagedFields),
            (Stage::Status, Some(answer)) if answer.code == 409 => {
                // Velero reads the newest version and overwrites whatever a controller wrote meanwhile.
                let request = self.request(Verb::Get, &current);
                current.stage = Stage::StatusLook;
                self.send(current, request)
            }
            (Stage::StatusLook, Some(answer)) if answer.is_success() => {
                let version = answer.json().resource_version().to_owned();
                self.put_status(current, &version)
            }
            (Stage::Status | Stage::StatusLook, Some(answer)) => {
                if !answer.is_success() {
                    self.warnings.push(format!(
                        "{}: its status could not be restored: {}",
                        current.key,
                        message(answer)
                    ));
                }
                self.enter(current, Stage::ManagedFields)
            }
            (Stage::ManagedFields, None) => self.patch_managed_fields(current),
            (Stage::ManagedFields, Some(_)) => self.after_create(current),
            (Stage::AwaitDefinition, None) => {
                let request = self.request(Verb::Get, &current);
                self.send(current, request)
            }
            (Stage::AwaitDefinition, Some(answer)) => {
                let is_true = |type_: &str| {
                    answer.json()["status"]["conditions"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|condition| condition["type"] == type_ && condition["status"] == "True")
                };
                current.polls += 1;
                if is_true("Established") && is_true("NamesAccepted") {
                    self.finish(&current.key, ItemOutcome::Created);
                    return None;
                }
                if current.polls > POLLS_MAX {
                    self.errors.push(format!("{}: the definition is not established after ten minutes", current.key));
                    self.finish(&current.key, ItemOutcome::Failed);
                    return None;
                }
                self.current = Some(current);
                Some(ToolMove::Wait(SignedDuration::from_secs(1)))
            }
            (Stage::Create, Some(answer)) => {
                self.fail(&current, answer);
                None
            }
            (Stage::CreateNamespace | Stage::LookAgain | Stage::Reconcile | Stage::StatusLook, None) => {
                // Only reached when a fork dropped an answer: ask again.
                let request = self.request(Verb::Get, &current);
                self.send(current, request)
            }
        }
    }

    fn send(&mut self, current: Current, request: Request) -> Option<ToolMove> {
        self.current = Some(current);
        Some(ToolMove::Send(Box::new(request)))
    }

    fn enter(&mut self, mut current: Current, stage: Stage) -> Option<ToolMove> {
        current.stage = stage;
        self.current = Some(current);
        None
    }

    fn namespace_object(&self, name: &str, archived_name: &str) -> Value {
        let key = ItemKey::new(GroupResource::new("", "namespaces"), "", archived_name);
        let mut object =
            self.archive.items.get(&key).map_or_else(|| json!({"metadata": {}}), |object| (**object).clone());
        let metadata = json!({"name": name, "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"]});
        object["apiVersion"] = "v1".into();
        object["kind"] = "Namespace".into();
        object["metadata"] = metadata;
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        object
    }

    /// Rewrites owner references one by one, for tools that do.
    fn relink(&mut self, mut current: Current, answer: Option<&Response>) -> Option<ToolMove> {
        if let (Some(answer), Some(mut owner)) = (answer, current.owners.pop_front())
            && answer.is_success()
        {
            owner["uid"] = answer.json().uid().into();
            current.relinked.push(owner);
        }
        while let Some(owner) = current.owners.front() {
            let uid = owner["uid"].as_str().unwrap_or_default();
            if self.owner_references() == OwnerReferences::Rebuilt {
                if let Some(new) = self.uids.get(uid) {
                    let mut owner = owner.clone();
                    owner["uid"] = new.as_str().into();
                    current.relinked.push(owner);
                }
                current.owners.pop_front();
                continue;
            }
            let (api_version, kind) =
                (owner["apiVersion"].as_str().unwrap_or_default(), owner["kind"].as_str().unwrap_or_default());
            let Some(kind) = self.kinds.of_object(api_version, kind) else {
                current.owners.pop_front();
                continue;
            };
            let namespace = if kind.namespaced { current.object.namespace() } else { "" };
            let name = owner["name"].as_str().unwrap_or_default();
            let request =
                Request::new(Verb::Get, tool_user(), &kind.api_version, &kind.resource.resource, namespace, name);
            return self.send(current, request);
        }
        if matches!(self.owner_references(), OwnerReferences::FromLiveOwner | OwnerReferences::Rebuilt) {
            let relinked = std::mem::take(&mut current.relinked);
            set_meta(
                &mut current.object,
                "ownerReferences",
                if relinked.is_empty() { Value::Null } else { Value::Array(relinked) },
            );
        }
        let next = if self.spec.profile.looks_before_creating { Stage::Look } else { Stage::Create };
        self.enter(current, next)
    }

    /// The object exists: compare and do what the policy says.
    fn reconcile(&mut self, mut current: Current, found: &Response) -> Option<ToolMove> {
        let live = found.json();
        if let Some(archived) = self.archive.items.get(&current.key) {
            self.uids.insert(archived.uid().to_owned(), live.uid().to_owned());
        }
        let is_service_account = &*current.key.resource.resource == "serviceaccounts";
        let mut comparable = live.clone();
        let profile = Profile { owner_references: OwnerReferences::Dropped, ..self.spec.profile.clone() };
        reset(&mut comparable, &profile);
        if self.spec.profile.labels {
            label(&mut comparable, &self.archive.name, &self.spec.name);
        }
        let mut wanted = current.object.clone();
        set_meta(&mut wanted, "ownerReferences", Value::Null);
        if comparable == wanted {
            self.finish(&current.key, ItemOutcome::Skipped);
            return None;
        }
        let existing =
            if is_service_account { Existing::Apply } else { self.spec.existing.unwrap_or(self.spec.profile.existing) };
        let request = match existing {
            Existing::Skip => {
                self.warnings.push(format!("{} exists and differs; the live object is left alone", current.key));
                self.finish(&current.key, ItemOutcome::Skipped);
                return None;
            }
            Existing::MergePatch => self.request(Verb::Patch, &current).merge_patch(merge_patch(&comparable, &wanted)),
            Existing::Apply => {
                // Owner references of a live object are not the manifest's business.
                self.request(Verb::Patch, &current).merge_patch(without_nulls(merge_patch(&comparable, &wanted)))
            }
            Existing::Replace => {
                set_meta(&mut current.object, "resourceVersion", live.resource_version());
                self.request(Verb::Update, &current).json(current.object.clone())
            }
        };
        current.stage = Stage::Reconcile;
        self.send(current, request)
    }

    fn created(&mut self, mut current: Current, answer: &Response) -> Option<ToolMove> {
        let created = answer.json();
        let archived = self.archive.items.get(&current.key).map(Arc::clone)?;
        self.uids.insert(archived.uid().to_owned(), created.uid().to_owned());
        if self.spec.with_volumes && &*current.key.resource.resource == "persistentvolumeclaims" {
            let place = (current.key.namespace.clone(), current.key.name.clone());
            if let Some(data) = self.archive.volumes.get(&place) {
                self.volumes.push((created.uid().to_owned(), data.clone()));
            }
        }
        let profile = self.spec.profile;
        let asked = profile.restores_status
            && match archived.annotation("velero.io/restore-status") {
                Some("true") => true,
                Some("false") => false,
                _ => self.spec.restore_status.iter().any(|name| names(name, &current.key.resource)),
            };
        let is_custom = current.kind.resource.group.contains('.') && !current.kind.resource.group.ends_with(".k8s.io");
        if (asked || profile.always_restores_status && is_custom && current.kind.has_status)
            && !archived["status"].is_null()
        {
            current.object["status"] = archived["status"].clone();
            let version = created.resource_version().to_owned();
            return self.put_status(current, &version);
        }
        self.enter(current, Stage::ManagedFields)
    }

    fn put_status(&mut self, mut current: Current, version: &str) -> Option<ToolMove> {
        set_meta(&mut current.object, "resourceVersion", version);
        let request = self.request(Verb::Update, &current).subresource("status").json(current.object.clone());
        current.stage = Stage::Status;
        self.send(current, request)
    }

    fn patch_managed_fields(&mut self, current: Current) -> Option<ToolMove> {
        let fields = self.archive.items.get(&current.key).map(|archived| archived["metadata"]["managedFields"].clone());
        match fields.filter(|fields| self.spec.profile.patches_managed_fields && fields.is_array()) {
            Some(fields) => {
                let request =
                    self.request(Verb::Patch, &current).merge_patch(json!({"metadata": {"managedFields": fields}}));
                self.send(current, request)
            }
            None => self.after_create(current),
        }
    }

    fn after_create(&mut self, current: Current) -> Option<ToolMove> {
        if &*current.key.resource.resource == "customresourcedefinitions" {
            return self.enter(current, Stage::AwaitDefinition);
        }
        self.finish(&current.key, ItemOutcome::Created);
        None
    }

    /// Deletes what lives but is not in the backup, for tools that prune.
    fn prune_next(&mut self, answer: Option<&Response>) -> ToolMove {
        if !self.spec.profile.prunes {
            return ToolMove::Finished;
        }
        let prune = self.prune.get_or_insert_with(|| {
            let archived: BTreeSet<&GroupResource> = self.archive.items.keys().map(|key| &key.resource).collect();
            self.kinds.0.iter().filter(|kind| kind.namespaced && archived.contains(&kind.resource)).cloned().collect()
        });
        if let Some(list) = answer.filter(|answer| answer.json()["items"].is_array())
            && let Some(kind) = prune.pop_front()
        {
            for item in list.json()["items"].as_array().into_iter().flatten() {
                let key = ItemKey::new(kind.resource.clone(), item.namespace(), item.name());
                let owned = item.owner_references().next().is_some();
                let in_scope = self.archive.items.keys().any(|key| key.namespace == item.namespace());
                if in_scope
                    && !owned
                    && !self.archive.items.contains_key(&key)
                    && !NEVER_RESTORED.contains(&&*kind.resource.to_string())
                {
                    self.pruning.push_back(
                        Request::new(
                            Verb::Delete,
                            tool_user(),
                            &kind.api_version,
                            &kind.resource.resource,
                            item.namespace(),
                            item.name(),
                        )
                        .agent("backup-restore-operator"),
                    );
                }
            }
        }
        if let Some(request) = self.pruning.pop_front() {
            return ToolMove::Send(Box::new(request));
        }
        match self.prune.as_ref().and_then(VecDeque::front) {
            Some(kind) => ToolMove::Send(Box::new(Request::new(
                Verb::List,
                tool_user(),
                &kind.api_version,
                &kind.resource.resource,
                "",
                "",
            ))),
            None => ToolMove::Finished,
        }
    }
}

fn holds_item(hold: &Hold, key: &ItemKey, archive: &Archive) -> bool {
    names(&hold.resource, &key.resource)
        && (hold.name.is_empty() || super::selection::glob(&hold.name, &key.name))
        && archive
            .items
            .get(key)
            .is_some_and(|object| hold.labels.iter().all(|(label, value)| object.label(label) == Some(value)))
}

fn partition(items: Vec<ItemKey>, is_held: impl Fn(&ItemKey) -> bool) -> (Vec<ItemKey>, VecDeque<ItemKey>) {
    let (mut held, mut free) = (Vec::new(), VecDeque::new());
    for item in items {
        if is_held(&item) { held.push(item) } else { free.push_back(item) }
    }
    (held, free)
}

fn without_nulls(patch: Value) -> Value {
    match patch {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        other => other,
    }
}
