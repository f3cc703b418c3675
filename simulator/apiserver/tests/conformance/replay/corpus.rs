//! Cases and recorded answers on disk.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A conversation and its recorded answers.
pub(crate) struct Case {
    /// `AREA/NAME`.
    pub(crate) name: String,
    /// The case as written.
    pub(crate) script: Value,
    /// One entry for each answer.
    pub(crate) recorded: Vec<Value>,
}

impl Case {
    /// The part before the slash.
    pub(crate) fn area(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// Cases in the order of their names.
pub(crate) struct Corpus {
    /// The cases.
    pub(crate) cases: Vec<Case>,
}

/// A file of the corpus that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub(crate) struct CorpusError {
    path: String,
    why: String,
}

impl Corpus {
    /// Reads the cases below `root/cases` that `wanted` names; all of them when it names none.
    pub(crate) fn read(root: &Path, wanted: &[String]) -> Result<Self, CorpusError> {
        let folder = root.join("cases");
        let mut cases = Vec::new();
        for area in entries(&folder)? {
            for path in entries(&area)? {
                let name = path.strip_prefix(&folder).unwrap_or(&path).with_extension("");
                let name = name.to_string_lossy().replace('\\', "/");
                let area = name.split('/').next().unwrap_or_default();
                if !wanted.is_empty() && !wanted.iter().any(|wanted| *wanted == name || wanted == area) {
                    continue;
                }
                let recorded = root.join("recorded").join(&name).with_extension("json");
                let script = serde_yaml::from_str(&text(&path)?).map_err(|error| problem(&path, error))?;
                let recorded = serde_json::from_str(&text(&recorded)?).map_err(|error| problem(&recorded, error))?;
                cases.push(Case { name, script, recorded });
            }
        }
        Ok(Self { cases })
    }
}

fn problem(path: &Path, why: impl std::fmt::Display) -> CorpusError {
    CorpusError { path: path.display().to_string(), why: why.to_string() }
}

fn text(path: &Path) -> Result<String, CorpusError> {
    fs::read_to_string(path).map_err(|error| problem(path, error))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    let entries = fs::read_dir(folder).map_err(|error| problem(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}
