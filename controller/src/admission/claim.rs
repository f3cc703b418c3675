//! Verdicts on claims: each member claim gets its owner when it is made, also those whose template names an
//! owner of an earlier life.

use json_patch::Patch;
use serde_json::{Value, json};

use super::children::without_absent_owners;
use super::facts::Facts;
use super::request::Request;
use super::verdict::Verdict;
use crate::kinds;
use crate::names;
use crate::reconcile::owners;
use crate::reconcile::status::add;
use crate::settings::Settings;

/// Name of the cluster a child is labelled with; a backup has its cluster's name.
pub(super) fn named_cluster(request: &Request) -> Option<String> {
    if request.resource == kinds::STATUS_BACKUP.plural {
        return request.object["metadata"]["name"].as_str().map(str::to_owned);
    }
    request.object["metadata"]["labels"][names::CLUSTER].as_str().map(str::to_owned)
}

/// The verdict on a claim about to be created. The whole list of owners becomes the one reference.
pub(super) fn judge(request: &Request, facts: &Facts, settings: &Settings) -> Verdict {
    let metadata = &request.object["metadata"];
    let Some(name) = named_cluster(request).filter(|_| is_a_members(metadata)) else {
        return Verdict::allow();
    };
    match &facts.owner {
        Some(cluster) if settings.safeguards.claim_webhook => {
            let references = json!([owners::reference(cluster)]);
            if metadata["ownerReferences"] == references {
                return Verdict::allow();
            }
            // `add` also replaces; `replace` would fail on a claim without the list.
            Verdict::Allow(Patch(vec![add(["metadata", "ownerReferences"], references)]))
        }
        Some(_) => Verdict::allow(),
        // Its cluster may still be on its way. An owner of an earlier life would have the claim collected meanwhile.
        None if settings.safeguards.children_webhook => without_absent_owners(metadata, &name, None),
        None => Verdict::allow(),
    }
}

/// A claim that a user labelled by hand is not taken over (B40): it needs a member's labels or a member's name.
fn is_a_members(metadata: &Value) -> bool {
    let labels = &metadata["labels"];
    let labelled = labels[names::HEADLESS].is_string() || labels[names::ROLE].is_string();
    labelled || metadata["name"].as_str().is_some_and(names::is_member_claim)
}
