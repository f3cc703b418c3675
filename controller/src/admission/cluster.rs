//! Verdicts on KubeDirectorClusters, in the order of the table in KubeDirector's `admitClusterCR`.

use json_patch::Patch;
use kube::ResourceExt;
use serde_json::json;

use super::facts::Facts;
use super::request::{Operation, Request};
use super::validate;
use super::verdict::Verdict;
use crate::api::{ClusterSpec, ClusterStatus, KubeDirectorCluster};
use crate::names::{ALLOW_DELETE_WHILE_RESTORING, FINALIZER, RESTORING, STATUS_BACKUP_EXISTS};
use crate::reconcile::status::add;
use crate::settings::Settings;

/// The verdict on a request for a cluster.
pub(super) fn judge(request: &Request, facts: &Facts, settings: &Settings) -> Verdict {
    match sort(request, settings) {
        Sorted::Decided(verdict) => verdict,
        Sorted::DeleteWhileRestoring => delete_while_restoring(facts),
        Sorted::Validate { old, new } => validate(old.as_deref(), &new, facts, settings),
    }
}

/// The verdict depends on whether the namespace is going.
pub(super) fn needs_namespace(request: &Request, settings: &Settings) -> bool {
    matches!(sort(request, settings), Sorted::DeleteWhileRestoring)
}

/// The spec that has to be validated, if it has to.
pub(super) fn to_validate(request: &Request, settings: &Settings) -> Option<ClusterSpec> {
    match sort(request, settings) {
        Sorted::Validate { new, .. } => Some(new.spec),
        _ => None,
    }
}

/// What kind of request it is.
enum Sorted {
    /// The request alone decides.
    Decided(Verdict),
    DeleteWhileRestoring,
    /// A new cluster, a change of the spec, or the end of a restore.
    Validate {
        old: Option<Box<KubeDirectorCluster>>,
        new: Box<KubeDirectorCluster>,
    },
}

fn sort(request: &Request, settings: &Settings) -> Sorted {
    sorted(request, settings).unwrap_or_else(|reason| Sorted::Decided(Verdict::refuse(reason)))
}

fn sorted(request: &Request, settings: &Settings) -> Result<Sorted, String> {
    let safeguards = &settings.safeguards;
    let old: Option<KubeDirectorCluster> =
        if request.operation == Operation::Create { None } else { Some(request.old_as()?) };
    let restoring = old.as_ref().is_some_and(is_restoring);
    if request.operation == Operation::Delete {
        let may_go = old.as_ref().is_some_and(|old| old.labels().contains_key(ALLOW_DELETE_WHILE_RESTORING));
        if restoring && !may_go && safeguards.guard_while_restoring {
            return Ok(Sorted::DeleteWhileRestoring);
        }
        return Ok(Sorted::Decided(Verdict::allow()));
    }
    let new: KubeDirectorCluster = request.new_as()?;
    let Some(old) = old else {
        let restored = if safeguards.detect_by_annotation {
            new.annotations().contains_key(STATUS_BACKUP_EXISTS)
        } else {
            new.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
        };
        if restored {
            return Ok(Sorted::Decided(Verdict::Allow(labelled(&new))));
        }
        if new.status.is_some() {
            return Err("status is read-only: leave it out".to_owned());
        }
        return Ok(Sorted::Validate { old: None, new: Box::new(new) });
    };
    let spec_differs = old.spec != new.spec;
    if restoring && spec_differs && safeguards.guard_while_restoring {
        return Err(format!("the spec cannot be changed while the label {RESTORING} exists"));
    }
    let ends_restore = restoring && !is_restoring(&new);
    let asks_for_validation = spec_differs || (ends_restore && safeguards.validate_on_resume);
    if !asks_for_validation {
        // Whatever else changes, among it the controller's own metadata, is nobody's business here.
        return Ok(Sorted::Decided(Verdict::allow()));
    }
    Ok(Sorted::Validate { old: Some(Box::new(old)), new: Box::new(new) })
}

fn is_restoring(cluster: &KubeDirectorCluster) -> bool {
    cluster.labels().contains_key(RESTORING)
}

