//! Does a check hold just now? Pure looks at the store and the trace.

use std::collections::BTreeMap;

use rewake_apiserver::object::{Object, ObjectExt};
use rewake_apiserver::request::Verb;
use rewake_apiserver::resource::GroupResource;
use rewake_apiserver::store::Store;
use serde_json::Value;

use super::model::{Check, Expectation, GuestLook, Seen, Target};
use crate::oracles::title;
use crate::tools::ToolKinds;
use crate::tools::selection::{glob, names};
use crate::trace::RequestEntry;
use crate::world::Kernel;

/// What was so when a named step ended.
#[derive(Clone)]
pub struct Milestone {
    /// Number of trace entries.
    pub trace_length: usize,
    /// The store.
    pub store: Store,
}

/// What a check looks at.
pub struct Scene<'a> {
    /// Control plane, trace, containers.
    pub kernel: &'a Kernel,
    /// Kinds served.
    pub kinds: &'a ToolKinds,
    /// Namespace of targets that name none.
    pub namespace: &'a str,
    /// Ends of named steps.
    pub milestones: &'a BTreeMap<String, Milestone>,
}

/// A check that does not hold: object, field and what is wrong, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Miss {
    /// `Kind namespace/name`, where one object is meant.
    pub object: String,
    /// Path of the field, or empty.
    pub field: String,
    /// In words.
    pub message: String,
}

impl Miss {
    fn new(object: impl Into<String>, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { object: object.into(), field: field.into(), message: message.into() }
    }
}

