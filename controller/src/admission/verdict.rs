//! A verdict: allowed, perhaps with a patch, or refused, with reasons. Never both.

use json_patch::Patch;

/// The outcome of a review.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Allowed, with these changes.
    Allow(Patch),
    /// Refused, with all that is wrong.
    Refuse(Vec<String>),
}

impl Verdict {
    /// Allowed as it is.
    pub(super) fn allow() -> Self {
        Verdict::Allow(Patch(Vec::new()))
    }

    /// Refused for one reason.
    pub(super) fn refuse(reason: impl Into<String>) -> Self {
        Verdict::Refuse(vec![reason.into()])
    }

    /// Allowed with the patch, unless there is a complaint.
    pub(super) fn of(complaints: Vec<String>, patch: Patch) -> Self {
        if complaints.is_empty() { Verdict::Allow(patch) } else { Verdict::Refuse(complaints) }
    }

    pub(super) fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allow(_))
    }
}