/// Puts the label on a restored cluster.
fn labelled(new: &KubeDirectorCluster) -> Patch {
    match &new.metadata.labels {
        None => Patch(vec![add(["metadata", "labels"], json!({RESTORING: ""}))]),
        Some(labels) if labels.contains_key(RESTORING) => Patch(Vec::new()),
        Some(_) => Patch(vec![add(["metadata", "labels", RESTORING], json!(""))]),
    }
}

fn delete_while_restoring(facts: &Facts) -> Verdict {
    if facts.namespace_terminating {
        // Refusing would keep the namespace for ever.
        return Verdict::allow();
    }
    Verdict::refuse(format!(
        "cannot be deleted while the label {RESTORING} exists, because objects restored later would stay behind; the \
         label {ALLOW_DELETE_WHILE_RESTORING} permits it nevertheless"
    ))
}

fn validate(
    old: Option<&KubeDirectorCluster>,
    new: &KubeDirectorCluster,
    facts: &Facts,
    settings: &Settings,
) -> Verdict {
    let Some(app) = &facts.app else {
        return Verdict::refuse(format!("spec.app: KubeDirectorApp {} does not exist", new.spec.app));
    };
    let mut complaints = Vec::new();
    if let Some(old) = old {
        complaints.extend(too_early(old, old.spec != new.spec, settings));
    }
    if old.is_none() && new.name_any().len() > validate::LABEL_MAX {
        // It becomes a label of everything the cluster owns.
        complaints.push(format!("metadata.name: longer than {} characters", validate::LABEL_MAX));
    }
    let defaulted = validate::with_defaults(new, app, facts);
    complaints.extend(validate::complaints(&defaulted.spec, app, facts));
    if let Some(old) = old {
        let immutable = immutable_changes(old, &defaulted.spec);
        if !immutable.is_empty() {
            complaints = immutable;
        }
    }
    Verdict::of(complaints, defaulted.patch)
}

/// A change may come too early: before the controller has looked at the last one, or while members are still to
/// be told about it. A restore that ends changes nothing; what members are still to be told survives it.
fn too_early(old: &KubeDirectorCluster, spec_differs: bool, settings: &Settings) -> Option<String> {
    let Some(status) = &old.status else {
        return Some("the controller has not looked at this kdcluster yet; try again later".to_owned());
    };
    if spec_differs && status.observed_generation.zip(old.metadata.generation).is_some_and(|(seen, now)| seen < now) {
        return Some("the last change of the spec has not been taken up yet; try again later".to_owned());
    }
    let asks = spec_differs || !settings.safeguards.skip_pending_check_on_resume;
    (asks && has_pending(status))
        .then(|| "members are still to be notified of the last change; try again later".to_owned())
}

fn has_pending(status: &ClusterStatus) -> bool {
    let members = status.roles.iter().flat_map(|role| &role.members);
    members.into_iter().any(|member| !member.state_detail.pending_notify_cmds.is_empty())
}

/// Of a role that runs, only the number of members may change; the app not at all.
fn immutable_changes(old: &KubeDirectorCluster, new: &ClusterSpec) -> Vec<String> {
    let mut complaints = Vec::new();
    if old.spec.app != new.app {
        complaints.push("spec.app: cannot be changed".to_owned());
    }
    if old.spec.app_catalog.is_some() && old.spec.app_catalog != new.app_catalog {
        complaints.push("spec.appCatalog: cannot be changed".to_owned());
    }
    let running = old.status.iter().flat_map(|status| &status.roles);
    for id in running.map(|role| role.id.as_str()) {
        let before = old.spec.roles.iter().find(|role| role.id == id);
        let after = new.roles.iter().find(|role| role.id == id);
        match (before, after) {
            (Some(before), Some(after)) => {
                let mut same_size = after.clone();
                same_size.members = before.members;
                if same_size != *before {
                    complaints.push(format!("spec.roles[{id}]: only members can be changed while the role runs"));
                }
            }
            (None, Some(_)) => {
                complaints.push(format!("spec.roles[{id}]: the role is still being removed; try again later"));
            }
            (_, None) => {}
        }
    }
    complaints
}
