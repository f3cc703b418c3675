//! What is refused about a definition, apart from its schemas.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`. Upstream validates its
//! internal form, in which what all versions have in common stands once: paths say `spec.validation` then, and
//! values are printed with Go's field names.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names::{APPROVAL, is_established, is_protected};
use super::structural;
use crate::builtin::names::{label_1035, subdomain};
use crate::error::{FieldError, FieldErrorKind};
use crate::object::ObjectExt;

const APPROVAL_URL: &str = "https://github.com/kubernetes/enhancements/pull/1111";
/// Printer column types.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// Printer column formats.
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Most `selectableFields` of a version.
const MAX_SELECTABLE_FIELDS: usize = 8;
const IMMUTABLE: &str = "field is immutable";

/// Everything wrong with a new definition; its metadata as such is judged elsewhere.
pub fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let expected = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if object.name() != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &object.name().into(), detail));
    }
    validate_spec(spec, errors);
    validate_status(object, errors);
    if is_protected(text(&spec["group"])) {
        validate_approval(object, errors);
    }
    validate_preserving(spec, errors);
}

/// Everything wrong with a change of a definition.
pub fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    validate_spec(spec, errors);
    let mut immutable = |pointer: &str| {
        let (value, before) = (spec.pointer(pointer), before.pointer(pointer));
        if value != before {
            let path = format!("spec{}", pointer.replace('/', "."));
            errors.push(FieldError::invalid(path, value.unwrap_or(&Value::Null), IMMUTABLE));
        }
    };
    if is_established(old) {
        immutable("/scope");
        immutable("/names/kind");
    }
    immutable("/group");
    immutable("/names/plural");
    validate_status(new, errors);
    if is_protected(text(&spec["group"])) && old.annotation(APPROVAL) != new.annotation(APPROVAL) {
        validate_approval(new, errors);
    }
    if before["preserveUnknownFields"] != true {
        validate_preserving(spec, errors);
    }
}

/// Everything wrong with a change of a definition's status.
pub fn validate_status_update(new: &Value, _old: &Value, errors: &mut Vec<FieldError>) {
    validate_status(new, errors);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn invalid(path: impl Into<String>, value: &Value, sentences: &[String]) -> Option<FieldError> {
    (!sentences.is_empty()).then(|| FieldError::invalid(path, value, sentences.join(",")))
}

/// What all versions have in common, moved where upstream's internal form has it.
struct Common {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable_fields: bool,
}

impl Common {
    fn of(versions: &[Value]) -> Self {
        let same =
            |field: &str| !versions.is_empty() && versions.iter().all(|version| version[field] == versions[0][field]);
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable_fields: same("selectableFields"),
        }
    }

    /// The versions as Go prints its internal form.
    fn printed(&self, versions: &[Value]) -> Value {
        let unless = |common: bool, value: &Value| if common { Value::Null } else { value.clone() };
        versions
            .iter()
            .map(|version| {
                // The order of Go's fields, which a map would lose.
                let fields = [
                    ("Name", version["name"].clone()),
                    ("Served", version["served"].clone()),
                    ("Storage", version["storage"].clone()),
                    ("Deprecated", Value::Bool(version["deprecated"] == true)),
                    ("DeprecationWarning", version["deprecationWarning"].clone()),
                    ("Schema", unless(self.schema, &version["schema"])),
                    ("Subresources", unless(self.subresources, &version["subresources"])),
                    ("AdditionalPrinterColumns", unless(self.columns, &version["additionalPrinterColumns"])),
                    ("SelectableFields", unless(self.selectable_fields, &version["selectableFields"])),
                ];
                let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
                Value::String(format!("{{{}}}", fields.join(",")))
            })
            .collect()
    }
}

fn versions_error(common: &Common, versions: &[Value], detail: &str) -> FieldError {
    let printed = common.printed(versions);
    let printed: Vec<&str> = list(&printed).iter().filter_map(Value::as_str).collect();
    FieldError {
        field: "spec.versions".to_owned(),
        kind: FieldErrorKind::Invalid,
        value: format!("[{}]", printed.join(",")),
        detail: detail.to_owned(),
    }
}