impl Scene<'_> {
    /// Does the check hold? Alarms are judged by the runner, not here.
    ///
    /// # Errors
    /// What is in the way.
    pub fn look(&self, check: &Check) -> Result<(), Miss> {
        match &check.expectation {
            Expectation::Assert(wanted) => self.assert(wanted),
            Expectation::Error(unwanted) => self.error(unwanted),
            Expectation::Count { target, is } => self.count(target, *is),
            Expectation::Never(seen) => match self.requests(seen).next() {
                None => Ok(()),
                Some(request) => Err(Miss::new(object_of(request), "", format!("happened: {request}"))),
            },
            Expectation::Ever(seen) => match self.requests(seen).next() {
                Some(_) => Ok(()),
                None => Err(Miss::new("", "", format!("never happened: {seen}"))),
            },
            Expectation::Guest { pod, labels, look } => self.guest(pod, labels, look),
            Expectation::SameUid { target, since } => self.same_uid(target, since),
            Expectation::Alarm(_) => Ok(()),
        }
    }

    fn resource(&self, api_version: Option<&str>, kind: &str) -> Result<GroupResource, Miss> {
        let group = api_version.map(|version| rewake_apiserver::resource::split_api_version(version).0);
        let known = self
            .kinds
            .0
            .iter()
            .find(|known| known.kind == kind && group.is_none_or(|group| *known.resource.group == *group));
        known.map(|known| known.resource.clone()).ok_or_else(|| {
            let message = super::decode::unknown(
                "the cluster serves no kind",
                kind,
                self.kinds.0.iter().map(|known| known.kind.as_str()),
            );
            Miss::new("", "", message)
        })
    }

    /// The objects that a target selects.
    ///
    /// # Errors
    /// When the cluster does not serve the kind.
    pub fn select(&self, target: &Target) -> Result<Vec<&Object>, Miss> {
        let resource = self.resource(target.api_version.as_deref(), &target.kind)?;
        let namespaced = self.kinds.get(&resource).is_some_and(|kind| kind.namespaced);
        let namespace = if namespaced { target.namespace.as_deref().unwrap_or(self.namespace) } else { "" };
        let store = self.kernel.store();
        // Looking through all of them keeps one rule for names and globs.
        let all: Vec<&Object> = store.list(&resource, "").collect();
        Ok(all
            .into_iter()
            .filter(|object| namespace.is_empty() || object.namespace() == namespace)
            .filter(|object| target.name.as_deref().is_none_or(|name| glob(name, object.name())))
            .filter(|object| target.labels.iter().all(|(key, value)| object.label(key) == Some(value)))
            .collect())
    }

    fn candidates(&self, partial: &Value) -> Result<Vec<&Object>, Miss> {
        let target = Target {
            api_version: partial["apiVersion"].as_str().map(str::to_owned),
            kind: partial.kind().to_owned(),
            namespace: Some(partial.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            name: Some(partial.name().to_owned()).filter(|name| !name.is_empty()),
            ..Target::default()
        };
        self.select(&target)
    }

    fn assert(&self, wanted: &Value) -> Result<(), Miss> {
        let candidates = self.candidates(wanted)?;
        let mut nearest = None;
        for object in &candidates {
            match contains("", wanted, object) {
                Ok(()) => return Ok(()),
                Err((field, message)) => nearest = nearest.or(Some(Miss::new(title(object), field, message))),
            }
        }
        Err(nearest.unwrap_or_else(|| {
            let name = if wanted.name().is_empty() { "(any name)" } else { wanted.name() };
            Miss::new(format!("{} {name}", wanted.kind()), "", "does not exist")
        }))
    }

    fn error(&self, unwanted: &Value) -> Result<(), Miss> {
        match self.candidates(unwanted)?.into_iter().find(|object| contains("", unwanted, object).is_ok()) {
            None => Ok(()),
            Some(object) => Err(Miss::new(title(object), "", "exists, but must not look like this")),
        }
    }

    fn count(&self, target: &Target, is: u64) -> Result<(), Miss> {
        let found = self.select(target)?;
        if found.len() as u64 == is {
            return Ok(());
        }
        let names: Vec<&str> = found.iter().map(|object| object.name()).collect();
        Err(Miss::new("", "", format!("{target}: there are {} instead of {is}: {}", found.len(), names.join(", "))))
    }

    fn same_uid(&self, target: &Target, since: &str) -> Result<(), Miss> {
        let Some(milestone) = self.milestones.get(since) else {
            return Err(Miss::new("", "", format!("step {since} has not ended")));
        };
        let resource = self.resource(target.api_version.as_deref(), &target.kind)?;
        let found = self.select(target)?;
        if found.is_empty() {
            return Err(Miss::new(target.to_string(), "", "does not exist"));
        }
        for object in found {
            let before = milestone.store.get(&resource, object.namespace(), object.name());
            if before.is_none_or(|before| before.uid() != object.uid()) {
                return Err(Miss::new(
                    title(object),
                    "metadata.uid",
                    format!("is not the one of step {since}: the object was made anew"),
                ));
            }
        }
        Ok(())
    }

    /// Requests that match a pattern and were carried out (or refused, when the pattern says so).
    fn requests<'s>(&'s self, seen: &'s Seen) -> impl Iterator<Item = &'s RequestEntry> {
        let skip =
            seen.since.as_ref().and_then(|id| self.milestones.get(id)).map_or(0, |milestone| milestone.trace_length);
        self.kernel.trace.entries().skip(skip).filter_map(move |entry| match &entry.what {
            crate::trace::What::Request(request) if matches(seen, request) => Some(request),
            _ => None,
        })
    }

    fn guest(&self, pod: &str, labels: &BTreeMap<String, String>, look: &GuestLook) -> Result<(), Miss> {
        let pods = self.select(&Target {
            kind: "Pod".to_owned(),
            name: Some(pod.to_owned()),
            labels: labels.clone(),
            ..Target::default()
        })?;
        if pods.is_empty() {
            return Err(Miss::new(format!("Pod {pod}"), "", "does not exist"));
        }
        for object in pods {
            let report = self.kernel.guest_report(object.namespace(), object.name());
            match look {
                GuestLook::Configured(times) if report.configured != *times => {
                    return Err(Miss::new(
                        title(object),
                        "",
                        format!("was configured {} times instead of {times}", report.configured),
                    ));
                }
                GuestLook::Notified(wanted) => {
                    let mut received = report.notified.iter();
                    for line in wanted {
                        if !received.any(|notified| notified.contains(line.as_str())) {
                            let all = report.notified.join("; ");
                            return Err(Miss::new(
                                title(object),
                                "",
                                format!("was not notified with `{line}` (in this order); it received: {all}"),
                            ));
                        }
                    }
                }
                GuestLook::Configured(_) => {}
            }
        }
        Ok(())
    }
}

