//! The reference controller as a subject: the one file that knows it.
//!
//! The real runtime runs `observe`, `decide` and `apply` in one go. Here every change of a plan is a
//! step of its own, so that others can move, or the process can die, between any two of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::guest::ExecResult as ModelResult;
use rewake_apiserver::resource::GroupResource;
use rewake_apiserver::store::Store;
use rewake_apiserver::watch::{LogEntry, LogKind};
use rewake_controller::{Change, Controller, ExecResult, Guest, GuestError, Index, PodRef, Settings, Target};

use super::Subject;
use super::client::client;
use crate::trace::{Actor, What};
use crate::world::{Api, WebhookHandler};

/// Name of the controller in traces and fault rules.
pub const NAME: &str = "controller";

/// First wait after a failure; doubles with each further one, up to [`RETRY_MAX`].
const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(1);
/// Longest wait between two tries.
const RETRY_MAX: SignedDuration = SignedDuration::from_mins(5);

/// The reference controller in a simulated cluster.
pub struct Reference {
    name: Arc<str>,
    api: Api,
    settings: Settings,
    controller: Controller,
    memory: Memory,
}

/// What a process forgets when it dies.
#[derive(Clone, Default)]
struct Memory {
    running: bool,
    index: Index,
    /// What to look at, and when.
    queue: BTreeMap<Target, Timestamp>,
    failures: BTreeMap<Target, u32>,
    in_flight: Option<InFlight>,
    /// What each start does before anything else.
    startup: Option<VecDeque<Change>>,
    /// Reconciles everything anew at this time.
    resync: Option<Timestamp>,
}

#[derive(Clone)]
struct InFlight {
    target: Option<Target>,
    changes: VecDeque<Change>,
    next_check: Option<SignedDuration>,
}

impl Reference {
    /// A controller with these settings, not yet running.
    #[must_use]
    pub fn new(api: &Api, settings: Settings) -> Self {
        let name: Arc<str> = NAME.into();
        let controller = controller(api, &settings);
        Self { name, api: api.clone(), settings, controller, memory: Memory::default() }
    }

    fn actor(&self) -> Actor {
        Actor::Subject(Arc::clone(&self.name))
    }

    fn note(&self, text: impl Into<Arc<str>>) {
        self.api.kernel().note(&self.actor(), text);
    }

    fn enqueue(&mut self, targets: Vec<Target>, now: Timestamp) {
        for target in targets {
            let due = self.memory.queue.entry(target).or_insert(now);
            *due = (*due).min(now);
        }
    }

    fn retry(&mut self, target: Option<Target>, error: &str, now: Timestamp) {
        let Some(target) = target else {
            self.note(format!("could not finish its start and tries again: {error}"));
            self.memory.startup = None;
            return;
        };
        let failures = self.memory.failures.entry(target.clone()).or_default();
        *failures += 1;
        let wait = (0..failures.saturating_sub(1)).fold(RETRY_FIRST, |wait, _| (wait * 2).min(RETRY_MAX));
        let text = format!("{target} failed and is tried again in {wait:#}: {error}");
        self.memory.queue.insert(target, now + wait);
        self.note(text);
    }

    async fn apply_next(&mut self, mut work: InFlight, now: Timestamp) {
        let Some(change) = work.changes.pop_front() else { return };
        if let Err(error) = self.controller.apply(&change).await {
            self.retry(work.target, &error.to_string(), now);
            return;
        }
        if work.changes.is_empty() {
            self.finish(work.target, work.next_check, now);
        } else {
            self.memory.in_flight = Some(work);
        }
    }

    fn finish(&mut self, target: Option<Target>, next_check: Option<SignedDuration>, now: Timestamp) {
        let Some(target) = target else { return };
        self.memory.failures.remove(&target);
        if let Some(wait) = next_check {
            let due = self.memory.queue.entry(target).or_insert(now + wait);
            *due = (*due).min(now + wait);
        }
    }

    async fn look(&mut self, target: Target, now: Timestamp) {
        let observed = match self.controller.observe(&target).await {
            Ok(observed) => observed,
            Err(error) => return self.retry(Some(target), &error.to_string(), now),
        };
        let plan = self.controller.decide(&observed, now);
        let next_check = plan.next_check.and_then(|wait| SignedDuration::try_from(wait).ok());
        if plan.changes.is_empty() {
            return self.finish(Some(target), next_check, now);
        }
        let text = format!("{target}: {plan}");
        {
            let mut kernel = self.api.kernel();
            let (now, step) = (kernel.now, kernel.step);
            kernel.trace.push(now, step, What::Plan(text.into()));
        }
        self.memory.in_flight = Some(InFlight { target: Some(target), changes: plan.changes.into(), next_check });
    }

    async fn begin(&mut self, now: Timestamp) {
        match self.controller.startup().await {
            Ok(changes) => {
                self.memory.startup = Some(changes.into());
            }
            Err(error) => {
                self.note(format!("could not start and tries again: {error}"));
                self.memory.startup = None;
            }
        }
        let _ = now;
    }
}

