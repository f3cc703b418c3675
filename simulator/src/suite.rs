//! Many scenarios: finding them, running them side by side, holding their ends against snapshots.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rewake_controller::Safeguards;

use crate::scenario::run::{Failure, Options, Outcome, Verdict, run};
use crate::scenario::{Scenario, ScenarioError, read};
use crate::snapshot;
use crate::tools::Profile;
use crate::world::World;

/// The seed of a run that names none.
pub const SEED_DEFAULT: u64 = 1;

/// Which scenarios to run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Folder of scenarios.
    pub root: PathBuf,
    /// Folder of snapshots.
    pub snapshots: PathBuf,
    /// Only scenarios whose name contains one of these; all when empty.
    pub filters: Vec<String>,
    /// Only variants (`Some(true)`), only sound runs (`Some(false)`), or both.
    pub variants: Option<bool>,
    /// Restore tool instead of the scenarios' own.
    pub profile: Option<&'static Profile>,
    /// Seed.
    pub seed: u64,
    /// How many run at the same time.
    pub jobs: usize,
    /// What differs from a snapshot becomes the snapshot.
    pub accept: bool,
}

/// One run of the suite: a scenario, sound or as a variant.
#[derive(Clone, Debug)]
pub struct Case {
    /// The scenario, by its place in the list of all.
    pub scenario: usize,
    /// The variant, by its place in the scenario.
    pub variant: Option<usize>,
}

/// What came of a case.
pub struct Report {
    /// `NAME`, or `NAME without SAFEGUARD`.
    pub name: String,
    /// The scenario's question.
    pub question: String,
    /// Passed or failed.
    pub verdict: Verdict,
    /// What is wrong, the first thing first.
    pub failures: Vec<Failure>,
    /// Virtual time that passed.
    pub virtual_time: jiff::SignedDuration,
    /// API calls by everybody.
    pub calls: u64,
    /// Wall time.
    pub wall: Duration,
    /// What became of the snapshot.
    pub snapshot: SnapshotOutcome,
    /// The last lines of the story, for failures.
    pub last_events: Vec<String>,
    /// The whole story, when it was asked for.
    pub trace: Option<String>,
    /// The one command that repeats it.
    pub repeat: String,
}

/// What became of a snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SnapshotOutcome {
    /// None is kept for this run (variants, other tools or seeds than the scenario's).
    NotKept,
    /// It is as reviewed.
    Same,
    /// It differs; the new one waits for review in this file.
    Pending(PathBuf),
    /// It was written.
    Accepted(PathBuf),
}

/// Why a suite cannot run at all.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// Scenarios with mistakes.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Scenarios(Vec<ScenarioError>),
    /// The folder cannot be read, or has no scenario.
    #[error("there are no scenarios in {}: {why}", folder.display())]
    NoScenarios {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// No scenario has such a name.
    #[error("no scenario matches {filter}{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoMatch {
        /// What was asked for.
        filter: String,
        /// The nearest name.
        near: Option<String>,
    },
    /// A snapshot cannot be read or written.
    #[error("the snapshot {} cannot be read or written: {source}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Reads every scenario below `root`, sorted by name. Folders called `manifests` hold what scenarios
