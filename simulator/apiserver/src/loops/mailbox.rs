//! The mailbox of a control loop: items with due times, and retries that wait longer each time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// First wait of a retry (client-go `workqueue.DefaultControllerRateLimiter`).
const RETRY_FIRST: SignedDuration = SignedDuration::from_millis(5);
/// Longest wait of a retry.
const RETRY_MAX: SignedDuration = SignedDuration::from_secs(1000);
/// Doublings after which the wait no longer grows.
const DOUBLINGS_MAX: u32 = 18;

/// Items to be worked on, each once, and when.
#[derive(Clone, Debug)]
pub struct Mailbox<Item> {
    due: BTreeMap<Item, Timestamp>,
    failures: BTreeMap<Item, u32>,
}

impl<Item> Default for Mailbox<Item> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), failures: BTreeMap::new() }
    }
}

impl<Item: Clone + Ord> Mailbox<Item> {
    /// Adds an item, due at `when`; an item that is there keeps the earlier time.
    pub fn add(&mut self, item: Item, when: Timestamp) {
        let due = self.due.entry(item).or_insert(when);
        *due = (*due).min(when);
    }

    /// Adds an item after a failure: later with each failure in a row.
    pub fn retry(&mut self, item: Item, now: Timestamp) {
        let failures = self.failures.entry(item.clone()).or_default();
        let wait = (0..(*failures).min(DOUBLINGS_MAX)).fold(RETRY_FIRST, |wait, _| (wait * 2).min(RETRY_MAX));
        *failures += 1;
        self.add(item, now + wait);
    }

    /// Forgets an item's failures.
    pub fn succeeded(&mut self, item: &Item) {
        self.failures.remove(item);
    }

    /// When the next item is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.values().min().copied()
    }

    /// Takes the item that has been due longest.
    pub fn take(&mut self, now: Timestamp) -> Option<Item> {
        let due = self.due.iter().filter(|(_, due)| **due <= now);
        let item = due.min_by_key(|(item, due)| (**due, (*item).clone())).map(|(item, _)| item.clone())?;
        self.due.remove(&item);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_wait_longer_each_time_until_they_succeed() {
        let mut mailbox = Mailbox::default();
        let now = Timestamp::UNIX_EPOCH;
        let mut wait = || {
            mailbox.retry("a", now);
            let wait = mailbox.next_due().map(|due| due.duration_since(now).as_millis());
            mailbox.take(now + RETRY_MAX);
            wait
        };
        assert_eq!([wait(), wait(), wait()], [Some(5), Some(10), Some(20)]);
        mailbox.succeeded(&"a");
        mailbox.retry("a", now);
        assert_eq!(mailbox.next_due(), Some(now + RETRY_FIRST));
    }
}
