//! Members: their state machine, and how they come and go.
//!
//! ```text
//! (new) -> create pending -> creating -> configured | config error
//!              ^                |              |
//!              +--- another container ---------+-> delete pending -> deleting -> (gone)
//! ```

use k8s_openapi::api::core::v1::Pod;

use super::plan::{Act, ObjectRef};
use super::running::Look;
use super::view::View;
use super::{children, guests, notify};
use crate::api::{ClusterStatus, Member, MemberState, Rollup};
use crate::guest::{GuestAction, SetupRecord};
use crate::kinds;
use crate::names::{self, CONTAINER, NO_SERVICE};

/// What a member's container is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Container {
    /// Its id; empty without a container.
    pub(super) id: String,
    /// KubeDirector's word for its state.
    pub(super) state: &'static str,
}

const RUNNING: &str = "running";
const UNRESPONSIVE: &str = "unresponsive";

/// Looks at the container of a member's pod.
pub(super) fn container(pod: Option<&Pod>) -> Container {
    let absent = Container { id: String::new(), state: "absent" };
    let Some(status) = pod.and_then(|pod| pod.status.as_ref()) else { return absent };
    let statuses = status.container_statuses.iter().flatten();
    let Some(found) = statuses.into_iter().find(|container| container.name == CONTAINER) else { return absent };
    let initializing = status
        .init_container_statuses
        .iter()
        .flatten()
        .any(|init| init.state.as_ref().is_some_and(|state| state.running.is_some()));
    let state = match &found.state {
        Some(state) if state.running.is_some() => RUNNING,
        Some(state) if state.terminated.is_some() => "terminated",
        _ if initializing => "initializing",
        Some(state) if state.waiting.is_some() => "waiting",
        _ => "unknown",
    };
    Container { id: found.container_id.clone().unwrap_or_default(), state }
}

/// Whether something is about to be asked of the member's guest, so that its record must be known.
pub(super) fn needs_guest(status: &ClusterStatus, member: &Member, pod: Option<&Pod>) -> bool {
    let asked = match member.state {
        MemberState::Creating => true,
        MemberState::Configured => guests::is_owed_something(status, member),
        _ => false,
    };
    asked && container(pod).state == RUNNING
}

/// Appends a member to a role.
pub(super) fn add(look: &mut Look<'_>, role_index: usize) {
    let view = look.view;
    look.next.last_node_id = look.next.last_node_id.saturating_add(1);
    let node_id = look.next.last_node_id;
    let role_status = &mut look.next.roles[role_index];
    let Some(role) = view.role(&role_status.id) else { return };
    let pod = names::pod(&role_status.stateful_set, role_status.members.len());
    let has_ports = view.app().is_some_and(|app| !app.endpoints(&role.id).is_empty());
    role_status.members.push(Member {
        service: if has_ports { String::new() } else { NO_SERVICE.to_owned() },
        pvc: if role.storage.is_some() { names::claim(&pod) } else { String::new() },
        block_device_paths: children::block_devices(role).map(|(_, path)| path).collect(),
        pod,
        node_id,
        ..Member::default()
    });
    look.membership_changed = true;
}

/// Adds or marks members until their number is right. Grows only when nobody is leaving: a new member would
/// take over the name and the claim of a leaving one.
pub(super) fn resize(look: &mut Look<'_>, role_index: usize) {
    let wanted = look.view.members_wanted(&look.next.roles[role_index].id);
    let members = &look.next.roles[role_index].members;
    let staying = members.iter().filter(|member| !member.state.leaving()).count();
    let in_setup = members.iter().any(|member| member.state == MemberState::Creating);
    if staying == wanted {
        return;
    }
    look.unsettled = true;
    // A setup in progress is not disturbed.
    if in_setup {
        return;
    }
    if staying < wanted && members.len() == staying {
        for _ in staying..wanted {
            add(look, role_index);
        }
    }
    for index in wanted..staying {
        let member = &mut look.next.roles[role_index].members[index];
        member.state = match member.state {
            MemberState::Configured | MemberState::ConfigError => MemberState::DeletePending,
            _ => MemberState::Deleting,
        };
        look.membership_changed = true;
    }
}

