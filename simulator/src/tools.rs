//! Backup and restore tools as models: what each does at the API, request by request.
//!
//! A tool is plain data that yields one request at a time ([`Tool::next`]), so that anything can
//! happen between two of its requests, and a fork can hold it half-way. What tools and versions
//! differ in is data ([`profile`]); the procedure is one.

use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::request::{Request, Response, User};

use crate::decisions::Decisions;

pub mod archive;
pub mod backup;
pub mod item_actions;
pub mod kinds;
pub mod order;
pub mod profile;
pub mod reset;
pub mod restore;
pub mod selection;

pub use archive::Archive;
pub use backup::BackupRun;
pub use kinds::{ToolKind, ToolKinds};
pub use profile::Profile;
pub use restore::{RestoreRun, RestoreSpec};
pub use selection::Selection;

/// What a tool does next.
#[derive(Debug)]
pub enum ToolMove {
    /// Sends a request; its answer is handed to the next [`Tool::next`].
    Send(Box<Request>),
    /// Waits, as tools that poll do.
    Wait(SignedDuration),
    /// Is done.
    Finished,
}

/// A tool at work.
#[derive(Clone, Debug)]
pub enum Tool {
    /// Takes a backup.
    Backup(Box<BackupRun>),
    /// Restores one.
    Restore(Box<RestoreRun>),
}

impl Tool {
    /// What the tool does next, given the answer to its last request.
    pub fn next(&mut self, answer: Option<&Response>, decisions: &mut Decisions, now: Timestamp) -> ToolMove {
        match self {
            Self::Backup(run) => run.next(answer, now),
            Self::Restore(run) => run.next(answer, decisions, now),
        }
    }

    /// How it ended, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Backup(run) => run.summary(),
            Self::Restore(run) => run.summary(),
        }
    }
}

/// Who tools are to the API server.
#[must_use]
pub fn tool_user() -> User {
    let mut user = User::service_account("velero", "velero");
    user.groups.push("system:masters".to_owned());
    user
}
