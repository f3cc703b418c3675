//! Telling people (and machines) how runs went.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::scenario::run::Verdict;
use crate::suite::{Report, SnapshotOutcome};

/// One line a case: verdict, name, virtual time, API calls, wall time.
#[must_use]
pub fn line(report: &Report, color: bool) -> String {
    let (mark, paint) = match report.verdict {
        Verdict::Passed => ("ok    ", "\x1b[32m"),
        Verdict::Failed => ("FAILED", "\x1b[31m"),
    };
    let mark = if color { format!("{paint}{mark}\x1b[0m") } else { mark.to_owned() };
    let note = match &report.snapshot {
        SnapshotOutcome::Accepted(_) => "  snapshot written",
        SnapshotOutcome::Pending(_) => "  snapshot differs",
        SnapshotOutcome::NotKept | SnapshotOutcome::Same => "",
    };
    format!(
        "{mark} {:<64} {:>10} virtual {:>6} calls {:>9}{note}",
        report.name,
        clock(report.virtual_time),
        report.calls,
        wall(report.wall)
    )
}

/// What went wrong, for a failed case: the first wrong thing, the rest, the last events, how to repeat.
#[must_use]
pub fn explain(report: &Report) -> String {
    const FURTHER_MAX: usize = 8;
    let mut text = String::new();
    let _ = writeln!(text, "       {}", report.question);
    if let Some(first) = report.failures.first() {
        let _ = writeln!(text, "       first wrong thing: {first}");
    }
    let further = report.failures.get(1..).unwrap_or_default();
    for failure in further.iter().take(FURTHER_MAX) {
        let _ = writeln!(text, "       also: {failure}");
    }
    if further.len() > FURTHER_MAX {
        let _ = writeln!(text, "       and {} more", further.len() - FURTHER_MAX);
    }
    if let SnapshotOutcome::Pending(path) = &report.snapshot {
        let _ =
            writeln!(text, "       review it with `cargo insta review`, or accept with --accept ({})", path.display());
    }
    if !report.last_events.is_empty() {
        let _ = writeln!(text, "       the last events:");
        for line in &report.last_events {
            let _ = writeln!(text, "         {line}");
        }
    }
    let _ = writeln!(text, "       repeat with: {}", report.repeat);
    text
}

/// `01:02:03` of virtual time.
fn clock(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn wall(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// The closing lines: counts and totals.
#[must_use]
pub fn summary(reports: &[Report], wall: Duration) -> String {
    let failed = reports.iter().filter(|report| report.verdict == Verdict::Failed).count();
    let passed = reports.len() - failed;
    let virtual_time: SignedDuration =
        reports.iter().map(|report| report.virtual_time).fold(SignedDuration::ZERO, |a, b| a + b);
    let calls: u64 = reports.iter().map(|report| report.calls).sum();
    format!(
        "\n{} of virtual time, {calls} API calls, {:.2} s\n{passed} passed, {failed} failed\n",
        clock(virtual_time),
        wall.as_secs_f64()
    )
}

/// Every report as JSON.
#[must_use]
pub fn to_json(reports: &[Report]) -> Value {
    reports
        .iter()
        .map(|report| {
            json!({
                "name": report.name,
                "question": report.question,
                "passed": report.verdict == Verdict::Passed,
                "virtualSeconds": report.virtual_time.as_secs_f64(),
                "calls": report.calls,
                "wallMilliseconds": report.wall.as_secs_f64() * 1000.0,
                "failures": report.failures.iter().map(|failure| json!({
                    "step": failure.step, "what": failure.what, "object": failure.object, "field": failure.field,
                    "message": failure.message, "writer": failure.writer,
                })).collect::<Vec<_>>(),
                "repeat": report.repeat,
            })
        })
        .collect()
}

/// Writes every report as JUnit XML.
///
/// # Errors
/// When the file cannot be written.
pub fn write_junit(reports: &[Report], path: &Path) -> anyhow::Result<()> {
    use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
    let mut suite = TestSuite::new("scenarios");
    for report in reports {
        let status = match report.verdict {
            Verdict::Passed => TestCaseStatus::success(),
            Verdict::Failed => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                if let Some(first) = report.failures.first() {
                    status.set_message(first.to_string());
                }
                status.set_description(explain(report));
                status
            }
        };
        let mut case = TestCase::new(report.name.as_str(), status);
        case.set_time(report.wall);
        suite.add_test_case(case);
    }
    let mut all = quick_junit::Report::new("rewake");
    all.add_test_suite(suite);
    std::fs::write(path, all.to_string()?)?;
    Ok(())
}
