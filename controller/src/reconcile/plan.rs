//! What to do: a list of changes, each of them exactly one write, and when to look again.
//!
//! A change carries the preconditions under which it was decided, so that a plan may be interrupted
//! between any two changes, or be applied late, without harm.

use std::fmt;
use std::time::Duration;

use json_patch::Patch;
use serde_json::Value;

use crate::guest::GuestAction;
use crate::kinds::Kind;

/// The outcome of one decision.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The writes, in order. The first that fails ends the plan; the next look starts afresh.
    pub changes: Vec<Change>,
    /// Look again after this long although nothing may have changed; zero means at once. Without it the
    /// watches tell when.
    pub next_check: Option<Duration>,
    /// Why nothing more is being done. For traces.
    pub waiting_for: Vec<String>,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Change {
    /// The object written to.
    pub on: ObjectRef,
    /// The write.
    pub act: Act,
    /// What it is for, as half a sentence: `take over the backed-up status`.
    pub purpose: String,
}

/// An object, and which version of it a decision was based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name; empty when the server is to make one.
    pub name: String,
    /// Precondition: the object is still this one.
    pub uid: Option<String>,
    /// Precondition: nobody has written to it since.
    pub resource_version: Option<String>,
}

impl ObjectRef {
    /// An object by name.
    pub fn new(kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: Some(namespace.to_owned()), name: name.to_owned(), uid: None, resource_version: None }
    }

    /// An observed object: whatever is done to it is done to this very one.
    pub fn observed<K: kube::Resource>(kind: &'static Kind, object: &K) -> Self {
        let metadata = object.meta();
        Self {
            kind,
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            resource_version: None,
        }
    }

    /// As [`ObjectRef::observed`], and only if nobody has written to it since.
    pub fn unchanged<K: kube::Resource>(kind: &'static Kind, object: &K) -> Self {
        Self { resource_version: object.meta().resource_version.clone(), ..Self::observed(kind, object) }
    }
}

/// The ways of writing.
#[derive(Clone, Debug)]
pub enum Act {
    /// Create the object.
    Create(Box<Value>),
    /// JSON merge patch; the preconditions travel in its metadata.
    Merge(Value),
    /// JSON patch, `test` operations included.
    Patch(Patch),
    /// JSON patch of the status subresource.
    PatchStatus(Patch),
    /// Server-side apply, by force.
    Apply(Box<Value>),
    /// Delete the object.
    Delete {
        /// Leave its dependents alone and without an owner.
        orphan: bool,
    },
    /// Do something in the pod's container.
    Guest {
        /// The container.
        container: &'static str,
        /// What.
        action: GuestAction,
    },
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}", self.name)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = &self.on;
        match &self.act {
            Act::Create(object) if on.name.is_empty() => {
                let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
                write!(f, "create {on}{prefix}*")?;
            }
            Act::Create(_) => write!(f, "create {on}")?,
            Act::Merge(_) | Act::Patch(_) => write!(f, "patch {on}")?,
            Act::PatchStatus(_) => write!(f, "patch status of {on}")?,
            Act::Apply(_) => write!(f, "apply {on}")?,
            Act::Delete { orphan: true } => write!(f, "delete {on}, keeping what it owns,")?,
            Act::Delete { orphan: false } => write!(f, "delete {on}")?,
            Act::Guest { action, .. } => write!(f, "{action} in {on}")?,
        }
        write!(f, " to {}", self.purpose)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        for reason in &self.waiting_for {
            writeln!(f, "wait for {reason}")?;
        }
        match self.next_check {
            Some(Duration::ZERO) => writeln!(f, "look again at once"),
            Some(delay) => writeln!(f, "look again after {} s", delay.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl Plan {
    /// Adds a write.
    pub(crate) fn push(&mut self, on: ObjectRef, act: Act, purpose: impl Into<String>) {
        self.changes.push(Change { on, act, purpose: purpose.into() });
    }

    /// Looks again after `delay` at the latest.
    pub(crate) fn check_within(&mut self, delay: Duration) {
        self.next_check = Some(self.next_check.map_or(delay, |earlier| earlier.min(delay)));
    }
}
