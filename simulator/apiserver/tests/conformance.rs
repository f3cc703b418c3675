//! Upstream's recorded answers, case by case; see `conformance/README.md`.

use std::collections::BTreeSet;
use std::path::Path;

#[path = "conformance/replay/mod.rs"]
mod replay;

/// Cases that do not pass yet are listed with a reason; the list is exact in both directions.
#[test]
fn every_case_passes_but_for_the_known_differences() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance"));
    let list = std::fs::read_to_string(root.join("known-differences.txt")).expect("the list is checked in");
    let known: BTreeSet<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split_once(':').expect("`case: reason`").0)
        .collect();
    let outcomes = replay::replay(root, &[], |_| {}).expect("the corpus can be read");
    assert!(outcomes.len() > 700, "only {} cases found", outcomes.len());
    let mut problems = Vec::new();
    for outcome in &outcomes {
        match (outcome.differences.first(), known.contains(outcome.case.as_str())) {
            (Some(difference), false) => problems.push(format!("{}: {difference}", outcome.case)),
            (None, true) => problems.push(format!("{} passes: take it off the list", outcome.case)),
            _ => {}
        }
    }
    let cases: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.case.as_str()).collect();
    problems.extend(known.difference(&cases).map(|case| format!("{case} is listed and does not exist")));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
