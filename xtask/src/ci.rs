//! What continuous integration runs, step by step; it stops at the first that fails.

use std::process::ExitCode;
use std::time::Instant;

use crate::cargo;

/// Name, and the arguments of cargo.
const STEPS: &[(&str, &[&str])] = &[
    ("the code is formatted", &["fmt", "--all", "--check"]),
    ("no lint complains", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]),
    ("tests", &["test", "--workspace", "--quiet"]),
    ("scenarios", &["xtask", "scenarios"]),
    ("every feature is covered", &["xtask", "coverage"]),
    ("documentation", &["doc", "--workspace", "--no-deps", "--quiet"]),
];

/// Components that not every toolchain has; without one, its step is passed over, and that is said.
const OPTIONAL: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Runs all steps.
///
/// # Errors
/// When cargo cannot be started.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut passed = Vec::new();
    for (name, arguments) in STEPS {
        let component = OPTIONAL.iter().find(|(command, _)| *command == arguments[0]).map(|(_, component)| *component);
        if component.is_some() && !cargo().args([arguments[0], "--version"]).output()?.status.success() {
            println!("── {name}: passed over, this toolchain has no {}", component.unwrap_or_default());
            continue;
        }
        println!("── {name}: cargo {}", arguments.join(" "));
        let start = Instant::now();
        let mut command = cargo();
        command.args(*arguments);
        if arguments[0] == "doc" {
            command.env("RUSTDOCFLAGS", "--deny warnings");
        }
        if !command.status()?.success() {
            println!("── {name}: FAILED after {:.0} s", start.elapsed().as_secs_f64());
            return Ok(ExitCode::FAILURE);
        }
        println!("── {name}: passed in {:.0} s", start.elapsed().as_secs_f64());
        passed.push(*name);
    }
    println!("── all passed: {}", passed.join("; "));
    Ok(ExitCode::SUCCESS)
}
