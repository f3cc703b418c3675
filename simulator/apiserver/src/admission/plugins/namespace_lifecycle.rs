//! `NamespaceLifecycle`: nothing is written into a namespace that is missing or going away.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go`.

use crate::admission::{Attributes, Context, Operation};
use crate::error::{ApiError, Cause};
use crate::resource::GroupResource;

/// Namespaces that are never deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Refuses deletions of immortal namespaces, and writes into missing or terminating ones.
pub(super) fn admit(attributes: &Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    if &*attributes.kind.kind == "Namespace" && attributes.kind.group.is_empty() {
        if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden(&attributes.resource.group_resource, &attributes.name, why));
        }
        return Ok(());
    }
    let namespace = attributes.namespace.as_str();
    let is_review = attributes.is_resource("authorization.k8s.io", "localsubjectaccessreviews");
    let written = matches!(attributes.operation, Operation::Create | Operation::Update);
    if namespace.is_empty() || is_review || !written {
        return Ok(());
    }
    let namespaces = GroupResource::new("", "namespaces");
    let Some(found) = context.store.get(&namespaces, "", namespace) else {
        return Err(ApiError::not_found(&namespaces, namespace));
    };
    if attributes.operation == Operation::Create && found["status"]["phase"] == "Terminating" {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = attributes.forbidden(&why);
        if let Some(details) = &mut error.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
        }
        return Err(error);
    }
    Ok(())
}
