//! `cargo xtask …`: every command of the project, in the project's own language.
//!
//! Nothing here does the work; it builds what does and hands over.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand};

mod ci;

/// The project's commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Replays restore scenarios: `cargo xtask scenarios --help` tells more.
    #[command(disable_help_flag = true)]
    Scenarios {
        /// Arguments of `rewake scenarios`; `--release` builds with optimisation.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Replays the recorded answers of an upstream API server: `[AREA[/CASE]…] [--json FILE]`.
    #[command(disable_help_flag = true)]
    Conformance {
        /// Arguments of the replay.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Shows which behaviours are covered by which scenario or test; fails when a feature row is not.
    Coverage,
    /// Measures the control plane and the scenarios, optimised.
    Bench,
    /// Everything that continuous integration runs.
    Ci,
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Scenarios { arguments } => rewake("scenarios", &arguments),
        Task::Conformance { arguments } => conformance(&arguments),
        Task::Coverage => rewake("coverage", &[]),
        Task::Bench => rewake("bench", &["--release".to_owned()]),
        Task::Ci => ci::run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds and runs a command of `rewake` at the project's root.
fn rewake(command: &str, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--package", "rewake", "--bin", "rewake"]);
    let release = arguments.iter().any(|argument| argument == "--release");
    if release {
        cargo.arg("--release");
    }
    cargo.args(["--", command]);
    cargo.args(arguments.iter().filter(|argument| *argument != "--release"));
    hand_over(&mut cargo)
}

fn conformance(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--package", "rewake-apiserver", "--example", "conformance", "--"]);
    cargo.args(arguments);
    hand_over(&mut cargo)
}

/// Cargo, at the project's root whatever folder this was called in.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

fn hand_over(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command.status().with_context(|| format!("{command:?} cannot be run"))?;
    // Exit codes mean something (2 is bad input), so they are passed on; a signal has none.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
