//! The core: everything a control plane is, as one value that can be cloned.

use std::sync::Arc;

use jiff::Timestamp;

use crate::access::Authorization;
use crate::admission::Chain;
use crate::builtin::Network;
use crate::loops::{self, ControlLoop, Work};
use crate::object::Object;
use crate::registry::delete_collection::Collection;
use crate::registry::state::State;
use crate::registry::{self, Write};
use crate::request::{Request, Response};
use crate::resource::{GroupResource, Resource};
use crate::store::{Revision, Store};
use crate::watch::{LogEntry, LogKind, WatchEvent, WatchId};

/// A control plane. Cloning forks it: the two share structure and nothing else.
pub struct ControlPlane {
    state: State,
    loops: Vec<Box<dyn ControlLoop>>,
    /// The loops have noticed the log up to here.
    noticed: Revision,
}

/// Settings of a [`ControlPlane`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Seed of everything that is drawn: uids, generated names, ports.
    pub seed: u64,
    /// Addresses and ports of Services.
    pub network: Network,
    /// Are access rules asked of requests that come by HTTP?
    pub authorization: Authorization,
}

/// How far a request has come.
pub enum Progress {
    /// It is answered.
    Done(Response),
    /// A webhook must be asked first; hand the answer to [`ControlPlane::resume`]. Nothing is held
    /// meanwhile: others may commit, and preconditions are judged at commit.
    Ask(WebhookCall, Box<Paused>),
}

/// A webhook to be called.
#[derive(Clone, Debug)]
pub struct WebhookCall {
    /// `CONFIGURATION/WEBHOOK`, for traces.
    pub name: String,
    /// Where to send it by POST, as Go's client prints it: a service as `https://NAME.NAMESPACE.svc:PORT/PATH`,
    /// and `?timeout=5s` at the end.
    pub url: String,
    /// `clientConfig` of the webhook: `url`, or `service`, with `caBundle`.
    pub client_config: serde_json::Value,
    /// The `AdmissionReview` (or `ConversionReview`) as JSON bytes.
    pub body: bytes::Bytes,
    /// `timeoutSeconds`.
    pub timeout_seconds: u32,
}

/// What came of a [`WebhookCall`].
#[derive(Clone, Debug)]
pub enum WebhookAnswer {
    /// An HTTP answer.
    Http {
        /// Status code.
        code: u16,
        /// `Content-Type`, or empty.
        content_type: String,
        /// The body.
        body: bytes::Bytes,
    },
    /// No answer: the sentence of Go's HTTP client after `Post "URL": `, for example
    /// `dial tcp 127.0.0.1:9443: connect: connection refused`.
    Failed(String),
    /// No answer in time.
    TimedOut,
}

/// A request that waits for a webhook: plain data, so a fork can hold it.
#[derive(Clone)]
pub struct Paused {
    pub(crate) chain: Chain,
    pub(crate) write: Write,
    /// The collection whose deletion this is part of.
    pub(crate) collection: Option<Arc<Collection>>,
}

/// What control loops and other readers see.
pub struct View<'a> {
    state: &'a State,
}

impl<'a> View<'a> {
    /// The committed objects.
    #[must_use]
    pub fn store(&self) -> &'a Store {
        &self.state.store
    }

    /// Are access rules asked?
    #[must_use]
    pub fn authorization(&self) -> Authorization {
        self.state.authorization
    }

    /// One object.
    #[must_use]
    pub fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<&'a Object> {
        self.state.store.get(resource, namespace, name)
    }

    /// The resource that serves this kind in this version, if any does.
    #[must_use]
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&'a Resource> {
        self.state.kinds.kind(api_version, kind).map(|resource| &**resource)
    }

    /// The resource under this group and plural, in its storage version.
    #[must_use]
    pub fn by_resource(&self, resource: &GroupResource) -> Option<&'a Resource> {
        self.state.kinds.storage(resource).map(|resource| &**resource)
    }

    /// The resource at a path, if it is served.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&'a Resource> {
        self.state.kinds.resource(group, version, resource).map(|resource| &**resource)
    }

    /// Everything that is served, in every version: built-in resources in the order of discovery, then
    /// those of definitions by name.
    pub fn resources(&self) -> impl Iterator<Item = &'a Resource> + use<'a> {
        self.state.kinds.all().iter().map(|resource| &**resource)
    }
}

impl Clone for ControlPlane {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            loops: self.loops.iter().map(|control_loop| control_loop.fork()).collect(),
            noticed: self.noticed,
        }
    }
}

impl ControlPlane {
    /// An empty cluster with what upstream makes at start: the four namespaces, the `kubernetes`
    /// Service, priority classes. Only the loops of the server itself run; see [`Self::add_loop`].
    #[must_use]
    pub fn new(config: &Config, now: Timestamp) -> Self {
        let mut state = State::new(config.seed, config.network.clone(), config.authorization);
        registry::bootstrap::run(&mut state, now);
        let noticed = state.store.revision();
        let mut plane = Self { state, loops: Vec::new(), noticed };
        for control_loop in loops::server() {
            plane.add_loop(control_loop, now);
        }
        plane
    }

