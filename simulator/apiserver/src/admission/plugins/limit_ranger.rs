//! `LimitRanger`: defaults and bounds for the resources of containers, pods and claims.
//!
//! Source: `plugin/pkg/admission/limitranger/admission.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::admission::{Attributes, Context, Operation};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt, metadata_mut};
use crate::quantity::Quantity;
use crate::resource::GroupResource;

/// Tells what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

type Resources = BTreeMap<String, Quantity>;

fn resources(list: &Value) -> Resources {
    let parse = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.parse().ok()?));
    list.as_object().into_iter().flatten().filter_map(parse).collect()
}

/// The limits of the namespace's ranges.
fn limits<'a>(attributes: &'a Attributes, context: &'a Context<'_>) -> impl Iterator<Item = &'a Value> {
    let ranges = GroupResource::new("", "limitranges");
    // Containers cannot change, and what is going away is nobody's concern.
    let is_pod = attributes.is_resource("", "pods");
    let concerned = match attributes.operation {
        Operation::Create => true,
        Operation::Update => !is_pod && !attributes.old_object.as_ref().is_some_and(Object::is_deleting),
        Operation::Delete | Operation::Connect => false,
    };
    let ranges: Vec<&Object> =
        if concerned { context.store.list(&ranges, &attributes.namespace).collect() } else { Vec::new() };
    ranges.into_iter().flat_map(|range| range["spec"]["limits"].as_array().into_iter().flatten())
}

