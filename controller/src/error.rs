//! What can go wrong in observing and applying.

use crate::guest::GuestError;

/// Why a reconciliation stopped. All of it is worth another try: the next one starts from a fresh look.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be asked.
    #[error("failed to {what}: {reason}")]
    Api {
        /// What was attempted.
        what: String,
        /// The server's words, or the transport's.
        reason: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// A request could not be built.
    #[error("failed to build the request to {what}: {reason}")]
    Request {
        /// What was attempted.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object is not what its definition says.
    #[error("failed to {what}: it is not what its definition says: {reason}")]
    Malformed {
        /// What was attempted.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A guest could not be reached, or failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
}

impl Error {
    /// Wraps an answer of the API server.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        |source| {
            let reason = match &source {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            };
            Error::Api { what, reason, source: Box::new(source) }
        }
    }

    /// The world had moved on since it was observed: a precondition did not hold. Nothing was written, and
    /// nothing is wrong.
    pub fn is_stale(&self) -> bool {
        let Error::Api { source, .. } = self else { return false };
        // The last is the server's answer to a JSON patch whose `test` does not hold.
        matches!(&**source, kube::Error::Api(status) if matches!(status.code, 404 | 409)
            || (status.code == 422 && status.message.starts_with("the server rejected our request")))
    }
}