/// apply, and are passed over.
///
/// # Errors
/// Every mistake in every scenario, or that there is none.
pub fn load(root: &Path) -> Result<Vec<Scenario>, SuiteError> {
    let mut files = Vec::new();
    find(root, 0, &mut files)
        .map_err(|error| SuiteError::NoScenarios { folder: root.to_owned(), why: error.to_string() })?;
    files.sort();
    if files.is_empty() {
        return Err(SuiteError::NoScenarios { folder: root.to_owned(), why: "no .yaml file in it".to_owned() });
    }
    let oracles = crate::oracles::names();
    let safeguards: Vec<&str> = Safeguards::ALL.iter().map(|(name, _)| *name).collect();
    let vocabulary = crate::scenario::read::Vocabulary { safeguards: &safeguards, oracles: &oracles };
    let (mut scenarios, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match read(&file, root, &vocabulary) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(scenarios) } else { Err(SuiteError::Scenarios(errors)) }
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    const DEPTH_MAX: usize = 8;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if depth < DEPTH_MAX && entry.file_name() != "manifests" {
                find(&path, depth + 1, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

/// The cases that a plan asks for, in order.
///
/// # Errors
/// When a filter matches nothing.
pub fn select(scenarios: &[Scenario], plan: &Plan) -> Result<Vec<Case>, SuiteError> {
    for filter in &plan.filters {
        if !scenarios.iter().any(|scenario| scenario.name.contains(filter.as_str())) {
            let near = crate::scenario::decode::near(filter, scenarios.iter().map(|scenario| scenario.name.as_str()));
            return Err(SuiteError::NoMatch { filter: filter.clone(), near: near.map(str::to_owned) });
        }
    }
    let wanted = |scenario: &Scenario| {
        plan.filters.is_empty() || plan.filters.iter().any(|filter| scenario.name.contains(filter.as_str()))
    };
    let mut cases = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate().filter(|(_, scenario)| wanted(scenario)) {
        if plan.variants != Some(true) {
            cases.push(Case { scenario: index, variant: None });
        }
        if plan.variants != Some(false) {
            cases.extend((0..scenario.variants.len()).map(|variant| Case { scenario: index, variant: Some(variant) }));
        }
    }
    Ok(cases)
}

/// Runs cases, `plan.jobs` at a time, and hands each report to `tell` in the order of `cases`.
///
/// # Errors
/// When a snapshot cannot be read or written.
pub fn run_all(
    scenarios: &[Scenario],
    cases: &[Case],
    plan: &Plan,
    keep_trace: bool,
    mut started: impl FnMut(&str),
    mut tell: impl FnMut(Report),
) -> Result<(), SuiteError> {
    let next = AtomicUsize::new(0);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.clamp(1, cases.len().max(1)) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                // Worlds are driven by one thread each, which keeps its own bases.
                on_runtime(async {
                    let mut bases = Bases::new();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(at) else { break };
                        let report = run_case(&scenarios[case.scenario], case, plan, keep_trace, &mut bases).await;
                        if send.send((at, report)).is_err() {
                            break;
                        }
                    }
                });
            });
        }
        drop(send);
        // Reports arrive in any order; people read them in one.
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        for (at, report) in receive {
            if let Ok(report) = &report {
                started(&report.name);
            }
            waiting.insert(at, report);
            while let Some(report) = waiting.remove(&expected) {
                tell(report?);
                expected += 1;
            }
        }
        Ok(())
    })
}

/// Clusters that are ready to be forked, by the safeguard that is off: control plane up, definitions
/// established, controller running. Building one costs more than most scenarios.
type Bases = BTreeMap<Option<String>, World>;

async fn base<'a>(bases: &'a mut Bases, seed: u64, without: Option<&str>) -> &'a World {
    let key = without.map(str::to_owned);
    if !bases.contains_key(&key) {
        let world = crate::cluster::with_controller(seed, without).await;
        bases.insert(key.clone(), world);
    }
    &bases[&key]
}

async fn run_case(
    scenario: &Scenario,
    case: &Case,
    plan: &Plan,
    keep_trace: bool,
    bases: &mut Bases,
) -> Result<Report, SuiteError> {
    let start = Instant::now();
    let options = Options { profile: plan.profile, variant: case.variant, hold_before: None, only_steps: false };
    let world = base(bases, plan.seed, safeguard_off(scenario, case)).await.fork();
    let outcome = run(scenario, world, &options).await;
    let (mut report, state) = report_of(scenario, outcome, plan, keep_trace);
    // Another tool's restore ends otherwise for good reasons, and another seed in the number of writes it took;
    // checks and oracles judge those runs.
    if case.variant.is_none() && plan.profile.is_none() && plan.seed == SEED_DEFAULT {
        report.snapshot = keep_snapshot(scenario, &state, plan, &mut report)?;
    }
    report.wall = start.elapsed();
    Ok(report)
}

/// The safeguard that a case switches off.
#[must_use]
pub fn safeguard_off<'a>(scenario: &'a Scenario, case: &Case) -> Option<&'a str> {
    case.variant.and_then(|variant| scenario.variants.get(variant)).map(|variant| variant.without.as_str())
}

