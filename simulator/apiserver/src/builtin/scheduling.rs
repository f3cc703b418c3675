//! PriorityClasses and resource claims.
//!
//! Source: `pkg/apis/scheduling/validation/validation.go`, `pkg/apis/resource/v1/defaults.go`.

use serde_json::Value;

use super::at::{At, Errors, same};
use super::fill::{each, fill, fill_zero, within};
use super::{OnUpdate, Status, Strategy};

pub(super) static PRIORITY_CLASSES: Strategy = Strategy {
    generation: &["/value"],
    status: Status::Keep,
    default: |class| fill(class, "preemptionPolicy", "PreemptLowerPriority"),
    validate,
    validate_update: |new, old, errors| {
        let root = At::root(new);
        for field in ["value", "preemptionPolicy"] {
            if !same(&new[field], &old[field]) {
                root.get(field).forbidden(errors, "may not be changed in an update.");
            }
        }
    },
    on_update: OnUpdate::Changes,
    ..Strategy::PLAIN
};

/// ResourceClaims and their templates.
pub(super) static RESOURCE_CLAIMS: Strategy = Strategy {
    default: |object| {
        within(object, "spec", |spec| {
            within(spec, "devices", default_requests);
            within(spec, "spec", |claim| within(claim, "devices", default_requests));
        });
    },
    ..Strategy::PLAIN
};

fn default_requests(devices: &mut Value) {
    let exactly = |request: &mut Value| {
        fill_zero(request, "allocationMode", "ExactCount");
        if request["allocationMode"] == "ExactCount" {
            fill_zero(request, "count", 1);
        }
    };
    each(devices, "requests", |request| {
        within(request, "exactly", exactly);
        each(request, "firstAvailable", exactly);
    });
}

/// Highest value that a user may give.
const USER_VALUE_MAX: i64 = 1_000_000_000;

/// Classes that the system makes itself, with their values.
pub(super) const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2 * USER_VALUE_MAX), ("system-node-critical", 2 * USER_VALUE_MAX + 1000)];

fn validate(class: &Value, errors: &mut Errors) {
    let root = At::root(class);
    let (name, value) = (root.get("metadata"), root.get("value"));
    let name = name.get("name");
    if name.text().starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().any(|(system, priority)| *system == name.text() && *priority == value.int());
        if !known {
            name.forbidden(
                errors,
                format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a \
                     known system priority class",
                    name.text()
                ),
            );
        }
    } else if value.int() > USER_VALUE_MAX {
        value.forbidden(errors, format!("maximum allowed value of a user defined priority is {USER_VALUE_MAX}"));
    }
    root.get("preemptionPolicy").optional_one_of(errors, &["Never", "PreemptLowerPriority"]);
}
