//! Reviewed final states of scenarios.
//!
//! The files lie in `scenarios/`; `cargo xtask scenarios` compares and writes them. This crate exists
//! because `cargo insta review` looks for pending snapshots inside packages only, and its test sees to
//! it that no snapshot is left without its scenario.

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn every_snapshot_has_its_scenario() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let scenarios = root.join("../scenarios");
        for entry in std::fs::read_dir(root.join("scenarios")).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(name) =
                path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".snap"))
            else {
                continue;
            };
            let scenario = scenarios.join(format!("{}.yaml", name.replace("__", "/")));
            assert!(scenario.is_file(), "{} belongs to no scenario; remove it", path.display());
        }
    }

    /// Snapshots are written by the program, in insta's format: insta itself must read them.
    #[test]
    fn insta_reads_every_snapshot() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "snap") {
                insta::Snapshot::from_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }
}
