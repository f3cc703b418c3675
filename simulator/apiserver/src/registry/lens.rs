//! Subresources that speak another kind than their object: `scale`.

use std::sync::Arc;

use serde_json::Value;

use super::create;
use super::scope::Scope;
use crate::builtin::scale::{self, ScalePaths};
use crate::error::ApiError;
use crate::managed_fields::scale::{Replicas, entries_of_parent, entries_of_scale};
use crate::object::{Object, set_meta};
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

    /// The object as a change of it starts from: a view then has its share of `managedFields`.
    pub(crate) fn read_to_change(&self, scope: &Scope, object: &Object) -> Object {
        match self {
            Self::Whole => Arc::clone(object),
            Self::Scale(paths) => {
                let mut view = scale::read(object, paths);
                let entries = with_replicas(scope, paths, |replicas| entries_of_scale(object, replicas));
                set_meta(&mut view, "managedFields", entries);
                Arc::new(view)
            }
        }
    }

    /// The whole object after a change of the view.
    ///
    /// # Errors
    /// 422 when the view does not validate.
    pub(crate) fn write(&self, scope: &Scope, view: Object, live: &Object) -> Result<Object, ApiError> {
        match self {
            Self::Whole => Ok(view),
            Self::Scale(paths) => {
                create::refuse(scope, &scope.name, &scale::validate(&view, &scope.resource))?;
                let mut object = Value::clone(live);
                scale::write(&mut object, &view, paths);
                let managed = &view["metadata"]["managedFields"];
                let entries = with_replicas(scope, paths, |replicas| entries_of_parent(live, managed, replicas));
                set_meta(&mut object, "managedFields", entries);
                Ok(Arc::new(object))
            }
        }
    }
}

fn with_replicas(scope: &Scope, paths: &ScalePaths, entries: impl FnOnce(Replicas<'_>) -> Value) -> Value {
    let path: Vec<&str> = paths.spec_replicas.split('.').filter(|step| !step.is_empty()).collect();
    entries(Replicas { api_version: &scope.resource.api_version(), path: &path })
}
