//! `DefaultStorageClass`, `StorageObjectInUseProtection` and `PersistentVolumeClaimResize`.
//!
//! Source: `plugin/pkg/admission/storage`.

use serde_json::{Value, json};

use super::marked_default;
use crate::admission::{Attributes, Context, Operation};
use crate::error::ApiError;
use crate::object::{ObjectExt, metadata_mut};
use crate::quantity::Quantity;
use crate::resource::GroupResource;

/// Annotations that mark the default class: today's, then the one before it.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotation that named a claim's class before there was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Gives a claim that says nothing about its class the default one. The empty class says something.
pub(super) fn set_default_class(attributes: &mut Attributes, context: &Context<'_>) {
    let names_class = attributes.object.as_ref().is_some_and(|claim| {
        claim.annotation(CLASS_ANNOTATION).is_some() || claim["spec"]["storageClassName"].is_string()
    });
    if names_class {
        return;
    }
    let Some(class) = marked_default(context, "storage.k8s.io", "storageclasses", &DEFAULT_CLASS) else { return };
    let name = class.name().to_owned();
    if let Some(spec) = attributes.object_mut().and_then(|claim| claim["spec"].as_object_mut()) {
        spec.insert("storageClassName".to_owned(), Value::String(name));
    }
}

/// Adds the finalizer that keeps an object while it is in use.
pub(super) fn protect(attributes: &mut Attributes, finalizer: &str) {
    let Some(object) = attributes.object_mut() else { return };
    if object.finalizers().any(|other| other == finalizer) {
        return;
    }
    let finalizers = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    match finalizers.as_array_mut() {
        Some(finalizers) => finalizers.push(finalizer.into()),
        None => *finalizers = json!([finalizer]),
    }
}

fn class_name(claim: &Value) -> &str {
    claim.annotation(CLASS_ANNOTATION).or_else(|| claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}

fn requested(claim: &Value) -> Option<Quantity> {
    claim["spec"]["resources"]["requests"]["storage"].as_str()?.parse().ok()
}

/// A claim grows only when it is bound and its class allows it.
pub(super) fn validate_resize(attributes: &Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    let (Operation::Update, Some(new), Some(old)) = (attributes.operation, &attributes.object, &attributes.old_object)
    else {
        return Ok(());
    };
    if requested(new) <= requested(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(attributes.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let name = class_name(new);
    let classes = GroupResource::new("storage.k8s.io", "storageclasses");
    let class = context.store.get(&classes, "", name);
    let allowed = class_name(old) == name && class.is_some_and(|class| class["allowVolumeExpansion"] == true);
    if allowed {
        return Ok(());
    }
    Err(attributes.forbidden(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
         resize",
    ))
}
