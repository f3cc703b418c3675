//! What Prometheus learns.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use rewake_controller::{Target, watched};
use serde_json::Value;

/// Buckets of durations, in seconds: requests take milliseconds, setups of members seconds.
const SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Judged {
    resource: &'static str,
    verdict: &'static str,
}

/// How a reconciliation ended, as metrics tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Ok,
    /// The world had moved on in between; tried again.
    Stale,
    Error,
}

/// All metrics of the process.
pub(super) struct Metrics {
    registry: Mutex<Registry>,
    reconciled: Family<Reconciled, Counter>,
    durations: Family<OfKind, Histogram>,
    depth: Gauge,
    judged: Family<Judged, Counter>,
    judging: Histogram,
    watch_errors: Family<OfKind, Counter>,
    leader: Gauge,
    certificates: Counter,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(SECONDS);
        let metrics = Self {
            registry: Mutex::default(),
            reconciled: Family::default(),
            durations: Family::new_with_constructor(histogram),
            depth: Gauge::default(),
            judged: Family::default(),
            judging: histogram(),
            watch_errors: Family::default(),
            leader: Gauge::default(),
            certificates: Counter::default(),
        };
        let mut registry = Registry::with_prefix("rewake_controller");
        registry.register("reconciliations", "Reconciliations by kind and result", metrics.reconciled.clone());
        registry.register_with_unit(
            "reconciliation_duration",
            "Time a reconciliation took",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register("queue_depth", "Targets that wait for a worker", metrics.depth.clone());
        registry.register("webhook_verdicts", "Verdicts of the webhook by resource", metrics.judged.clone());
        registry.register_with_unit("webhook_duration", "Time a verdict took", Unit::Seconds, metrics.judging.clone());
        registry.register("watch_errors", "Watches that broke off or were refused", metrics.watch_errors.clone());
        registry.register("leader", "1 if this replica reconciles", metrics.leader.clone());
        registry.register("certificate_loads", "Webhook certificates taken into use", metrics.certificates.clone());
        *metrics.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }

    pub(super) fn reconciled(&self, target: &Target, ending: Ending, took: Duration) {
        let kind = match target {
            Target::Installation => "installation",
            Target::Cluster { .. } => "kdcluster",
            Target::Config { .. } => "kdconfig",
        };
        let result = match ending {
            Ending::Ok => "ok",
            Ending::Stale => "stale",
            Ending::Error => "error",
        };
        self.reconciled.get_or_create(&Reconciled { kind, result }).inc();
        self.durations.get_or_create(&OfKind { kind }).observe(took.as_secs_f64());
    }

    /// Takes note of an answer of the webhook to `review`.
    pub(super) fn judged(&self, review: &Value, answer: &Value, took: Duration) {
        // Labels come from a closed list: a caller must not be able to make up new ones without end.
        let asked = review["request"]["resource"]["resource"].as_str().unwrap_or_default();
        let resource = watched().iter().map(|kind| kind.plural).find(|plural| *plural == asked).unwrap_or("other");
        let verdict = match (&answer["response"]["allowed"], &answer["response"]["patch"]) {
            (Value::Bool(true), Value::Null) => "allowed",
            (Value::Bool(true), _) => "mutated",
            _ => "refused",
        };
        self.judged.get_or_create(&Judged { resource, verdict }).inc();
        self.judging.observe(took.as_secs_f64());
    }

    pub(super) fn watch_failed(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&OfKind { kind }).inc();
    }

    pub(super) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(super) fn certificate_loaded(&self) {
        self.certificates.inc();
    }

    /// All metrics as OpenMetrics text; `depth` is that of the queue.
    pub(super) fn encode(&self, depth: usize) -> Result<String, std::fmt::Error> {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        let mut text = String::new();
        text::encode(&mut text, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metrics_count_by_closed_lists_of_labels() {
        let metrics = Metrics::new();
        let review = |resource: &str| json!({"request": {"resource": {"resource": resource}}});
        let second = Duration::from_secs(1);
        metrics.judged(&review("kubedirectorclusters"), &json!({"response": {"allowed": false}}), second);
        metrics.judged(&review("made-up"), &json!({"response": {"allowed": true, "patch": "W10="}}), second);
        metrics.reconciled(&Target::Installation, Ending::Ok, second);
        let text = metrics.encode(3).expect("text");
        for line in [
            r#"rewake_controller_webhook_verdicts_total{resource="kubedirectorclusters",verdict="refused"} 1"#,
            r#"rewake_controller_webhook_verdicts_total{resource="other",verdict="mutated"} 1"#,
            r#"rewake_controller_reconciliations_total{kind="installation",result="ok"} 1"#,
            "rewake_controller_queue_depth 3",
            "rewake_controller_leader 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
    }
}
