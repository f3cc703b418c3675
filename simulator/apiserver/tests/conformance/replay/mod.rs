//! Replays recorded conversations against the embedded control plane: in process, in virtual time, one
//! fresh control plane a case.

mod compare;
mod corpus;
mod normalise;
mod scope;
mod stage;
mod steps;
mod webhook;

use std::path::Path;

use corpus::{Case, Corpus};

/// What came of one case.
pub(crate) struct Outcome {
    /// `AREA/NAME`.
    pub(crate) case: String,
    /// Where the answers differ from the recorded ones; empty when they do not.
    pub(crate) differences: Vec<String>,
}

/// Replays the cases that `wanted` names (`AREA` or `AREA/NAME`; none: all), in order.
/// Hands each outcome to `seen` as soon as it is known.
pub(crate) fn replay(
    root: &Path,
    wanted: &[String],
    mut seen: impl FnMut(&Outcome),
) -> Result<Vec<Outcome>, corpus::CorpusError> {
    let corpus = Corpus::read(root, wanted)?;
    let stages = stage::Stages::default();
    let outcomes = corpus.cases.iter().map(|case| one(case, &stages)).inspect(|outcome| seen(outcome));
    Ok(outcomes.collect())
}

fn one(case: &Case, stages: &stage::Stages) -> Outcome {
    let differences = match steps::run(case, stages) {
        Ok(got) => compare::answers(&case.recorded, &got),
        Err(problem) => vec![problem],
    };
    Outcome { case: case.name.clone(), differences }
}
