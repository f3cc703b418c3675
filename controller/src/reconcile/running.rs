//! A cluster that is not being restored: one look at it, in order.
//!
//! Writes of one look keep this order: children that can be named before the status names them; the status;
//! then what relies on it (replica counts, deletes); events; and last its backup and what is asked of guests,
//! both of which may fail for long. A crash between any two of them is healed by the next look.

use std::time::Duration;

use kube::ResourceExt;

use super::plan::{Act, Change, ObjectRef, Plan};
use super::view::View;
use super::{backup, children, cleanup, conditions, connections, events, guests, members, owners, roles, status};
use crate::api::{AppRelease, ClusterState, ClusterStatus, KubeDirectorApp, MemberState};
use crate::kinds;
use crate::names::STATUS_BACKUP_EXISTS;

/// What one look at a cluster works on.
pub(super) struct Look<'a> {
    pub(super) view: View<'a>,
    /// The status as it is stored.
    pub(super) stored: ClusterStatus,
    /// The status as it will be.
    pub(super) next: ClusterStatus,
    /// Writes before the status.
    pub(super) early: Plan,
    /// Writes after the status.
    pub(super) late: Plan,
    /// Objects that stand in the way: reason and sentence.
    pub(super) problems: Vec<(&'static str, String)>,
    /// Members came or go.
    pub(super) membership_changed: bool,
    /// Something is not yet as it should be.
    pub(super) unsettled: bool,
}

impl Look<'_> {
    /// Something stands in the way.
    pub(super) fn problem(&mut self, reason: &'static str, sentence: String) {
        self.problems.push((reason, sentence));
        self.unsettled = true;
    }

    /// Gives a child its owner back, or reports that it has another.
    pub(super) fn keep_owner<K: kube::Resource>(&mut self, kind: &'static kinds::Kind, child: &K) {
        owners::repair(&self.view, &mut self.early, kind, child);
        if owners::standing(child.meta(), self.view.cluster) == owners::Standing::Foreign {
            let name = child.meta().name.as_deref().unwrap_or_default();
            self.problem("ForeignOwner", format!("{} {name} is controlled by another owner", kind.kind));
        }
    }

    /// The spec generation members are held against.
    pub(super) fn generation(&self) -> i64 {
        self.next.spec_generation_to_process.unwrap_or_default()
    }
}

/// Decides about a cluster that is not being restored.
pub(super) fn decide(view: &View<'_>) -> Plan {
    if view.safeguards().finalizer && !cleanup::has_finalizer(view) {
        // Before the first child: a crash in between leaves a cluster we still get to clean up after, never a
        // child nobody remembers.
        let mut plan = Plan::default();
        cleanup::add_finalizer(view, &mut plan);
        return plan;
    }
    let stored = view.stored_status();
    let mut look = Look {
        view: *view,
        next: stored.clone(),
        stored,
        early: Plan::default(),
        late: Plan::default(),
        problems: Vec::new(),
        membership_changed: false,
        unsettled: false,
    };
    begin(&mut look);
    members::notice_containers(&mut look);
    match &view.facts.app {
        Some(app) => build(&mut look, app),
        None => {
            let text = format!("KubeDirectorApp {} does not exist", view.cluster.spec.app);
            look.problem("AppMissing", text);
        }
    }
    repair_claims(&mut look);
    compare_connections(&mut look);
    if view.facts.app.is_some() {
        members::proceed(&mut look);
    }
    finish(look)
}

/// What a status starts from, and what a resumed one leaves behind.
fn begin(look: &mut Look<'_>) {
    let view = look.view;
    let next = &mut look.next;
    if view.cluster.status.is_none() {
        next.state = ClusterState::Creating;
        next.spec_generation_to_process = Some(0);
    }
    if next.restore_progress.take().is_some() {
        conditions::clear(next, conditions::RESTORING);
        // Guests that kept their storage hold metadata of an earlier life, with its names and addresses.
        look.membership_changed = true;
    }
    next.incarnation = Some(view.incarnation());
    next.observed_generation = view.cluster.metadata.generation;
    if next.origin.is_none() {
        next.origin = Some(view.own_origin());
    }
}

fn build(look: &mut Look<'_>, app: &KubeDirectorApp) {
    compare_release(look, app);
    if headless_service(look, app) {
        roles::reconcile(look, app);
        member_services(look, app);
    }
}

