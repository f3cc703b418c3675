//! The software under test, as the simulator sees it: something that watches, steps and may die.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use rewake_apiserver::store::Store;
use rewake_apiserver::watch::LogEntry;

use crate::world::{Api, WebhookHandler};

pub mod client;
pub mod reference;

/// A controller under test.
///
/// It is plain data between two steps: what it remembers, what it has queued, what it is about to
/// write. One step is at most one write, so that anything can happen between two of them.
pub trait Subject: Send {
    /// Name in traces and in fault rules.
    fn name(&self) -> &Arc<str>;

    /// The process starts: it lists what it watches.
    fn start(&mut self, store: &Store, now: Timestamp);

    /// The process is gone, with everything in its memory.
    fn stop(&mut self);

    /// Is it running?
    fn is_running(&self) -> bool;

    /// A watch event arrives.
    fn notice(&mut self, entry: &LogEntry, now: Timestamp);

    /// When it next has something to do; `None` when it waits for events. Not after now means runnable.
    fn due(&self) -> Option<Timestamp>;

    /// Does one thing: looks at one item and plans, or carries out one change of its plan.
    fn step(&mut self, now: Timestamp) -> BoxFuture<'_, ()>;

    /// The endpoint behind its webhook Service, by namespace and name of that Service.
    fn webhook(&self) -> Option<((String, String), Arc<dyn WebhookHandler>)>;

    /// A copy that talks to another kernel.
    fn fork(&self, api: &Api) -> Box<dyn Subject>;
}
