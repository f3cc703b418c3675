//! The command line of `rewake`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod backup;
mod scenarios;
mod serve;

/// Does an operator survive the restore of a backup?
#[derive(Debug, Parser)]
#[command(name = "rewake", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replays restore scenarios and judges how they end.
    Scenarios(scenarios::Arguments),
    /// Looks into backups.
    Backup(backup::Arguments),
    /// Serves an embedded control plane over HTTPS.
    Serve(serve::Arguments),
    /// Shows which behaviours are covered by which scenario or test.
    Coverage {
        /// Folder of the project.
        #[arg(long, default_value = ".")]
        root: PathBuf,
    },
    /// Measures the control plane and the scenarios.
    Bench {
        /// Folder of scenarios.
        #[arg(long, default_value = "scenarios")]
        scenarios: PathBuf,
    },
}

/// Something is wrong with what was asked for: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadInput(pub String);

/// Runs the program. Exit codes: 0 all passed, 1 something failed, 2 bad input.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Scenarios(arguments) => scenarios::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Coverage { root } => crate::coverage::run(&root),
        Command::Bench { scenarios } => crate::bench::run(&scenarios),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<BadInput>() { 2 } else { 1 })
        }
    }
}
