//! `DefaultIngressClass`.
//!
//! Source: `plugin/pkg/admission/network/defaultingressclass/admission.go`.

use serde_json::Value;

use super::marked_default;
use crate::admission::{Attributes, Context};
use crate::object::ObjectExt;

/// Gives an Ingress that names no class the one that is marked as default.
pub(super) fn set_default_class(attributes: &mut Attributes, context: &Context<'_>) {
    let names_class = attributes.object.as_ref().is_some_and(|ingress| {
        ingress.annotation("kubernetes.io/ingress.class").is_some() || ingress["spec"]["ingressClassName"].is_string()
    });
    if names_class {
        return;
    }
    let annotation = "ingressclass.kubernetes.io/is-default-class";
    let Some(class) = marked_default(context, "networking.k8s.io", "ingressclasses", &[annotation]) else { return };
    let name = class.name().to_owned();
    if let Some(spec) = attributes.object_mut().and_then(|ingress| ingress["spec"].as_object_mut()) {
        spec.insert("ingressClassName".to_owned(), Value::String(name));
    }
}