fn validate_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(&spec["versions"]);
    let common = Common::of(versions);
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            errors.push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    validate_group(spec, errors);
    validate_scope(spec, errors);
    let mut names = BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        unique &= names.insert(text(&version["name"]));
        let path = format!("spec.versions[{index}]");
        errors.extend(invalid(format!("{path}.name"), &version["name"], &label_1035(text(&version["name"]))));
        if !common.schema {
            structural::validate(version, &format!("{path}.schema.openAPIV3Schema"), errors);
        }
        validate_parts(version, &common, false, &path, errors);
    }
    if !unique {
        errors.push(versions_error(&common, versions, "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(versions_error(&common, versions, detail));
    }
    if let Some(first) = versions.first() {
        errors.extend(invalid("spec.version", &first["name"], &label_1035(text(&first["name"]))));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"][field]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    validate_names(&spec["names"], "spec.names", errors);
    if let Some(first) = versions.first() {
        if common.schema {
            structural::validate(first, "spec.validation.openAPIV3Schema", errors);
        }
        validate_parts(first, &common, true, "spec", errors);
    }
    validate_conversion(&spec["conversion"], errors);
}

/// Subresources, printer columns and selectable fields, where they stand: at the version or, when they are
/// common to all, at the top.
fn validate_parts(version: &Value, common: &Common, at_top: bool, path: &str, errors: &mut Vec<FieldError>) {
    if common.subresources == at_top {
        validate_scale(&version["subresources"]["scale"], &format!("{path}.subresources.scale"), errors);
    }
    if common.columns == at_top {
        for (index, column) in list(&version["additionalPrinterColumns"]).iter().enumerate() {
            validate_column(column, &format!("{path}.additionalPrinterColumns[{index}]"), errors);
        }
    }
    if common.selectable_fields == at_top {
        validate_selectable_fields(version, &format!("{path}.selectableFields"), errors);
    }
}

fn validate_group(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = text(&spec["group"]);
    let wrong = subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.extend(invalid("spec.group", &spec["group"], &wrong));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", &spec["group"], "should be a domain with at least one dot"));
    }
}

fn validate_scope(spec: &Value, errors: &mut Vec<FieldError>) {
    match text(&spec["scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        _ => errors.push(FieldError::not_supported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"])),
    }
}

fn validate_names(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut check = |field: String, value: &Value, mixed_case: bool| {
        let name = text(value);
        if name.is_empty() {
            return;
        }
        if mixed_case {
            let wrong = label_1035(&name.to_lowercase());
            if !wrong.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.push(FieldError::invalid(field, value, detail));
            }
        } else {
            errors.extend(invalid(field, value, &label_1035(name)));
        }
    };
    check(format!("{path}.plural"), &names["plural"], false);
    check(format!("{path}.singular"), &names["singular"], false);
    check(format!("{path}.kind"), &names["kind"], true);
    check(format!("{path}.listKind"), &names["listKind"], true);
    for (index, name) in list(&names["shortNames"]).iter().enumerate() {
        check(format!("{path}.shortNames[{index}]"), name, false);
    }
    for (index, name) in list(&names["categories"]).iter().enumerate() {
        check(format!("{path}.categories[{index}]"), name, false);
    }
    if !text(&names["kind"]).is_empty() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), &names["listKind"], detail));
    }
}

fn validate_status(object: &Value, errors: &mut Vec<FieldError>) {
    validate_names(&object["status"]["acceptedNames"], "status.acceptedNames", errors);
    const PATH: &str = "status.storedVersions";
    let stored = &object["status"]["storedVersions"];
    if list(stored).is_empty() {
        errors.push(FieldError::invalid(PATH, stored, "must have at least one stored version"));
        return;
    }
    let versions = list(&object["spec"]["versions"]);
    for version in versions {
        if version["storage"] == true && !list(stored).contains(&version["name"]) {
            let detail = format!("must have the storage version {}", text(&version["name"]));
            errors.push(FieldError::invalid(PATH, stored, detail));
        }
    }
    for (index, name) in list(stored).iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let v = text(name);
            let detail = format!(
                "missing from spec.versions; {v} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {v} and removes {v} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{PATH}[{index}]"), name, detail));
        }
    }
}

fn validate_approval(object: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("metadata.annotations[{APPROVAL}]");
    match object.annotation(APPROVAL) {
        None | Some("") => {
            let detail = format!("protected groups must have approval annotation {APPROVAL:?}, see {APPROVAL_URL}");
            errors.push(FieldError::required(path, detail));
        }
        Some(value) if value.starts_with("unapproved") || url::Url::parse(value).is_ok_and(|url| url.has_host()) => {}
        Some(value) => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", see {APPROVAL_URL}"
            );
            errors.push(FieldError::invalid(path, &value.into(), detail));
        }
    }
}

fn validate_preserving(spec: &Value, errors: &mut Vec<FieldError>) {
    if spec["preserveUnknownFields"] == true {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &Value::Bool(true), detail));
    }
}

