//! The reference controller as a subject: the one file that knows it.
//!
//! The real runtime runs `observe`, `decide` and `apply` in one go. Here every change of a plan is a
//! step of its own, so that others can move, or the process can die, between any two of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::guest::ExecResult as ModelResult;
use rewake_apiserver::object::{Object, ObjectExt};
use rewake_apiserver::resource::GroupResource;
use rewake_apiserver::store::Store;
use rewake_apiserver::watch::{LogEntry, LogKind};
use rewake_controller::guest::{ExecResult, Guest, GuestError, PodRef};
use rewake_controller::{Change, Controller, Index, Safeguards, Settings, Target, WebhookAddress, watched};

use super::Subject;
use super::client::client;
use crate::trace::{Actor, What};
use crate::world::{Api, WebhookHandler};

/// Name of the controller in traces and fault rules.
pub const NAME: &str = "controller";

/// Namespace of the controller in simulated clusters.
pub const NAMESPACE: &str = "kubedirector";

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
    /// Everything the index has ever named, for a resync.
    known: BTreeSet<Target>,
    /// Reconciles everything anew at this time.
    resync: Option<Timestamp>,
}

#[derive(Clone)]
struct InFlight {
    target: Target,
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
            self.memory.known.insert(target.clone());
            let due = self.memory.queue.entry(target).or_insert(now);
            *due = (*due).min(now);
        }
    }

    fn retry(&mut self, target: Target, error: &str, now: Timestamp) {
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

    fn finish(&mut self, target: Target, next_check: Option<SignedDuration>, now: Timestamp) {
        self.memory.failures.remove(&target);
        if let Some(wait) = next_check {
            let due = self.memory.queue.entry(target).or_insert(now + wait);
            *due = (*due).min(now + wait);
        }
    }

    async fn look(&mut self, target: Target, now: Timestamp) {
        let observed = match self.controller.observe(&target).await {
            Ok(observed) => observed,
            Err(error) => return self.retry(target, &error.to_string(), now),
        };
        let plan = self.controller.decide(&observed, now);
        let next_check = plan.next_check.and_then(|wait| SignedDuration::try_from(wait).ok());
        if plan.changes.is_empty() {
            return self.finish(target, next_check, now);
        }
        let changes: Vec<String> = plan.changes.iter().map(ToString::to_string).collect();
        {
            let mut kernel = self.api.kernel();
            let (now, step) = (kernel.now, kernel.step);
            kernel.trace.push(now, step, What::Plan(format!("{target}: {}", changes.join("; ")).into()));
        }
        self.memory.in_flight = Some(InFlight { target, changes: plan.changes.into(), next_check });
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
        memory.queue.insert(Target::Installation, now);
        for watched in watched() {
            let (group, _) = rewake_apiserver::resource::split_api_version(watched.api_version);
            for object in
                store.list(&GroupResource::new(group, watched.plural), "").filter(|object| is_watched(watched, object))
            {
                for target in memory.index.notice("ADDED", object) {
                    memory.known.insert(target.clone());
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
        let watches = watched().iter().any(|watched| {
            let (group, _) = rewake_apiserver::resource::split_api_version(watched.api_version);
            let of_kind = *entry.resource.group == *group && *entry.resource.resource == *watched.plural;
            of_kind
                && [Some(&entry.object), entry.previous.as_ref()]
                    .into_iter()
                    .flatten()
                    .any(|object| is_watched(watched, object))
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
        if self.memory.in_flight.is_some() {
            return Some(Timestamp::MIN);
        }
        self.memory.queue.values().copied().chain(self.memory.resync).min()
    }

    fn step(&mut self, now: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(work) = self.memory.in_flight.take() {
                return self.apply_next(work, now).await;
            }
            if self.memory.resync.is_some_and(|due| due <= now) {
                self.memory.resync = SignedDuration::try_from(self.settings.resync).ok().map(|period| now + period);
                let targets: Vec<Target> = self.memory.known.iter().cloned().collect();
                return self.enqueue(targets, now);
            }
            let next = self
                .memory
                .queue
                .iter()
                .filter(|(_, due)| **due <= now)
                .min_by_key(|(target, due)| (**due, (*target).clone()));
            if let Some(target) = next.map(|(target, _)| target.clone()) {
                self.memory.queue.remove(&target);
                self.look(target, now).await;
            }
        })
    }

    fn webhook(&self) -> Option<((String, String), Arc<dyn WebhookHandler>)> {
        let service = (self.settings.namespace.clone(), rewake_controller::names::WEBHOOK_SERVICE.to_owned());
        let handler = Handler { controller: self.controller.clone(), ca_bundle: ca_bundle_base64() };
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

fn is_watched(watched: &rewake_controller::Watched, object: &Object) -> bool {
    watched.label_selector.is_none_or(|label| object.label(label).is_some())
}

/// The certificate that the simulated endpoint shows: its text is all that matters here.
const CA_BUNDLE: &str = "-----BEGIN CERTIFICATE-----\nthe simulated controller\n-----END CERTIFICATE-----\n";

fn ca_bundle_base64() -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, CA_BUNDLE)
}

/// Settings of the controller in simulated clusters.
///
/// # Errors
/// When there is no such safeguard.
pub fn settings(without: Option<&str>) -> Result<Settings, rewake_controller::UnknownSafeguard> {
    let mut settings = Settings::new(NAMESPACE);
    settings.webhook = Some(WebhookAddress { ca_bundle: Some(CA_BUNDLE.to_owned()), url: None });
    if let Some(name) = without {
        settings.safeguards = Safeguards::without(name)?;
    }
    Ok(settings)
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
    async fn exec(
        &self,
        pod: &PodRef,
        container: &str,
        argv: &[String],
        stdin: &[u8],
    ) -> Result<ExecResult, GuestError> {
        let mut kernel = self.api.kernel();
        let result = kernel.exec(&pod.namespace, &pod.name, container, argv, stdin);
        match result {
            Ok(ModelResult { stdout, stderr, exit }) => Ok(ExecResult { stdout, stderr, exit }),
            Err(reason) => Err(GuestError::Unreachable { pod: pod.name.clone(), reason }),
        }
    }
}
