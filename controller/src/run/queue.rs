//! The work queue: what to reconcile, when, and never the same target twice at a time.
//!
//! [`Queue`] is plain data that is told the time; [`WorkQueue`] is the shell that workers wait on.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rewake_controller::Target;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time since the queue was made.
type Moment = Duration;

/// Wait after a first failure; each further one doubles it.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// Longest wait after a failure.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// For this long after a failure, events do not shorten the wait: they may be echoes of our own writes.
const ECHO: Duration = Duration::from_secs(1);

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Well. Look again after this long, if at all.
    Done(Option<Duration>),
    /// With an error.
    Failed,
}

/// What a worker should do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Reconcile this, then say so by [`Queue::finish`].
    Work(Target),
    /// Wait until then, or until something is added.
    Wait(Option<Moment>),
}

/// Targets and when they are due.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<Target, Entry>,
    due: BTreeSet<(Moment, Target)>,
    /// Spreads the waits after failures, so that what failed together is not tried again together.
    seed: u64,
}

#[derive(Debug, Default)]
struct Entry {
    running: bool,
    /// When it is due; of a running one, when it is due again.
    due: Option<Moment>,
    not_before: Moment,
    failures: u32,
}

impl Queue {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Makes a target due at `at`, or leaves it due earlier.
    pub(super) fn add(&mut self, target: Target, at: Moment) {
        let entry = self.entries.entry(target.clone()).or_default();
        let at = at.max(entry.not_before);
        if entry.due.is_some_and(|earlier| earlier <= at) {
            return;
        }
        let later = entry.due.replace(at);
        if entry.running {
            return;
        }
        if let Some(later) = later {
            self.due.remove(&(later, target.clone()));
        }
        self.due.insert((at, target));
    }

    /// Hands out what is due first.
    pub(super) fn take(&mut self, now: Moment) -> Next {
        match self.due.first() {
            Some((at, _)) if *at > now => Next::Wait(Some(*at)),
            None => Next::Wait(None),
            Some(_) => {
                let Some((_, target)) = self.due.pop_first() else { return Next::Wait(None) };
                let entry = self.entries.entry(target.clone()).or_default();
                entry.running = true;
                entry.due = None;
                Next::Work(target)
            }
        }
    }

    /// Takes back what was handed out.
    pub(super) fn finish(&mut self, target: &Target, outcome: Outcome, now: Moment) {
        let Some(entry) = self.entries.get_mut(target) else { return };
        entry.running = false;
        let mut next = entry.due.take();
        match outcome {
            Outcome::Done(again) => {
                entry.failures = 0;
                entry.not_before = Moment::ZERO;
                next = [next, again.map(|delay| now + delay)].into_iter().flatten().min();
            }
            Outcome::Failed => {
                self.seed = scramble(self.seed);
                let wait = backoff(entry.failures, self.seed);
                entry.failures += 1;
                entry.not_before = now + wait.min(ECHO);
                next = Some(now + wait);
            }
        }
        match next {
            Some(at) => {
                entry.due = Some(at);
                self.due.insert((at, target.clone()));
            }
            None => {
                self.entries.remove(target);
            }
        }
    }

    /// How many targets are due by `now` and not being worked on.
    pub(super) fn depth(&self, now: Moment) -> usize {
        self.due.iter().take_while(|(at, _)| *at <= now).count()
    }
}

/// Between half of the full wait and all of it.
fn backoff(failures: u32, random: u64) -> Duration {
    let full = BACKOFF_MIN.saturating_mul(2_u32.saturating_pow(failures)).min(BACKOFF_MAX);
    let share = u32::try_from(random % 512).unwrap_or_default();
    full / 2 + full * share / 1024
}

/// One step of a linear congruential generator (Knuth's MMIX constants), its high bits folded down: enough
/// to spread retries.
fn scramble(seed: u64) -> u64 {
    let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    next ^ (next >> 33)
}

/// A queue that several workers wait on.
pub(super) struct WorkQueue {
    queue: Mutex<Queue>,
    changed: Notify,
    start: Instant,
}

