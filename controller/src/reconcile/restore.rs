//! The restore: a cluster with the label `restoring` waits for its app, for its status backup, and for the
//! objects its status names; nothing of it is touched meanwhile. When all is there, the label is removed,
//! by a write of its own, which the webhook validates like anybody's.

use jiff::Timestamp;
use serde_json::json;

use super::plan::{Act, ObjectRef, Plan};
use super::view::View;
use super::{backup, conditions, events, status};
use crate::api::{ClusterStatus, KubeDirectorStatusBackup, RestoreProgress};
use crate::kinds;
use crate::names::{FINALIZER, NO_SERVICE, ORIGIN, RESTORING, STATUS_BACKUP_EXISTS};

/// Most awaited objects that are listed in the status.
const MISSING_MAX: usize = 100;

/// The cluster came back in a restore and nobody has put the label on it: the annotation says that it was
/// handled before, and its status is none, or was written for another object.
pub(super) fn is_unnoticed(view: &View<'_>) -> bool {
    let safeguards = view.safeguards();
    if !safeguards.controller_side_detection || !safeguards.detect_by_annotation {
        return false;
    }
    let known = view.cluster.status.as_ref().is_some_and(|status| match &status.incarnation {
        Some(incarnation) => *incarnation == view.incarnation(),
        // KubeDirector does not note whose status it is. One with content was live when we took over.
        None => !status.generation_uid.is_empty(),
    });
    view.annotation(STATUS_BACKUP_EXISTS).is_some() && !known && !view.has_label(RESTORING)
}

/// Puts the label on a restored cluster that came in without the webhook.
pub(super) fn notice(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let on = ObjectRef::unchanged(&kinds::CLUSTER, view.cluster);
    plan.push(on, Act::Merge(json!({"metadata": {"labels": {RESTORING: ""}}})), "wait for the rest of the restore");
    plan
}

/// One look at a cluster that is being restored.
pub(super) fn decide(view: &View<'_>) -> Plan {
    let stored = view.stored_status();
    let mut next = stored.clone();
    let mut progress = next.restore_progress.take().unwrap_or_else(|| RestoreProgress {
        awaiting_app: true,
        awaiting_status: true,
        awaiting_resources: true,
        since: Some(since(view.now)),
        ..RestoreProgress::default()
    });
    let mut trouble = Trouble::default();
    progress.missing.clear();

    progress.awaiting_app = view.facts.app.is_none();
    if progress.awaiting_app {
        progress.missing.push(format!("{}/{}", kinds::APP.kind, view.cluster.spec.app));
        trouble.note(Reason::AwaitingApp, String::new());
    }
    if progress.awaiting_status {
        match usable_backup(view, &mut trouble) {
            Some(backed_up) => {
                next = backed_up;
                progress.awaiting_status = false;
            }
            None => progress.missing.push(format!("{}/{}", kinds::STATUS_BACKUP.kind, view.name())),
        }
    }
    // A status put there by a tool that restores statuses is not one to resume from until its backup confirms it.
    if !progress.awaiting_status {
        let missing = missing_resources(view, &next, &progress, &mut trouble);
        progress.awaiting_resources = !missing.is_empty();
        progress.missing.extend(missing);
    }
    let awaiting = progress.awaiting_app || progress.awaiting_status || progress.awaiting_resources;
    if !awaiting {
        match &view.facts.resume {
            Some(Ok(())) => return resume(view),
            Some(Err(refusal)) => trouble.note(Reason::ResumeRefused, refusal.clone()),
            None => trouble.note(Reason::ReadyToResume, String::new()),
        }
    }
    if progress.missing.len() > MISSING_MAX {
        let more = progress.missing.len() - MISSING_MAX;
        progress.missing.truncate(MISSING_MAX);
        progress.missing.push(format!("and {more} more"));
    }
    progress.error = trouble.text;
    progress.reason = Some(trouble.reason.as_str().to_owned());
    describe(view, &mut next, &progress, trouble.reason);
    let mut plan = Plan { waiting_for: progress.missing.clone(), ..Plan::default() };
    next.restore_progress = Some(progress);
    next.incarnation = Some(view.incarnation());

    if view.cluster.status.is_none() || !status::same(&stored, &next) {
        let change = status::write(view, &stored, &mut next, "say what the restore waits for");
        plan.changes.push(change);
        events::of_restore(view, &stored, &next, &mut plan);
    }
    let unwatched = matches!(trouble.reason, Reason::ResumeRefused | Reason::StatusBackupUnreadable);
    if unwatched || view.settings.service_wait_max.is_some() {
        plan.check_within(view.settings.retry);
    }
    plan
}

