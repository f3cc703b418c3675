//! Deletecollection: a delete for each object that the selectors choose.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;

use super::list::{self, Selection};
use super::state::State;
use super::{delete, scope};
use crate::control_plane::Progress;
use crate::error::ApiError;
use crate::object::ObjectExt;
use crate::request::{Answer, List, Request, Response};

/// A collection that is being deleted.
#[derive(Clone)]
pub(crate) struct Collection {
    /// The delete of one object, but for its name.
    request: Request,
    /// Namespaces and names of objects still to be deleted.
    left: VecDeque<(String, String)>,
    /// What is answered in the end: the list as it was found.
    found: List,
}

pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Progress {
    match find(state, request) {
        Ok(collection) => go_on(state, collection, now),
        Err(error) => Progress::Done(error.into()),
    }
}

fn find(state: &State, request: Request) -> Result<Collection, ApiError> {
    let resource = scope::resource(state, &request)?;
    delete::options(&request)?;
    let selection = Selection::parse(&resource, &request.options)?;
    let objects = state.store.list(&resource.group_resource, &request.namespace);
    let objects: Vec<_> = objects.filter(|object| selection.matches(object)).cloned().collect();
    let left = objects.iter().map(|object| (object.namespace().to_owned(), object.name().to_owned())).collect();
    let found = list::body(&resource, &objects, state.store.revision(), None);
    Ok(Collection { request, left, found })
}

/// Deletes one object after the other. The first refusal ends it, except that an object which is gone
/// meanwhile is no matter.
fn go_on(state: &mut State, mut collection: Collection, now: Timestamp) -> Progress {
    while let Some((namespace, name)) = collection.left.pop_front() {
        let request = Request { namespace, name, ..collection.request.clone() };
        match super::begin(state, request, now) {
            Progress::Done(response) if response.is_success() || response.code == 404 => {}
            Progress::Done(refused) => return Progress::Done(refused),
            Progress::Ask(call, mut paused) => {
                paused.collection = Some(Arc::new(collection));
                return Progress::Ask(call, paused);
            }
        }
    }
    Progress::Done(Response { code: 200, warnings: Vec::new(), body: Answer::List(collection.found) })
}

/// After the delete of one object went on.
pub(crate) fn resume(state: &mut State, collection: Arc<Collection>, progress: Progress, now: Timestamp) -> Progress {
    match progress {
        Progress::Ask(call, mut paused) => {
            paused.collection = Some(collection);
            Progress::Ask(call, paused)
        }
        Progress::Done(response) if response.is_success() || response.code == 404 => {
            go_on(state, Arc::unwrap_or_clone(collection), now)
        }
        refused @ Progress::Done(_) => refused,
    }
}
