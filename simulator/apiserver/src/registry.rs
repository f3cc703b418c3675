//! One request, from decoding to commit: the only write path.
//!
//! A request is understood once ([`scope::Scope`]) and goes to the file of its verb. Writes run in
//! stages, each with its own type, so that none is left out:
//!
//! ```text
//! create             decode -> mutating -> prepare, validate -> validating -> commit
//! update, patch      read -> change -> mutating -> prepare, validate -> validating -> commit
//! delete             read -> preconditions -> mutating, validating -> mark or remove
//! ```
//!
//! `mutating` and `validating` are [`Chain`]s, which may wait for a webhook. A write that waits is a
//! [`Write`]: plain data that holds nothing of the store. At commit the object must still be what the
//! write was worked out from; otherwise the write begins again, as upstream's `GuaranteedUpdate` does.
//!
//! Source of the order of steps: `k8s.io/apiserver/pkg/endpoints/handlers/*.go` and
//! `k8s.io/apiserver/pkg/registry/generic/registry/store.go`.

use jiff::Timestamp;

use crate::admission::{self, Chain, Step};
use crate::control_plane::{Paused, Progress, WebhookAnswer};
use crate::error::ApiError;
use crate::request::{Answer, Request, Response, Verb};

pub(crate) mod action;
pub(crate) mod bootstrap;
pub(crate) mod create;
pub(crate) mod custom;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod kinds;
pub(crate) mod lens;
pub(crate) mod list;
pub(crate) mod manage;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod scope;
pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

use scope::Scope;
use state::State;

/// A write between two phases of admission.
#[derive(Clone)]
pub(crate) enum Write {
    /// A create whose object is being mutated.
    Create(Box<create::Decoded>),
    /// A create whose object is being validated by admission.
    Created(Box<create::Validated>),
    /// An update whose object is being mutated.
    Update(Box<update::Changed>),
    /// An update whose object is being validated by admission.
    Updated(Box<update::Validated>),
    /// An action in its mutating phase.
    Act(Box<action::Action>),
    /// An action in its validating phase.
    Acted(Box<action::Action>),
    /// A deletion in its mutating phase.
    Delete(Box<delete::Found>),
    /// A deletion in its validating phase.
    Deleted(Box<delete::Found>),
}

/// What a stage leads to.
pub(crate) enum Next {
    /// Admission, then the next stage.
    Admit(Chain, Write),
    /// The end.
    Done(Response),
}

/// Runs a request until it is answered or waits for a webhook.
pub(crate) fn begin(state: &mut State, request: Request, now: Timestamp) -> Progress {
    let verb = request.verb;
    if verb != Verb::Watch
        && let Err(error) = options::check_timeout(&request.options)
    {
        return Progress::Done(error.into());
    }
    let answer = match verb {
        Verb::Get => read::get(state, &request).map(Next::Done),
        Verb::List => list::list(state, &request).map(Next::Done),
        Verb::Watch => watch::watch(state, &request, now).map(Next::Done),
        Verb::Create => create::begin(state, request, now),
        Verb::Update => update::begin(state, request, now),
        Verb::Patch => patch::begin(state, request, now),
        Verb::DeleteCollection if request.name.is_empty() => return delete_collection::begin(state, request, now),
        Verb::Delete | Verb::DeleteCollection => delete::begin(state, &request),
    };
    match answer {
        Ok(next) => run(state, next, now),
        Err(error) => Progress::Done(error.into()),
    }
}

/// Goes on after a webhook answered.
pub(crate) fn resume(state: &mut State, paused: Paused, answer: &WebhookAnswer, now: Timestamp) -> Progress {
    let Paused { mut chain, write, collection } = paused;
    let step = chain.answer(answer, &mut state.admission());
    let progress = admit(state, chain, write, step, now);
    match collection {
        Some(collection) => delete_collection::resume(state, collection, progress, now),
        None => progress,
    }
}

/// Runs stages until the end or a webhook.
fn run(state: &mut State, next: Next, now: Timestamp) -> Progress {
    match next {
        Next::Done(response) => Progress::Done(response),
        Next::Admit(mut chain, write) => {
            let step = chain.begin(&mut state.admission());
            admit(state, chain, write, step, now)
        }
    }
}

fn admit(
    state: &mut State,
    mut chain: Chain,
    mut write: Write,
    mut step: Result<Step, ApiError>,
    now: Timestamp,
) -> Progress {
    loop {
        match step {
            Ok(Step::Ask(call)) => {
                return Progress::Ask(call, Box::new(Paused { chain, write, collection: None }));
            }
            Ok(Step::Admitted) => {}
            Err(error) => {
                let mut warnings = write.into_scope().warnings;
                warnings.extend_from_slice(chain.warnings());
                return Progress::Done(Response { warnings, ..error.into() });
            }
        }
        let (attributes, warnings) = chain.finish();
        let scope = write.scope_mut();
        scope.warnings.extend(warnings);
        let given = scope.warnings.clone();
        match advance(state, write, attributes, now) {
            Ok(Next::Done(response)) => return Progress::Done(response),
            Ok(Next::Admit(next, then)) => {
                (chain, write) = (next, then);
                step = chain.begin(&mut state.admission());
            }
            Err(error) => return Progress::Done(Response { warnings: given, ..error.into() }),
        }
    }
}

/// The stage after a phase of admission.
fn advance(
    state: &mut State,
    write: Write,
    attributes: admission::Attributes,
    now: Timestamp,
) -> Result<Next, ApiError> {
    match write {
        Write::Create(decoded) => create::mutated(state, *decoded, attributes, now),
        Write::Created(validated) => create::admitted(state, *validated),
        Write::Update(changed) => update::mutated(state, *changed, attributes, now),
        Write::Updated(validated) => update::admitted(state, *validated, now),
        Write::Act(action) => action::mutated(*action, attributes),
        Write::Acted(action) => action::admitted(state, *action, now),
        Write::Delete(found) => Ok(delete::mutated(*found, attributes)),
        Write::Deleted(found) => delete::admitted(state, *found, now),
    }
}

impl Write {
    fn scope_mut(&mut self) -> &mut Scope {
        match self {
            Self::Create(stage) => &mut stage.scope,
            Self::Created(stage) => &mut stage.scope,
            Self::Update(stage) => &mut stage.scope,
            Self::Updated(stage) => &mut stage.changed.scope,
            Self::Act(stage) | Self::Acted(stage) => &mut stage.scope,
            Self::Delete(stage) | Self::Deleted(stage) => &mut stage.scope,
        }
    }

    fn into_scope(mut self) -> Scope {
        self.scope_mut().clone()
    }
}

/// An answer with an object.
fn answer(code: u16, object: crate::object::Object, warnings: Vec<String>) -> Response {
    Response { code, warnings, body: Answer::Object(object) }
}
