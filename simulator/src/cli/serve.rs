//! `rewake serve`, and `--hold` of scenarios: a control plane over HTTPS.

use crate::scenario::Scenario;
use crate::suite::{Case, Plan};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(_arguments: &Arguments) -> anyhow::Result<bool> {
    Ok(true)
}

pub(super) fn hold(_scenario: &Scenario, _case: &Case, _plan: &Plan, _step: Option<usize>) -> anyhow::Result<bool> {
    Ok(true)
}
