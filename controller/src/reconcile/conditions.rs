//! Conditions: a machine-readable reason for everything the controller waits for or refuses.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::ClusterStatus;

/// True at rest, every member configured.
pub(super) const READY: &str = "Ready";
/// True while the cluster is being restored; absent otherwise.
pub(super) const RESTORING: &str = "Restoring";
/// True when the backup does not hold the status. Absent otherwise.
pub(super) const BACKUP_STALE: &str = "BackupStale";
/// False when objects stand in the way. Absent when none do.
pub(super) const SOUND: &str = "Sound";
/// True when there are claims of members the cluster does not have. Absent when there are none.
pub(super) const SURPLUS_CLAIMS: &str = "SurplusClaims";
/// False when the app is another release than the members were built from. Absent when it is not.
pub(super) const APP_UNCHANGED: &str = "AppUnchanged";

/// Most characters of a message.
const MESSAGE_MAX: usize = 1024;

/// Sets a condition. Its transition time moves only when its truth does.
pub(super) fn set(status: &mut ClusterStatus, kind: &str, truth: bool, reason: &str, message: &str, now: Timestamp) {
    let word = if truth { "True" } else { "False" };
    let unchanged = status.conditions.iter().find(|known| known.type_ == kind && known.status == word);
    // Conditions carry whole seconds, as everywhere in Kubernetes.
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let condition = Condition {
        last_transition_time: unchanged.map_or(Time(whole), |known| known.last_transition_time.clone()),
        message: message.chars().take(MESSAGE_MAX).collect(),
        observed_generation: status.observed_generation,
        reason: reason.to_owned(),
        status: word.to_owned(),
        type_: kind.to_owned(),
    };
    match status.conditions.iter_mut().find(|known| known.type_ == kind) {
        Some(known) => *known = condition,
        None => {
            status.conditions.push(condition);
            status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        }
    }
}

/// Takes a condition away.
pub(super) fn clear(status: &mut ClusterStatus, kind: &str) {
    status.conditions.retain(|known| known.type_ != kind);
}
