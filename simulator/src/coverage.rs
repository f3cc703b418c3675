//! Which behaviours are covered by which scenario or test.
//!
//! Scenarios say `covers: [KD-21, B4]`; tests say `Covers: KD-21, B4` in their documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rows of the feature table: KD-01 to KD-81, and two that stand beside their neighbour.
#[must_use]
pub fn features() -> Vec<String> {
    let mut rows: Vec<String> = (1..=81).map(|number| format!("KD-{number:02}")).collect();
    rows.insert(2, "KD-02a".to_owned());
    let after = rows.iter().position(|row| row == "KD-18").map_or(rows.len(), |at| at + 1);
    rows.insert(after, "KD-18a".to_owned());
    rows
}

/// Prints the coverage of everything below `root`; answers whether every feature row is covered.
///
/// # Errors
/// When the folders cannot be read.
pub fn run(root: &Path) -> anyhow::Result<bool> {
    let covered = collect(root)?;
    let groups: [(&str, Vec<String>); 4] = [
        ("KD", features()),
        ("I", (1..=9).map(|number| format!("I{number}")).collect()),
        ("B", (1..=44).map(|number| format!("B{number}")).collect()),
        ("F", (1..=48).map(|number| format!("F{number:02}")).collect()),
    ];
    let mut missing_features = Vec::new();
    for (group, ids) in &groups {
        let missing: Vec<&String> = ids.iter().filter(|id| !covered.contains_key(*id)).collect();
        println!("{group}: {} of {} covered", ids.len() - missing.len(), ids.len());
        for id in ids {
            match covered.get(id) {
                Some(places) => println!("  {id:<8} {}", places.iter().cloned().collect::<Vec<_>>().join(", ")),
                None => println!("  {id:<8} not covered"),
            }
        }
        if *group == "KD" {
            missing_features.extend(missing.into_iter().cloned());
        }
    }
    if !missing_features.is_empty() {
        println!("\nfeature rows without a scenario or a test: {}", missing_features.join(", "));
    }
    Ok(missing_features.is_empty())
}

fn collect(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut covered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for scenario in crate::suite::load(&root.join("scenarios"))? {
        for id in &scenario.covers {
            covered.entry(id.clone()).or_default().insert(scenario.name.clone());
        }
    }
    for folder in ["controller", "simulator"] {
        sources(&root.join(folder), root, 0, &mut covered)?;
    }
    Ok(covered)
}

fn sources(
    folder: &Path,
    root: &Path,
    depth: usize,
    covered: &mut BTreeMap<String, BTreeSet<String>>,
) -> anyhow::Result<()> {
    const DEPTH_MAX: usize = 12;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if depth < DEPTH_MAX && !path.ends_with("target") {
                sources(&path, root, depth + 1, covered)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            for line in std::fs::read_to_string(&path)?.lines() {
                if let Some(ids) = line.trim().strip_prefix("/// Covers:") {
                    for id in ids.split(',') {
                        covered.entry(id.trim().trim_end_matches('.').to_owned()).or_default().insert(place.clone());
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_are_eighty_three_feature_rows() {
        let rows = super::features();
        assert_eq!(rows.len(), 83);
        assert_eq!(&rows[1..4], ["KD-02", "KD-02a", "KD-03"]);
        assert_eq!(&rows[18..21], ["KD-18", "KD-18a", "KD-19"]);
    }
}
