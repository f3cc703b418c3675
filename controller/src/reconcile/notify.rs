//! Notifications: what members are told about others that came or are going. They are queued in the status,
//! so that they survive a crash and a restore, and leave the queue when they are delivered (`guests`).

use super::running::Look;
use super::view::View;
use crate::api::{Member, MemberState, NotifyCommand};

/// Most notifications kept for one member; the oldest are the first to be dropped, since newer metadata
/// says it all.
const PENDING_MAX: usize = 100;

/// Queues the news of members configured for the first time.
pub(super) fn added(look: &mut Look<'_>, role: &str, pods: &[String]) {
    queue(look, "addnodes", role, pods);
}

/// Queues the news of members about to be removed.
pub(super) fn removed(look: &mut Look<'_>, role: &str, pods: &[String]) {
    queue(look, "delnodes", role, pods);
}

fn queue(look: &mut Look<'_>, event: &str, role: &str, pods: &[String]) {
    if pods.is_empty() {
        return;
    }
    let view = look.view;
    let generation = look.generation();
    let names: Vec<String> = pods.iter().map(|pod| fqdn(&view, &look.next.cluster_service, pod)).collect();
    let command = NotifyCommand {
        arguments: [&format!("--{event}"), "--nodegroup", "1", "--role", role, "--fqdns", &names.join(",")]
            .into_iter()
            .map(str::to_owned)
            .collect(),
    };
    for other in &mut look.next.roles {
        let listening = view
            .app()
            .zip(view.app_role(&other.id))
            .is_some_and(|(app, role)| app.has_setup(role) && app.listens(role, event));
        for member in &mut other.members {
            let told_by_setup = member.state_detail.last_setup_generation.is_none_or(|set_up| set_up == generation);
            if listening && !told_by_setup && is_up(member) && !pods.contains(&member.pod) {
                let pending = &mut member.state_detail.pending_notify_cmds;
                if !pending.contains(&command) {
                    pending.push(command.clone());
                }
                let surplus = pending.len().saturating_sub(PENDING_MAX);
                pending.drain(..surplus);
            }
        }
    }
}

/// Configured, or configured before and on its way back.
fn is_up(member: &Member) -> bool {
    match member.state {
        MemberState::Configured => true,
        MemberState::CreatePending | MemberState::Creating => !member.state_detail.last_configured_container.is_empty(),
        _ => false,
    }
}

/// Name of a member in DNS.
pub(super) fn fqdn(view: &View<'_>, headless: &str, pod: &str) -> String {
    format!("{pod}.{headless}.{}{}", view.namespace(), view.domain())
}
