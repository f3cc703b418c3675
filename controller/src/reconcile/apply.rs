//! The only writer. One change is one request, or one action in a guest.

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy, Request};
use serde_json::{Value, json};

use super::plan::{Act, Change, ObjectRef};
use crate::error::Error;
use crate::guest::{self, Guest, PodRef};
use crate::kinds;
use crate::names::FIELD_MANAGER;

/// Carries out one change.
///
/// # Errors
/// The server refused it (a precondition that does not hold among the reasons), or the guest did.
pub(super) async fn apply(client: &Client, guest: &dyn Guest, change: &Change) -> Result<(), Error> {
    let on = &change.on;
    let requests = Request::new(on.kind.collection(on.namespace.as_deref()));
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let request = match &change.act {
        Act::Guest { container, action } => {
            let pod = PodRef { namespace: on.namespace.clone().unwrap_or_default(), name: on.name.clone() };
            return Ok(guest::act(guest, &pod, container, action).await?);
        }
        Act::Create(object) => {
            let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
            requests.create(&params, object.to_string().into_bytes())
        }
        Act::Merge(patch) => requests.patch(&on.name, &params, &Patch::Merge(with_preconditions(on, patch))),
        Act::Patch(patch) => requests.patch(&on.name, &params, &Patch::<()>::Json(patch.clone())),
        Act::PatchStatus(patch) => {
            requests.patch_subresource("status", &on.name, &params, &Patch::<()>::Json(patch.clone()))
        }
        Act::Apply(object) => requests.patch(&on.name, &params.force(), &Patch::Apply(object)),
        Act::Delete { orphan } => requests.delete(&on.name, &delete_params(on, *orphan)),
    };
    let request = request.map_err(|error| Error::Request { what: change.to_string(), reason: error.to_string() })?;
    match client.request::<Value>(request).await {
        Err(error) if *on.kind == kinds::EVENT => {
            // Events are told once and to whoever listens. Losing one must not keep anything else from happening.
            tracing::debug!(%change, %error, "event not recorded");
            Ok(())
        }
        answer => answer.map(drop).map_err(Error::api(change.to_string())),
    }
}

fn delete_params(on: &ObjectRef, orphan: bool) -> DeleteParams {
    let policy = if orphan { PropagationPolicy::Orphan } else { PropagationPolicy::Background };
    let preconditions = Preconditions { uid: on.uid.clone(), resource_version: on.resource_version.clone() };
    DeleteParams { propagation_policy: Some(policy), preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// A merge patch whose metadata names uid and resourceVersion is refused if they are no longer so.
fn with_preconditions(on: &ObjectRef, patch: &Value) -> Value {
    let mut patch = patch.clone();
    if on.uid.is_none() && on.resource_version.is_none() {
        return patch;
    }
    let metadata = &mut patch["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    if let Some(uid) = &on.uid {
        metadata["uid"] = json!(uid);
    }
    if let Some(version) = &on.resource_version {
        metadata["resourceVersion"] = json!(version);
    }
    patch
}
