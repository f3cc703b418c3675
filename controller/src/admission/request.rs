//! The part of an AdmissionReview that verdicts look at.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
}

/// A request under review.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// Plural name of the resource.
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The object as it would be; null for a delete.
    pub(super) object: Value,
    /// The object as it is; null for a create.
    pub(super) old_object: Value,
}

impl Request {
    /// Reads a review.
    ///
    /// # Errors
    /// A sentence for the requester.
    pub(super) fn parse(review: &Value) -> Result<Self, String> {
        let request = &review["request"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let operation = match request["operation"].as_str() {
            Some("CREATE") => Operation::Create,
            Some("UPDATE") => Operation::Update,
            Some("DELETE") => Operation::Delete,
            other => return Err(format!("operation {other:?} is not one this webhook judges")),
        };
        Ok(Self {
            operation,
            resource: text(&request["resource"]["resource"]),
            namespace: text(&request["namespace"]),
            name: text(&request["name"]),
            object: request["object"].clone(),
            old_object: request["oldObject"].clone(),
        })
    }

    /// The object as it would be.
    ///
    /// # Errors
    /// A sentence for the requester.
    pub(super) fn new_as<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.object).map_err(|error| format!("object of {} cannot be read: {error}", self.resource))
    }

    /// The object as it is.
    ///
    /// # Errors
    /// A sentence for the requester.
    pub(super) fn old_as<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.old_object)
            .map_err(|error| format!("old object of {} cannot be read: {error}", self.resource))
    }
}