fn object_of(request: &RequestEntry) -> String {
    format!("{} {}/{}", request.resource, request.namespace, request.name)
}

fn matches(seen: &Seen, request: &RequestEntry) -> bool {
    let (main, subresource) = request.resource.split_once('/').unwrap_or((&request.resource, ""));
    let (plural, group) = main.split_once('.').unwrap_or((main, ""));
    let carried_out = request.code < 400 && request.revisions.is_some();
    (if seen.refused { request.code >= 400 } else { carried_out })
        && seen.by.as_deref().is_none_or(|by| by == request.by.to_string())
        && seen.verb.map_or(request.verb != Verb::Get, |verb| verb == request.verb)
        && names(&seen.resource, &GroupResource::new(group, plural))
        && seen.subresource.as_deref().is_none_or(|wanted| wanted == subresource)
        && (seen.name.is_empty() || glob(&seen.name, &request.name))
}

/// Does `actual` contain `wanted`? Maps may have more, lists must contain each wanted item in order;
/// a wanted `null` means "not there"; a wanted string with `*` is a glob.
///
/// # Errors
/// The first field that does not fit, and how.
fn contains(path: &str, wanted: &Value, actual: &Value) -> Result<(), (String, String)> {
    let miss = |message: String| Err((path.trim_start_matches('.').to_owned(), message));
    match (wanted, actual) {
        (Value::Null, Value::Null) => Ok(()),
        (Value::Null, _) => miss(format!("is {actual}, but must not be there")),
        // What is not there contains everything that must not be there.
        (Value::Object(fields), Value::Object(_) | Value::Null)
            if actual.is_object() || fields.values().all(Value::is_null) =>
        {
            fields.iter().try_for_each(|(key, field)| contains(&format!("{path}.{key}"), field, &actual[key]))
        }
        (Value::Array(wanted), Value::Array(items)) => {
            let mut rest = items.iter();
            for (at, want) in wanted.iter().enumerate() {
                if !rest.any(|item| contains("", want, item).is_ok()) {
                    return miss(format!("has no item that contains {want} (wanted item {at}); it is {actual}"));
                }
            }
            if wanted.is_empty() && !items.is_empty() {
                miss(format!("is {actual}, but must be empty"))
            } else {
                Ok(())
            }
        }
        (Value::String(pattern), Value::String(text)) if pattern.contains('*') => {
            if glob(pattern, text) {
                Ok(())
            } else {
                miss(format!("is \"{text}\", which does not match \"{pattern}\""))
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        _ if wanted == actual => Ok(()),
        (_, Value::Null) => miss(format!("is not there, but must be {wanted}")),
        _ => miss(format!("is {actual}, but must be {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"a": 1}), json!({"a": 1, "b": 2}), true)]
    #[case(json!({"a": null}), json!({"b": 2}), true)]
    #[case(json!({"a": null}), json!({"a": 2}), false)]
    #[case(json!({"a": {"b": null}}), json!({}), true)]
    #[case(json!({"a": {}}), json!({"a": {"b": 1}}), true)]
    #[case(json!([{"n": 2}]), json!([{"n": 1}, {"n": 2, "m": 3}]), true)]
    #[case(json!([{"n": 2}, {"n": 1}]), json!([{"n": 1}, {"n": 2}]), false)]
    #[case(json!([]), json!([1]), false)]
    #[case(json!("kdss-*"), json!("kdss-abc"), true)]
    #[case(json!(1), json!("1"), false)]
    fn a_partial_object_matches_what_contains_it(#[case] wanted: Value, #[case] actual: Value, #[case] matches: bool) {
        assert_eq!(contains("", &wanted, &actual).is_ok(), matches);
    }

    #[test]
    fn a_miss_names_the_field() {
        let miss = contains("", &json!({"status": {"state": "configured"}}), &json!({"status": {"state": "creating"}}));
        assert_eq!(miss, Err(("status.state".into(), "is \"creating\", but must be \"configured\"".into())));
    }
}
