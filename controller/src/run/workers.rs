//! The leader's work: watches fill the queue, workers empty it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use rewake_controller::{Controller, Target, watched};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::metrics::{Ending, Metrics};
use super::queue::{Outcome, WorkQueue};
use super::stop::Stop;
use super::watches::Watches;

/// Targets that are looked after at the same time.
const WORKERS: usize = 8;
/// How long reconciliations may take to come to an end after a stop.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Everything that only the leader does.
pub(super) struct Work {
    pub(super) client: Client,
    pub(super) controllers: watch::Receiver<Controller>,
    pub(super) queue: Arc<WorkQueue>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stop: Stop,
}

impl Work {
    /// Works until the stop is asked for; what has been begun is then brought to its end.
    pub(super) async fn run(self) {
        let resync = self.controllers.borrow().settings().resync;
        let watches = Arc::new(Watches::new(Arc::clone(&self.queue), Arc::clone(&self.metrics)));
        let mut readers = JoinSet::new();
        for kind in watched() {
            let (watches, client) = (Arc::clone(&watches), self.client.clone());
            readers.spawn(async move { watches.follow(client, kind).await });
        }
        readers.spawn(async move { watches.resync(resync).await });
        self.queue.add(Target::Installation, Duration::ZERO);
        let work = Arc::new(self);
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let work = Arc::clone(&work);
            workers.spawn(async move {
                while let Some(target) = work.stop.unless(work.queue.next()).await {
                    let outcome = work.reconcile(&target).await;
                    work.queue.finish(&target, outcome);
                }
            });
        }
        work.stop.clone().requested().await;
        let ended = timeout(STOP_GRACE, async { while workers.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!("reconciliations were cut off");
        }
    }

    async fn reconcile(&self, target: &Target) -> Outcome {
        let controller = self.controllers.borrow().clone();
        let begun = Instant::now();
        let result = controller.reconcile(target, Timestamp::now()).await;
        let (ending, outcome) = match result {
            Ok(next_check) => (Ending::Ok, Outcome::Done(next_check)),
            Err(error) if error.is_stale() => {
                tracing::debug!(%target, %error, "overtaken; looking again");
                (Ending::Stale, Outcome::Failed)
            }
            Err(error) => {
                tracing::warn!(%target, %error, "reconciliation failed; it is tried again");
                (Ending::Error, Outcome::Failed)
            }
        };
        self.metrics.reconciled(target, ending, begun.elapsed());
        outcome
    }
}
