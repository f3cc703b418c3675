//! Leases.
//!
//! Source: `pkg/apis/coordination/validation/validation.go`.

use serde_json::Value;

use super::at::{At, Errors};
use super::{OnUpdate, Status, Strategy};

pub(super) static LEASES: Strategy = Strategy {
    unconditional_update: false,
    create_on_update: true,
    status: Status::Keep,
    validate,
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

fn validate(lease: &Value, errors: &mut Errors) {
    let root = At::root(lease);
    let spec = root.get("spec");
    spec.get("leaseDurationSeconds").positive_if_given(errors);
    spec.get("leaseTransitions").non_negative(errors);
    let (strategy, preferred) = (spec.get("strategy"), spec.get("preferredHolder"));
    if !preferred.is_empty() && strategy.is_empty() {
        preferred.forbidden(errors, "may only be specified if `strategy` is defined");
    }
}
