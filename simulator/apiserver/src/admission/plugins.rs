//! Built-in admission plugins that upstream enables by default, in upstream's order.
//!
//! Missing by intent: ServiceAccount (there is no token to mount) and the plugins for certificates.

use super::{Attributes, Context, Operation};
use crate::error::ApiError;

mod ingress;
mod limit_ranger;
mod namespace_lifecycle;
mod nodes;
mod pod_security;
mod pods;
pub mod quota;
mod storage;

/// What plugins change, or refuse before anything is changed.
///
/// # Errors
/// The first refusal.
pub(super) fn mutate(attributes: &mut Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    namespace_lifecycle::admit(attributes, context)?;
    if !attributes.subresource.is_empty() {
        return Ok(());
    }
    let creates = attributes.operation == Operation::Create;
    let of = attributes.resource.group_resource.clone();
    match (&*of.group, &*of.resource) {
        ("", "pods") => {
            limit_ranger::mutate(attributes, context);
            pods::set_priority(attributes, context)?;
            pods::set_tolerations(attributes);
            pods::set_overhead(attributes, context)
        }
        ("", "persistentvolumeclaims") if creates => {
            storage::set_default_class(attributes, context);
            storage::protect(attributes, "kubernetes.io/pvc-protection");
            Ok(())
        }
        ("", "persistentvolumes") if creates => {
            storage::protect(attributes, "kubernetes.io/pv-protection");
            Ok(())
        }
        ("storage.k8s.io", "volumeattributesclasses") if creates => {
            storage::protect(attributes, "kubernetes.io/vac-protection");
            Ok(())
        }
        ("", "nodes") if creates => {
            nodes::taint_not_ready(attributes);
            Ok(())
        }
        ("networking.k8s.io", "ingresses") if creates => {
            ingress::set_default_class(attributes, context);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What plugins have against the object as it would be committed.
///
/// # Errors
/// The first refusal.
pub(super) fn validate(
    attributes: &Attributes,
    warnings: &mut Vec<String>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    let of = &attributes.resource.group_resource;
    if attributes.is_resource("", "pods") && attributes.subresource.is_empty() {
        limit_ranger::validate(attributes, context)?;
    }
    if matches!(&*of.group, "" | "apps" | "batch") {
        pod_security::validate(attributes, warnings, context)?;
    }
    if !attributes.subresource.is_empty() {
        return Ok(());
    }
    match (&*of.group, &*of.resource) {
        ("", "persistentvolumeclaims") => {
            limit_ranger::validate(attributes, context)?;
            storage::validate_resize(attributes, context)
        }
        ("scheduling.k8s.io", "priorityclasses") => pods::validate_priority_class(attributes, context),
        _ => Ok(()),
    }
}

/// What the quotas of the namespace have against it: last, when nobody else refuses.
///
/// # Errors
/// The quota that is exceeded.
pub(super) fn charge(attributes: &Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    quota::charge(attributes, context)
}

/// The newest object that an annotation marks as default, by name when several are as new; what
/// `DefaultStorageClass` and `DefaultIngressClass` choose.
fn marked_default<'a>(
    context: &'a Context<'_>,
    group: &str,
    resource: &str,
    annotations: &[&str],
) -> Option<&'a crate::object::Object> {
    use crate::object::ObjectExt;
    let resource = crate::resource::GroupResource::new(group, resource);
    let marked = |object: &&crate::object::Object| annotations.iter().any(|key| object.annotation(key) == Some("true"));
    let mut found: Vec<_> = context.store.list(&resource, "").filter(marked).collect();
    // Timestamps in RFC 3339 order as they read.
    found.sort_by(|a, b| b.meta("creationTimestamp").cmp(a.meta("creationTimestamp")).then(a.name().cmp(b.name())));
    found.first().copied()
}
