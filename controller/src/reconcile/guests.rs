//! What configured guests are owed: new metadata, reconnects and queued notifications.
//!
//! Done only when nothing else is to be written. Each member's share is followed by the status write that
//! notes it, so that everything is delivered at least once. The member whose turn it is first changes with
//! time: a guest that refuses for ever does not keep the others from being served.

use serde_json::{Value, json};

use super::plan::{Act, Change, ObjectRef, Plan};
use super::view::View;
use super::{notify, status};
use crate::api::{ClusterStatus, Member, MemberState};
use crate::guest::GuestAction;
use crate::kinds;
use crate::names::CONTAINER;

/// The guest holds old metadata, has not heard of changed connections, or has notifications waiting.
pub(super) fn is_owed_something(status: &ClusterStatus, member: &Member) -> bool {
    !owed(status, member).is_empty()
}

enum Owed {
    Metadata,
    Reconnect,
    Notification(Vec<String>),
}

fn owed(status: &ClusterStatus, member: &Member) -> Vec<Owed> {
    let detail = &member.state_detail;
    let mut owed = Vec::new();
    let Some(held) = detail.last_config_data_generation else { return owed };
    if held != status.spec_generation_to_process.unwrap_or_default() {
        owed.push(Owed::Metadata);
    }
    if detail.last_connection_version.unwrap_or_default() < status.hash_change_counter.unwrap_or_default() {
        owed.push(Owed::Reconnect);
    }
    owed.extend(detail.pending_notify_cmds.iter().map(|command| Owed::Notification(command.arguments.clone())));
    owed
}

/// Orders what is asked of guests by whose turn it is, each guest's share together.
pub(super) fn in_turn(view: &View<'_>, asked: Vec<Change>) -> Vec<Change> {
    let mut shares: Vec<Vec<Change>> = Vec::new();
    for change in asked {
        match shares.last_mut() {
            Some(share) if share.last().is_some_and(|last| last.on == change.on) => share.push(change),
            _ => shares.push(vec![change]),
        }
    }
    if !shares.is_empty() {
        let first = view.turn() % shares.len();
        shares.rotate_left(first);
    }
    shares.into_iter().flatten().collect()
}

/// Adds what guests are owed to a plan that has nothing else to write. Answers with the status as it will be then.
pub(super) fn work(view: &View<'_>, stored: &ClusterStatus, plan: &mut Plan) -> ClusterStatus {
    let places: Vec<(usize, usize)> = stored
        .roles
        .iter()
        .enumerate()
        .flat_map(|(role, status)| (0..status.members.len()).map(move |member| (role, member)))
        .filter(|&(role, member)| {
            let member = &stored.roles[role].members[member];
            member.state == MemberState::Configured && is_owed_something(stored, member)
        })
        .collect();
    let mut last = stored.clone();
    for step in 0..places.len() {
        let (role, index) = places[view.turn().wrapping_add(step) % places.len()];
        let member = &stored.roles[role].members[index];
        match view.facts.guests.get(&member.pod) {
            Some(Ok(_)) => {}
            Some(Err(_)) => {
                plan.check_within(view.settings.retry);
                continue;
            }
            None => continue,
        }
        let on = ObjectRef::new(&kinds::POD, view.namespace(), &member.pod);
        for share in owed(stored, member) {
            let (action, purpose) = match share {
                Owed::Metadata => (GuestAction::Upload { metadata: metadata(view, stored) }, "tell it what changed"),
                Owed::Reconnect => (
                    GuestAction::Notify { arguments: vec!["--reconnect".to_owned()] },
                    "have it look at its connections",
                ),
                Owed::Notification(arguments) => (GuestAction::Notify { arguments }, "tell it about other members"),
            };
            plan.push(on.clone(), Act::Guest { container: CONTAINER, action }, purpose);
        }
        let before = last.clone();
        let detail = &mut last.roles[role].members[index].state_detail;
        detail.last_config_data_generation = stored.spec_generation_to_process;
        detail.last_connection_version = stored.hash_change_counter;
        detail.pending_notify_cmds.clear();
        plan.changes.push(status::write(view, &before, &mut last, "note what the guest was told"));
    }
    last
}

/// What guests are told: who is in the cluster and what it is connected to.
pub(super) fn metadata(view: &View<'_>, status: &ClusterStatus) -> String {
    let members: Vec<Value> = status
        .roles
        .iter()
        .flat_map(|role| role.members.iter().map(move |member| (role, member)))
        .filter(|(_, member)| !member.state.leaving())
        .map(|(role, member)| {
            let fqdn = notify::fqdn(view, &status.cluster_service, &member.pod);
            json!({"role": role.id, "nodeID": member.node_id, "fqdn": fqdn})
        })
        .collect();
    let connections: Vec<Value> = view
        .facts
        .connections
        .iter()
        .filter(|connection| connection.content.is_some())
        .map(|connection| json!({"kind": connection.kind, "name": connection.name, "about": connection.about}))
        .collect();
    json!({
        "version": status.spec_generation_to_process.unwrap_or_default(),
        "cluster": {"name": view.name(), "namespace": view.namespace(), "uid": view.uid()},
        "app": view.cluster.spec.app,
        "members": members,
        "connections": connections,
    })
    .to_string()
}
