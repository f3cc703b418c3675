//! Telling parts of the process to come to an end.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Says whether it is time to end. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Receiver<bool>);

/// Asks everybody with its [`Stop`] to end.
#[derive(Debug)]
pub(super) struct Stopper(watch::Sender<bool>);

pub(super) fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

/// A stop that the first SIGTERM or SIGINT asks for. The second ends the process as it stands.
pub(super) fn on_signal() -> io::Result<Stop> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (stopper, stop) = channel();
    tokio::spawn(async move {
        let mut next = async || tokio::select! { _ = terminate.recv() => "SIGTERM", _ = interrupt.recv() => "SIGINT" };
        let signal = next().await;
        tracing::info!(signal, "stopping");
        stopper.now();
        let signal = next().await;
        tracing::warn!(signal, "stopped at once");
        std::process::exit(1);
    });
    Ok(stop)
}

impl Stopper {
    /// Asks.
    pub(super) fn now(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Completes when it is time to end; also when nobody is left to ask.
    pub(super) async fn requested(mut self) {
        let _asker_gone = self.0.wait_for(|stop| *stop).await;
    }

    /// Runs `work` to its end, or drops it when it is time to end.
    pub(super) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.clone().requested() => None,
        }
    }
}