/// Removes the label: alone, so that nobody reads a status that another write of the same look replaces.
fn resume(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let on = ObjectRef::unchanged(&kinds::CLUSTER, view.cluster);
    plan.push(on, Act::Merge(json!({"metadata": {"labels": {RESTORING: null}}})), "resume");
    events::resumed(view, &mut plan);
    plan
}

/// The deletion of a cluster that is being restored: it goes, and takes its backup with it. Objects that are
/// restored later have no owner, and stay; nothing labelled with the cluster is touched.
pub(super) fn delete(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    if !view.cluster.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER) {
        return plan;
    }
    if let Some(backup) = &view.facts.backup
        && backup.metadata.deletion_timestamp.is_none()
        && backup::belongs(view, backup, lineage(view).as_deref())
    {
        let on = ObjectRef::observed(&kinds::STATUS_BACKUP, backup);
        plan.push(on, Act::Delete { orphan: false }, "leave no backup for a later namesake");
    }
    super::cleanup::remove_finalizer(view, &mut plan);
    plan
}

/// The lineage a restored cluster says it is of.
fn lineage(view: &View<'_>) -> Option<String> {
    view.annotation(ORIGIN).map(str::to_owned)
}

/// The backed-up status, made this object's own, if it can be used.
fn usable_backup(view: &View<'_>, trouble: &mut Trouble) -> Option<ClusterStatus> {
    if let Some(reason) = &view.facts.backup_unreadable {
        trouble.note(Reason::StatusBackupUnreadable, reason.clone());
        return None;
    }
    let found = view.facts.backup.as_ref().filter(|backup| backup.spec.status_backup.is_some());
    let Some(backup) = found else {
        note_absent_backup(view, trouble);
        return None;
    };
    if !backup::belongs(view, backup, lineage(view).as_deref()) {
        let theirs = backup.spec.status_backup.as_ref().and_then(|status| status.origin.as_deref()).unwrap_or_default();
        let text = format!(
            "KubeDirectorStatusBackup {} is of another kdcluster ({theirs}): delete it, or remove the label {RESTORING} \
             to rebuild this kdcluster from its spec",
            view.name()
        );
        trouble.note(Reason::StatusBackupOfAnotherCluster, text);
        return None;
    }
    Some(taken_over(view, backup))
}

fn taken_over(view: &View<'_>, backup: &KubeDirectorStatusBackup) -> ClusterStatus {
    let mut status = backup.spec.status_backup.clone().unwrap_or_default();
    status.restore_progress = None;
    status.conditions.clear();
    status.origin = status.origin.or_else(|| lineage(view)).or_else(|| Some(view.own_origin()));
    // What was observed of the generations of another object says nothing about this one's.
    status.observed_generation = None;
    status
}

fn note_absent_backup(view: &View<'_>, trouble: &mut Trouble) {
    let copied_from = view.annotation(ORIGIN).and_then(|origin| origin.split_once('/')).map(|(name, _)| name);
    if let Some(name) = copied_from.filter(|name| *name != view.name()) {
        let text = format!(
            "this kdcluster is a copy of {name} under another name, and no status backup has that name: remove the \
             annotation {STATUS_BACKUP_EXISTS} from the manifest, or the label {RESTORING} from this kdcluster, to build \
             it anew"
        );
        trouble.note(Reason::CopiedUnderAnotherName, text);
    } else if view.annotation(STATUS_BACKUP_EXISTS) == Some("false") {
        let text = format!(
            "status backups were not enabled when this kdcluster was captured, so it cannot recover by itself: remove \
             the label {RESTORING} to rebuild it from its spec"
        );
        trouble.note(Reason::StatusBackupNeverEnabled, text);
    } else {
        trouble.note(Reason::AwaitingStatusBackup, String::new());
    }
}

