//! Decides what to do about a target.

use jiff::Timestamp;

use super::observed::Observed;
use super::plan::Plan;
use crate::settings::Settings;

/// Decides what to do about a target.
pub(super) fn decide(_observed: &Observed, _settings: &Settings, _now: Timestamp) -> Plan {
    Plan::default()
}