fn controller(api: &Api, settings: &Settings) -> Controller {
    let guest = SimulatedGuest { api: api.clone() };
    Controller::new(client(api, Actor::Subject(NAME.into())), Arc::new(guest), settings.clone())
}

impl Subject for Reference {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn start(&mut self, store: &Store, now: Timestamp) {
        let mut memory = Memory { running: true, ..Memory::default() };
        for watched in Controller::watched() {
            let (group, _) = rewake_apiserver::resource::split_api_version(watched.api_version);
            for object in store.list(&GroupResource::new(group, watched.plural), "") {
                for target in memory.index.notice("ADDED", object) {
                    memory.queue.insert(target, now);
                }
            }
        }
        memory.resync = SignedDuration::try_from(self.settings.resync).ok().map(|period| now + period);
        self.memory = memory;
    }

    fn stop(&mut self) {
        self.memory = Memory::default();
    }

    fn is_running(&self) -> bool {
        self.memory.running
    }

    fn notice(&mut self, entry: &LogEntry, now: Timestamp) {
        let watches = Controller::watched().iter().any(|watched| {
            let (group, _) = rewake_apiserver::resource::split_api_version(watched.api_version);
            *entry.resource.group == *group && *entry.resource.resource == *watched.plural
        });
        if !watches {
            return;
        }
        let event = match entry.kind {
            LogKind::Added => "ADDED",
            LogKind::Modified => "MODIFIED",
            LogKind::Deleted => "DELETED",
        };
        let targets = self.memory.index.notice(event, &entry.object);
        self.enqueue(targets, now);
    }

    fn due(&self) -> Option<Timestamp> {
        if !self.memory.running {
            return None;
        }
        if self.memory.startup.as_ref().is_none_or(|changes| !changes.is_empty()) || self.memory.in_flight.is_some() {
            return Some(Timestamp::MIN);
        }
        self.memory.queue.values().copied().chain(self.memory.resync).min()
    }

    fn step(&mut self, now: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match &mut self.memory.startup {
                None => return self.begin(now).await,
                Some(changes) if !changes.is_empty() => {
                    let work = InFlight { target: None, changes: std::mem::take(changes), next_check: None };
                    self.apply_next(work, now).await;
                    if let Some(rest) = self.memory.in_flight.take() {
                        self.memory.startup = Some(rest.changes);
                    }
                    return;
                }
                Some(_) => {}
            }
            if let Some(work) = self.memory.in_flight.take() {
                return self.apply_next(work, now).await;
            }
            if self.memory.resync.is_some_and(|due| due <= now) {
                self.memory.resync = SignedDuration::try_from(self.settings.resync).ok().map(|period| now + period);
                let targets = self.memory.index.targets();
                return self.enqueue(targets, now);
            }
            let next = self.memory.queue.iter().filter(|(_, due)| **due <= now).min_by_key(|(target, due)| (**due, (*target).clone()));
            if let Some(target) = next.map(|(target, _)| target.clone()) {
                self.memory.queue.remove(&target);
                self.look(target, now).await;
            }
        })
    }

    fn webhook(&self) -> Option<((String, String), Arc<dyn WebhookHandler>)> {
        let service = (self.settings.namespace.clone(), self.settings.webhook_service.clone());
        let handler = Handler { controller: self.controller.clone(), ca_bundle: self.settings.ca_bundle.clone() };
        Some((service, Arc::new(handler)))
    }

    fn fork(&self, api: &Api) -> Box<dyn Subject> {
        Box::new(Self {
            name: Arc::clone(&self.name),
            api: api.clone(),
            settings: self.settings.clone(),
            controller: controller(api, &self.settings),
            memory: self.memory.clone(),
        })
    }
}

struct Handler {
    controller: Controller,
    ca_bundle: String,
}

impl WebhookHandler for Handler {
    fn ca_bundle(&self) -> &str {
        &self.ca_bundle
    }

    fn review(&self, body: bytes::Bytes) -> BoxFuture<'_, bytes::Bytes> {
        Box::pin(async move {
            let review = serde_json::from_slice(&body).unwrap_or_default();
            self.controller.admit(&review).await.to_string().into()
        })
    }
}

/// Containers as the control plane's guest model has them.
struct SimulatedGuest {
    api: Api,
}

#[async_trait]
impl Guest for SimulatedGuest {
    async fn exec(&self, pod: &PodRef, container: &str, argv: &[String], stdin: &[u8]) -> Result<ExecResult, GuestError> {
        let mut kernel = self.api.kernel();
        let result = kernel.exec(&pod.namespace, &pod.name, container, argv, stdin);
        match result {
            Ok(ModelResult { stdout, stderr, exit }) => Ok(ExecResult { stdout, stderr, exit_code: exit }),
            Err(why) => Err(GuestError::Unreachable(why)),
        }
    }
}
