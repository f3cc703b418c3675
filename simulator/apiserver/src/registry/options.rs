//! Query parameters and delete options: their forms and what is wrong with them.
//!
//! Source: `k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go` and
//! `k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go`.

use serde_json::{Value, json};

use crate::error::{ApiError, FieldError, FieldErrorKind};
use crate::request::Options;

/// Bytes of a field manager's name.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// What is done about fields that a kind does not have.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum FieldValidation {
    /// They are dropped in silence.
    Ignore,
    /// They are dropped, with a warning each.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Options that every write takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteOptions {
    /// Nothing is committed.
    pub(crate) dry_run: bool,
    /// Manager of the fields that are written.
    pub(crate) field_manager: String,
    /// About unknown fields.
    pub(crate) field_validation: FieldValidation,
    /// Apply takes fields from other managers.
    pub(crate) force: bool,
}

/// Reads the parameters of a create, update or patch; `kind` is the options' kind.
///
/// # Errors
/// 422 on what upstream refuses.
pub(crate) fn write_options(options: &Options, kind: &str, user_agent: &str) -> Result<WriteOptions, ApiError> {
    let mut errors = Vec::new();
    let field_manager = options.get("fieldManager");
    check_field_manager(field_manager, &mut errors);
    let dry_run = options.0.get("dryRun").map(|value| vec![value.clone()]).unwrap_or_default();
    check_dry_run(&dry_run, &mut errors);
    let field_validation = match options.get("fieldValidation") {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", &other.into(), &supported));
            FieldValidation::Warn
        }
    };
    refuse(kind, &errors)?;
    Ok(WriteOptions {
        dry_run: !dry_run.is_empty(),
        field_manager: manager(field_manager, user_agent),
        field_validation,
        force: options.get("force") == "true",
    })
}

/// The options as admission shows them, but for their kind.
pub(crate) fn shown(options: &Options) -> Value {
    let mut fields = json!({});
    if let Some(dry_run) = options.0.get("dryRun") {
        fields["dryRun"] = json!([dry_run]);
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = options.0.get(name).filter(|value| !value.is_empty()) {
            fields[name] = value.as_str().into();
        }
    }
    fields
}

pub(crate) fn check_field_manager(name: &str, errors: &mut Vec<FieldError>) {
    if name.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            "fieldManager",
            &Value::Null,
            format!("may not be more than {FIELD_MANAGER_BYTES_MAX} bytes"),
        ));
    }
    for (position, char) in name.char_indices().filter(|(_, char)| char.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(char));
        errors.push(FieldError::invalid("fieldManager", &name.into(), why));
    }
}

pub(crate) fn check_dry_run(dry_run: &[String], errors: &mut Vec<FieldError>) {
    if dry_run.iter().any(|value| value != "All") {
        errors.push(FieldError::not_supported("dryRun", &json!(dry_run), &["All"]));
    }
}

/// 422 about options, when there are errors.
pub(crate) fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", errors)) }
}

/// The field manager: the one named, else the first part of the `User-Agent`, shortened.
pub(crate) fn manager(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name: String =
        user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    while name.len() > FIELD_MANAGER_BYTES_MAX {
        name.pop();
    }
    name
}

/// `DeleteOptions`, from body and query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) precondition_uid: Option<String>,
    pub(crate) precondition_resource_version: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) dry_run: bool,
    /// As admission shows them.
    pub(crate) shown: Value,
}

impl DeleteOptions {
    /// Reads decoded options; `Null` when there are none.
    ///
    /// # Errors
    /// 422 on what upstream refuses.
    pub(crate) fn read(fields: &Value) -> Result<Self, ApiError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut errors = Vec::new();
        let orphan_dependents = fields["orphanDependents"].as_bool();
        let propagation_policy = text(&fields["propagationPolicy"]);
        if let Some(policy) = &propagation_policy {
            if orphan_dependents.is_some() {
                errors.push(FieldError::invalid(
                    "propagationPolicy",
                    &policy.as_str().into(),
                    "orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", &policy.as_str().into(), &supported));
            }
        }
        let dry_run: Vec<String> = fields["dryRun"].as_array().into_iter().flatten().filter_map(text).collect();
        check_dry_run(&dry_run, &mut errors);
        refuse("DeleteOptions", &errors)?;
        let mut shown = fields.clone();
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        Ok(Self {
            // Less than nothing is taken as one second.
            grace_period_seconds: fields["gracePeriodSeconds"]
                .as_i64()
                .map(|seconds| if seconds < 0 { 1 } else { seconds }),
            precondition_uid: text(&fields["preconditions"]["uid"]),
            precondition_resource_version: text(&fields["preconditions"]["resourceVersion"]),
            orphan_dependents,
            propagation_policy,
            dry_run: !dry_run.is_empty(),
            shown: crate::admission::options("DeleteOptions", shown),
        })
    }

    /// Makes it a precondition that the object still has this uid; admission is shown it.
    pub(crate) fn expect_uid(&mut self, uid: &str) {
        self.precondition_uid = Some(uid.to_owned());
        let preconditions = &mut self.shown["preconditions"];
        if !preconditions.is_object() {
            *preconditions = json!({});
        }
        preconditions["uid"] = uid.into();
    }

    /// The options that stand in the query of a delete without body.
    ///
    /// # Errors
    /// 400 on a number or truth value that is none, in Go's words.
    pub(crate) fn from_query(options: &Options) -> Result<Value, ApiError> {
        let mut fields = json!({});
        let set = |name: &str| options.0.get(name).filter(|value| !value.is_empty());
        if let Some(seconds) = set("gracePeriodSeconds") {
            fields["gracePeriodSeconds"] = integer(seconds)?.into();
        }
        if let Some(orphan) = options.0.get("orphanDependents") {
            // As Go's conversion of query parameters: anything but these words is true.
            fields["orphanDependents"] = (!matches!(orphan.to_lowercase().as_str(), "false" | "0")).into();
        }
        if let Some(policy) = set("propagationPolicy") {
            fields["propagationPolicy"] = policy.as_str().into();
        }
        if let Some(dry_run) = options.0.get("dryRun") {
            fields["dryRun"] = json!([dry_run]);
        }
        Ok(fields)
    }
}

/// `timeout` of any request that is no watch: a duration as Go reads it.
///
/// # Errors
/// 400 in upstream's words.
pub(crate) fn check_timeout(options: &Options) -> Result<(), ApiError> {
    let text = options.get("timeout");
    if text.is_empty() || is_duration(text) {
        return Ok(());
    }
    let message = format!("invalid timeout specified in the request URL - time: invalid duration {text:?}");
    Err(ApiError::bad_request(message))
}

/// Is it a duration such as `1h30m` or `1.5s`?
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(unit_at);
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        match units.iter().find_map(|name| unit.strip_prefix(name)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    !text.is_empty()
}

/// A number in a query.
///
/// # Errors
/// 400 in Go's words.
pub(crate) fn integer(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}
