//! Replays recorded API conversations and says where the embedded control plane answers differently.
//!
//! ```text
//! cargo run -p rewake-apiserver --example conformance -- [AREA | AREA/CASE ...] [--json FILE] [--lines N] [--root DIR]
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

#[path = "../tests/conformance/replay/mod.rs"]
mod replay;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance"));
    let (mut wanted, mut json_file, mut lines) = (Vec::new(), None, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--json" => json_file = Some(value()?),
            "--lines" => lines = value()?.parse()?,
            "--root" => root = value()?.into(),
            flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}").into()),
            _ => wanted.push(argument),
        }
    }
    let outcomes = replay::replay(&root, &wanted, |outcome| {
        if !outcome.differences.is_empty() {
            println!("FAIL {}", outcome.case);
        }
        for difference in outcome.differences.iter().take(lines) {
            println!("     {difference}");
        }
    })?;
    let mut total = (0, 0);
    for (area, (passed, failed)) in by_area(&outcomes) {
        println!("{area:<20} {passed:>4} passed {failed:>4} failed");
        total = (total.0 + passed, total.1 + failed);
    }
    println!("{:<20} {:>4} passed {:>4} failed", "", total.0, total.1);
    if let Some(file) = json_file {
        let rows: Vec<Value> = outcomes
            .iter()
            .map(|outcome| {
                json!({"case": outcome.case, "ok": outcome.differences.is_empty(), "differences": outcome.differences})
            })
            .collect();
        std::fs::write(file, serde_json::to_vec_pretty(&rows)?)?;
    }
    Ok(if total.1 == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Passed and failed by area.
fn by_area(outcomes: &[replay::Outcome]) -> BTreeMap<&str, (usize, usize)> {
    let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let area = outcome.case.split('/').next().unwrap_or_default();
        let (passed, failed) = areas.entry(area).or_default();
        *(if outcome.differences.is_empty() { passed } else { failed }) += 1;
    }
    areas
}
