//! Event records of control loops: made once, then counted.
//!
//! As client-go's recorder does: an event that says the same of the same object again is the same event
//! with a higher count. Its aggregation of similar events and its rate limit are not here.

use jiff::Timestamp;
use serde_json::json;

use crate::control_plane::View;
use crate::object::{Object, ObjectExt};
use crate::request::{Request, User, Verb};
use crate::resource::GroupResource;

/// What a loop says of an object.
pub(super) struct Event<'a> {
    /// The loop's name as the source of events.
    pub(super) component: &'a str,
    pub(super) user: User,
    pub(super) object: &'a Object,
    /// `apiVersion` and `kind` by which the object is referred to.
    pub(super) kind: (&'a str, &'a str),
    /// `Normal` or `Warning`.
    pub(super) type_: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl Event<'_> {
    fn namespace(&self) -> &str {
        if self.object.namespace().is_empty() { "default" } else { self.object.namespace() }
    }

    fn find<'v>(&self, view: &View<'v>) -> Option<&'v Object> {
        view.store().list(&GroupResource::new("", "events"), self.namespace()).find(|event| {
            event["involvedObject"]["uid"] == self.object.uid()
                && event["reason"] == self.reason
                && event["message"] == self.message
        })
    }

    /// Was the same said before?
    pub(super) fn is_recorded(&self, view: &View<'_>) -> bool {
        self.find(view).is_some()
    }

    /// The request that records it. Events of cluster-scoped objects lie in `default`.
    pub(super) fn record(self, view: &View<'_>, now: Timestamp) -> Request {
        let same = self.find(view);
        let namespace = self.namespace().to_owned();
        let Self { component, user, object, kind: (api_version, kind), type_, reason, message } = self;
        let time = format!("{now:.0}");
        if let Some(event) = same {
            let count = event["count"].as_i64().unwrap_or(1) + 1;
            return Request::new(Verb::Patch, user, "v1", "events", &namespace, event.name())
                .agent(super::AGENT)
                .merge_patch(json!({"count": count, "lastTimestamp": time}));
        }
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name(object, reason, message, now), "namespace": namespace},
            "involvedObject": {
                "apiVersion": api_version, "kind": kind, "name": object.name(),
                "namespace": object["metadata"]["namespace"], "uid": object.uid(),
                "resourceVersion": object.resource_version(),
            },
            "type": type_, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": time, "lastTimestamp": time,
            "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        });
        Request::new(Verb::Create, user, "v1", "events", &namespace, "").agent(super::AGENT).json(event)
    }
}

/// `OBJECT.TIME`, the time as nanoseconds in hexadecimal. A clock that stands still while several events
/// are recorded must not give them one name: the text moves the last microseconds.
fn name(object: &Object, reason: &str, message: &str, now: Timestamp) -> String {
    let text = [reason, message].concat();
    let sum = text.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(16_777_619) ^ u32::from(byte));
    format!("{}.{:x}", object.name(), now.as_nanosecond() + i128::from(sum % 1_000_000))
}