fn validate_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.conversion";
    let webhook = &conversion["webhook"];
    let reviews = list(&webhook["conversionReviewVersions"]);
    match text(&conversion["strategy"]) {
        "" => errors.push(FieldError::required(format!("{PATH}.strategy"), "")),
        "Webhook" => {
            let client = &webhook["clientConfig"];
            let path = format!("{PATH}.webhookClientConfig");
            if client.is_null() {
                errors.push(FieldError::required(path, "required when strategy is set to Webhook"));
            } else if client["url"].is_string() == client["service"].is_object() {
                errors.push(FieldError::required(path, "exactly one of url or service is required"));
            }
            validate_reviews(reviews, &format!("{PATH}.conversionReviewVersions"), errors);
        }
        strategy => {
            if strategy != "None" {
                let path = format!("{PATH}.strategy");
                errors.push(FieldError::not_supported(path, &conversion["strategy"], &["None", "Webhook"]));
            }
            let detail = "should not be set when strategy is not set to Webhook";
            if !webhook["clientConfig"].is_null() {
                errors.push(FieldError::forbidden(format!("{PATH}.webhookClientConfig"), detail));
            }
            if !reviews.is_empty() {
                errors.push(FieldError::forbidden(format!("{PATH}.conversionReviewVersions"), detail));
            }
        }
    }
}

fn validate_reviews(reviews: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if reviews.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in reviews.iter().enumerate() {
        let name = text(version);
        if !seen.insert(name) {
            errors.push(FieldError::invalid(format!("{path}[{index}]"), version, "duplicate version"));
            continue;
        }
        errors.extend(invalid(format!("{path}[{index}]"), version, &label_1035(name)));
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, &reviews.to_vec().into(), detail));
    }
}

fn validate_scale(scale: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    let mut check = |field: &str, required: bool, roots: &[&str], sentence: &str| {
        let value = &scale[field];
        let written = text(value);
        let path = format!("{path}.{field}");
        if written.is_empty() {
            if required {
                errors.push(FieldError::required(path, ""));
            }
        } else if let Some(detail) = json_path_error(written) {
            errors.push(FieldError::invalid(path, value, detail));
        } else if !roots.iter().any(|root| written.starts_with(root)) {
            errors.push(FieldError::invalid(path, value, sentence));
        }
    };
    check("specReplicasPath", true, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", true, &[".status."], "should be a json path under .status");
    let sentence = "should be a json path under either .spec or .status";
    check("labelSelectorPath", false, &[".spec.", ".status."], sentence);
}

/// What is wrong with a path that may only go from field to field.
fn json_path_error(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        Some("must not be empty")
    } else if !path.starts_with('.') {
        Some("must be a simple json path starting with .")
    } else {
        None
    }
}

fn validate_column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if text(&column["name"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text(&column["type"]) {
        "" => errors.push(FieldError::required(format!("{path}.type"), types)),
        type_ if COLUMN_TYPES.contains(&type_) => {}
        _ => errors.push(FieldError::invalid(format!("{path}.type"), &column["type"], types)),
    }
    let format = text(&column["format"]);
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(format!("{path}.format"), &column["format"], detail));
    }
    match text(&column["jsonPath"]) {
        "" => errors.push(FieldError::required(format!("{path}.JSONPath"), "")),
        written => {
            if let Some(detail) = json_path_error(written) {
                errors.push(FieldError::invalid(format!("{path}.JSONPath"), &column["jsonPath"], detail));
            }
        }
    }
}

fn validate_selectable_fields(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let fields = list(&version["selectableFields"]);
    if fields.len() > MAX_SELECTABLE_FIELDS {
        let detail = format!("must have at most {MAX_SELECTABLE_FIELDS} items");
        errors.push(FieldError::new(FieldErrorKind::TooMany, path, &json!(fields.len()), detail));
    }
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let (path, written) = (format!("{path}[{index}].jsonPath"), text(&field["jsonPath"]));
        if written.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        match place(&version["schema"]["openAPIV3Schema"], written) {
            None => {
                let detail = "is an invalid path: does not refer to a valid field";
                errors.push(FieldError::invalid(&path, &field["jsonPath"], detail));
            }
            Some(schema) if !matches!(text(&schema["type"]), "string" | "boolean" | "integer") => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                errors.push(FieldError::invalid(&path, &field["jsonPath"], detail));
            }
            Some(_) => {}
        }
        if !seen.insert(written) {
            errors.push(FieldError::duplicate(path, &field["jsonPath"]));
        }
    }
}

/// The schema at a path through properties; metadata is not for selectable fields.
fn place<'v>(schema: &'v Value, path: &str) -> Option<&'v Value> {
    let path = path.strip_prefix('.')?;
    let mut at = schema;
    for (depth, field) in path.split('.').enumerate() {
        if depth == 0 && matches!(field, "metadata" | "apiVersion" | "kind") {
            return None;
        }
        at = at["properties"].get(field)?;
    }
    Some(at)
}
