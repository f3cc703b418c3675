//! Subresources that are actions: `pods/eviction`, `pods/binding`, `serviceaccounts/token`.

use std::sync::Arc;

use jiff::Timestamp;

use super::scope::Scope;
use super::state::State;
use super::{Next, Write, answer, create, decode, delete};
use crate::admission::{Attributes, Chain, Operation};
use crate::builtin::actions;
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::request::{Answer, Request, Response};
use crate::store::{Change, same_but_version};

/// An action on its way through admission.
#[derive(Clone)]
pub(crate) struct Action {
    pub(crate) scope: Scope,
    body: Object,
}

pub(crate) fn begin(mut scope: Scope, request: Request) -> Result<Next, ApiError> {
    let decoded = decode::object(&scope, request.body)?;
    scope.warnings.extend(decoded.warnings);
    let mut object = decoded.object;
    decode::match_namespace(&scope.resource, &scope.namespace, &mut object)?;
    let attributes = scope.attributes(Operation::Create, Some(Arc::new(object)), None);
    let action = Action { scope, body: Arc::default() };
    Ok(Next::Admit(Chain::mutating(attributes), Write::Act(Box::new(action))))
}

pub(crate) fn mutated(mut action: Action, attributes: Attributes) -> Result<Next, ApiError> {
    let Some(body) = attributes.object else { return Err(ApiError::internal("an action without an object")) };
    action.body = Arc::clone(&body);
    let attributes = action.scope.attributes(Operation::Create, Some(body), None);
    Ok(Next::Admit(Chain::validating(attributes), Write::Acted(Box::new(action))))
}

pub(crate) fn admitted(state: &mut State, action: Action, now: Timestamp) -> Result<Next, ApiError> {
    let Action { scope, body } = action;
    let name = if scope.name.is_empty() { body.name() } else { &scope.name };
    let resource = Arc::clone(&scope.resource);
    let mut context = state.strategy_context(&resource, &scope.subresource, now);
    let plan = actions::plan(&scope.namespace, name, &body, &mut context)?;
    for write in plan.writes {
        match write {
            actions::Write::Update(of, object) => {
                let stored = state.store.get(&of, object.namespace(), object.name()).cloned();
                let Some(stored) = stored else { return Err(ApiError::not_found(&of, object.name())) };
                if !scope.options.dry_run && !same_but_version(&object, &stored) {
                    create::check_size(&object)?;
                    state.commit(&of, Change::Put(Arc::new(object)), &scope.by);
                }
            }
            actions::Write::Delete(of, namespace, name, options) => {
                delete::without_admission(state, &scope, &of, &namespace, &name, &options, now)?;
            }
        }
    }
    let code = if plan.code == 0 { 201 } else { plan.code };
    if plan.answer.is_null() {
        return Ok(Next::Done(answer(code, body, scope.warnings)));
    }
    Ok(Next::Done(Response { code, warnings: scope.warnings, body: Answer::Json(plan.answer) }))
}
