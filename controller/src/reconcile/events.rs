//! Events, on transitions only: what changed between the stored status and the next.

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::conditions;
use super::plan::{Act, ObjectRef, Plan};
use super::view::View;
use crate::api::{ClusterState, ClusterStatus, Member, MemberState};
use crate::kinds;

/// Most characters of a message.
const MESSAGE_MAX: usize = 1000;

const CLUSTER: &str = "Cluster";
const ROLE: &str = "Role";
const MEMBER: &str = "Member";

/// What a restore found, lost, or was refused.
pub(super) fn of_restore(view: &View<'_>, stored: &ClusterStatus, next: &ClusterStatus, plan: &mut Plan) {
    let Some(now) = &next.restore_progress else { return };
    let Some(before) = &stored.restore_progress else {
        record(view, plan, CLUSTER, false, "restore noticed: waiting for app, status backup and component resources");
        return report_waits(
            view,
            plan,
            [(true, now.awaiting_app), (true, now.awaiting_status), (true, now.awaiting_resources)],
        );
    };
    report_waits(
        view,
        plan,
        [
            (before.awaiting_app, now.awaiting_app),
            (before.awaiting_status, now.awaiting_status),
            (before.awaiting_resources, now.awaiting_resources),
        ],
    );
    if !now.error.is_empty() && now.error != before.error {
        record(view, plan, CLUSTER, true, &now.error);
    }
}

fn report_waits(view: &View<'_>, plan: &mut Plan, waits: [(bool, bool); 3]) {
    for (what, (before, now)) in ["app", "status backup", "component resources"].into_iter().zip(waits) {
        match (before, now) {
            (true, false) => record(view, plan, CLUSTER, false, &format!("{what} present")),
            (false, true) => record(view, plan, CLUSTER, false, &format!("{what} awaited again")),
            _ => {}
        }
    }
}

/// The label is gone.
pub(super) fn resumed(view: &View<'_>, plan: &mut Plan) {
    record(view, plan, CLUSTER, false, "reconciliation resumed");
}

/// A write was refused, and will be tried again. Saying it once for each version of the cluster is enough.
pub(super) fn of_failure(view: &View<'_>, failure: &str, plan: &mut Plan) {
    record(view, plan, CLUSTER, true, failure);
}

/// What changed in a cluster that is not being restored.
pub(super) fn of_reconciliation(view: &View<'_>, stored: &ClusterStatus, next: &ClusterStatus, plan: &mut Plan) {
    if next.state == ClusterState::Configured && stored.state != ClusterState::Configured {
        record(view, plan, CLUSTER, false, "stable");
    }
    for role in &next.roles {
        let before = stored.roles.iter().find(|known| known.id == role.id);
        if before.is_none() {
            record(view, plan, ROLE, false, &format!("role {} uses StatefulSet {}", role.id, role.stateful_set));
        }
        for member in &role.members {
            let known = before.and_then(|role| role.members.iter().find(|known| known.pod == member.pod));
            of_member(view, plan, known.map_or(MemberState::CreatePending, |known| known.state), member);
        }
    }
    let problem = |status: &ClusterStatus| {
        status.conditions.iter().find(|c| c.type_ == conditions::SOUND).map(|c| c.message.clone())
    };
    if let Some(message) = problem(next).filter(|message| problem(stored).as_ref() != Some(message)) {
        record(view, plan, CLUSTER, true, &message);
    }
}

fn of_member(view: &View<'_>, plan: &mut Plan, before: MemberState, member: &Member) {
    if before == member.state {
        return;
    }
    match member.state {
        MemberState::Configured => record(view, plan, MEMBER, false, &format!("member {} configured", member.pod)),
        MemberState::ConfigError => {
            let detail = member.state_detail.config_error_detail.as_deref().unwrap_or_default();
            record(view, plan, MEMBER, true, &format!("setup of member {} failed: {detail}", member.pod));
        }
        MemberState::CreatePending if before != MemberState::Creating => {
            record(view, plan, MEMBER, false, &format!("container of member {} changed", member.pod));
        }
        MemberState::Deleting => record(view, plan, MEMBER, false, &format!("member {} is being removed", member.pod)),
        _ => {}
    }
}

/// Adds the write of one event. Its name follows from what it says about which version of the cluster, so
/// that saying it twice is one event.
fn record(view: &View<'_>, plan: &mut Plan, reason: &str, warning: bool, message: &str) {
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    let version = view.cluster.metadata.resource_version.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{}\n{version}\n{reason}\n{message}", view.uid()));
    let suffix: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{}.{suffix}", view.name());
    let at = Timestamp::from_second(view.now.as_second()).unwrap_or(view.now).to_string();
    let event = json!({
        "apiVersion": kinds::EVENT.api_version,
        "kind": kinds::EVENT.kind,
        "metadata": {"namespace": view.namespace(), "name": name},
        "involvedObject": {
            "apiVersion": kinds::CLUSTER.api_version,
            "kind": kinds::CLUSTER.kind,
            "namespace": view.namespace(),
            "name": view.name(),
            "uid": view.uid(),
            "resourceVersion": version,
        },
        "reason": reason,
        "message": message,
        "type": if warning { "Warning" } else { "Normal" },
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": crate::names::FIELD_MANAGER},
        "reportingComponent": crate::names::FIELD_MANAGER,
        "reportingInstance": "",
    });
    let on = ObjectRef::new(&kinds::EVENT, view.namespace(), &name);
    plan.push(on, Act::Create(Box::new(event)), "tell");
}
