//! `rewake scenarios …`

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::BadInput;
use crate::report;
use crate::scenario::run::Verdict;
use crate::suite::{self, Plan, SuiteError};
use crate::tools::Profile;
use crate::tools::profile::PROFILES;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only scenarios whose name contains one of these.
    filters: Vec<String>,
    /// Lists the scenarios with their questions, and runs none.
    #[arg(long)]
    list: bool,
    /// Only the variants: each a scenario with one safeguard off, whose harm must appear.
    #[arg(long)]
    variant: bool,
    /// Restore with this tool instead of the scenarios' own; snapshots are not compared then.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Seed of everything that is drawn; snapshots are compared for the default one.
    #[arg(long, default_value_t = suite::SEED_DEFAULT)]
    seed: u64,
    /// Prints the whole story: who did what to which object, when.
    #[arg(long)]
    trace: bool,
    /// Keeps the cluster of the last scenario up over HTTPS at its end, or before this step (from 1).
    #[arg(long, value_name = "STEP", num_args = 0..=1, default_missing_value = "0")]
    hold: Option<usize>,
    /// Writes a JUnit report.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Writes a JSON report.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How many run at the same time; by default as many as there are cores.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// What differs from its snapshot becomes the snapshot (of runs that pass otherwise).
    #[arg(long)]
    accept: bool,
    /// Takes every KubeDirector manifest of this folder through create, backup, wipe, restore, delete
    /// instead of running scenarios.
    #[arg(long, value_name = "DIR")]
    manifests: Option<PathBuf>,
    /// Folder of scenarios.
    #[arg(long, default_value = "scenarios", value_name = "DIR")]
    scenarios: PathBuf,
    /// Folder of snapshots.
    #[arg(long, default_value = "snapshots", value_name = "DIR")]
    snapshots: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let profile = match &arguments.profile {
        None => None,
        Some(name) => Some(Profile::named(name).ok_or_else(|| {
            let names = PROFILES.iter().map(|profile| profile.name);
            BadInput(crate::scenario::decode::unknown("there is no restore tool profile", name, names))
        })?),
    };
    if let Some(folder) = &arguments.manifests {
        return crate::manifests::run(folder, profile, arguments.seed);
    }
    let scenarios = suite::load(&arguments.scenarios).map_err(bad)?;
    let plan = Plan {
        root: arguments.scenarios.clone(),
        snapshots: arguments.snapshots.clone(),
        filters: arguments.filters.clone(),
        variants: arguments.variant.then_some(true),
        profile,
        seed: arguments.seed,
        jobs: arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        accept: arguments.accept,
    };
    let cases = suite::select(&scenarios, &plan).map_err(bad)?;
    if arguments.list {
        for scenario in &scenarios {
            if cases.iter().any(|case| std::ptr::eq(&raw const scenarios[case.scenario], scenario)) {
                println!("{:<56} {}", scenario.name, scenario.question);
                for variant in &scenario.variants {
                    println!("{:<56}   without {}", "", variant.without);
                }
            }
        }
        return Ok(true);
    }
    if let Some(step) = arguments.hold {
        let Some(case) = cases.last() else { return Ok(true) };
        return super::serve::hold(&scenarios[case.scenario], case, &plan, step.checked_sub(1));
    }
    let start = Instant::now();
    let color = std::io::stdout().is_terminal();
    let bar = progress(cases.len());
    let mut reports = Vec::with_capacity(cases.len());
    suite::run_all(
        &scenarios,
        &cases,
        &plan,
        arguments.trace,
        |name| {
            bar.set_message(name.to_owned());
            bar.inc(1);
        },
        |report| {
            bar.suspend(|| {
                println!("{}", report::line(&report, color));
                if let Some(trace) = &report.trace {
                    print!("{trace}");
                }
                if report.verdict == Verdict::Failed {
                    print!("{}", report::explain(&report));
                }
            });
            reports.push(report);
        },
    )?;
    bar.finish_and_clear();
    if let Some(path) = &arguments.junit {
        report::write_junit(&reports, path)?;
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report::to_json(&reports))?)?;
    }
    print!("{}", report::summary(&reports, start.elapsed()));
    Ok(reports.iter().all(|report| report.verdict == Verdict::Passed))
}

/// A bar where somebody watches, nothing where the output goes to a file.
fn progress(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn bad(error: SuiteError) -> anyhow::Error {
    BadInput(error.to_string()).into()
}