    /// Adds a control loop, which first notices everything that there is, as an informer lists before
    /// it watches. Answers its number.
    pub fn add_loop(&mut self, mut control_loop: Box<dyn ControlLoop>, now: Timestamp) -> usize {
        let view = View { state: &self.state };
        let by: Arc<str> = "".into();
        for resource in self.state.store.resources() {
            for object in self.state.store.list(resource, "") {
                let entry = LogEntry {
                    revision: self.noticed,
                    resource: resource.clone(),
                    kind: LogKind::Added,
                    object: Arc::clone(object),
                    previous: None,
                    by: Arc::clone(&by),
                };
                control_loop.notice(&entry, &view, now);
            }
        }
        self.loops.push(control_loop);
        self.loops.len() - 1
    }

    /// Runs a request until it is answered or needs a webhook.
    pub fn begin(&mut self, request: Request, now: Timestamp) -> Progress {
        let progress = registry::begin(&mut self.state, request, now);
        self.notice(now);
        progress
    }

    /// Goes on with a request after its webhook answered.
    pub fn resume(&mut self, paused: Box<Paused>, answer: &WebhookAnswer, now: Timestamp) -> Progress {
        let progress = registry::resume(&mut self.state, *paused, answer, now);
        self.notice(now);
        progress
    }

    /// Takes the events that a watch has not yet received; `None` when the watch has ended.
    ///
    /// Objects are whole; an encoder makes Tables or metadata of them.
    pub fn poll_watch(&mut self, watch: WatchId, now: Timestamp) -> Option<Vec<WatchEvent>> {
        registry::watch::poll(&mut self.state, watch, now)
    }

    /// When a watch has something to say although nothing is written: a bookmark, or its end. `None`
    /// when there is no such time.
    #[must_use]
    pub fn watch_due(&self, watch: WatchId) -> Option<Timestamp> {
        self.state.watches.get(&watch)?.due()
    }

    /// Does a change of this resource concern the watch?
    #[must_use]
    pub fn is_watched(&self, watch: WatchId, resource: &GroupResource) -> bool {
        self.state.watches.get(&watch).is_some_and(|watch| watch.is_of(resource))
    }

    /// Ends a watch.
    pub fn close_watch(&mut self, watch: WatchId) {
        self.state.watches.remove(&watch);
    }

    /// What control loops see.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { state: &self.state }
    }

    /// The control loops by name, each with the time at which it next has something to do.
    pub fn loops(&self) -> impl Iterator<Item = (usize, &'static str, Option<Timestamp>)> {
        self.loops.iter().enumerate().map(|(number, control_loop)| (number, control_loop.name(), control_loop.due()))
    }

    /// Lets one loop take its next item; nothing to do when there is no such loop.
    pub fn work(&mut self, control_loop: usize, now: Timestamp) -> Work {
        let view = View { state: &self.state };
        self.loops.get_mut(control_loop).map(|control_loop| control_loop.work(&view, now)).unwrap_or_default()
    }

    /// Tells a loop what came of its work.
    pub fn done(&mut self, control_loop: usize, work: &Work, responses: &[Response], now: Timestamp) {
        let view = View { state: &self.state };
        if let Some(control_loop) = self.loops.get_mut(control_loop) {
            control_loop.done(work, responses, &view, now);
        }
    }

    /// The committed state, to be gone back to. Costs a few pointers.
    #[must_use]
    pub fn snapshot(&self) -> Store {
        self.state.store.clone()
    }

    /// Goes back to an earlier state, as an etcd snapshot restore does; see [`Store::roll_back`]. The
    /// control loops are those of a server that was started anew: give them again.
    pub fn roll_back(&mut self, snapshot: &Store, bump: bool, loops: Vec<Box<dyn ControlLoop>>, now: Timestamp) {
        self.state.store.roll_back(snapshot, bump);
        self.state.refresh();
        self.loops.clear();
        self.noticed = self.state.store.revision();
        for control_loop in loops::server().into_iter().chain(loops) {
            self.add_loop(control_loop, now);
        }
    }

    /// Forgets the event log up to now: watches that are behind end with 410.
    pub fn compact(&mut self) {
        self.state.store.compact(self.state.store.revision());
    }

    /// Tells every loop what has been committed.
    fn notice(&mut self, now: Timestamp) {
        if self.noticed == self.state.store.revision() {
            return;
        }
        let view = View { state: &self.state };
        for entry in self.state.store.log_after(self.noticed) {
            for control_loop in &mut self.loops {
                control_loop.notice(entry, &view, now);
            }
        }
        self.noticed = self.state.store.revision();
    }
}
