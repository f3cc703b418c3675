//! `Priority`, `DefaultTolerationSeconds` and `RuntimeClass`.
//!
//! Source: `plugin/pkg/admission/{priority,defaulttolerationseconds,runtimeclass}/admission.go`.

use serde_json::{Value, json};

use crate::admission::{Attributes, Context, Operation};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;

/// Seconds that a pod stays on a node that is not ready or cannot be reached.
const TOLERATION_SECONDS: i64 = 300;

fn priority_classes() -> GroupResource {
    GroupResource::new("scheduling.k8s.io", "priorityclasses")
}

fn spec_mut(attributes: &mut Attributes) -> Option<&mut serde_json::Map<String, Value>> {
    attributes.object_mut()?.get_mut("spec")?.as_object_mut()
}

/// Fills in a pod's priority and preemption policy from its class, or from the class for all.
pub(super) fn set_priority(attributes: &mut Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    let Some(pod) = attributes.object.clone() else { return Ok(()) };
    let spec = &pod["spec"];
    if attributes.operation == Operation::Update {
        // An update that leaves them out keeps them.
        let Some(old) = attributes.old_object.clone() else { return Ok(()) };
        for field in ["priority", "preemptionPolicy"] {
            let kept = &old["spec"][field];
            if spec[field].is_null()
                && !kept.is_null()
                && let Some(spec) = spec_mut(attributes)
            {
                spec.insert(field.to_owned(), kept.clone());
            }
        }
        return Ok(());
    }
    if attributes.operation != Operation::Create {
        return Ok(());
    }
    let class_name = spec["priorityClassName"].as_str().unwrap_or_default();
    let class = if class_name.is_empty() {
        let classes = priority_classes();
        let defaults = context.store.list(&classes, "").filter(|class| class["globalDefault"] == true);
        // Of several the least, in case some were made at the same time.
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or_default())
    } else {
        let class = context.store.get(&priority_classes(), "", class_name);
        if class.is_none() {
            return Err(attributes.forbidden(&format!("no PriorityClass with name {class_name} was found")));
        }
        class
    };
    let value = class.map_or(0, |class| class["value"].as_i64().unwrap_or_default());
    let policy =
        class.and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
        return Err(attributes.forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        )));
    }
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        return Err(attributes.forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    let chosen = class.filter(|_| class_name.is_empty()).map(|class| class.name().to_owned());
    if let Some(spec) = spec_mut(attributes) {
        spec.insert("priority".to_owned(), value.into());
        spec.insert("preemptionPolicy".to_owned(), policy.into());
        if let Some(name) = chosen {
            spec.insert("priorityClassName".to_owned(), name.into());
        }
    }
    Ok(())
}

/// Only one class may be the default.
pub(super) fn validate_priority_class(attributes: &Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    let Some(class) = attributes.object.as_ref().filter(|class| class["globalDefault"] == true) else {
        return Ok(());
    };
    let classes = priority_classes();
    let is_other_default = |other: &&Object| other["globalDefault"] == true && other.name() != class.name();
    match context.store.list(&classes, "").find(is_other_default) {
        Some(other) => Err(attributes.forbidden(&format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            other.name()
        ))),
        None => Ok(()),
    }
}

/// Lets pods leave nodes that are not ready or cannot be reached after five minutes, unless they say
/// something about it themselves.
pub(super) fn set_tolerations(attributes: &mut Attributes) {
    if !matches!(attributes.operation, Operation::Create | Operation::Update) {
        return;
    }
    let Some(pod) = &attributes.object else { return };
    let tolerations = pod["spec"]["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    let tolerated = |taint: &str| {
        tolerations.iter().any(|toleration| {
            let key = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (key == taint || key.is_empty()) && matches!(effect, "NoExecute" | "")
        })
    };
    let missing: Vec<Value> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .filter(|taint| !tolerated(taint))
        .map(|taint| {
            json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            })
        })
        .collect();
    if missing.is_empty() {
        return;
    }
    if let Some(spec) = spec_mut(attributes) {
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        if tolerations.is_null() {
            *tolerations = json!([]);
        }
        if let Some(tolerations) = tolerations.as_array_mut() {
            tolerations.extend(missing);
        }
    }
}

/// A pod with a runtime class takes over the class's overhead and scheduling.
pub(super) fn set_overhead(attributes: &mut Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    let Some(pod) = attributes.object.clone() else { return Ok(()) };
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(()) };
    if attributes.operation != Operation::Create {
        return Ok(());
    }
    let Some(class) = context.store.get(&GroupResource::new("node.k8s.io", "runtimeclasses"), "", name) else {
        return Err(attributes.forbidden(&format!("pod rejected: RuntimeClass \"{name}\" not found")));
    };
    let overhead = class["overhead"]["podFixed"].clone();
    if overhead.is_object() {
        let given = &pod["spec"]["overhead"];
        if given.is_object() && *given != overhead {
            return Err(
                attributes.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            );
        }
        if let Some(spec) = spec_mut(attributes) {
            spec.insert("overhead".to_owned(), overhead);
        }
    }
    let selector = class["scheduling"]["nodeSelector"].as_object().cloned().unwrap_or_default();
    for (key, value) in selector {
        let Some(spec) = spec_mut(attributes) else { return Ok(()) };
        let Some(chosen) = spec.entry("nodeSelector").or_insert_with(|| json!({})).as_object_mut() else { continue };
        if chosen.get(&key).is_some_and(|other| *other != value) {
            return Err(attributes
                .forbidden("pod rejected: conflict: Pod's node selector conflicts with RuntimeClass's node selector"));
        }
        chosen.insert(key, value);
    }
    Ok(())
}
