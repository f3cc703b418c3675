//! Admission: what may change or refuse a write after it is understood and before it is committed.
//!
//! A write passes two phases, in upstream's order (`k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go`):
//!
//! | phase | when | who |
//! |---|---|---|
//! | [`Chain::mutating`] | before system fields are set and the object is validated | built-in plugins ([`plugins`]), then mutating webhooks |
//! | [`Chain::validating`] | on the object as it would be committed | built-in plugins, [`policies`], validating webhooks, quota |
//!
//! A [`Chain`] is one such phase as a value. It runs until it is through or needs a webhook, says so
//! with a [`Step`], and goes on with the webhook's answer. It holds nothing but its own state, so a fork
//! of the control plane can hold a copy and others may write meanwhile.
//!
//! Webhooks and policies are compiled when their configurations change ([`Configurations`]), not when
//! they are asked. Calling a webhook is the shell's business.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::control_plane::{WebhookAnswer, WebhookCall};
use crate::draws::Draws;
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::request::User;
use crate::resource::{GroupVersionKind, Resource};
use crate::store::Store;

mod calls;
mod conditions;
mod configurations;
mod matching;
pub mod plugins;
pub mod policies;
mod review;
#[cfg(test)]
mod tests;
mod webhooks;

pub use configurations::Configurations;

/// What a request does to an object, as admission rules name it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object, whatever the verb.
    Update,
    /// A deletion; of a collection: once for each object.
    Delete,
    /// A connection to an object (`pods/exec`).
    Connect,
}

impl Operation {
    /// As rules and reviews write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One write, as admission sees it (`admission.Attributes` upstream).
#[derive(Clone, Debug)]
pub struct Attributes {
    /// What is done.
    pub operation: Operation,
    /// The resource in the version that was asked.
    pub resource: Arc<Resource>,
    /// The subresource, or empty.
    pub subresource: String,
    /// Kind of [`Self::object`] and [`Self::old_object`]: the resource's own, or that which the
    /// subresource speaks (`Scale`).
    pub kind: GroupVersionKind,
    /// The namespace; of a Namespace its own name; empty for other cluster-scoped objects.
    pub namespace: String,
    /// The object's name; empty where the server has yet to generate one, and for a collection.
    pub name: String,
    /// The new object in the version that was asked; `None` for deletions.
    pub object: Option<Object>,
    /// The object as it is; `None` for creates.
    pub old_object: Option<Object>,
    /// The request's options, with kind and apiVersion: see [`options`].
    pub options: Value,
    /// Who asks.
    pub user: Arc<User>,
    /// Is nothing to be committed?
    pub dry_run: bool,
}

impl Attributes {
    /// The new object for a change; copied when others hold it too.
    fn object_mut(&mut self) -> Option<&mut Value> {
        self.object.as_mut().map(Arc::make_mut)
    }

    fn is_resource(&self, group: &str, resource: &str) -> bool {
        let of = &self.resource.group_resource;
        &*of.group == group && &*of.resource == resource
    }

    /// Is the object itself a configuration of admission? Those are exempt from webhooks and policies, or
    /// a broken one could not be repaired.
    fn configures_admission(&self) -> bool {
        &*self.resource.group_resource.group == "admissionregistration.k8s.io"
            && matches!(
                &*self.resource.group_resource.resource,
                "mutatingwebhookconfigurations"
                    | "validatingwebhookconfigurations"
                    | "mutatingadmissionpolicies"
                    | "mutatingadmissionpolicybindings"
                    | "validatingadmissionpolicies"
                    | "validatingadmissionpolicybindings"
            )
    }

    /// The refusal of an admission plugin: 403 with the best name there is.
    fn forbidden(&self, why: &str) -> ApiError {
        let generated = |field| self.object.as_ref().map_or("", |object| object.meta(field));
        let candidates = [self.name.as_str(), generated("name"), generated("generateName"), "Unknown"];
        let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        ApiError::forbidden(&self.resource.group_resource, name, why)
    }
}

/// `CreateOptions`, `UpdateOptions` or `DeleteOptions` as admission shows them: `fields` (an object or
/// `Null`) with kind and apiVersion.
#[must_use]
pub fn options(kind: &str, fields: Value) -> Value {
    let mut options = if fields.is_object() { fields } else { json!({}) };
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    options
}

/// What admission needs to know of kinds (`admission.ObjectInterfaces` upstream).
pub trait ObjectInterfaces {
    /// The served resources that hold the same objects in any version, this one among them.
    fn equivalents(&self, resource: &Resource) -> Vec<Arc<Resource>>;

    /// The object in another version of its kind.
    ///
    /// # Errors
    /// When there is no such conversion.
    fn convert(&self, object: &Object, to: &GroupVersionKind) -> Result<Object, ApiError>;

    /// Decodes, prunes and defaults what a patch has made of an object of this kind.
    ///
    /// # Errors
    /// When it no longer decodes; the message is the decoder's own.
    fn decode(&self, kind: &GroupVersionKind, object: Value) -> Result<Value, ApiError>;

    /// The resource that serves this kind.
    fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>>;
}

/// What a [`Chain`] may look at while it runs.
pub struct Context<'a> {
    /// Committed objects.
    pub store: &'a Store,
    /// Kinds.
    pub interfaces: &'a dyn ObjectInterfaces,
    /// Compiled webhooks and policies.
    pub configurations: &'a Configurations,
    /// Chance, for the uids of reviews.
    pub draws: &'a mut Draws,
}

/// How far a [`Chain`] has come.
#[derive(Debug)]
pub enum Step {
    /// Through: see [`Chain::finish`].
    Admitted,
    /// This webhook is to be asked; go on with [`Chain::answer`].
    Ask(WebhookCall),
}

/// One phase of admission of one write.
#[derive(Clone, Debug)]
pub struct Chain {
    attributes: Attributes,
    warnings: Vec<String>,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    Mutating(calls::Mutating),
    Validating(calls::Validating),
}

impl Chain {
    /// The mutating phase of a write.
    #[must_use]
    pub fn mutating(attributes: Attributes) -> Self {
        Self { attributes, warnings: Vec::new(), phase: Phase::Mutating(calls::Mutating::default()) }
    }

    /// The validating phase of a write.
    #[must_use]
    pub fn validating(attributes: Attributes) -> Self {
        Self { attributes, warnings: Vec::new(), phase: Phase::Validating(calls::Validating::default()) }
    }

    /// Begins.
    ///
    /// # Errors
    /// The refusal. Warnings given before it still count: see [`Self::warnings`].
    pub fn begin(&mut self, context: &mut Context<'_>) -> Result<Step, ApiError> {
        match &mut self.phase {
            Phase::Mutating(calls) => calls.begin(&mut self.attributes, &mut self.warnings, context),
            Phase::Validating(calls) => calls.begin(&mut self.attributes, &mut self.warnings, context),
        }
    }

    /// Goes on after the webhook that was last asked.
    ///
    /// # Errors
    /// The refusal.
    pub fn answer(&mut self, answer: &WebhookAnswer, context: &mut Context<'_>) -> Result<Step, ApiError> {
        match &mut self.phase {
            Phase::Mutating(calls) => calls.answer(answer, &mut self.attributes, &mut self.warnings, context),
            Phase::Validating(calls) => calls.answer(answer, &mut self.attributes, &mut self.warnings, context),
        }
    }

    /// `Warning` texts so far, in order.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The write as admitted, and the warnings.
    #[must_use]
    pub fn finish(self) -> (Attributes, Vec<String>) {
        (self.attributes, self.warnings)
    }
}