/// Takes members on their way out one step further: the others are told, the pod goes with the replica count,
/// then service and claim go by name, then the member is forgotten.
pub(super) fn remove_leaving(look: &mut Look<'_>, role_index: usize) {
    let view = look.view;
    let id = look.next.roles[role_index].id.clone();
    let stored: Vec<String> = leaving(&look.stored, &id, MemberState::DeletePending);
    if !stored.is_empty() {
        notify::removed(look, &id, &stored);
        for member in &mut look.next.roles[role_index].members {
            if stored.contains(&member.pod) {
                member.state = MemberState::Deleting;
            }
        }
    }
    let already = leaving(&look.stored, &id, MemberState::Deleting);
    let mut gone = Vec::new();
    for member in &look.next.roles[role_index].members {
        if !already.contains(&member.pod) || view.facts.pods.contains_key(&member.pod) {
            continue;
        }
        let service =
            view.facts.services.get(&member.service).filter(|object| view.is_ours(&object.metadata, Some(&id)));
        let claim = view.facts.claims.get(&member.pvc);
        if let Some(service) = service.filter(|service| service.metadata.deletion_timestamp.is_none()) {
            let on = ObjectRef::observed(&kinds::SERVICE, service);
            look.late.push(on, Act::Delete { orphan: false }, "remove the member");
        }
        if let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            let on = ObjectRef::observed(&kinds::CLAIM, claim);
            look.late.push(on, Act::Delete { orphan: false }, "remove the member");
        }
        if service.is_none() && claim.is_none() {
            gone.push(member.pod.clone());
        }
    }
    // From the end only: members are numbered by their place.
    let members = &mut look.next.roles[role_index].members;
    while members.last().is_some_and(|member| gone.contains(&member.pod)) {
        members.pop();
    }
}

fn leaving(status: &ClusterStatus, role: &str, state: MemberState) -> Vec<String> {
    let role = status.roles.iter().find(|known| known.id == role);
    let members = role.into_iter().flat_map(|role| &role.members);
    members.filter(|member| member.state == state).map(|member| member.pod.clone()).collect()
}

/// Sends members whose container is another one back to the start. What was remembered of the guest is kept
/// if it lives on storage.
pub(super) fn notice_containers(look: &mut Look<'_>) {
    let view = look.view;
    for member in look.next.roles.iter_mut().flat_map(|role| &mut role.members) {
        let pod = view.facts.pods.get(&member.pod);
        let now = container(pod);
        let unreachable = matches!(view.facts.guests.get(&member.pod), Some(Err(_)));
        let detail = &mut member.state_detail;
        detail.last_known_container_state = if unreachable { UNRESPONSIVE } else { now.state }.to_owned();
        detail.scheduling_error_message = pod.and_then(unscheduled);
        match member.state {
            MemberState::Configured | MemberState::ConfigError if now.id != detail.last_configured_container => {
                if member.pvc.is_empty() || detail.config_error_detail.is_some() {
                    detail.last_config_data_generation = None;
                    detail.last_setup_generation = None;
                    detail.pending_notify_cmds.clear();
                }
                member.state = MemberState::CreatePending;
            }
            MemberState::Creating if now.id != detail.configuring_container => {
                detail.configuring_container.clear();
                if member.pvc.is_empty() {
                    detail.last_config_data_generation = None;
                    detail.last_setup_generation = None;
                }
                member.state = MemberState::CreatePending;
            }
            _ => {}
        }
    }
}

fn unscheduled(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let refused =
        conditions.iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    Some(refused.message.clone().unwrap_or_default())
}

/// Takes members with a running container through their setup.
pub(super) fn proceed(look: &mut Look<'_>) {
    let blocked = waits_for_metadata(look);
    for role_index in 0..look.next.roles.len() {
        let mut joined = Vec::new();
        for index in 0..look.next.roles[role_index].members.len() {
            let state = look.next.roles[role_index].members[index].state;
            if state == MemberState::CreatePending && !blocked {
                start(look, role_index, index);
            } else if state == MemberState::Creating && continue_setup(look, role_index, index) {
                joined.push(look.next.roles[role_index].members[index].pod.clone());
            }
        }
        let id = look.next.roles[role_index].id.clone();
        notify::added(look, &id, &joined);
    }
}

/// Without the safeguard: nobody proceeds while anybody holds old metadata, also those who cannot be given new
/// metadata before they proceed.
fn waits_for_metadata(look: &Look<'_>) -> bool {
    let generation = look.generation();
    !look.view.safeguards().proceed_create_pending
        && look.next.roles.iter().flat_map(|role| &role.members).any(|member| {
            !member.state.leaving()
                && member.state_detail.last_config_data_generation.is_some_and(|held| held != generation)
        })
}

fn start(look: &mut Look<'_>, role_index: usize, index: usize) {
    let role = &mut look.next.roles[role_index];
    let member = &mut role.members[index];
    let now = container(look.view.facts.pods.get(&member.pod));
    let replicas = look.view.facts.sets.get(&role.stateful_set).and_then(|set| set.spec.as_ref()?.replicas);
    let counted = replicas.is_some_and(|replicas| usize::try_from(replicas).is_ok_and(|replicas| replicas > index));
    if counted && now.state == RUNNING && !now.id.is_empty() {
        member.state_detail.configuring_container = now.id;
        member.state = MemberState::Creating;
    } else {
        let wait = format!("the container of member {}, which is {}", member.pod, now.state);
        look.early.waiting_for.push(wait);
    }
}

