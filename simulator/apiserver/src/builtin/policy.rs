//! PodDisruptionBudgets.
//!
//! Source: `pkg/apis/policy/validation/validation.go`.

use super::at::{At, Errors};
use super::workload_rules::{count_or_percent, not_above_hundred_percent};
use super::{OnUpdate, Strategy, go, pod_spec};

pub(super) static DISRUPTION_BUDGETS: Strategy = Strategy {
    unconditional_update: false,
    generation: &["/spec"],
    validate: |budget, errors| validate(&At::root(budget).get("spec"), errors),
    validate_status_update: |new, _, errors| {
        let root = At::root(new);
        let status = root.get("status");
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            status.get(field).non_negative(errors);
        }
    },
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

fn validate(spec: &At<'_, '_>, errors: &mut Errors) {
    let (available, unavailable) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if !available.is_absent() && !unavailable.is_absent() {
        spec.invalid_as(
            errors,
            go::DISRUPTION_BUDGET_SPEC.print(spec.value()),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for bound in [&available, &unavailable] {
        if !bound.is_absent() {
            count_or_percent(bound, errors);
            not_above_hundred_percent(bound, errors);
        }
    }
    pod_spec::label_selector(&spec.get("selector"), errors);
    let policy = spec.get("unhealthyPodEvictionPolicy");
    policy.optional_one_of(errors, &["AlwaysAllow", "IfHealthyBudget"]);
}