/// The members were built from one release of the app; another one under the same name is worth a warning.
fn compare_release(look: &mut Look<'_>, app: &KubeDirectorApp) {
    let release = AppRelease { distro_id: app.spec.distro_id.clone(), version: app.spec.version.clone() };
    match &look.next.app_release {
        Some(known) if *known != release => {
            let text = format!(
                "members were built from {} {}, the app is {} {}",
                known.distro_id, known.version, release.distro_id, release.version
            );
            conditions::set(&mut look.next, conditions::APP_UNCHANGED, false, "OtherRelease", &text, look.view.now);
        }
        Some(_) => conditions::clear(&mut look.next, conditions::APP_UNCHANGED),
        None => look.next.app_release = Some(release),
    }
}

/// Finds, repairs, adopts or creates the headless Service. Answers whether its name is known.
fn headless_service(look: &mut Look<'_>, app: &KubeDirectorApp) -> bool {
    let view = look.view;
    let named = look.next.cluster_service.clone();
    if !named.is_empty() {
        match view.facts.services.get(&named) {
            Some(service) if view.is_ours(&service.metadata, None) => {
                look.keep_owner(&kinds::SERVICE, service);
            }
            Some(_) => {
                look.problem("ForeignObject", format!("Service {named} does not carry this kdcluster's label"));
                return false;
            }
            None => {
                let service = children::headless_service(&view, app, Some(&named));
                create(look, &kinds::SERVICE, &named, service, "make the headless Service again");
            }
        }
        return true;
    }
    let candidates: Vec<_> = view
        .facts
        .services
        .values()
        .filter(|service| view.looks_headless(service) && adoptable(&view, &service.metadata))
        .collect();
    match candidates.as_slice() {
        [] => {
            let service = children::headless_service(&view, app, None);
            create(look, &kinds::SERVICE, "", service, "give members their names");
            false
        }
        [service] => {
            look.next.cluster_service = service.name_any();
            look.keep_owner(&kinds::SERVICE, *service);
            true
        }
        several => {
            let names: Vec<String> = several.iter().map(|service| service.name_any()).collect();
            look.problem(
                "AmbiguousObjects",
                format!("several headless Services could be this kdcluster's: {}", names.join(", ")),
            );
            false
        }
    }
}

/// An unnamed child with our labels may be taken for ours: one of this life always (we were interrupted before
/// the status named it), one without an owner or with an earlier life's by the safeguard.
pub(super) fn adoptable(view: &View<'_>, metadata: &kube::api::ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_none()
        && match owners::standing(metadata, view.cluster) {
            owners::Standing::Owned => true,
            owners::Standing::Free => view.safeguards().adopt_by_label,
            owners::Standing::Foreign => false,
        }
}

/// Adds the creation of a child. Without a name the server makes one; the next look finds the child by its label.
pub(super) fn create(
    look: &mut Look<'_>,
    kind: &'static kinds::Kind,
    name: &str,
    object: serde_json::Value,
    purpose: &str,
) {
    let on = ObjectRef::new(kind, look.view.namespace(), name);
    look.early.push(on, Act::Create(Box::new(object)), purpose);
    look.unsettled = true;
}

fn member_services(look: &mut Look<'_>, app: &KubeDirectorApp) {
    let view = look.view;
    for role_index in 0..look.next.roles.len() {
        let Some(role) = view.role(&look.next.roles[role_index].id) else { continue };
        for index in 0..look.next.roles[role_index].members.len() {
            let member = &look.next.roles[role_index].members[index];
            if member.state.leaving() || member.service == crate::names::NO_SERVICE {
                continue;
            }
            let name = match member.service.as_str() {
                "" => crate::names::member_service(&member.pod, view.naming_scheme()),
                known => known.to_owned(),
            };
            let pod = member.pod.clone();
            match view.facts.services.get(&name) {
                Some(service) if view.is_ours(&service.metadata, Some(&role.id)) => {
                    look.keep_owner(&kinds::SERVICE, service);
                    let wanted = children::service_type(&view).as_str();
                    if service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) != Some(wanted) {
                        let patch = serde_json::json!({"spec": {"type": wanted}});
                        look.early.push(
                            ObjectRef::observed(&kinds::SERVICE, service),
                            Act::Merge(patch),
                            "change its type",
                        );
                    }
                    look.next.roles[role_index].members[index].service = name;
                }
                Some(_) => {
                    look.problem("ForeignObject", format!("Service {name} does not carry this kdcluster's labels"));
                }
                None => {
                    let service = children::member_service(&view, app, role, &pod, &name);
                    create(look, &kinds::SERVICE, &name, service, "reach the member");
                    look.next.roles[role_index].members[index].service = name;
                }
            }
        }
    }
}

