//! A control plane in real time: a clock, control loops that run by themselves, webhooks that are
//! called, watches that are pushed. Both shells, [`crate::cluster`] and [`crate::serve`], stand on it.
//!
//! The parts take any [`Core`], so that a simulator with a clock of its own answers HTTP with the same
//! code.

mod answer;
mod drive;
pub mod exec;
pub mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::control_plane::{Config, ControlPlane, Progress, WebhookAnswer, WebhookCall};
use crate::http::connect::PodExec;
use crate::loops::ControlLoop;
use crate::request::{Request, Response};
use crate::resource::GroupResource;
use crate::store::Revision;

pub use answer::{Body, answer, full};
pub use webhooks::{CallWebhook, Handler, Https, InProcess};

/// Access to a control plane and to the world around it, as far as answering requests needs them.
pub trait Core: Clone + Send + Sync + 'static {
    /// One step of the control plane, at the time that it is.
    fn with<R>(&self, step: impl FnOnce(&mut ControlPlane, Timestamp) -> R) -> R;

    /// Calls a webhook.
    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookAnswer>;

    /// Completes with the first change to objects of `resource` after this call.
    fn changed(&self, resource: &GroupResource) -> BoxFuture<'static, ()>;

    /// Completes when it is `time`.
    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()>;

    /// Who runs commands in containers, if anybody does.
    fn pods(&self) -> Option<Arc<dyn PodExec>>;
}

/// Runs a request to its end; webhooks are asked on the way.
pub async fn run<C: Core>(core: &C, request: Request) -> Response {
    let mut progress = core.with(|plane, now| plane.begin(request, now));
    loop {
        match progress {
            Progress::Done(response) => return response,
            Progress::Ask(call, paused) => {
                let answer = core.call_webhook(call).await;
                progress = core.with(|plane, now| plane.resume(paused, &answer, now));
            }
        }
    }
}

/// A control plane in real time. Clones share it; it ends with the last one.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    plane: Mutex<Plane>,
    /// Time at which the host was made, on both clocks: time does not jump when somebody sets the clock.
    epoch: (Timestamp, Instant),
    webhooks: Arc<dyn CallWebhook>,
    pods: Option<Arc<dyn PodExec>>,
    /// Wakes the watches of one resource.
    watched: Mutex<BTreeMap<GroupResource, watch::Sender<()>>>,
    /// Wakes the control loops.
    any_change: watch::Sender<()>,
    driver: Mutex<Option<AbortHandle>>,
}

struct Plane {
    plane: ControlPlane,
    /// Up to where watches have been woken.
    seen: Revision,
}

/// What a [`Host`] is made of.
pub struct Parts {
    /// Settings of the control plane.
    pub config: Config,
    /// Control loops to run, beside those of the API server itself.
    pub loops: Vec<Box<dyn ControlLoop>>,
    /// Who calls webhooks.
    pub webhooks: Arc<dyn CallWebhook>,
    /// Who runs commands in containers.
    pub pods: Option<Arc<dyn PodExec>>,
}

impl Host {
    /// Starts a control plane and its control loops.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(parts: Parts) -> Self {
        let now = Timestamp::now();
        let mut plane = ControlPlane::new(&parts.config, now);
        for control_loop in parts.loops {
            plane.add_loop(control_loop, now);
        }
        Self::resume(plane, now, parts.webhooks, parts.pods)
    }

    /// Goes on with a control plane for which it is `now`, in real time from here on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn resume(
        plane: ControlPlane,
        now: Timestamp,
        webhooks: Arc<dyn CallWebhook>,
        pods: Option<Arc<dyn PodExec>>,
    ) -> Self {
        let epoch = (now, Instant::now());
        let seen = plane.view().store().revision();
        let host = Self {
            inner: Arc::new(Inner {
                plane: Mutex::new(Plane { plane, seen }),
                epoch,
                webhooks,
                pods,
                watched: Mutex::default(),
                any_change: watch::Sender::new(()),
                driver: Mutex::default(),
            }),
        };
        let driver = tokio::spawn(drive::drive(Arc::downgrade(&host.inner)));
        *lock(&host.inner.driver) = Some(driver.abort_handle());
        host
    }

    fn now(&self) -> Timestamp {
        let (start, since) = self.inner.epoch;
        start.checked_add(since.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(driver) = lock(&self.driver).take() {
            driver.abort();
        }
    }
}

/// A lock whose holder panicked still guards whole values: every step leaves the control plane consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core for Host {
    fn with<R>(&self, step: impl FnOnce(&mut ControlPlane, Timestamp) -> R) -> R {
        let mut guard = lock(&self.inner.plane);
        // Read under the lock, so that steps see time in their own order.
        let now = self.now();
        let out = step(&mut guard.plane, now);
        let Plane { plane, seen } = &mut *guard;
        let view = plane.view();
        let store = view.store();
        if store.revision() != *seen {
            let watched = lock(&self.inner.watched);
            for entry in store.log_after(*seen) {
                if let Some(wake) = watched.get(&entry.resource) {
                    wake.send_replace(());
                }
            }
            *seen = store.revision();
            self.inner.any_change.send_replace(());
        }
        out
    }

    fn call_webhook(&self, call: WebhookCall) -> BoxFuture<'static, WebhookAnswer> {
        self.inner.webhooks.call(call)
    }

    fn changed(&self, resource: &GroupResource) -> BoxFuture<'static, ()> {
        let mut watched = lock(&self.inner.watched);
        let mut receiver = match watched.get(resource) {
            Some(sender) => sender.subscribe(),
            None => watched.entry(resource.clone()).or_default().subscribe(),
        };
        async move {
            if receiver.changed().await.is_err() {
                // The host is gone; whoever waits is about to be dropped.
                future::pending::<()>().await;
            }
        }
        .boxed()
    }

    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        let wait = Duration::try_from(time.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(wait).boxed()
    }

    fn pods(&self) -> Option<Arc<dyn PodExec>> {
        self.inner.pods.clone()
    }
}
