//! Get.

use super::kinds;
use super::lens::Lens;
use super::list::version_parameter;
use super::scope;
use super::state::State;
use crate::error::ApiError;
use crate::request::{Request, Response};

pub(crate) fn get(state: &State, request: &Request) -> Result<Response, ApiError> {
    let resource = scope::resource(state, request)?;
    let asked = version_parameter(&request.options)?;
    if let Some(version) = asked {
        super::list::refuse_future(state, version)?;
    }
    let stored = state
        .store
        .get(&resource.group_resource, &request.namespace, &request.name)
        .ok_or_else(|| ApiError::not_found(&resource.group_resource, &request.name))?;
    let object = kinds::to_version(stored, &resource);
    let object = if request.subresource == "scale" { Lens::scale(&resource)?.read(&object) } else { object };
    Ok(super::answer(200, object, super::custom::warning(&resource).into_iter().collect()))
}