fn repair_claims(look: &mut Look<'_>) {
    let view = look.view;
    for (name, claim) in &view.facts.claims {
        if crate::names::is_member_claim(name) {
            look.keep_owner(&kinds::CLAIM, claim);
        }
    }
}

/// Counts changes of the connections, and everything that makes the guests' metadata old.
fn compare_connections(look: &mut Look<'_>) {
    let hash = connections::hash(&look.view.facts.connections);
    // A connected cluster that does not know its members yet has not lost them.
    let settled = look.view.facts.connections.iter().all(|connection| !connection.unsettled);
    if settled && look.next.last_connection_hash != hash {
        // The first hash of a cluster without connections is no change.
        let first = look.next.last_connection_hash.is_empty();
        if !first || !look.view.facts.connections.is_empty() {
            // A KubeDirector counted elsewhere; what its members were last told is the least it had reached.
            let members = look.next.roles.iter().flat_map(|role| &role.members);
            let told = members.filter_map(|member| member.state_detail.last_connection_version).max();
            let reached = look.next.hash_change_counter.max(told).unwrap_or_default();
            look.next.hash_change_counter = Some(reached.saturating_add(1));
            look.membership_changed = true;
        }
        look.next.last_connection_hash = hash;
    }
    if look.membership_changed {
        look.next.spec_generation_to_process = Some(look.generation().saturating_add(1));
    }
}

/// Puts the writes of one look together.
fn finish(mut look: Look<'_>) -> Plan {
    let view = look.view;
    let wanted = backup::wanted(&view);
    conclude(&mut look, wanted);
    let Look { stored, mut next, early, late, .. } = look;
    let mut plan = Plan { next_check: late.next_check, ..early };

    let fresh = view.cluster.status.is_none();
    let notes = backup::annotations(&view, wanted, next.origin.as_deref());
    // Switching backups on or off renews the status although nothing in it has changed.
    let switched =
        notes.as_ref().is_some_and(|patch| !patch["metadata"]["annotations"][STATUS_BACKUP_EXISTS].is_null())
            && view.annotation(STATUS_BACKUP_EXISTS).is_some();
    let changed = fresh || !status::same(&stored, &next);
    let annotate = |plan: &mut Plan| {
        if let Some(patch) = &notes {
            let on = ObjectRef::observed(&kinds::CLUSTER, view.cluster);
            plan.push(on, Act::Merge(patch.clone()), "note whether there is a backup, and of what");
        }
    };
    // On a cluster that has no status yet the annotation comes after the status: the other way round, a crash in
    // between would leave what a restored cluster looks like.
    if !fresh {
        annotate(&mut plan);
    }
    let renewed = changed || switched;
    let backup_led = renewed && !view.safeguards().status_before_backup;
    if renewed {
        let change = status::write(&view, &stored, &mut next, "say how it stands");
        if backup_led {
            backup::follow(&view, &mut plan, wanted, &next);
        }
        plan.changes.push(change);
    }
    if fresh {
        annotate(&mut plan);
    }
    let (setups, relying): (Vec<Change>, Vec<Change>) =
        late.changes.into_iter().partition(|change| matches!(change.act, Act::Guest { .. }));
    let quiet = plan.changes.is_empty() && relying.is_empty();
    plan.changes.extend(relying);
    if changed {
        events::of_reconciliation(&view, &stored, &next, &mut plan);
    }
    if !setups.is_empty() {
        // What a guest did is seen by looking at it again; nothing watches it.
        plan.check_within(Duration::ZERO);
    }
    let mut asked = Plan { changes: guests::in_turn(&view, setups), ..Plan::default() };
    let told = if quiet { guests::work(&view, &next, &mut asked) } else { next.clone() };
    if let Some(delay) = asked.next_check {
        plan.check_within(delay);
    }
    // Neither guests that refuse nor a backup that cannot be written may keep the other waiting for ever. When
    // the backup has failed to follow before, chance decides who is first.
    let failed_before = backup::is_behind(&view, wanted, &stored);
    let turned = failed_before && view.turn().is_multiple_of(2);
    let guests_first = if turned { !quiet } else { quiet };
    if guests_first {
        plan.changes.append(&mut asked.changes);
    }
    if !backup_led {
        backup::follow(&view, &mut plan, wanted, if guests_first { &told } else { &next });
    }
    plan.changes.append(&mut asked.changes);
    plan
}