/// A runtime of one thread, so that there is one order.
///
/// # Panics
/// When the operating system cannot give the runtime what it needs.
#[must_use]
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for one thread")
}

/// Runs a future on a runtime of its own.
pub fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

fn report_of(scenario: &Scenario, outcome: Outcome, plan: &Plan, keep_trace: bool) -> (Report, String) {
    const LAST_EVENTS: usize = 12;
    let failed = outcome.verdict == Verdict::Failed;
    let mut lines: Vec<String> = Vec::new();
    if failed {
        lines.extend(outcome.trace.entries().rev().take(LAST_EVENTS).map(|entry| outcome.trace.line(entry)));
        lines.reverse();
    }
    let mut repeat = format!("cargo xtask scenarios {}", scenario.name);
    if outcome.name != scenario.name {
        repeat.push_str(" --variant");
    }
    if let Some(profile) = plan.profile {
        repeat.push_str(&format!(" --profile {}", profile.name));
    }
    repeat.push_str(&format!(" --seed {} --trace", plan.seed));
    let trace = keep_trace.then(|| outcome.trace.to_string());
    let report = Report {
        name: outcome.name,
        question: scenario.question.clone(),
        verdict: outcome.verdict,
        failures: outcome.failures,
        virtual_time: outcome.virtual_time,
        calls: outcome.calls,
        wall: Duration::ZERO,
        snapshot: SnapshotOutcome::NotKept,
        last_events: lines,
        trace,
        repeat,
    };
    (report, outcome.snapshot)
}

/// Holds the final state against the reviewed one.
fn keep_snapshot(
    scenario: &Scenario,
    text: &str,
    plan: &Plan,
    report: &mut Report,
) -> Result<SnapshotOutcome, SuiteError> {
    if text.is_empty() {
        return Ok(SnapshotOutcome::NotKept);
    }
    let path = snapshot_path(&plan.snapshots, &scenario.name);
    let fail = |source| SuiteError::Snapshot { path: path.clone(), source };
    let pending = path.with_extension("snap.new");
    let reviewed = match std::fs::read_to_string(&path) {
        Ok(content) => Some(insta_content(&content).to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(fail(error)),
    };
    if reviewed.as_deref().map(str::trim) == Some(text.trim()) {
        let _ = std::fs::remove_file(&pending);
        return Ok(SnapshotOutcome::Same);
    }
    let content = format!("---\nsource: scenarios/{}.yaml\nexpression: final state\n---\n{text}", scenario.name);
    if plan.accept && report.verdict == Verdict::Passed {
        write_whole(&path, &content).map_err(fail)?;
        let _ = std::fs::remove_file(&pending);
        return Ok(SnapshotOutcome::Accepted(path));
    }
    write_whole(&pending, &content).map_err(fail)?;
    report.verdict = Verdict::Failed;
    let differences = reviewed.as_deref().map(|reviewed| snapshot::compare(reviewed, text));
    match differences {
        None => report.failures.push(snapshot_failure("", "", "there is no reviewed snapshot of this scenario yet")),
        Some(differences) => {
            report.failures.extend(differences.iter().map(|d| snapshot_failure(&d.object, &d.field, &d.message)));
            if differences.is_empty() {
                report.failures.push(snapshot_failure("", "", "differs in its form only"));
            }
        }
    }
    Ok(SnapshotOutcome::Pending(pending))
}

fn snapshot_failure(object: &str, field: &str, message: &str) -> Failure {
    Failure {
        step: 0,
        what: "snapshot".to_owned(),
        object: object.to_owned(),
        field: field.to_owned(),
        message: message.to_owned(),
        writer: String::new(),
    }
}

/// Where the snapshot of a scenario lies.
#[must_use]
pub fn snapshot_path(folder: &Path, scenario: &str) -> PathBuf {
    folder.join("scenarios").join(format!("{}.snap", scenario.replace('/', "__")))
}

/// What an insta snapshot file holds below its header.
#[must_use]
pub fn insta_content(file: &str) -> &str {
    file.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map_or(file, |(_, content)| content)
}

/// Writes a file so that an interrupted run leaves the old one or the new one, never half of it.
fn write_whole(path: &Path, content: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut file, content.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