/// Every object the status and the spec name that is not there, as `kind/name`. Pods and claims are the
/// StatefulSet loop's business.
fn missing_resources(
    view: &View<'_>,
    status: &ClusterStatus,
    progress: &RestoreProgress,
    trouble: &mut Trouble,
) -> Vec<String> {
    let mut missing = Vec::new();
    let mut foreign = Vec::new();
    let mut expect = |kind: &str, name: &str, found: Option<&kube::api::ObjectMeta>, role: Option<&str>| match found {
        _ if name.is_empty() || name == NO_SERVICE => {}
        Some(metadata) if view.is_ours(metadata, role) => {}
        Some(_) => foreign.push(format!("{kind}/{name}")),
        None => missing.push(format!("{kind}/{name}")),
    };
    let service = |name: &str| view.facts.services.get(name).map(|service| &service.metadata);
    expect(kinds::SERVICE.kind, &status.cluster_service, service(&status.cluster_service), None);
    let services_may_be_made_again = waited_long(view, progress);
    for role in &status.roles {
        let set = view.facts.sets.get(&role.stateful_set).map(|set| &set.metadata);
        expect(kinds::STATEFUL_SET.kind, &role.stateful_set, set, Some(&role.id));
        // The service of a member on its way out may have been gone when the backup was taken.
        for member in role.members.iter().filter(|member| !member.state.leaving()) {
            let found = service(&member.service);
            if found.is_some() || !services_may_be_made_again {
                expect(kinds::SERVICE.kind, &member.service, found, Some(&role.id));
            }
        }
    }
    if !missing.is_empty() {
        trouble.note(Reason::AwaitingResources, String::new());
    }
    if !foreign.is_empty() {
        let text = format!(
            "the backed-up status names objects that do not carry this kdcluster's labels: {}",
            foreign.join(", ")
        );
        trouble.note(Reason::ForeignResources, text);
        missing.extend(foreign);
    }
    let optional =
        view.facts.config.as_ref().and_then(|config| config.allow_restore_without_connections).unwrap_or(false);
    if !optional && view.safeguards().wait_for_connections {
        let absent = view.facts.connections.iter().filter(|connection| connection.content.is_none());
        let absent: Vec<String> = absent.map(|connection| format!("{}/{}", connection.kind, connection.name)).collect();
        if !absent.is_empty() {
            trouble.note(Reason::AwaitingConnections, String::new());
        }
        missing.extend(absent);
    }
    missing
}

/// The restore has waited for member Services as long as it is allowed to.
fn waited_long(view: &View<'_>, progress: &RestoreProgress) -> bool {
    let Some(limit) = view.settings.service_wait_max else { return false };
    let since = progress.since.as_deref().and_then(|since| since.parse::<Timestamp>().ok());
    since.is_some_and(|since| {
        let waited = view.now.as_second().saturating_sub(since.as_second());
        u64::try_from(waited).is_ok_and(|waited| waited >= limit.as_secs())
    })
}

fn since(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

fn describe(view: &View<'_>, next: &mut ClusterStatus, progress: &RestoreProgress, reason: Reason) {
    let message = if !progress.error.is_empty() {
        progress.error.clone()
    } else if progress.missing.is_empty() {
        "everything is there".to_owned()
    } else {
        format!("waiting for {}", progress.missing.join(", "))
    };
    conditions::set(next, conditions::RESTORING, true, reason.as_str(), &message, view.now);
    conditions::set(next, conditions::READY, false, "Restoring", "the kdcluster is being restored", view.now);
}

/// Why a restore has not resumed. Later ones say more than earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    #[default]
    ReadyToResume,
    AwaitingConnections,
    AwaitingResources,
    AwaitingStatusBackup,
    AwaitingApp,
    StatusBackupUnreadable,
    ForeignResources,
    ResumeRefused,
    StatusBackupNeverEnabled,
    CopiedUnderAnotherName,
    StatusBackupOfAnotherCluster,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Reason::ReadyToResume => "ReadyToResume",
            Reason::AwaitingConnections => "AwaitingConnections",
            Reason::AwaitingResources => "AwaitingResources",
            Reason::AwaitingStatusBackup => "AwaitingStatusBackup",
            Reason::AwaitingApp => "AwaitingApp",
            Reason::StatusBackupUnreadable => "StatusBackupUnreadable",
            Reason::ForeignResources => "ForeignResources",
            Reason::ResumeRefused => "ResumeRefused",
            Reason::StatusBackupNeverEnabled => "StatusBackupNeverEnabled",
            Reason::CopiedUnderAnotherName => "CopiedUnderAnotherName",
            Reason::StatusBackupOfAnotherCluster => "StatusBackupOfAnotherCluster",
        }
    }
}

/// The weightiest reason noted, and its text if it is one that waiting alone will not cure.
#[derive(Debug, Default)]
struct Trouble {
    reason: Reason,
    text: String,
}

impl Trouble {
    fn note(&mut self, reason: Reason, text: String) {
        if reason >= self.reason {
            self.reason = reason;
            self.text = text;
        }
    }
}