/// What the record of a guest says about the setup of its member.
enum Setup {
    Done,
    Failed(i32),
    Under,
    ToDo,
}

fn judge(record: &SetupRecord, container: &str, trusted: bool) -> Setup {
    // A record of another container counts if it lives on storage, unless that setup is to be tried again.
    let counts = !record.container.is_empty() && (record.container == container || trusted);
    match record.exit {
        Some(0) if counts => Setup::Done,
        Some(exit) if counts => Setup::Failed(exit),
        None if record.container == container && !container.is_empty() => Setup::Under,
        _ => Setup::ToDo,
    }
}

/// One step of a member's setup. Answers whether a member that never was before is configured now.
fn continue_setup(look: &mut Look<'_>, role_index: usize, index: usize) -> bool {
    let view = look.view;
    let role_id = look.next.roles[role_index].id.clone();
    let set_up = view
        .app()
        .zip(view.app_role(&role_id))
        .is_some_and(|(app, role)| app.has_setup(role) && app.listens(role, "configure"));
    let member = &look.next.roles[role_index].members[index];
    let pod = member.pod.clone();
    let container = member.state_detail.configuring_container.clone();
    if !set_up {
        return leave_setup(look, role_index, index, None);
    }
    let trusted = !member.pvc.is_empty() && member.state_detail.config_error_detail.is_none();
    let record = match view.facts.guests.get(&pod) {
        Some(Ok(record)) => record,
        Some(Err(reason)) => {
            look.early.waiting_for.push(format!("the guest of member {pod}: {reason}"));
            look.late.check_within(view.settings.retry);
            return false;
        }
        // It became ready for its setup just now; the next look knows its record.
        None => return false,
    };
    match judge(record, &container, trusted) {
        Setup::Done => leave_setup(look, role_index, index, None),
        Setup::Failed(exit) => leave_setup(look, role_index, index, Some(format!("setup ended with exit code {exit}"))),
        Setup::Under => {
            look.early.waiting_for.push(format!("the setup of member {pod}"));
            look.late.check_within(view.settings.retry);
            false
        }
        Setup::ToDo => {
            start_setup(look, role_index, index, &container);
            false
        }
    }
}

fn start_setup(look: &mut Look<'_>, role_index: usize, index: usize, container: &str) {
    let view = look.view;
    let generation = look.generation();
    let counter = look.next.hash_change_counter;
    let metadata = guests::metadata(&view, &look.next);
    let member = &mut look.next.roles[role_index].members[index];
    let detail = &mut member.state_detail;
    detail.last_config_data_generation = Some(generation);
    detail.last_setup_generation = Some(generation);
    detail.last_connection_version = counter;
    let on = ObjectRef::new(&kinds::POD, view.namespace(), &member.pod);
    for (action, purpose) in [
        (GuestAction::Upload { metadata }, "tell it who it is"),
        (GuestAction::Configure { container: container.to_owned() }, "set it up"),
    ] {
        look.late.push(on.clone(), Act::Guest { container: CONTAINER, action }, purpose);
    }
}

/// Ends a member's setup. Answers whether it is configured for the first time.
fn leave_setup(look: &mut Look<'_>, role_index: usize, index: usize, failure: Option<String>) -> bool {
    let member = &mut look.next.roles[role_index].members[index];
    let detail = &mut member.state_detail;
    let first = detail.last_configured_container.is_empty();
    detail.last_configured_container = std::mem::take(&mut detail.configuring_container);
    member.state = if failure.is_some() { MemberState::ConfigError } else { MemberState::Configured };
    detail.config_error_detail = failure;
    first && member.state == MemberState::Configured
}

/// What is the matter with any member.
pub(super) fn rollup(view: &View<'_>, status: &ClusterStatus) -> Rollup {
    let mut rollup = Rollup::default();
    for member in status.roles.iter().flat_map(|role| &role.members) {
        let detail = &member.state_detail;
        let known_before = !detail.last_configured_container.is_empty();
        let in_setup = matches!(member.state, MemberState::CreatePending | MemberState::Creating);
        rollup.membership_changing |= member.state.leaving() || (in_setup && !known_before);
        rollup.members_restarting |= in_setup && known_before;
        rollup.config_errors |= member.state == MemberState::ConfigError;
        rollup.members_not_scheduled |= detail.scheduling_error_message.is_some();
        match detail.last_known_container_state.as_str() {
            "absent" | "terminated" | UNRESPONSIVE => rollup.members_down = true,
            "initializing" => rollup.members_initializing = true,
            "waiting" => rollup.members_waiting = true,
            _ => {}
        }
    }
    rollup.membership_changing |= status.roles.iter().any(|role| role.members.len() != view.members_wanted(&role.id));
    rollup
}
