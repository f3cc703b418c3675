//! Roles and their StatefulSets.
//!
//! A StatefulSet that is not there is not a reason to remove its members: absence is not intent (B4). It is
//! made again under its old name, and finds its pods and claims by theirs.

use json_patch::Patch;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use serde_json::json;

use super::plan::{Act, ObjectRef};
use super::running::{Look, adoptable, create};
use super::status::{add, test};
use super::view::View;
use super::{children, members};
use crate::api::{KubeDirectorApp, MemberState, RoleStatus};
use crate::kinds;
use crate::names::{self, MEMBERS_MAX};

/// Brings every role's StatefulSet in line with the spec.
pub(super) fn reconcile(look: &mut Look<'_>, app: &KubeDirectorApp) {
    let view = look.view;
    let asked: Vec<String> = view.cluster.spec.roles.iter().map(|role| role.id.clone()).collect();
    let dropped: Vec<String> =
        look.next.roles.iter().map(|role| role.id.clone()).filter(|id| !asked.contains(id)).collect();
    for id in asked.iter().chain(&dropped) {
        one(look, app, id);
    }
}

fn one(look: &mut Look<'_>, app: &KubeDirectorApp, id: &str) {
    let view = look.view;
    let asked = view.role(id).and_then(|role| role.members).unwrap_or_default();
    if usize::try_from(asked).is_ok_and(|asked| asked > MEMBERS_MAX) {
        look.problem("TooManyMembers", format!("role {id} asks for {asked} members, more than {MEMBERS_MAX}"));
    }
    let known = look.next.roles.iter().position(|role| role.id == id);
    let named = known.map(|index| look.next.roles[index].stateful_set.clone()).unwrap_or_default();
    let found = match view.facts.sets.get(&named) {
        Some(set) if view.is_ours(&set.metadata, Some(id)) => Some(set),
        Some(_) => {
            return look
                .problem("ForeignObject", format!("StatefulSet {named} does not carry this kdcluster's labels"));
        }
        None if named.is_empty() => match adopt(look, id) {
            Ok(found) => found,
            Err(sentence) => return look.problem("AmbiguousObjects", sentence),
        },
        None => None,
    };
    match found {
        None => without_set(look, app, id, known, &named),
        Some(set) => with_set(look, app, id, known, set),
    }
}

/// The one unnamed StatefulSet with this role's labels, if there is exactly one.
fn adopt<'a>(look: &Look<'a>, id: &str) -> Result<Option<&'a StatefulSet>, String> {
    let view = look.view;
    let candidates: Vec<&StatefulSet> = view
        .facts
        .sets
        .values()
        .filter(|set| {
            let labels = set.labels();
            labels.get(names::CLUSTER).is_some_and(|cluster| cluster == view.name())
                && labels.get(names::ROLE).is_some_and(|role| role == id)
                && adoptable(&view, &set.metadata)
        })
        .collect();
    match candidates.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let names: Vec<String> = several.iter().map(|set| set.name_any()).collect();
            Err(format!("several StatefulSets could be role {id}'s: {}", names.join(", ")))
        }
    }
}

fn without_set(look: &mut Look<'_>, app: &KubeDirectorApp, id: &str, known: Option<usize>, named: &str) {
    let view = look.view;
    let wanted = view.members_wanted(id);
    if let Some(index) = known {
        let role = &mut look.next.roles[index];
        if named.is_empty() {
            // Members of a StatefulSet without a name are nobody's.
            role.members.clear();
        } else if !role.members.is_empty() && !view.safeguards().keep_claims_on_lost_set {
            for member in role.members.iter_mut().filter(|member| !member.state.leaving()) {
                member.state = match member.state {
                    MemberState::Configured | MemberState::ConfigError => MemberState::DeletePending,
                    _ => MemberState::Deleting,
                };
                look.membership_changed = true;
            }
            return members::remove_leaving(look, index);
        }
        members::remove_leaving(look, index);
        if look.next.roles[index].members.is_empty() && wanted == 0 {
            look.next.roles.remove(index);
            return;
        }
    }
    let Some(role) = view.role(id) else { return };
    let headless = look.next.cluster_service.clone();
    let staying = known.map_or(0, |index| {
        look.next.roles[index].members.iter().filter(|member| member.state != MemberState::Deleting).count()
    });
    if wanted == 0 && staying == 0 {
        return;
    }
    let name = (!named.is_empty()).then_some(named);
    let set = children::stateful_set(&view, app, role, &headless, name, staying);
    let purpose = if name.is_some() { "make the role's StatefulSet again" } else { "run the role" };
    create(look, &kinds::STATEFUL_SET, named, set, purpose);
}

