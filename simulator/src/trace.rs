//! The story of a run as values: who did what to which object, when, in which step.
//!
//! Rendering is stable: the same run gives the same bytes.

use std::fmt;
use std::sync::Arc;

use imbl::Vector;
use jiff::Timestamp;
use rewake_apiserver::request::Verb;
use rewake_apiserver::store::Revision;

/// Who acts in a run.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Actor {
    /// The person behind the scenario: its `apply`, `patch`, `delete`, ….
    User,
    /// The backup and restore tool.
    Tool,
    /// The controller under test, by name.
    Subject(Arc<str>),
    /// A control loop of the control plane, by its name.
    Loop(&'static str),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Tool => f.write_str("restore-tool"),
            Self::Subject(name) => f.write_str(name),
            Self::Loop(name) => f.write_str(name),
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Virtual time.
    pub at: Timestamp,
    /// Index of the scenario step during which it happened, from 0.
    pub step: usize,
    /// What happened.
    pub what: What,
}

/// What an [`Entry`] tells.
#[derive(Clone, Debug)]
pub enum What {
    /// A scenario step began; the text is the step in words.
    Step(Arc<str>),
    /// A request that changes things was answered. Reads are counted, not traced.
    Request(RequestEntry),
    /// A webhook was asked.
    Webhook {
        /// `CONFIGURATION/WEBHOOK`.
        name: Arc<str>,
        /// What it answered, in a few words.
        outcome: Arc<str>,
    },
    /// The controller made a plan; the text is its rendering.
    Plan(Arc<str>),
    /// Anything else worth telling: a crash, a fault that struck, what the tool skipped.
    Note {
        /// Who it concerns.
        by: Actor,
        /// In words.
        text: Arc<str>,
    },
}

/// A changing request and its answer.
#[derive(Clone, Debug)]
pub struct RequestEntry {
    /// Who asked.
    pub by: Actor,
    /// The verb.
    pub verb: Verb,
    /// `statefulsets.apps`, with `/status` for a subresource.
    pub resource: Arc<str>,
    /// Namespace; empty when cluster-scoped.
    pub namespace: Arc<str>,
    /// Name; of a create, the name that was given.
    pub name: Arc<str>,
    /// HTTP status code.
    pub code: u16,
    /// The refusal in the server's words.
    pub message: Option<Arc<str>>,
    /// The versions that the request committed: first and last, when it committed any.
    pub revisions: Option<(Revision, Revision)>,
}

/// A growing list of entries; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    entries: Vector<Entry>,
    start: Option<Timestamp>,
}

impl Trace {
    /// An empty trace of a run that begins at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { entries: Vector::new(), start: Some(start) }
    }

    /// Appends.
    pub fn push(&mut self, at: Timestamp, step: usize, what: What) {
        self.entries.push_back(Entry { at, step, what });
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Has nothing happened?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The changing requests, with their entries.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = (&Entry, &RequestEntry)> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            What::Request(request) => Some((entry, request)),
            _ => None,
        })
    }

    /// Who committed this version.
    #[must_use]
    pub fn writer(&self, revision: Revision) -> Option<(&Entry, &RequestEntry)> {
        self.requests()
            .rev()
            .find(|(_, request)| request.revisions.is_some_and(|(first, last)| first <= revision && revision <= last))
    }

    /// One line of the story.
    #[must_use]
    pub fn line(&self, entry: &Entry) -> String {
        let clock = clock(self.start.unwrap_or(entry.at), entry.at);
        match &entry.what {
            What::Step(text) => format!("{clock} ── step {}: {text}", entry.step + 1),
            What::Request(request) => format!("{clock}    {request}"),
            What::Webhook { name, outcome } => format!("{clock}      webhook {name}: {outcome}"),
            What::Plan(text) => format!("{clock}    plan: {text}"),
            What::Note { by, text } => format!("{clock}    {by}: {text}"),
        }
    }
}

/// The whole story, a line an entry.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{}", self.line(entry)))
    }
}

/// `restore-tool create statefulsets.apps team/web 201 (version 41)`.
impl fmt::Display for RequestEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.by, self.verb.as_str(), self.resource)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{} {}", self.name, self.code)?;
        match (&self.message, self.revisions) {
            (Some(message), _) => write!(f, " {message}"),
            (None, Some((_, last))) => write!(f, " (version {last})"),
            (None, None) => write!(f, " (no change)"),
        }
    }
}

/// Virtual time since the start of the run, `00:01:12.250`.
#[must_use]
pub fn clock(start: Timestamp, at: Timestamp) -> String {
    let millis = at.duration_since(start).as_millis().max(0);
    let (seconds, millis) = (millis / 1000, millis % 1000);
    format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
