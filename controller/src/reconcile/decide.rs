//! Decides what to do about a target. Pure: what was observed, the settings and the time go in, a plan
//! comes out.

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::observed::{ClusterFacts, ConfigFacts, Observed};
use super::plan::{Act, ObjectRef, Plan};
use super::view::View;
use super::{cleanup, events, installation, restore, running};
use crate::error::Error;
use crate::kinds;
use crate::names::{CONFIG_NAME, FINALIZER, RESTORING};
use crate::settings::Settings;

/// Decides what to do about a target. A function of its arguments.
pub fn decide(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    match observed {
        Observed::Installation => installation::decide(settings),
        Observed::Cluster(facts) => cluster(facts, settings, now),
        Observed::Config(facts) => config(facts, settings),
    }
}

/// Tells the users of a target why a change was refused. What was merely stale is not worth telling.
pub(super) fn report(observed: &Observed, failure: &Error, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if let Observed::Cluster(facts) = observed
        && let Some(cluster) = &facts.cluster
        && !failure.is_stale()
    {
        let view = View { facts, cluster, settings, now };
        events::of_failure(&view, &failure.to_string(), &mut plan);
    }
    plan
}

fn cluster(facts: &ClusterFacts, settings: &Settings, now: Timestamp) -> Plan {
    let Some(cluster) = &facts.cluster else { return Plan::default() };
    let view = View { facts, cluster, settings, now };
    let paused = view.has_label(RESTORING) && settings.safeguards.pause_while_restoring;
    match (cluster.metadata.deletion_timestamp.is_some(), paused) {
        (true, true) => restore::delete(&view),
        (true, false) => cleanup::decide(&view),
        (false, _) if restore::is_unnoticed(&view) => restore::notice(&view),
        (false, true) => restore::decide(&view),
        (false, false) => running::decide(&view),
    }
}

/// A config needs nothing but its finalizer and a status that says that it is in force.
fn config(facts: &ConfigFacts, settings: &Settings) -> Plan {
    let mut plan = Plan::default();
    let Some(config) = &facts.config else { return plan };
    if config.name_any() != CONFIG_NAME || config.namespace().as_deref() != Some(settings.namespace.as_str()) {
        return plan;
    }
    let on = ObjectRef::unchanged(&kinds::CONFIG, config);
    let held = config.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    let deleting = config.metadata.deletion_timestamp.is_some();
    if deleting == held {
        let others = config.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).map(String::as_str);
        let finalizers: Vec<&str> = if deleting { others.collect() } else { others.chain([FINALIZER]).collect() };
        let purpose = if deleting { "let it go" } else { "be asked before it goes" };
        plan.push(on, Act::Merge(json!({"metadata": {"finalizers": finalizers}})), purpose);
        return plan;
    }
    let ready = config.status.as_ref().is_some_and(|status| status.state == "ready");
    if !deleting && !ready {
        let generation_uid = config.uid().unwrap_or_default();
        let status = json!({"state": "ready", "generationUID": generation_uid});
        let patch = json_patch::Patch(vec![super::status::add(["status"], status)]);
        plan.push(ObjectRef::observed(&kinds::CONFIG, config), Act::PatchStatus(patch), "say that it is in force");
    }
    plan
}
