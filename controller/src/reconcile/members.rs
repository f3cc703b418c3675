//! Members: their state machine.

use k8s_openapi::api::core::v1::Pod;

use crate::api::{ClusterStatus, Member, MemberState};
use crate::names::CONTAINER;

/// What a member's container is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Container {
    /// Its id; empty without a container.
    pub(super) id: String,
    /// KubeDirector's word for its state.
    pub(super) state: &'static str,
}

/// Looks at the container of a member's pod.
pub(super) fn container(pod: Option<&Pod>) -> Container {
    let Some(status) = pod.and_then(|pod| pod.status.as_ref()) else {
        return Container { id: String::new(), state: "absent" };
    };
    let found = status.container_statuses.iter().flatten().find(|container| container.name == CONTAINER);
    let Some(found) = found else {
        return Container { id: String::new(), state: "absent" };
    };
    let state = found.state.as_ref();
    let word = if state.is_some_and(|state| state.running.is_some()) {
        "running"
    } else if state.is_some_and(|state| state.terminated.is_some()) {
        "terminated"
    } else if status
        .init_container_statuses
        .iter()
        .flatten()
        .any(|init| init.state.as_ref().is_some_and(|s| s.running.is_some()))
    {
        "initializing"
    } else if state.is_some_and(|state| state.waiting.is_some()) {
        "waiting"
    } else {
        "unknown"
    };
    Container { id: found.container_id.clone().unwrap_or_default(), state: word }
}

/// Whether something is about to be asked of the member's guest, so that its record must be known.
pub(super) fn needs_guest(status: &ClusterStatus, member: &Member, pod: Option<&Pod>) -> bool {
    let detail = &member.state_detail;
    let generation = status.spec_generation_to_process.unwrap_or_default();
    let outdated = detail.last_config_data_generation.is_some_and(|held| held != generation);
    let asked = match member.state {
        MemberState::Creating => true,
        MemberState::Configured => outdated || !detail.pending_notify_cmds.is_empty(),
        _ => false,
    };
    asked && container(pod).state == "running"
}
