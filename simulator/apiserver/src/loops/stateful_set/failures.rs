//! What a set says of a claim or pod that it could not make: events, and its status all the same.
//!
//! A pass stops at the first request that is refused; the next one tells it, and the one after that
//! tries again. Sentences: `pkg/controller/statefulset/stateful_pod_control.go`.

use super::Pass;
use crate::loops::Work;
use crate::object::ObjectExt;
use crate::request::{Body, Request, Response, Verb};

/// A claim or pod that was refused.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The claim, when it was one.
    claim: Option<String>,
    pod: String,
    /// The refusal; `None` when a stranger has the pod's name, of which upstream tells nothing.
    message: Option<String>,
}

impl Failure {
    /// The failure among the answers to a pass, if it was about making something.
    pub(super) fn of(work: &Work, responses: &[Response]) -> Option<Self> {
        let at = responses.iter().position(|response| !response.is_success())?;
        let status = responses[at].json();
        let message =
            (status["reason"] != "AlreadyExists").then(|| status["message"].as_str().unwrap_or_default().to_owned());
        let made = |request: &Request, resource: &str| match &request.body {
            Body::Json { value, .. } if request.verb == Verb::Create && request.resource == resource => {
                Some(value.name().to_owned())
            }
            _ => None,
        };
        let refused = work.requests.get(at)?;
        if let Some(pod) = made(refused, "pods") {
            return Some(Self { claim: None, pod, message });
        }
        let claim = made(refused, "persistentvolumeclaims")?;
        // The pod that the claim is for comes right after its claims.
        let pod = work.requests[at..].iter().find_map(|request| made(request, "pods"))?;
        Some(Self { claim: Some(claim), pod, message })
    }
}

impl Pass<'_> {
    /// A pass that only tells of a failure.
    pub(super) fn tell(&mut self, failure: &Failure) {
        let pods = self.claim_pods();
        let (current, update) = self.revisions(&pods);
        let Failure { claim, pod, message } = failure;
        let set = self.set.name().to_owned();
        if let Some(message) = message {
            let mut why = message.clone();
            if let Some(claim) = claim {
                self.event(
                    "Warning",
                    "FailedCreate",
                    format!("Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {message}"),
                );
                why = format!("failed to create PVC {claim}: {message}");
            }
            self.event("Warning", "FailedCreate", format!("Create Pod {pod} in StatefulSet {set} failed error: {why}"));
        }
        self.update_status(&pods, &current, &update);
    }
}
