//! Figures: the control plane and whole scenarios, measured in one run on one core.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rewake_apiserver::ControlPlane;
use rewake_apiserver::control_plane::{Config, Progress};
use rewake_apiserver::request::{Answer, Request, Response, User, Verb};
use serde_json::json;

use crate::cli::BadInput;
use crate::scenario::run::{Options, run as run_scenario};
use crate::suite::{self, SEED_DEFAULT, on_runtime};
use crate::world::epoch;

/// Objects in the long list.
const LIST_LENGTH: usize = 10_000;
/// Rounds of the short measurements.
const ROUNDS: usize = 2_000;

/// Measures and prints. Scenarios are those of the folder, sound runs and variants.
///
/// # Errors
/// When the scenarios cannot be read.
pub fn run(scenarios: &Path) -> anyhow::Result<bool> {
    if cfg!(debug_assertions) {
        println!("not optimised: these figures say little; use `cargo xtask bench`\n");
    }
    println!("{:<44} {:>12} {:>12} {:>12}", "", "median", "fastest", "slowest");
    control_plane();
    whole_scenarios(scenarios)?;
    Ok(true)
}

fn control_plane() {
    let (now, config) = (epoch(), Config { seed: 1, ..Config::default() });
    // The first start of a process reads the built-in schemas; it is told apart.
    let first = time(|| drop(black_box(ControlPlane::new(&config, now))));
    println!("{:<44} {:>12}", "start of a control plane, first of a process", show(first));
    row("start of a control plane, later ones", &mut sample(100, || drop(black_box(ControlPlane::new(&config, now)))));

    let mut plane = ControlPlane::new(&config, now);
    let mut number = 0;
    let mut create = || {
        number += 1;
        send(&mut plane, config_map(number), now);
    };
    row("create a ConfigMap", &mut sample(ROUNDS, &mut create));
    let get = Request::new(Verb::Get, user(), "v1", "configmaps", "default", "item-1");
    row(
        "get it",
        &mut sample(ROUNDS, || {
            black_box(send(&mut plane, get.clone(), now));
        }),
    );
    while number < LIST_LENGTH {
        number += 1;
        send(&mut plane, config_map(number), now);
    }
    let list = Request::new(Verb::List, user(), "v1", "configmaps", "default", "");
    row(
        "list 10,000 of them",
        &mut sample(20, || {
            black_box(send(&mut plane, list.clone(), now));
        }),
    );
    row(
        "create one more beside 10,000",
        &mut sample(ROUNDS, || {
            number += 1;
            send(&mut plane, config_map(number), now);
        }),
    );
    let watch = Request::new(Verb::Watch, user(), "v1", "configmaps", "default", "").option("watch", "true");
    if let Answer::Watch(watch) = send(&mut plane, watch, now).body {
        plane.poll_watch(watch, now);
        let mut latencies = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            number += 1;
            send(&mut plane, config_map(number), now);
            latencies.push(time(|| drop(black_box(plane.poll_watch(watch, now)))));
        }
        row("a watch event, from commit to watcher", &mut latencies);
    }
    row("fork of a control plane with 10,000 objects", &mut sample(ROUNDS, || drop(black_box(plane.clone()))));
}

fn whole_scenarios(folder: &Path) -> anyhow::Result<()> {
    let scenarios = suite::load(folder).map_err(|error| BadInput(error.to_string()))?;
    let options = Options { profile: None, variant: None, hold_before: None, only_steps: false };
    let (mut each, mut steps_only) = (Vec::new(), Vec::new());
    let base = on_runtime_with_base(|world| {
        for scenario in &scenarios {
            let began = Instant::now();
            world.block_on(scenario, &options);
            each.push(began.elapsed());
            let began = Instant::now();
            world.block_on(scenario, &Options { only_steps: true, ..options.clone() });
            steps_only.push(began.elapsed());
        }
    });
    let total: Duration = each.iter().sum();
    println!("{:<44} {:>12}", "a cluster with the controller, ready", show(base));
    row("a whole scenario, oracles and snapshot included", &mut each);
    row("the steps of a scenario alone", &mut steps_only);
    println!("{:<44} {:>12}", format!("all {} scenarios on one core", scenarios.len()), show(total));
    println!("{:<44} {:>12.0}", "scenarios a second on one core", scenarios.len() as f64 / total.as_secs_f64());
    Ok(())
}

/// A base cluster on a runtime of its own.
struct Bench {
    runtime: tokio::runtime::Runtime,
    base: crate::World,
}

impl Bench {
    fn block_on(&self, scenario: &crate::scenario::Scenario, options: &Options) {
        self.runtime.block_on(async {
            black_box(run_scenario(scenario, self.base.fork(), options).await);
        });
    }
}

fn on_runtime_with_base(work: impl FnOnce(&Bench)) -> Duration {
    // Warm: the first cluster of a process also reads the built-in schemas.
    on_runtime(async { drop(crate::cluster::with_controller(SEED_DEFAULT, None).await) });
    let runtime = suite::runtime();
    let began = Instant::now();
    let base = runtime.block_on(crate::cluster::with_controller(SEED_DEFAULT, None));
    let elapsed = began.elapsed();
    work(&Bench { runtime, base });
    elapsed
}

fn user() -> User {
    User::admin("bench")
}

fn config_map(number: usize) -> Request {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("item-{number}"), "labels": {"app": "bench"}}, "data": {"key": "value"},
    });
    Request::new(Verb::Create, user(), "v1", "configmaps", "default", "").json(object)
}

fn send(plane: &mut ControlPlane, request: Request, now: Timestamp) -> Response {
    match plane.begin(request, now) {
        Progress::Done(response) => response,
        Progress::Ask(..) => unreachable!("no webhook is configured here"),
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn sample(rounds: usize, mut work: impl FnMut()) -> Vec<Duration> {
    (0..rounds).map(|_| time(&mut work)).collect()
}

fn row(what: &str, samples: &mut [Duration]) {
    samples.sort_unstable();
    if let (Some(fastest), Some(slowest)) = (samples.first(), samples.last()) {
        println!("{what:<44} {:>12} {:>12} {:>12}", show(samples[samples.len() / 2]), show(*fastest), show(*slowest));
    }
}

fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1_000.0 {
        format!("{micros:.1} µs")
    } else if micros < 1_000_000.0 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}
