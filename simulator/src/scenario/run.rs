//! Running a scenario: its steps, its checks, the oracles, the final snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::object::ObjectExt;
use rewake_apiserver::request::{Request, Response, User, Verb};
use rewake_apiserver::store::Revision;
use serde_json::{Value, json};

use super::check::{Milestone, Miss, Scene};
use super::model::{
    Action, Check, ControllerAction, Disaster, Expectation, Fault, Given, Patch, Restore, Scenario, Step, Target,
};
use super::read::{QUIET_DEFAULT, SETTLE_DEFAULT};
use crate::faults::Rule;
use crate::oracles::{self, Alarm, Evidence, Restored};
use crate::snapshot;
use crate::tools::restore::{Hold, RestoreSpec};
use crate::tools::{Archive, BackupRun, Profile, RestoreRun, Tool, ToolKind, ToolKinds};
use crate::trace::{Actor, Trace, What};
use crate::world::{ConnectionLost, Settled, World};

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Restore tool for every step that names none, instead of the scenario's.
    pub profile: Option<&'static Profile>,
    /// The variant to run, by its place in the scenario; `None` runs the sound controller.
    pub variant: Option<usize>,
    /// Stop before this step (from 0) and hand out the world.
    pub hold_before: Option<usize>,
    /// Leave out what goes on after the last step (oracles and snapshot).
    pub only_steps: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// All as it must be.
    Passed,
    /// Something is not.
    Failed,
}

/// The first wrong thing, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The step at which it showed, counted from 1; 0 when it showed at the end.
    pub step: usize,
    /// The step in words, or the check at the end.
    pub what: String,
    /// Object, where there is one.
    pub object: String,
    /// Field, where there is one.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// Who wrote the field last, where that is known.
    pub writer: String,
}

/// A finished run.
pub struct Outcome {
    /// Name of the scenario, with the variant's.
    pub name: String,
    /// Passed or failed.
    pub verdict: Verdict,
    /// What is wrong, the first thing first.
    pub failures: Vec<Failure>,
    /// Steps of a variant that went otherwise than in the sound run.
    pub deviations: Vec<Failure>,
    /// Alarms of oracles, accepted ones included.
    pub alarms: Vec<Alarm>,
    /// Virtual time that passed.
    pub virtual_time: SignedDuration,
    /// API calls by everybody.
    pub calls: u64,
    /// API calls by the controller.
    pub subject_calls: u64,
    /// The final state, normalised; empty for variants.
    pub snapshot: String,
    /// The story.
    pub trace: Trace,
    /// The cluster as it stands at the end, for `--hold`.
    pub world: World,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            0 => write!(f, "at the end, {}: ", self.what)?,
            step => write!(f, "step {step}, {}: ", self.what)?,
        }
        if !self.object.is_empty() {
            write!(f, "{} ", self.object)?;
        }
        if !self.field.is_empty() {
            write!(f, "{} ", self.field)?;
        }
        f.write_str(&self.message)?;
        if self.writer.is_empty() { Ok(()) } else { write!(f, " (last written by {})", self.writer) }
    }
}

/// Runs a scenario on `world`, which has the controller installed and everything else fresh.
pub async fn run(scenario: &Scenario, world: World, options: &Options) -> Outcome {
    let mut run = Run::new(scenario, world, options);
    run.prepare().await;
    for (index, step) in scenario.steps.iter().enumerate() {
        // In a variant the story goes on past what no longer holds: the harm shows at its end.
        if options.hold_before == Some(index) || (options.variant.is_none() && !run.failures.is_empty()) {
            break;
        }
        run.step(index, step).await;
    }
    if options.variant.is_some() {
        run.deviations = std::mem::take(&mut run.failures);
    }
    if options.hold_before.is_none() && !options.only_steps && run.failures.is_empty() {
        run.judge().await;
    }
    run.finish()
}

