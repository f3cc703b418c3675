//! Admission: an AdmissionReview in, an AdmissionReview out.
//!
//! Facts are read first (`facts`), the verdict is a pure function of the request and of them. It is the same
//! for everybody: no user is recognised, the controller least of all.

mod app;
mod children;
mod claim;
mod cluster;
mod config;
mod facts;
mod request;
mod validate;
mod verdict;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::kinds;
use crate::reconcile::Controller;
use crate::settings::Settings;

use facts::Facts;
use request::Request;
use verdict::Verdict;

impl Controller {
    /// Judges one AdmissionReview (`admission.k8s.io/v1`) and answers with one.
    pub async fn admit(&self, review: &Value) -> Value {
        let request = match Request::parse(review) {
            Ok(request) => request,
            Err(reason) => return answer(review, &Verdict::refuse(reason)),
        };
        let verdict = match facts::read(self.client(), self.settings(), &request).await {
            Ok(facts) => judge(&request, &facts, self.settings()),
            // Claims and workloads must come into being whatever happens to us.
            Err(_) if !is_own_kind(&request) => Verdict::allow(),
            Err(error) => Verdict::refuse(format!("failed to judge the request: {error}")),
        };
        answer(review, &verdict)
    }
}

fn is_own_kind(request: &Request) -> bool {
    let plurals = [kinds::CLUSTER.plural, kinds::APP.plural, kinds::CONFIG.plural];
    plurals.contains(&request.resource.as_str())
}

/// The verdict on a request. Kinds nobody asked about are allowed.
fn judge(request: &Request, facts: &Facts, settings: &Settings) -> Verdict {
    let resource = request.resource.as_str();
    if resource == kinds::CLUSTER.plural {
        cluster::judge(request, facts, settings)
    } else if resource == kinds::APP.plural {
        app::judge(request, facts, settings)
    } else if resource == kinds::CONFIG.plural {
        config::judge(request, facts, settings)
    } else if resource == kinds::CLAIM.plural {
        claim::judge(request, facts, settings)
    } else if [kinds::STATEFUL_SET.plural, kinds::SERVICE.plural, kinds::STATUS_BACKUP.plural].contains(&resource) {
        children::judge(request, facts, settings)
    } else {
        Verdict::allow()
    }
}

fn answer(review: &Value, verdict: &Verdict) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": verdict.is_allowed()});
    match verdict {
        Verdict::Allow(patch) if patch.is_empty() => {}
        Verdict::Allow(patch) => {
            use base64::Engine;
            let bytes = serde_json::to_vec(patch).unwrap_or_default();
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(base64::engine::general_purpose::STANDARD.encode(bytes));
        }
        Verdict::Refuse(reasons) => {
            response["status"] = json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                "code": 403, "reason": "Forbidden", "message": reasons.join("; "),
            });
        }
    }
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}
