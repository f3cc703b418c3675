//! Verdicts on KubeDirectorApps. An app in use is neither changed nor deleted; who uses it is looked up, not
//! remembered.

use std::collections::BTreeSet;

use super::facts::{Facts, users};
use super::request::{Operation, Request};
use super::verdict::Verdict;
use crate::api::{AppSpec, KubeDirectorApp};
use crate::settings::Settings;

/// The verdict on a request for an app.
pub(super) fn judge(request: &Request, facts: &Facts, settings: &Settings) -> Verdict {
    let users = users(facts, settings, &request.namespace, &request.name);
    if request.operation == Operation::Delete {
        if users.is_empty() || facts.namespace_terminating {
            return Verdict::allow();
        }
        return Verdict::refuse(format!("cannot be deleted while kdclusters use it: {}", users.join(", ")));
    }
    let new: KubeDirectorApp = match request.new_as() {
        Ok(new) => new,
        Err(reason) => return Verdict::refuse(reason),
    };
    if request.operation == Operation::Update && !users.is_empty() {
        match request.old_as::<KubeDirectorApp>() {
            Ok(old) if old.spec == new.spec => {}
            Ok(_) => {
                return Verdict::refuse(format!("cannot be changed while kdclusters use it: {}", users.join(", ")));
            }
            Err(reason) => return Verdict::refuse(reason),
        }
    }
    Verdict::of(complaints(&new.spec), json_patch::Patch(Vec::new()))
}

fn complaints(spec: &AppSpec) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut roles = BTreeSet::new();
    for role in &spec.roles {
        if !roles.insert(role.id.as_str()) {
            complaints.push(format!("spec.roles[{}]: the role is listed twice", role.id));
        }
        if spec.image(role).is_none() {
            complaints.push(format!("spec.roles[{}]: neither the role nor the app names an image", role.id));
        }
        let terminal = role.container_spec.as_ref();
        if terminal.is_some_and(|terminal| terminal.tty == Some(true) && terminal.stdin != Some(true)) {
            complaints.push(format!("spec.roles[{}].containerSpec: tty needs stdin", role.id));
        }
    }
    let mut services = BTreeSet::new();
    for service in &spec.services {
        if !services.insert(service.id.as_str()) {
            complaints.push(format!("spec.services[{}]: the service is listed twice", service.id));
        }
        let dashboard = service.endpoint.as_ref().filter(|endpoint| endpoint.is_dashboard == Some(true));
        if dashboard.is_some_and(|endpoint| endpoint.url_scheme.is_none()) {
            complaints.push(format!("spec.services[{}].endpoint: a dashboard needs a urlScheme", service.id));
        }
    }
    for id in spec.config.selected_roles.iter().filter(|id| !roles.contains(id.as_str())) {
        complaints.push(format!("spec.config.selectedRoles: there is no role {id}"));
    }
    for offered in &spec.config.role_services {
        if !roles.contains(offered.role_id.as_str()) {
            complaints.push(format!("spec.config.roleServices: there is no role {}", offered.role_id));
        }
        for id in offered.service_ids.iter().filter(|id| !services.contains(id.as_str())) {
            complaints.push(format!("spec.config.roleServices[{}]: there is no service {id}", offered.role_id));
        }
    }
    complaints
}