/// Overall state, rollup and conditions.
fn conclude(look: &mut Look<'_>, wanted: backup::Wanted) {
    let view = look.view;
    let all_settled = look.next.roles.iter().all(|role| {
        let steady = |state| matches!(state, MemberState::Configured | MemberState::ConfigError);
        role.members.len() == view.members_wanted(&role.id) && role.members.iter().all(|member| steady(member.state))
    });
    let all_roles = view
        .cluster
        .spec
        .roles
        .iter()
        .all(|role| view.members_wanted(&role.id) == 0 || look.next.roles.iter().any(|known| known.id == role.id));
    let generation = look.generation();
    let all_told = look
        .next
        .roles
        .iter()
        .flat_map(|role| &role.members)
        .all(|member| member.state_detail.last_config_data_generation.is_none_or(|held| held == generation));
    let settled = all_settled && all_roles && all_told && !look.unsettled;
    look.next.state = match (settled, look.next.state) {
        (true, _) => ClusterState::Configured,
        (false, ClusterState::Creating) => ClusterState::Creating,
        (false, _) => ClusterState::Updating,
    };
    look.next.member_state_rollup = members::rollup(&view, &look.next);

    let now = view.now;
    let failed = look.next.member_state_rollup.config_errors;
    let problem = look.problems.first().cloned();
    let next = &mut look.next;
    let (ready, reason, message) = match (settled, failed) {
        (true, false) => (true, "Configured", "every member is configured"),
        (true, true) => (false, "ConfigError", "the setup of a member failed"),
        (false, _) if next.state == ClusterState::Creating => (false, "Creating", "members are being made"),
        (false, _) => (false, "Updating", "members are being changed"),
    };
    conditions::set(next, conditions::READY, ready, reason, message, now);
    match problem {
        Some((reason, _)) => {
            let text: Vec<&str> = look.problems.iter().map(|(_, sentence)| sentence.as_str()).collect();
            conditions::set(next, conditions::SOUND, false, reason, &text.join("; "), now);
        }
        None => conditions::clear(next, conditions::SOUND),
    }
    report_surplus(look);
    report_backup(look, wanted);
}

/// Claims of ours that belong to no member: the backup may have been older than the StatefulSet. They are kept.
fn report_surplus(look: &mut Look<'_>) {
    let pods: Vec<&str> = look.next.roles.iter().flat_map(|role| &role.members).map(|m| m.pod.as_str()).collect();
    let surplus: Vec<&str> = (look.view.facts.claims.keys())
        .filter(|name| crate::names::is_member_claim(name))
        .filter(|name| name.split_once('-').is_some_and(|(_, pod)| !pods.contains(&pod)))
        .map(String::as_str)
        .collect();
    if surplus.is_empty() {
        conditions::clear(&mut look.next, conditions::SURPLUS_CLAIMS);
    } else {
        let text = format!("claims of no member, kept: {}", surplus.join(", "));
        conditions::set(&mut look.next, conditions::SURPLUS_CLAIMS, true, "NoSuchMember", &text, look.view.now);
    }
}

fn report_backup(look: &mut Look<'_>, wanted: backup::Wanted) {
    let view = look.view;
    let foreign =
        view.facts.backup.as_ref().is_some_and(|backup| !backup::belongs(&view, backup, look.next.origin.as_deref()));
    let behind = view.facts.backup_unreadable.is_none() && backup::is_behind(&view, wanted, &look.stored);
    let next = &mut look.next;
    if foreign {
        let text = format!(
            "KubeDirectorStatusBackup {} is of another kdcluster and was never used: delete it to have this status backed up",
            view.name()
        );
        conditions::set(next, conditions::BACKUP_STALE, true, "ForeignBackup", &text, view.now);
    } else if let Some(reason) = view.facts.backup_unreadable.as_ref().filter(|_| wanted.exists) {
        conditions::set(next, conditions::BACKUP_STALE, true, "BackupUnreadable", reason, view.now);
    } else if behind {
        let text = "the backup does not hold the last status";
        conditions::set(next, conditions::BACKUP_STALE, true, "BackupBehind", text, view.now);
    } else {
        conditions::clear(next, conditions::BACKUP_STALE);
    }
}