struct Run<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    world: World,
    kinds: Arc<ToolKinds>,
    kinds_at: Revision,
    base: Revision,
    started: Timestamp,
    archives: BTreeMap<String, Arc<Archive>>,
    holds: Vec<Hold>,
    restores: Vec<RestoreRun>,
    restored: Vec<Restored>,
    milestones: BTreeMap<String, Milestone>,
    excused: BTreeSet<usize>,
    resized: bool,
    failures: Vec<Failure>,
    /// Steps of a variant that went otherwise than in the sound run.
    deviations: Vec<Failure>,
    alarms: Vec<Alarm>,
    snapshot: String,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, world: World, options: &'a Options) -> Self {
        let (base, started) = {
            let kernel = world.api().kernel();
            (kernel.store().revision(), kernel.now)
        };
        Self {
            scenario,
            options,
            world,
            kinds: Arc::default(),
            kinds_at: Revision(0),
            base,
            started,
            archives: BTreeMap::new(),
            holds: Vec::new(),
            restores: Vec::new(),
            restored: Vec::new(),
            milestones: BTreeMap::new(),
            excused: BTreeSet::new(),
            resized: false,
            failures: Vec::new(),
            deviations: Vec::new(),
            alarms: Vec::new(),
            snapshot: String::new(),
        }
    }

    /// The namespace exists, and the controller runs unless the scenario starts without it.
    async fn prepare(&mut self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.scenario.namespace}});
        let request = Request::new(Verb::Create, user(), "v1", "namespaces", "", "").agent("kubectl").json(namespace);
        // Refused only when it exists already, which is as good.
        let _ = self.world.send(&Actor::User, request).await;
        if self.scenario.starts_without_controller && self.world.is_subject_running() {
            self.world.stop_subject();
        }
    }

    fn profile(&self, step: Option<&'static Profile>) -> &'static Profile {
        step.or(self.options.profile).unwrap_or(self.scenario.profile)
    }

    async fn step(&mut self, index: usize, step: &Step) {
        {
            let mut kernel = self.world.api().kernel();
            kernel.step = index;
            let now = kernel.now;
            kernel.trace.push(now, index, What::Step(step.words().into()));
        }
        if let Err(miss) = self.act(index, step).await {
            let writer = self.writer(&miss);
            self.failures.push(Failure {
                step: index + 1,
                what: step.words(),
                object: miss.object,
                field: miss.field,
                message: miss.message,
                writer,
            });
        }
        if let Some(id) = &step.id {
            let kernel = self.world.api().kernel();
            let milestone = Milestone { trace_length: kernel.trace.len(), store: kernel.store().clone() };
            self.milestones.insert(id.clone(), milestone);
        }
    }

    async fn act(&mut self, index: usize, step: &Step) -> Result<(), Miss> {
        match &step.action {
            Action::Apply(objects) => self.send_objects(objects, Sending::Apply, None).await,
            Action::Create { objects, refused } => {
                self.send_objects(objects, Sending::Create, refused.as_deref()).await
            }
            Action::Patch { target, subresource, patch, refused } => {
                let resizes = refused.is_none() && changes_members(patch);
                self.resized |= resizes;
                self.excuse_if(index, resizes);
                self.patch(target, subresource, patch, refused.as_deref()).await
            }
            Action::Delete { target, propagation, refused } => {
                self.excuse_if(index, refused.is_none() && propagation != "Orphan" && target.kind != "Pod");
                self.delete(target, propagation, refused.as_deref()).await
            }
            Action::Backup { name, selection, profile } => {
                let kinds = self.kinds();
                let tool =
                    Tool::Backup(Box::new(BackupRun::new(name, self.profile(*profile), selection.clone(), kinds)));
                self.world.start_tool(tool, SignedDuration::from_millis(10));
                self.finish_tool(index).await
            }
            Action::Disaster(disaster) => {
                self.excused.insert(index);
                self.disaster(disaster).await
            }
            Action::Hold(hold) => {
                self.holds.push(hold.clone());
                Ok(())
            }
            Action::Release(id) => self.release(index, id.as_deref()).await,
            Action::Restore(restore) => self.restore(index, restore).await,
            Action::Snapshot(name) => {
                self.world.snapshot(name);
                Ok(())
            }
            Action::Rollback { to, bump } => {
                self.excused.insert(index);
                self.world.roll_back(to, *bump);
                Ok(())
            }
            Action::Controller(action) => {
                self.control(*action);
                Ok(())
            }
            Action::Fault(fault) => {
                self.fault(fault);
                Ok(())
            }
            Action::Heal(id) => {
                let mut kernel = self.world.api().kernel();
                match id {
                    Some(id) => {
                        kernel.faults.remove(id);
                    }
                    None => kernel.faults = crate::faults::Faults::default(),
                }
                Ok(())
            }
            Action::Sleep(time) => {
                self.world.run_for(*time).await;
                self.collect_tool(index);
                Ok(())
            }
            Action::Settle { quiet, within } => {
                let settled = self.world.settle(*quiet, *within).await;
                self.collect_tool(index);
                settled_or(settled, *within)
            }
            Action::Check(check) => self.await_check(check).await,
        }
    }

    /// From a delete or a scale-down by the user on, losing claims and children is what was asked for.
    fn excuse_if(&mut self, index: usize, asked: bool) {
        if asked {
            self.excused.extend(index..=self.scenario.steps.len());
        }
    }

    /// Kinds served, read anew when something has been committed since.
    fn kinds(&mut self) -> Arc<ToolKinds> {
        let kernel = self.world.api().kernel();
        let revision = kernel.store().revision();
        if revision != self.kinds_at {
            self.kinds = Arc::new(ToolKinds::of(kernel.plane.view().resources()));
            self.kinds_at = revision;
        }
        Arc::clone(&self.kinds)
    }

    fn kind_of(&mut self, object: &Value) -> Result<ToolKind, Miss> {
        let kinds = self.kinds();
        kinds.of_object(object.api_version(), object.kind()).cloned().ok_or_else(|| Miss {
            object: oracles::title(object),
            field: String::new(),
            message: format!("the cluster serves no kind {} in {}", object.kind(), object.api_version()),
        })
    }

    async fn send(&mut self, request: Request) -> Result<Response, Miss> {
        self.world.send(&Actor::User, request.agent("kubectl")).await.map_err(|ConnectionLost| Miss {
            object: String::new(),
            field: String::new(),
            message: ConnectionLost.to_string(),
        })
    }

    async fn send_objects(&mut self, objects: &[Given], sending: Sending, refused: Option<&str>) -> Result<(), Miss> {
        for given in objects {
            let mut object = given.object.clone();
            let kind = self.kind_of(&object)?;
            if kind.namespaced && object.namespace().is_empty() {
                rewake_apiserver::object::set_meta(&mut object, "namespace", self.scenario.namespace.as_str());
            }
            let verb = if sending == Sending::Create { Verb::Create } else { Verb::Patch };
            let name = if sending == Sending::Create { String::new() } else { object.name().to_owned() };
            let mut request =
                Request::new(verb, user(), &kind.api_version, &kind.resource.resource, object.namespace(), &name);
            let subject = oracles::title(&object);
            if sending == Sending::Apply {
                request = request.option("fieldManager", "user").option("force", "true");
                request.body = rewake_apiserver::request::Body::Json {
                    content_type: "application/apply-patch+yaml",
                    value: object,
                };
            } else {
                request = request.json(object);
            }
            let response = self.send(request).await?;
            expect(&response, refused, &subject)?;
            // Definitions are established by a control loop; what follows may need them.
            if kind.kind == "CustomResourceDefinition" {
                self.world.run_for(SignedDuration::from_secs(1)).await;
            }
        }
        Ok(())
    }

    async fn patch(
        &mut self,
        target: &Target,
        subresource: &str,
        patch: &Patch,
        refused: Option<&str>,
    ) -> Result<(), Miss> {
        for (kind, object) in self.select_some(target)? {
            let mut request = Request::new(
                Verb::Patch,
                user(),
                &kind.api_version,
                &kind.resource.resource,
                object.namespace(),
                object.name(),
            );
            request = match patch {
                Patch::Merge(value) => request.merge_patch(value.clone()),
                Patch::Json(value) => {
                    request.body = rewake_apiserver::request::Body::Json {
                        content_type: "application/json-patch+json",
                        value: value.clone(),
                    };
                    request
                }
            };
            if !subresource.is_empty() {
                request = request.subresource(subresource);
            }
            let response = self.send(request).await?;
            expect(&response, refused, &oracles::title(&object))?;
        }
        Ok(())
    }

    async fn delete(&mut self, target: &Target, propagation: &str, refused: Option<&str>) -> Result<(), Miss> {
        for (kind, object) in self.select_some(target)? {
            let mut request = Request::new(
                Verb::Delete,
                user(),
                &kind.api_version,
                &kind.resource.resource,
                object.namespace(),
                object.name(),
            );
            if !propagation.is_empty() {
                request = request.option("propagationPolicy", propagation);
            }
            let response = self.send(request).await?;
            expect(&response, refused, &oracles::title(&object))?;
        }
        Ok(())
    }

    /// The objects a target selects, at least one, with their kind.
    fn select_some(&mut self, target: &Target) -> Result<Vec<(ToolKind, Value)>, Miss> {
        let kinds = self.kinds();
        let kernel = self.world.api().kernel();
        let scene =
            Scene { kernel: &kernel, kinds: &kinds, namespace: &self.scenario.namespace, milestones: &self.milestones };
        let found = scene.select(target)?;
        if found.is_empty() {
            return Err(Miss {
                object: target.to_string(),
                field: String::new(),
                message: "does not exist".to_owned(),
            });
        }
        Ok(found
            .into_iter()
            .filter_map(|object| {
                Some((kinds.of_object(object.api_version(), object.kind())?.clone(), (**object).clone()))
            })
            .collect())
    }

    /// Loses namespaces or objects for good. What holds them (finalizers, grace periods) is overcome
    /// the way a person would: finalizers are taken off, pods are deleted without grace.
    async fn disaster(&mut self, disaster: &Disaster) -> Result<(), Miss> {
        match disaster {
            Disaster::Objects(targets) => {
                for target in targets {
                    for (kind, object) in self.select_some(target)? {
                        self.force_delete(&kind, &object, "Orphan").await?;
                    }
                }
            }
            Disaster::Namespaces(namespaces) => {
                for namespace in namespaces {
                    let request = Request::new(Verb::Delete, user(), "v1", "namespaces", "", namespace);
                    let response = self.send(request).await?;
                    expect(&response, None, &format!("Namespace {namespace}"))?;
                }
                self.world.run_for(SignedDuration::from_secs(2)).await;
                // Whatever a restoring mark or a finalizer still holds goes now.
                const ROUNDS_MAX: usize = 60;
                for round in 0..ROUNDS_MAX {
                    let left = self.content_of(namespaces);
                    if left.is_empty() && !self.namespaces_exist(namespaces) {
                        break;
                    }
                    for (kind, object) in left {
                        if round > 0 || object.finalizers().next().is_some() {
                            self.force_delete(&kind, &object, "Background").await?;
                        }
                    }
                    self.world.run_for(SignedDuration::from_secs(5)).await;
                }
                if self.namespaces_exist(namespaces) {
                    return Err(Miss {
                        object: format!("Namespace {}", namespaces.join(", ")),
                        field: String::new(),
                        message: "is still there five minutes after it was deleted".to_owned(),
                    });
                }
            }
        }
        self.world.run_for(SignedDuration::from_secs(1)).await;
        Ok(())
    }

    fn content_of(&mut self, namespaces: &[String]) -> Vec<(ToolKind, Value)> {
        let kinds = self.kinds();
        let kernel = self.world.api().kernel();
        let mut content = Vec::new();
        for kind in kinds.0.iter().filter(|kind| kind.namespaced) {
            for namespace in namespaces {
                content.extend(
                    kernel.store().list(&kind.resource, namespace).map(|object| (kind.clone(), (**object).clone())),
                );
            }
        }
        content
    }

    fn namespaces_exist(&self, namespaces: &[String]) -> bool {
        let kernel = self.world.api().kernel();
        let resource = rewake_apiserver::resource::GroupResource::new("", "namespaces");
        namespaces.iter().any(|namespace| kernel.store().get(&resource, "", namespace).is_some())
    }

    async fn force_delete(&mut self, kind: &ToolKind, object: &Value, propagation: &str) -> Result<(), Miss> {
        let request = |verb| {
            Request::new(verb, user(), &kind.api_version, &kind.resource.resource, object.namespace(), object.name())
        };
        if object.finalizers().next().is_some() {
            self.send(request(Verb::Patch).merge_patch(json!({"metadata": {"finalizers": null}}))).await?;
        }
        let mut delete = request(Verb::Delete).option("propagationPolicy", propagation);
        if kind.kind == "Pod" {
            delete = delete.option("gracePeriodSeconds", "0");
        }
        self.send(delete).await?;
        Ok(())
    }

    async fn restore(&mut self, index: usize, restore: &Restore) -> Result<(), Miss> {
        let Some(archive) = self.archives.get(&restore.from).cloned() else {
            return Err(Miss {
                object: String::new(),
                field: String::new(),
                message: format!("backup {} has not been taken", restore.from),
            });
        };
        let spec = RestoreSpec {
            name: format!("restore-{}", self.restored.len() + 1),
            profile: self.profile(restore.profile),
            selection: restore.selection.clone(),
            mapping: restore.mapping.clone(),
            order: restore.order.clone(),
            shuffle: restore.shuffle,
            existing: restore.existing,
            restore_status: restore.restore_status.clone(),
            owner_references: restore.owner_references,
            holds: self.holds.clone(),
            stop_after: restore.stop_after,
            with_volumes: restore.with_volumes,
        };
        self.restored.push(Restored { archive: Arc::clone(&archive), mapping: restore.mapping.clone(), step: index });
        let kinds = self.kinds();
        self.world.start_tool(Tool::Restore(Box::new(RestoreRun::new(spec, archive, kinds))), restore.pace);
        if restore.background { Ok(()) } else { self.finish_tool(index).await }
    }

    async fn release(&mut self, index: usize, id: Option<&str>) -> Result<(), Miss> {
        match id {
            Some(id) => self.holds.retain(|hold| hold.id != id),
            None => self.holds.clear(),
        }
        let released: Vec<RestoreRun> =
            self.restores.iter_mut().filter(|run| !run.held().is_empty()).map(|run| run.release(id)).collect();
        for run in released {
            self.world.start_tool(Tool::Restore(Box::new(run)), SignedDuration::from_millis(50));
            self.finish_tool(index).await?;
        }
        Ok(())
    }

    /// Lets the world go on until the tool is done.
    async fn finish_tool(&mut self, index: usize) -> Result<(), Miss> {
        let limit = self.world.now() + SETTLE_DEFAULT;
        while self.world.is_tool_running() {
            if !self.world.step(limit).await {
                return Err(Miss {
                    object: String::new(),
                    field: String::new(),
                    message: format!("the tool is not done after {SETTLE_DEFAULT:#}"),
                });
            }
        }
        self.collect_tool(index);
        Ok(())
    }

    /// Takes what finished tools have to show.
    fn collect_tool(&mut self, _index: usize) {
        for tool in self.world.take_finished_tools() {
            match tool {
                Tool::Backup(run) => {
                    let mut archive = run.into_archive();
                    archive.volumes = self.world.api().kernel().volumes_of(&archive);
                    self.archives.insert(archive.name.clone(), Arc::new(archive));
                }
                Tool::Restore(run) => self.restores.push(*run),
            }
        }
    }

    fn control(&mut self, action: ControllerAction) {
        match action {
            ControllerAction::Start => self.world.start_subject(),
            ControllerAction::Stop => self.world.stop_subject(),
            ControllerAction::Restart => {
                self.world.stop_subject();
                self.world.start_subject();
            }
            ControllerAction::CutWatch => self.world.cut_watch(true),
            ControllerAction::MendWatch => self.world.cut_watch(false),
        }
    }

    fn fault(&mut self, fault: &Fault) {
        match fault {
            Fault::WebhookDown(name) => self.world.api().kernel().faults.webhook_down(name),
            Fault::Rule { id, when, skip, times, effect, restart } => {
                let rule =
                    Rule { id: id.clone(), when: when.clone(), skip: *skip, times: *times, effect: effect.clone() };
                self.world.api().kernel().faults.add(rule);
                if let Some(time) = restart {
                    self.world.restart_after_crash(*time);
                }
            }
        }
    }

    /// Waits until a check holds, or its time is up.
    async fn await_check(&mut self, check: &Check) -> Result<(), Miss> {
        let until = self.world.now() + check.within;
        // What must never happen is looked at once: waiting cannot make it right.
        let waits = !matches!(check.expectation, Expectation::Never(_) | Expectation::Alarm(_));
        loop {
            let looked = self.look(check);
            if looked.is_ok() || !waits || !self.world.step(until).await {
                return looked;
            }
        }
    }

    fn look(&mut self, check: &Check) -> Result<(), Miss> {
        let kinds = self.kinds();
        let kernel = self.world.api().kernel();
        let scene =
            Scene { kernel: &kernel, kinds: &kinds, namespace: &self.scenario.namespace, milestones: &self.milestones };
        scene.look(check)
    }

    /// Who wrote the field of a miss last: the newest change of the log that touched it.
    fn writer(&self, miss: &Miss) -> String {
        let Some((kind, name)) = miss.object.split_once(' ') else { return String::new() };
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let pointer = format!("/{}", miss.field.replace(['.', '['], "/").replace(']', ""));
        let kernel = self.world.api().kernel();
        let mut last = None;
        for entry in kernel.store().log_after(self.base) {
            let object = &entry.object;
            if object.kind() != kind || object.name() != name || object.namespace() != namespace {
                continue;
            }
            let before = entry.previous.as_ref().and_then(|before| before.pointer(&pointer));
            if miss.field.is_empty() || before != object.pointer(&pointer) {
                last = Some(entry.revision);
            }
        }
        last.and_then(|revision| kernel.trace.writer(revision))
            .map_or_else(String::new, |(entry, request)| format!("{} in step {}", request.by, entry.step + 1))
    }

    /// What follows the last step: everything comes to rest, the oracles look, the state is kept.
    async fn judge(&mut self) {
        let settled = self.world.settle(QUIET_DEFAULT, SETTLE_DEFAULT).await;
        self.collect_tool(self.scenario.steps.len());
        if let Err(miss) = settled_or(settled, SETTLE_DEFAULT) {
            self.alarms.push(Alarm { oracle: "settles", object: miss.object, message: miss.message });
        }
        {
            let kernel = self.world.api().kernel();
            let evidence = Evidence {
                store: kernel.store(),
                trace: &kernel.trace,
                restored: &self.restored,
                excused: &self.excused,
                resized: self.resized,
            };
            self.alarms.extend(oracles::judge(&evidence));
            self.snapshot = snapshot::render(kernel.store(), self.base);
        }
        self.judge_idempotence().await;
        self.judge_deletion().await;
        match self.options.variant {
            None => self.judge_sound(),
            Some(variant) => self.judge_variant(variant).await,
        }
    }

    fn judge_sound(&mut self) {
        let unexpected = self.alarms.iter().filter(|alarm| !self.scenario.accepts.contains_key(alarm.oracle));
        self.failures.extend(unexpected.map(|alarm| Failure {
            step: 0,
            what: format!("oracle {}", alarm.oracle),
            object: alarm.object.clone(),
            field: String::new(),
            message: alarm.message.clone(),
            writer: String::new(),
        }));
        let raised: BTreeSet<&str> = self.alarms.iter().map(|alarm| alarm.oracle).collect();
        let stale = self.scenario.accepts.keys().filter(|name| !raised.contains(name.as_str()));
        self.failures.extend(stale.map(|name| Failure {
            step: 0,
            what: format!("oracle {name}"),
            object: String::new(),
            field: String::new(),
            message: "raises no alarm, although the scenario accepts one: take it off `accepts`".to_owned(),
            writer: String::new(),
        }));
    }

    /// In a variant the harm must appear; that the sound run's checks fail is expected.
    async fn judge_variant(&mut self, variant: usize) {
        let Some(variant) = self.scenario.variants.get(variant) else { return };
        for check in &variant.harm {
            let looked = match &check.expectation {
                Expectation::Alarm(oracle) if self.alarms.iter().any(|alarm| alarm.oracle == oracle) => Ok(()),
                Expectation::Alarm(oracle) => Err(Miss {
                    object: String::new(),
                    field: String::new(),
                    message: format!("oracle {oracle} raises no alarm"),
                }),
                _ => self.await_check(check).await,
            };
            if let Err(miss) = looked {
                self.failures.push(Failure {
                    step: 0,
                    what: format!("without {}, the harm does not appear: {}", variant.without, check.words()),
                    object: miss.object,
                    field: miss.field,
                    message: miss.message,
                    writer: String::new(),
                });
            }
        }
    }

    /// Restarting the controller must change nothing (O11). Tried on a fork.
    async fn judge_idempotence(&mut self) {
        if !self.world.is_subject_running() {
            return;
        }
        let mut fork = self.world.fork();
        let before = fork.api().kernel().trace.len();
        fork.stop_subject();
        fork.start_subject();
        fork.settle(QUIET_DEFAULT, SETTLE_DEFAULT).await;
        let kernel = fork.api().kernel();
        let writes = kernel.trace.entries().skip(before).filter_map(|entry| match &entry.what {
            What::Request(request) if matches!(request.by, Actor::Subject(_)) && request.revisions.is_some() => {
                Some(request)
            }
            _ => None,
        });
        // What each start renews is its own, not the custom resources'.
        let renewed = |resource: &str| {
            resource.starts_with("mutatingwebhookconfigurations")
                || resource.starts_with("validatingwebhookconfigurations")
        };
        if let Some(request) =
            writes.into_iter().find(|request| !renewed(&request.resource) && &*request.namespace != "kubedirector")
        {
            self.alarms.push(Alarm {
                oracle: "idempotent",
                object: format!("{} {}/{}", request.resource, request.namespace, request.name),
                message: format!("is written again after a restart of the controller: {request}"),
            });
        }
    }

    /// Deleting every custom resource of the scenario must leave none of their objects (O16). Tried
    /// on a fork.
    async fn judge_deletion(&mut self) {
        if !self.world.is_subject_running() {
            return;
        }
        let kinds = self.kinds();
        let mut fork = self.world.fork();
        let roots: Vec<(ToolKind, Value)> = {
            let kernel = fork.api().kernel();
            let cluster = kinds.0.iter().filter(|kind| kind.kind == "KubeDirectorCluster");
            cluster
                .flat_map(|kind| {
                    kernel
                        .store()
                        .list(&kind.resource, "")
                        .map(|object| (kind.clone(), (**object).clone()))
                        .collect::<Vec<_>>()
                })
                .collect()
        };
        if roots.is_empty() {
            return;
        }
        let mut refused = Vec::new();
        for (kind, root) in &roots {
            let request = Request::new(
                Verb::Delete,
                user(),
                &kind.api_version,
                &kind.resource.resource,
                root.namespace(),
                root.name(),
            );
            match fork.send(&Actor::User, request).await {
                Ok(response) if !response.is_success() => {
                    refused.push((root.namespace().to_owned(), root.name().to_owned()));
                }
                _ => {}
            }
        }
        fork.settle(QUIET_DEFAULT, SETTLE_DEFAULT).await;
        let kernel = fork.api().kernel();
        let store = kernel.store();
        for resource in store.resources() {
            for object in store.list(resource, "") {
                let Some(cluster) = object.label("kubedirector.hpe.com/kdcluster") else { continue };
                let of_root =
                    roots.iter().any(|(_, root)| root.name() == cluster && root.namespace() == object.namespace());
                let was_refused =
                    refused.iter().any(|(namespace, name)| namespace == object.namespace() && name == cluster);
                // The volume outlives its claim when its policy says so.
                if of_root && !was_refused {
                    self.alarms.push(Alarm {
                        oracle: "deletable",
                        object: oracles::title(object),
                        message: format!("stays behind when KubeDirectorCluster {cluster} is deleted"),
                    });
                }
            }
        }
    }

    fn finish(self) -> Outcome {
        let variant = self.options.variant.and_then(|at| self.scenario.variants.get(at));
        let name = match variant {
            Some(variant) => format!("{} without {}", self.scenario.name, variant.without),
            None => self.scenario.name.clone(),
        };
        let (virtual_time, calls, subject_calls, trace) = {
            let kernel = self.world.api().kernel();
            let by_subject =
                kernel.calls.iter().filter(|(by, _)| matches!(by, Actor::Subject(_))).map(|(_, calls)| calls).sum();
            (kernel.now.duration_since(self.started), kernel.calls.values().sum(), by_subject, kernel.trace.clone())
        };
        Outcome {
            name,
            verdict: if self.failures.is_empty() { Verdict::Passed } else { Verdict::Failed },
            failures: self.failures,
            deviations: self.deviations,
            alarms: self.alarms,
            virtual_time,
            calls,
            subject_calls,
            snapshot: if variant.is_some() { String::new() } else { self.snapshot },
            trace,
            world: self.world,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sending {
    Apply,
    Create,
}

/// Who the person behind the scenario is to the API server.
fn user() -> User {
    User::admin("kubernetes-admin")
}

fn changes_members(patch: &Patch) -> bool {
    let (Patch::Merge(value) | Patch::Json(value)) = patch;
    value.to_string().contains("members") || value.to_string().contains("roles")
}

fn settled_or(settled: Settled, within: SignedDuration) -> Result<(), Miss> {
    match settled {
        Settled::Quiet => Ok(()),
        Settled::StillWriting { busiest, writes } => Err(Miss {
            object: String::new(),
            field: String::new(),
            message: format!("writes go on after {within:#}; most often: {busiest} ({writes} times)"),
        }),
    }
}

/// Was the request answered as the step says?
fn expect(response: &Response, refused: Option<&str>, object: &str) -> Result<(), Miss> {
    let said = response.json()["message"].as_str().unwrap_or_default();
    let miss = |message: String| Err(Miss { object: object.to_owned(), field: String::new(), message });
    match (response.is_success(), refused) {
        (true, None) => Ok(()),
        (false, Some(wanted)) if said.contains(wanted) => Ok(()),
        (false, Some(wanted)) => miss(format!("was refused, but not with \"{wanted}\": {said}")),
        (true, Some(wanted)) => miss(format!("was accepted, but must be refused with \"{wanted}\"")),
        (false, None) => miss(format!("was refused ({}): {said}", response.code)),
    }
}