fn with_set(look: &mut Look<'_>, app: &KubeDirectorApp, id: &str, known: Option<usize>, set: &StatefulSet) {
    let view = look.view;
    let index = known.unwrap_or_else(|| {
        look.next.roles.push(RoleStatus { id: id.to_owned(), ..RoleStatus::default() });
        look.next.roles.len() - 1
    });
    if set.metadata.deletion_timestamp.is_some() {
        look.early.waiting_for.push(format!("StatefulSet {} to go", set.name_any()));
        look.unsettled = true;
        return;
    }
    look.keep_owner(&kinds::STATEFUL_SET, set);
    if look.next.roles[index].stateful_set.is_empty() {
        take_in(look, index, set);
    }
    let unwanted = view.safeguards().clean_claim_template && view.safeguards().replace_stale_template;
    if unwanted && template_names_an_owner(set) && selects_the_same(&view, app, set, id) {
        let on = ObjectRef::observed(&kinds::STATEFUL_SET, set);
        look.early.push(on, Act::Delete { orphan: true }, "make it again without an owner in its claim template");
        look.unsettled = true;
        return;
    }
    members::resize(look, index);
    members::remove_leaving(look, index);
    if look.next.roles[index].members.is_empty() && view.members_wanted(id) == 0 {
        let on = ObjectRef::observed(&kinds::STATEFUL_SET, set);
        look.late.push(on, Act::Delete { orphan: false }, "end the role");
        look.unsettled = true;
        return;
    }
    scale(look, index, set);
}

/// Names a StatefulSet in the status, with a member for each of its replicas.
fn take_in(look: &mut Look<'_>, index: usize, set: &StatefulSet) {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
    let role = &mut look.next.roles[index];
    role.stateful_set = set.name_any();
    role.members.clear();
    for _ in 0..replicas {
        members::add(look, index);
    }
}

/// Sets the replica count: every member but those already being removed.
fn scale(look: &mut Look<'_>, index: usize, set: &StatefulSet) {
    let members = &look.next.roles[index].members;
    let wanted = members.iter().rposition(|member| member.state != MemberState::Deleting).map_or(0, |last| last + 1);
    let spec = set.spec.as_ref();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or_default();
    if usize::try_from(replicas).unwrap_or_default() != wanted {
        let patch = Patch(vec![
            test(["metadata", "uid"], json!(set.metadata.uid)),
            test(["spec", "replicas"], json!(replicas)),
            add(["spec", "replicas"], json!(wanted)),
        ]);
        look.late.push(
            ObjectRef::observed(&kinds::STATEFUL_SET, set),
            Act::Patch(patch),
            "have as many pods as members",
        );
        look.unsettled = true;
    }
}

/// One made again would find the pods of this one: it selects by the same labels.
fn selects_the_same(view: &View<'_>, app: &KubeDirectorApp, set: &StatefulSet, id: &str) -> bool {
    let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    view.role(id).is_some_and(|role| selected == Some(&children::pod_labels(view, app, role)))
}

fn template_names_an_owner(set: &StatefulSet) -> bool {
    let templates = set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_ref());
    templates
        .into_iter()
        .flatten()
        .any(|template| template.metadata.owner_references.as_ref().is_some_and(|references| !references.is_empty()))
}
