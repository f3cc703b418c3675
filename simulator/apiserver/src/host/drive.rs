//! Lets the control loops of a [`Host`](super::Host) work, each at its own pace: one item of a loop at a
//! time, different loops beside each other, so that a slow webhook holds up only the loop that asked it.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use futures::StreamExt;
use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;

use super::{Core, Host, Inner, run};
use crate::control_plane::ControlPlane;
use crate::loops::Work;

/// Items in a row that need no request before others get their turn at the control plane.
const IDLE_ITEMS_MAX: usize = 64;

pub(super) async fn drive(host: Weak<Inner>) {
    let mut busy = BTreeSet::new();
    let mut running = FuturesUnordered::new();
    loop {
        let Some(inner) = host.upgrade() else { return };
        let host = Host { inner };
        let mut changes = host.inner.any_change.subscribe();
        let (ready, next, now) = host.with(|plane, now| {
            let (ready, next) = take(plane, &busy, now);
            (ready, next, now)
        });
        for (index, work) in ready {
            busy.insert(index);
            running.push(perform(host.clone(), index, work));
        }
        drop(host);
        let sleep: OptionFuture<_> = next
            .map(|next| tokio::time::sleep(Duration::try_from(next.duration_since(now)).unwrap_or_default()))
            .into();
        tokio::select! {
            Some(index) = running.next() => {
                busy.remove(&index);
            }
            Some(()) = sleep => {}
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Work of the loops that have some and are not busy, and when the next of the others is due.
fn take(plane: &mut ControlPlane, busy: &BTreeSet<usize>, now: Timestamp) -> (Vec<(usize, Work)>, Option<Timestamp>) {
    let mut ready = Vec::new();
    let mut next = None;
    let due: Vec<(usize, Timestamp)> = plane
        .loops()
        .filter(|(index, _, _)| !busy.contains(index))
        .filter_map(|(index, _, due)| Some((index, due?)))
        .collect();
    for (index, first) in due {
        let mut due = Some(first);
        for _ in 0..IDLE_ITEMS_MAX {
            if due.is_none_or(|due| due > now) {
                break;
            }
            let work = plane.work(index, now);
            if !work.requests.is_empty() {
                ready.push((index, work));
                due = None;
                break;
            }
            plane.done(index, &work, &[], now);
            due = plane.loops().find(|(other, _, _)| *other == index).and_then(|(_, _, due)| due);
        }
        next = [next, due].into_iter().flatten().min();
    }
    (ready, next)
}

/// Sends what a loop wants sent, up to the first refusal, and tells it what came of it.
async fn perform(host: Host, index: usize, work: Work) -> usize {
    let mut responses = Vec::with_capacity(work.requests.len());
    for request in &work.requests {
        let response = run(&host, request.clone()).await;
        let go_on = response.is_success() || work.keep_going;
        responses.push(response);
        if !go_on {
            break;
        }
    }
    host.with(|plane, now| plane.done(index, &work, &responses, now));
    index
}