impl WorkQueue {
    pub(super) fn new() -> Self {
        let seed = RandomState::new().hash_one("retries");
        Self { queue: Mutex::new(Queue::new(seed)), changed: Notify::new(), start: Instant::now() }
    }

    /// Makes a target due after `delay`.
    pub(super) fn add(&self, target: Target, delay: Duration) {
        let at = self.now() + delay;
        self.lock().add(target, at);
        self.changed.notify_one();
    }

    /// Waits for something to do. Whoever gets a target must give it back by [`WorkQueue::finish`].
    pub(super) async fn next(&self) -> Target {
        loop {
            let next = self.lock().take(self.now());
            match next {
                Next::Work(target) => {
                    // One addition wakes one worker; there may be more to do.
                    self.changed.notify_one();
                    return target;
                }
                Next::Wait(Some(at)) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(self.start + at) => {}
                    }
                }
                Next::Wait(None) => self.changed.notified().await,
            }
        }
    }

    /// Takes back what was handed out.
    pub(super) fn finish(&self, target: &Target, outcome: Outcome) {
        let now = self.now();
        self.lock().finish(target, outcome, now);
        self.changed.notify_one();
    }

    /// How many targets wait for a worker.
    pub(super) fn depth(&self) -> usize {
        let now = self.now();
        self.lock().depth(now)
    }

    fn now(&self) -> Moment {
        self.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn target(name: &str) -> Target {
        Target::Cluster { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_target_is_never_worked_on_twice_at_a_time_and_no_event_is_lost() {
        let mut queue = Queue::new(1);
        queue.add(target("a"), Moment::ZERO);
        queue.add(target("a"), Moment::ZERO);
        assert_eq!(queue.take(SECOND), Next::Work(target("a")));
        assert_eq!(queue.take(SECOND), Next::Wait(None), "twice added, once due");
        queue.add(target("a"), SECOND);
        assert_eq!(queue.take(SECOND), Next::Wait(None), "it is being worked on");
        queue.finish(&target("a"), Outcome::Done(None), SECOND);
        assert_eq!(queue.take(SECOND), Next::Work(target("a")), "what came meanwhile");
        queue.finish(&target("a"), Outcome::Done(None), SECOND);
        assert!(queue.entries.is_empty() && queue.due.is_empty(), "nothing is remembered of what is done");
    }

    #[test]
    fn an_event_comes_before_a_later_look_and_takes_its_place() {
        let mut queue = Queue::new(1);
        queue.add(target("a"), 30 * SECOND);
        assert_eq!(queue.take(SECOND), Next::Wait(Some(30 * SECOND)));
        queue.add(target("a"), 2 * SECOND);
        assert_eq!(queue.depth(SECOND), 0);
        assert_eq!(queue.depth(2 * SECOND), 1);
        assert_eq!(queue.take(2 * SECOND), Next::Work(target("a")));
        queue.finish(&target("a"), Outcome::Done(Some(5 * SECOND)), 2 * SECOND);
        assert_eq!(queue.take(2 * SECOND), Next::Wait(Some(7 * SECOND)));
    }

    #[test]
    fn failures_wait_ever_longer_and_echoes_do_not_hurry_them() {
        let mut queue = Queue::new(7);
        let mut now = Moment::ZERO;
        let mut waits = Vec::new();
        queue.add(target("a"), now);
        for _ in 0..12 {
            assert_eq!(queue.take(now), Next::Work(target("a")));
            queue.finish(&target("a"), Outcome::Failed, now);
            queue.add(target("a"), now);
            let Next::Wait(Some(at)) = queue.take(now) else { panic!("due at once after a failure") };
            waits.push(at - now);
            now = at;
        }
        assert!(waits[0] >= BACKOFF_MIN / 2 && waits[0] <= BACKOFF_MIN, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= ECHO), "an event after the echo is worth a try: {waits:?}");
        for (failures, full) in [(0, BACKOFF_MIN), (1, 2 * BACKOFF_MIN), (40, BACKOFF_MAX)] {
            for random in [0, 511, u64::MAX] {
                let wait = backoff(failures, random);
                assert!(wait >= full / 2 && wait <= full, "{failures} {random} {wait:?}");
            }
        }
    }
}
