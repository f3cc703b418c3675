//! The end of a cluster: everything that should go with it gets its owner back, then the finalizer goes,
//! and the garbage collector does the rest.

use serde_json::json;

use super::plan::{Act, ObjectRef, Plan};
use super::view::View;
use super::{backup, owners};
use crate::kinds;
use crate::names::{self, FINALIZER};

/// One look at a cluster that is being deleted.
pub(super) fn decide(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    if !has_finalizer(view) {
        return plan;
    }
    let facts = view.facts;
    for set in facts.sets.values().filter(|set| view.is_ours(&set.metadata, None)) {
        owners::repair(view, &mut plan, &kinds::STATEFUL_SET, set);
    }
    for service in facts.services.values().filter(|service| view.is_ours(&service.metadata, None)) {
        owners::repair(view, &mut plan, &kinds::SERVICE, service);
    }
    for (_, claim) in facts.claims.iter().filter(|(name, _)| names::is_member_claim(name)) {
        owners::repair(view, &mut plan, &kinds::CLAIM, claim);
    }
    if let Some(backup) = &facts.backup
        && backup::belongs(view, backup, view.stored_status().origin.as_deref())
    {
        owners::repair(view, &mut plan, &kinds::STATUS_BACKUP, backup);
    }
    remove_finalizer(view, &mut plan);
    plan
}

pub(super) fn has_finalizer(view: &View<'_>) -> bool {
    view.cluster.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Adds the write that lets the cluster go.
pub(super) fn remove_finalizer(view: &View<'_>, plan: &mut Plan) {
    let kept: Vec<&String> =
        view.cluster.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != FINALIZER).collect();
    let on = ObjectRef::unchanged(&kinds::CLUSTER, view.cluster);
    plan.push(on, Act::Merge(json!({"metadata": {"finalizers": kept}})), "let it go");
}

/// Adds the write that makes the end of the cluster wait for us.
pub(super) fn add_finalizer(view: &View<'_>, plan: &mut Plan) {
    let held = view.cluster.metadata.finalizers.iter().flatten().map(String::as_str);
    let all: Vec<&str> = held.chain([FINALIZER]).collect();
    let on = ObjectRef::unchanged(&kinds::CLUSTER, view.cluster);
    plan.push(on, Act::Merge(json!({"metadata": {"finalizers": all}})), "be asked before it goes");
}
