//! The core: everything a control plane is, as one value that can be cloned.

use jiff::Timestamp;

use crate::loops::Work;
use crate::object::Object;
use crate::request::{Request, Response};
use crate::resource::{GroupResource, Resource};
use crate::store::Store;
use crate::watch::{WatchEvent, WatchId};

/// A control plane. Cloning forks it: the two share structure and nothing else.
pub struct ControlPlane {
    store: Store,
}

/// Settings of a [`ControlPlane`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of everything that is drawn: uids, generated names, ports.
    pub seed: u64,
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
pub struct Paused {}

/// What control loops and other readers see.
pub struct View<'a> {
    store: &'a Store,
}

impl View<'_> {
    /// The committed objects.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.store
    }

    /// One object.
    #[must_use]
    pub fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<&Object> {
        self.store.get(resource, namespace, name)
    }

    /// The resource that serves this kind in this version, if any does.
    #[must_use]
    pub fn by_kind(&self, _api_version: &str, _kind: &str) -> Option<&Resource> {
        None
    }

    /// The resource under this group and plural, in its storage version.
    #[must_use]
    pub fn by_resource(&self, _resource: &GroupResource) -> Option<&Resource> {
        None
    }
}

impl ControlPlane {
    /// An empty cluster with what upstream makes at start: the four namespaces, the `kubernetes`
    /// Service, default roles, priority classes.
    #[must_use]
    pub fn new(_config: &Config, _now: Timestamp) -> Self {
        Self { store: Store::default() }
    }

    /// Runs a request until it is answered or needs a webhook.
    pub fn begin(&mut self, _request: Request, _now: Timestamp) -> Progress {
        Progress::Done(crate::ApiError::no_such_path().into())
    }

    /// Goes on with a request after its webhook answered.
    pub fn resume(&mut self, _paused: Box<Paused>, _answer: WebhookAnswer, _now: Timestamp) -> Progress {
        Progress::Done(crate::ApiError::no_such_path().into())
    }

    /// Takes the events that a watch has not yet received; `None` when the watch has ended.
    pub fn poll_watch(&mut self, _watch: WatchId, _now: Timestamp) -> Option<Vec<WatchEvent>> {
        None
    }

    /// Ends a watch.
    pub fn close_watch(&mut self, _watch: WatchId) {}

    /// What control loops see.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { store: &self.store }
    }

    /// The control loops by name, each with the time at which it next has something to do.
    pub fn loops(&self) -> impl Iterator<Item = (usize, &'static str, Option<Timestamp>)> {
        std::iter::empty()
    }

    /// Lets one loop take its next item.
    pub fn work(&mut self, _control_loop: usize, _now: Timestamp) -> Work {
        Work::default()
    }

    /// Tells a loop what came of its work.
    pub fn done(&mut self, _control_loop: usize, _work: &Work, _responses: &[Response], _now: Timestamp) {}
}
