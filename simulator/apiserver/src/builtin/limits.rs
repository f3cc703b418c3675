//! LimitRanges and ResourceQuotas, as objects; what they do to others is admission.
//!
//! Source: `pkg/apis/core/v1/defaults.go`, `pkg/apis/core/validation/validation.go`.

use serde_json::{Map, Value};

use super::at::{At, Errors, same};
use super::fill::{each, put, within};
use super::names;
use super::{OnUpdate, Status, Strategy};

pub(super) static LIMIT_RANGES: Strategy = Strategy {
    create_on_update: true,
    status: Status::Keep,
    default: |range| within(range, "spec", |spec| each(spec, "limits", default_limit)),
    validate: limit_range,
    on_update: OnUpdate::WholeThenChanges,
    ..Strategy::PLAIN
};

pub(super) static RESOURCE_QUOTAS: Strategy = Strategy {
    validate: |quota, errors| {
        let root = At::root(quota);
        hard(&root.get("spec").get("hard"), errors);
    },
    validate_update: |new, old, errors| {
        let root = At::root(new);
        let spec = root.get("spec");
        if !same(spec.get("scopes").value(), &old["spec"]["scopes"]) {
            spec.get("scopes").invalid(errors, "field is immutable");
        }
    },
    validate_status_update: |new, _, errors| {
        let root = At::root(new);
        let status = root.get("status");
        for (list, name) in [("hard", "hard"), ("used", "used")] {
            let amounts = status.get(list);
            if amounts.value().is_object() {
                hard(&status.under(name, amounts.value()), errors);
            }
        }
    },
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

/// An absent limit is the maximum, an absent request the limit, then the minimum.
fn default_limit(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    let list = |limit: &Value, field: &str| limit[field].as_object().cloned().unwrap_or_default();
    let extend = |base: Map<String, Value>, more: Map<String, Value>| {
        let mut base = base;
        for (name, amount) in more {
            base.entry(name).or_insert(amount);
        }
        base
    };
    let defaults = extend(list(limit, "default"), list(limit, "max"));
    let requests = extend(extend(list(limit, "defaultRequest"), defaults.clone()), list(limit, "min"));
    for (field, amounts) in [("default", defaults), ("defaultRequest", requests)] {
        if !amounts.is_empty() {
            put(limit, field, amounts.into());
        }
    }
}

fn limit_range(range: &Value, errors: &mut Errors) {
    let root = At::root(range);
    let spec = root.get("spec");
    let mut seen = std::collections::BTreeSet::new();
    for limit in spec.get("limits").items() {
        let kind = limit.get("type");
        if !matches!(kind.text(), "Container" | "Pod" | "PersistentVolumeClaim") && !kind.text().contains('/') {
            kind.text_error(errors, "must be a standard limit type or fully qualified");
        }
        if !seen.insert(kind.text()) {
            kind.duplicate(errors);
        }
        let (min, max) = (limit.get("min"), limit.get("max"));
        let (default, request) = (limit.get("default"), limit.get("defaultRequest"));
        if kind.text() == "Pod" {
            for place in [&default, &request] {
                if !place.is_empty() {
                    place.forbidden(errors, "may not be specified when `type` is 'Pod'");
                }
            }
        }
        if kind.text() == "PersistentVolumeClaim" && min.get("storage").is_absent() && max.get("storage").is_absent() {
            limit.missing(errors, "either minimum or maximum storage value is required, but neither was provided");
        }
        let mut ordered = |lower: &At<'_, '_>, upper: &At<'_, '_>, lower_name: &str, upper_name: &str| {
            for (name, amount) in lower.entries() {
                let bound = upper.key(name);
                if let (Some(low), Some(high)) = (amount.quantity(), bound.quantity())
                    && low > high
                {
                    let detail = format!("{lower_name} value {low} is greater than {upper_name} value {high}");
                    amount.invalid(errors, detail);
                }
            }
        };
        ordered(&min, &max, "min", "max");
        ordered(&request, &max, "default request", "max");
        ordered(&request, &default, "default request", "default limit");
        ordered(&default, &max, "default", "max");
    }
}

/// Resources that a quota can count without a prefix.
const STANDARD: [&str; 16] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
];
const STANDARD_MORE: [&str; 3] = ["persistentvolumeclaims", "services.nodeports", "services.loadbalancers"];

fn hard(at: &At<'_, '_>, errors: &mut Errors) {
    for (name, amount) in at.entries() {
        let named = |errors: &mut Errors, detail: String| {
            amount.invalid_as(errors, Value::from(name).to_string(), detail);
        };
        for wrong in names::qualified_name(name) {
            named(errors, wrong);
        }
        let standard = STANDARD.contains(&name)
            || STANDARD_MORE.contains(&name)
            || name.starts_with("requests.hugepages-")
            || name.starts_with("hugepages-");
        if !name.contains('/') && !standard {
            named(errors, "must be a standard resource type or fully qualified".to_owned());
            named(errors, "must be a standard resource for quota".to_owned());
        }
        let Some(quantity) = amount.quantity() else { continue };
        if quantity.is_negative() {
            amount.invalid(errors, "must be greater than or equal to 0");
        }
        let counts_objects =
            name.starts_with("count/") || STANDARD_MORE.contains(&name) || STANDARD[10..].contains(&name);
        if counts_objects && !quantity.is_whole() {
            amount.invalid(errors, "must be an integer");
        }
    }
}