/// Fills in what containers do not request themselves.
pub(super) fn mutate(attributes: &mut Attributes, context: &Context<'_>) {
    let mut requests: Map<String, Value> = Map::new();
    let mut maxima: Map<String, Value> = Map::new();
    for limit in limits(attributes, context).filter(|limit| limit["type"] == "Container") {
        for (into, field) in [(&mut requests, "defaultRequest"), (&mut maxima, "default")] {
            into.extend(limit[field].as_object().cloned().unwrap_or_default());
        }
    }
    if requests.is_empty() && maxima.is_empty() {
        return;
    }
    let mut notes: Vec<String> = Vec::new();
    let Some(pod) = attributes.object_mut() else { return };
    for (list, called) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = pod["spec"][list].as_array_mut() else { continue };
        for container in containers {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            // Limits are filled in first, but told second.
            let limits_set = fill(container, "limits", &maxima);
            let requests_set = fill(container, "requests", &requests);
            for (set, what) in [(requests_set, "request"), (limits_set, "limit")] {
                if !set.is_empty() {
                    notes.push(format!("{} {what} for {called} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let annotations = metadata_mut(pod).entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            annotations.insert(ANNOTATION.to_owned(), note.into());
        }
    }
}

/// Adds defaults to one resource list of a container; answers the names that were added, sorted.
fn fill(container: &mut Value, list: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let given = container["resources"][list].as_object().cloned().unwrap_or_default();
    let missing: Vec<String> = defaults.keys().filter(|name| !given.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        if !container["resources"].is_object() {
            container["resources"] = json!({});
        }
        let mut all = given;
        all.extend(missing.iter().map(|name| (name.clone(), defaults[name].clone())));
        container["resources"][list] = Value::Object(all);
    }
    missing
}

/// Holds a pod or a claim against the bounds.
pub(super) fn validate(attributes: &Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    let Some(object) = &attributes.object else { return Ok(()) };
    let is_pod = attributes.is_resource("", "pods");
    let mut wrong: Vec<String> = Vec::new();
    for limit in limits(attributes, context) {
        let bounds = Bounds::read(limit);
        match (limit["type"].as_str().unwrap_or_default(), is_pod) {
            ("Container", true) => {
                for list in ["containers", "initContainers"] {
                    for container in object["spec"][list].as_array().into_iter().flatten() {
                        let of = &container["resources"];
                        bounds.check("Container", &resources(&of["requests"]), &resources(&of["limits"]), &mut wrong);
                    }
                }
            }
            ("Pod", true) => {
                bounds.check("Pod", &pod_total(object, "requests"), &pod_total(object, "limits"), &mut wrong);
            }
            ("PersistentVolumeClaim", false) => {
                bounds.check_claim(&resources(&object["spec"]["resources"]["requests"]), &mut wrong);
            }
            _ => {}
        }
    }
    let mut seen = Vec::new();
    wrong.retain(|sentence| {
        !seen.contains(sentence) && {
            seen.push(sentence.clone());
            true
        }
    });
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(attributes.forbidden(one)),
        several => Err(attributes.forbidden(&format!("[{}]", several.join(", ")))),
    }
}

/// What a pod requests in all: its containers together, or its largest init container.
fn pod_total(pod: &Value, list: &str) -> Resources {
    let mut total = Resources::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (name, quantity) in resources(&container["resources"][list]) {
            let sum = total.get(&name).map_or(quantity, |sum| sum.plus(quantity));
            total.insert(name, sum);
        }
    }
    for container in pod["spec"]["initContainers"].as_array().into_iter().flatten() {
        for (name, quantity) in resources(&container["resources"][list]) {
            let most = total.get(&name).map_or(quantity, |most| quantity.max(*most));
            total.insert(name, most);
        }
    }
    total
}

/// One item of a range.
struct Bounds {
    min: Resources,
    max: Resources,
    ratio: Resources,
}

impl Bounds {
    fn read(limit: &Value) -> Self {
        Self {
            min: resources(&limit["min"]),
            max: resources(&limit["max"]),
            ratio: resources(&limit["maxLimitRequestRatio"]),
        }
    }

    fn check(&self, of: &str, requests: &Resources, limits: &Resources, wrong: &mut Vec<String>) {
        for (name, min) in &self.min {
            let bound = format!("minimum {name} usage per {of} is {min}");
            match (requests.get(name), limits.get(name)) {
                (None, _) => wrong.push(format!("{bound}.  No request is specified")),
                (Some(request), _) if request < min => wrong.push(format!("{bound}, but request is {request}")),
                (_, Some(limit)) if limit < min => wrong.push(format!("{bound}, but limit is {limit}")),
                _ => {}
            }
        }
        for (name, max) in &self.max {
            let bound = format!("maximum {name} usage per {of} is {max}");
            match (requests.get(name), limits.get(name)) {
                (_, None) => wrong.push(format!("{bound}.  No limit is specified")),
                (_, Some(limit)) if limit > max => wrong.push(format!("{bound}, but limit is {limit}")),
                (Some(request), _) if request > max => wrong.push(format!("{bound}, but request is {request}")),
                _ => {}
            }
        }
        for (name, ratio) in &self.ratio {
            let bound = format!("{name} max limit to request ratio per {of} is {ratio}");
            let given = |list: &Resources| list.get(name).copied().filter(|quantity| !quantity.is_zero());
            match (given(requests), given(limits)) {
                (None, _) => wrong.push(format!("{bound}, but no request is specified or request is 0")),
                (_, None) => wrong.push(format!("{bound}, but no limit is specified or limit is 0")),
                (Some(request), Some(limit)) => {
                    let observed = limit.to_f64() / request.to_f64();
                    if observed > ratio.to_f64() {
                        wrong.push(format!("{bound}, but provided ratio is {observed:.6}"));
                    }
                }
            }
        }
    }

    /// Claims have requests only.
    fn check_claim(&self, requests: &Resources, wrong: &mut Vec<String>) {
        let of = "PersistentVolumeClaim";
        for (name, min) in &self.min {
            let bound = format!("minimum {name} usage per {of} is {min}");
            match requests.get(name) {
                None => wrong.push(format!("{bound}.  No request is specified")),
                Some(request) if request < min => wrong.push(format!("{bound}, but request is {request}")),
                Some(_) => {}
            }
        }
        for (name, max) in &self.max {
            let bound = format!("maximum {name} usage per {of} is {max}");
            match requests.get(name) {
                None => wrong.push(format!("{bound}.  No request is specified")),
                Some(request) if request > max => wrong.push(format!("{bound}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
}
