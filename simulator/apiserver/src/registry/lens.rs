//! Subresources that speak another kind than their object: `scale`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::scope::Scope;
use super::state::State;
use super::{create, manage};
use crate::builtin::scale::{self, ScalePaths};
use crate::error::ApiError;
use crate::object::Object;
use crate::resource::Resource;

/// How a request sees an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lens {
    /// As it is.
    Whole,
    /// As a `Scale`.
    Scale(ScalePaths),
}

impl Lens {
    /// The view that a request asks for.
    ///
    /// # Errors
    /// 404 when the object has no such view.
    pub(crate) fn of(scope: &Scope) -> Result<Self, ApiError> {
        if scope.subresource != "scale" {
            return Ok(Self::Whole);
        }
        Self::scale(&scope.resource)
    }

    /// The view as a `Scale`.
    ///
    /// # Errors
    /// 404 when the object has no such view.
    pub(crate) fn scale(resource: &Resource) -> Result<Self, ApiError> {
        scale::paths(resource).map(Self::Scale).ok_or_else(ApiError::no_such_path)
    }

    pub(crate) fn is_whole(&self) -> bool {
        *self == Self::Whole
    }

    /// The object as the request sees it.
    pub(crate) fn read(&self, object: &Object) -> Object {
        match self {
            Self::Whole => Arc::clone(object),
            Self::Scale(paths) => Arc::new(scale::read(object, paths)),
        }
    }

    /// The whole object after a change of the view.
    ///
    /// # Errors
    /// 422 when the view does not validate.
    pub(crate) fn write(&self, state: &State, scope: &Scope, view: Object, live: &Object, now: Timestamp) -> Result<Object, ApiError> {
        match self {
            Self::Whole => Ok(view),
            Self::Scale(paths) => {
                create::refuse(scope, &scope.name, &scale::validate(&view, &scope.resource))?;
                let mut object = Value::clone(live);
                scale::write(&mut object, &view, paths);
                manage::on_write(state, scope, Some(live), &mut object, now);
                Ok(Arc::new(object))
            }
        }
    }
}
