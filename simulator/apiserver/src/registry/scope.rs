//! What a request is about, found out once: resource, names, user, options.

use std::sync::Arc;

use serde_json::Value;

use super::options::{self, WriteOptions};
use super::state::State;
use crate::admission::{Attributes, Operation};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, User, Verb};
use crate::resource::{GroupVersionKind, Resource};
use crate::schema::{self, SchemaRef};

/// A write as understood: `RequestScope` and `RequestInfo` upstream.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The resource in the version that was asked.
    pub(crate) resource: Arc<Resource>,
    /// Subresource, or empty.
    pub(crate) subresource: String,
    /// Kind that the request speaks: the resource's, or that of the subresource (`Scale`).
    pub(crate) kind: GroupVersionKind,
    /// Namespace in the path.
    pub(crate) namespace: String,
    /// Name in the path; empty for creates and collections.
    pub(crate) name: String,
    /// Who asks.
    pub(crate) user: Arc<User>,
    /// The user's name, for the log.
    pub(crate) by: Arc<str>,
    /// Options of the write.
    pub(crate) options: WriteOptions,
    /// The options as admission shows them.
    pub(crate) shown_options: Value,
    /// Is it one of a collection that is deleted? Admission is not told its name.
    pub(crate) in_collection: bool,
    /// `Warning` texts so far.
    pub(crate) warnings: Vec<String>,
}

/// Finds the resource (and checks the subresource) that a request is about.
///
/// # Errors
/// 404 or 405 as upstream answers for what is not served; shells that route by path have refused such
/// requests before.
pub(crate) fn resource(state: &State, request: &Request) -> Result<Arc<Resource>, ApiError> {
    let resource =
        state.kinds.resource(&request.group, &request.version, &request.resource).ok_or_else(ApiError::no_such_path)?;
    let verbs = if request.subresource.is_empty() {
        &resource.verbs
    } else {
        &resource.subresource(&request.subresource).ok_or_else(ApiError::no_such_path)?.verbs
    };
    // Definitions list no verbs for subresources that only shells reach.
    if verbs.iter().any(|verb| verb == request.verb.as_str()) {
        Ok(Arc::clone(resource))
    } else {
        Err(ApiError::method_not_allowed())
    }
}

impl Scope {
    /// Understands a write.
    ///
    /// # Errors
    /// What is not served, and options that are refused.
    pub(crate) fn of(state: &State, request: &Request) -> Result<Self, ApiError> {
        let resource = resource(state, request)?;
        let kind = resource
            .subresource(&request.subresource)
            .map_or_else(|| resource.kind.clone(), |subresource| subresource.kind.clone());
        let options_kind = match request.verb {
            Verb::Create => "CreateOptions",
            Verb::Patch => "PatchOptions",
            _ => "UpdateOptions",
        };
        let (write_options, shown_options) = match request.verb {
            Verb::Delete | Verb::DeleteCollection => (WriteOptions::default(), Value::Null),
            _ => (
                options::write_options(&request.options, options_kind, &request.user_agent)?,
                options::shown(&request.options),
            ),
        };
        let warnings = super::custom::warning(&resource).into_iter().collect();
        Ok(Self {
            resource,
            subresource: request.subresource.clone(),
            kind,
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            by: request.user.name.as_str().into(),
            user: Arc::new(request.user.clone()),
            options: write_options,
            shown_options,
            in_collection: request.verb == Verb::DeleteCollection,
            warnings,
        })
    }

    /// The object that is stored now, in its storage version.
    pub(crate) fn stored<'s>(&self, state: &'s State) -> Option<&'s Object> {
        state.store.get(&self.resource.group_resource, &self.namespace, &self.name)
    }

    /// The schema of the kind that the request speaks.
    ///
    /// # Errors
    /// 404 when there is none.
    pub(crate) fn schema(&self) -> Result<SchemaRef, ApiError> {
        if self.kind == self.resource.kind {
            return Ok(self.resource.schema.clone());
        }
        schema::builtin::schema(&self.kind).ok_or_else(ApiError::no_such_path)
    }

    /// 404 about the object in the path.
    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.group_resource, &self.name)
    }

    /// 409: another version is stored than the one sent.
    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(&self.resource.group_resource, &self.name)
    }

    /// The storage key as upstream's messages show it.
    pub(crate) fn storage_key(&self) -> String {
        let of = &self.resource.group_resource;
        let prefix = match (&*of.group, &*of.resource) {
            _ if self.resource.is_custom() => format!("{}/{}", of.group, of.resource),
            ("", "services") => "services/specs".to_owned(),
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "nodes") => "minions".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            (_, resource) => resource.to_owned(),
        };
        format!("/registry/{prefix}/{}", crate::store::key(&self.namespace, &self.name))
    }

    /// Is it about a Namespace?
    pub(crate) fn is_namespace(&self) -> bool {
        let of = &self.resource.group_resource;
        of.group.is_empty() && &*of.resource == "namespaces"
    }

    /// The write as admission sees it.
    pub(crate) fn attributes(&self, operation: Operation, object: Option<Object>, old: Option<Object>) -> Attributes {
        let named = |object: &Object| object.name().to_owned();
        let name = if self.name.is_empty() || self.in_collection {
            object.as_ref().map(named).unwrap_or_default()
        } else {
            self.name.clone()
        };
        // Patches are told by what they do: create or update.
        let options_kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => "ConnectOptions",
        };
        Attributes {
            operation,
            resource: Arc::clone(&self.resource),
            subresource: self.subresource.clone(),
            kind: self.kind.clone(),
            namespace: if self.is_namespace() { name.clone() } else { self.namespace.clone() },
            name,
            object,
            old_object: old,
            options: crate::admission::options(options_kind, self.shown_options.clone()),
            user: Arc::clone(&self.user),
            dry_run: self.options.dry_run,
        }
    }
}
