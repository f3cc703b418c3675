//! Webhook configurations, admission policies and their bindings, as objects; what they do is
//! [`crate::admission`].
//!
//! Source: `pkg/apis/admissionregistration/v1/defaults.go`,
//! `pkg/apis/admissionregistration/validation/validation.go`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::fill::{each, fill, fill_with, within};
use super::names;
use super::{OnUpdate, Status, Strategy, pod_spec};
use crate::definitions;
use crate::expression::Program;

const WEBHOOKS: Strategy = Strategy {
    unconditional_update: false,
    generation: &["/webhooks"],
    status: Status::Keep,
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static VALIDATING_WEBHOOKS: Strategy = Strategy {
    default: |configuration| each(configuration, "webhooks", default_webhook),
    validate: |configuration, errors| webhooks(configuration, false, errors),
    ..WEBHOOKS
};

pub(super) static MUTATING_WEBHOOKS: Strategy = Strategy {
    default: |configuration| {
        each(configuration, "webhooks", |webhook| {
            default_webhook(webhook);
            fill(webhook, "reinvocationPolicy", "Never");
        });
    },
    validate: |configuration, errors| webhooks(configuration, true, errors),
    ..WEBHOOKS
};

const POLICIES: Strategy = Strategy {
    unconditional_update: false,
    generation: &["/spec"],
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

pub(super) static VALIDATING_POLICIES: Strategy = Strategy {
    default: |policy| {
        within(policy, "spec", |spec| {
            fill(spec, "failurePolicy", "Fail");
            within(spec, "matchConstraints", default_match_resources);
        });
    },
    validate: |policy, errors| validating_policy(&At::root(policy).get("spec"), errors),
    ..POLICIES
};

pub(super) static MUTATING_POLICIES: Strategy = Strategy {
    default: |policy| {
        within(policy, "spec", |spec| {
            fill(spec, "failurePolicy", "Fail");
            within(spec, "matchConstraints", default_match_resources);
        });
    },
    validate: |policy, errors| mutating_policy(&At::root(policy).get("spec"), errors),
    ..POLICIES
};

const BINDINGS: Strategy = Strategy {
    default: |binding| {
        within(binding, "spec", |spec| {
            within(spec, "matchResources", default_match_resources);
        });
    },
    ..POLICIES
};

pub(super) static VALIDATING_BINDINGS: Strategy =
    Strategy { validate: |binding, errors| policy_binding(&At::root(binding).get("spec"), true, errors), ..BINDINGS };

pub(super) static MUTATING_BINDINGS: Strategy =
    Strategy { validate: |binding, errors| policy_binding(&At::root(binding).get("spec"), false, errors), ..BINDINGS };

/// `CustomResourceDefinition`s: their rules stand in [`crate::definitions`].
pub(super) static DEFINITIONS: Strategy = Strategy {
    unconditional_update: false,
    generation: &["/spec"],
    status: Status::Keep,
    default: definitions::strategy::default,
    prepare_for_create: |definition, _| {
        definitions::strategy::prepare_for_create(definition);
        Ok(())
    },
    prepare_for_update: |definition, _, context| {
        if context.subresource.is_empty() {
            definitions::strategy::prepare_for_update(definition);
        }
        Ok(())
    },
    begin_deletion: definitions::strategy::begin_deletion,
    holds: definitions::strategy::holds,
    validate: definitions::validation::validate,
    validate_update: definitions::validation::validate_update,
    validate_status_update: definitions::validation::validate_status_update,
    ..Strategy::PLAIN
};

fn default_webhook(webhook: &mut Value) {
    fill(webhook, "failurePolicy", "Fail");
    fill(webhook, "matchPolicy", "Equivalent");
    fill_with(webhook, "namespaceSelector", || json!({}));
    fill_with(webhook, "objectSelector", || json!({}));
    fill(webhook, "timeoutSeconds", 10);
    each(webhook, "rules", |rule| fill(rule, "scope", "*"));
    within(webhook, "clientConfig", |config| within(config, "service", |service| fill(service, "port", 443)));
}

fn default_match_resources(resources: &mut Value) {
    fill(resources, "matchPolicy", "Equivalent");
    fill_with(resources, "namespaceSelector", || json!({}));
    fill_with(resources, "objectSelector", || json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        each(resources, rules, |rule| fill(rule, "scope", "*"));
    }
}

fn webhooks(configuration: &Value, mutating: bool, errors: &mut Errors) {
    let root = At::root(configuration);
    let mut seen = BTreeSet::new();
    for webhook in root.get("webhooks").items() {
        self::webhook(&webhook, mutating, errors);
        let versions = webhook.get("admissionReviewVersions");
        review_versions(&versions, errors);
        let name = webhook.get("name");
        if !name.is_empty() && !seen.insert(name.text()) {
            name.duplicate(errors);
        }
    }
}

fn webhook(webhook: &At<'_, '_>, mutating: bool, errors: &mut Errors) {
    qualified_webhook_name(&webhook.get("name"), errors);
    for rule in webhook.get("rules").items() {
        self::rule(&rule, errors);
    }
    webhook.get("failurePolicy").optional_one_of(errors, &["Fail", "Ignore"]);
    webhook.get("matchPolicy").optional_one_of(errors, &["Equivalent", "Exact"]);
    let effects = webhook.get("sideEffects");
    if effects.is_empty() {
        effects.missing(errors, "must specify one of None, NoneOnDryRun");
    } else {
        effects.one_of(errors, &["None", "NoneOnDryRun"]);
    }
    let timeout = webhook.get("timeoutSeconds");
    if !timeout.is_absent() && !(1..=30).contains(&timeout.int()) {
        timeout.invalid(errors, "the timeout value must be between 1 and 30 seconds");
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        pod_spec::label_selector(&webhook.get(selector), errors);
    }
    client_config(&webhook.get("clientConfig"), errors);
    if mutating {
        webhook.get("reinvocationPolicy").optional_one_of(errors, &["IfNeeded", "Never"]);
    }
    match_conditions(&webhook.get("matchConditions"), &["object", "oldObject", "request", "authorizer"], errors);
}

fn qualified_webhook_name(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        at.missing(errors, "");
        return;
    }
    at.all(errors, names::subdomain(at.text()));
    if at.text().split('.').count() < 3 {
        at.invalid(errors, "should be a domain with at least three segments separated by dots");
    }
}

fn review_versions(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        at.missing(errors, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for version in at.items() {
        if !seen.insert(version.text()) {
            version.invalid(errors, "duplicate version");
        }
        version.all(errors, names::label_1035(version.text()));
    }
    if !at.items().any(|version| matches!(version.text(), "v1" | "v1beta1")) {
        at.invalid(errors, "must include at least one of v1, v1beta1");
    }
}

/// Operations, groups, versions and resources of a rule.
fn rule(rule: &At<'_, '_>, errors: &mut Errors) {
    let operations = rule.get("operations");
    if operations.is_empty() {
        operations.missing(errors, "");
    }
    wildcard_stands_alone(&operations, "*", "if '*' is present, must not specify other operations", errors);
    for operation in operations.items() {
        operation.one_of(errors, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    let (groups, versions, resources) = (rule.get("apiGroups"), rule.get("apiVersions"), rule.get("resources"));
    if groups.is_empty() {
        groups.missing(errors, "");
    }
    wildcard_stands_alone(&groups, "*", "if '*' is present, must not specify other API groups", errors);
    if versions.is_empty() {
        versions.missing(errors, "");
    }
    wildcard_stands_alone(&versions, "*", "if '*' is present, must not specify other API versions", errors);
    for version in versions.items() {
        if version.is_empty() {
            version.missing(errors, "");
        }
    }
    self::resources(&resources, errors);
    let scope = rule.get("scope");
    scope.optional_one_of(errors, &["*", "Cluster", "Namespaced"]);
}

fn wildcard_stands_alone(at: &At<'_, '_>, wildcard: &str, detail: &str, errors: &mut Errors) {
    if at.items().count() > 1 && at.items().any(|item| item.text() == wildcard) {
        at.invalid(errors, detail);
    }
}

fn resources(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        at.missing(errors, "");
    }
    let all: Vec<&str> = at.items().map(|item| item.text()).collect();
    for resource in at.items() {
        let text = resource.text();
        if text.is_empty() {
            resource.missing(errors, "");
        }
        if text == "*/" || text.starts_with('/') {
            resource.invalid(errors, "must not be a subresource without a resource");
        }
        let (main, sub) = text.split_once('/').unwrap_or((text, ""));
        if !sub.is_empty() && sub != "*" && all.contains(&format!("{main}/*").as_str()) {
            resource.invalid(errors, format!("if '{main}/*' is present, must not specify {text}"));
        }
        if !sub.is_empty() && main != "*" && all.contains(&format!("*/{sub}").as_str()) {
            resource.invalid(errors, format!("if '*/{sub}' is present, must not specify {text}"));
        }
    }
    if all.len() > 1 && all.contains(&"*/*") {
        at.invalid(errors, "if '*/*' is present, must not specify other resources");
    }
    if all.contains(&"*") && all.iter().any(|text| *text != "*" && !text.contains('/')) {
        at.invalid(errors, "if '*' is present, must not specify other resources without subresources");
    }
}

fn client_config(at: &At<'_, '_>, errors: &mut Errors) {
    let (url, service) = (at.get("url"), at.get("service"));
    if url.is_absent() == service.is_absent() {
        at.missing(errors, "exactly one of url or service is required");
    } else if url.is_absent() {
        for field in ["name", "namespace"] {
            let place = service.get(field);
            if place.is_empty() {
                place.missing(errors, &format!("service {field} is required"));
            }
        }
        let port = service.get("port");
        if !(1..=65_535).contains(&port.int()) {
            port.int_error(errors, "port is not valid: must be between 1 and 65535, inclusive");
        }
        let path = service.get("path");
        if !path.is_empty() && !path.text().starts_with('/') {
            path.invalid(errors, "must start with a '/'");
        }
    } else {
        webhook_url(&url, errors);
    }
}

/// Source: `k8s.io/apiserver/pkg/util/webhook/validation.go` (`ValidateWebhookURL`).
fn webhook_url(at: &At<'_, '_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parsed = match url::Url::parse(at.text()) {
        Ok(parsed) => parsed,
        Err(error) => {
            at.missing(errors, &format!("url must be a valid URL: {error}{FORM}"));
            return;
        }
    };
    let quoted = |text: &str| Value::from(text).to_string();
    if parsed.scheme() != "https" {
        at.invalid_as(errors, quoted(parsed.scheme()), format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parsed.host_str().unwrap_or_default().is_empty() {
        at.invalid_as(errors, quoted(""), format!("host must be specified{FORM}"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        at.invalid_as(errors, quoted(parsed.username()), "user information is not permitted in the URL");
    }
    if let Some(fragment) = parsed.fragment() {
        at.invalid_as(errors, quoted(fragment), "fragments are not permitted in the URL");
    }
    if let Some(query) = parsed.query() {
        at.invalid_as(errors, quoted(query), "query parameters are not permitted in the URL");
    }
}

/// Conditions of one webhook or policy, at most.
const MATCH_CONDITIONS_MAX: usize = 64;

fn match_conditions(at: &At<'_, '_>, variables: &[&str], errors: &mut Errors) {
    let count = at.items().count();
    if count > MATCH_CONDITIONS_MAX {
        errors.push(crate::error::FieldError {
            field: at.path(),
            kind: crate::error::FieldErrorKind::TooMany,
            value: count.to_string(),
            detail: format!("must have at most {MATCH_CONDITIONS_MAX} items"),
        });
        return;
    }
    let mut seen = BTreeSet::new();
    for condition in at.items() {
        expression(&condition.get("expression"), variables, errors);
        let name = condition.get("name");
        if name.required(errors) {
            name.all(errors, names::qualified_name(name.text()));
            if !seen.insert(name.text()) {
                name.duplicate(errors);
            }
        }
    }
}

fn expression(at: &At<'_, '_>, variables: &[&str], errors: &mut Errors) {
    if at.text().trim().is_empty() {
        at.missing(errors, "");
    } else if let Err(error) = Program::compile(at.text(), variables) {
        at.invalid(errors, format!("compilation failed: {error}"));
    }
}

fn match_constraints(at: &At<'_, '_>, required: bool, errors: &mut Errors) {
    if at.is_absent() {
        if required {
            at.missing(errors, "");
        }
        return;
    }
    at.get("matchPolicy").optional_one_of(errors, &["Equivalent", "Exact"]);
    for selector in ["namespaceSelector", "objectSelector"] {
        pod_spec::label_selector(&at.get(selector), errors);
    }
    let rules = at.get("resourceRules");
    if required && rules.is_empty() {
        rules.missing(errors, "");
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in at.get(list).items() {
            self::rule(&rule, errors);
        }
    }
}

/// Variables that every expression of a policy knows.
const POLICY_VARIABLES: [&str; 7] =
    ["object", "oldObject", "request", "namespaceObject", "authorizer", "params", "variables"];

fn policy_head(spec: &At<'_, '_>, errors: &mut Errors) {
    spec.get("failurePolicy").optional_one_of(errors, &["Fail", "Ignore"]);
    let kind = spec.get("paramKind");
    if !kind.is_absent() {
        kind.get("apiVersion").required(errors);
        kind.get("kind").required(errors);
    }
    match_constraints(&spec.get("matchConstraints"), true, errors);
    match_conditions(&spec.get("matchConditions"), &POLICY_VARIABLES, errors);
    let mut seen = BTreeSet::new();
    for variable in spec.get("variables").items() {
        let name = variable.get("name");
        if name.required(errors) && !seen.insert(name.text()) {
            name.duplicate(errors);
        }
        expression(&variable.get("expression"), &POLICY_VARIABLES, errors);
    }
}

fn validating_policy(spec: &At<'_, '_>, errors: &mut Errors) {
    policy_head(spec, errors);
    let (validations, annotations) = (spec.get("validations"), spec.get("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        validations.missing(errors, "validations or auditAnnotations must contain at least one item");
        annotations.missing(errors, "validations or auditAnnotations must contain at least one item");
    }
    for validation in validations.items() {
        expression(&validation.get("expression"), &POLICY_VARIABLES, errors);
        let message = validation.get("messageExpression");
        if !message.is_empty() {
            expression(&message, &POLICY_VARIABLES, errors);
        }
        validation
            .get("reason")
            .optional_one_of(errors, &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"]);
    }
    for annotation in annotations.items() {
        annotation.get("key").required(errors);
        expression(&annotation.get("valueExpression"), &POLICY_VARIABLES, errors);
    }
}

fn mutating_policy(spec: &At<'_, '_>, errors: &mut Errors) {
    policy_head(spec, errors);
    let mutations = spec.get("mutations");
    if mutations.is_empty() {
        mutations.missing(errors, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        let kind = mutation.get("patchType");
        if kind.required(errors) {
            kind.one_of(errors, &["ApplyConfiguration", "JSONPatch"]);
        }
    }
    let reinvocation = spec.get("reinvocationPolicy");
    if reinvocation.required(errors) {
        reinvocation.one_of(errors, &["IfNeeded", "Never"]);
    }
}

fn policy_binding(spec: &At<'_, '_>, validating: bool, errors: &mut Errors) {
    let name = spec.get("policyName");
    if name.required(errors) {
        name.all(errors, names::subdomain(name.text()));
    }
    let parameters = spec.get("paramRef");
    if !parameters.is_absent() {
        let (name, selector) = (parameters.get("name"), parameters.get("selector"));
        if name.is_empty() == selector.is_absent() {
            let what = if selector.is_absent() {
                "one of name or selector must be specified"
            } else {
                "name and selector are mutually exclusive"
            };
            if selector.is_absent() {
                parameters.missing(errors, what);
            } else {
                name.forbidden(errors, what);
            }
        }
        let action = parameters.get("parameterNotFoundAction");
        if action.required(errors) {
            action.one_of(errors, &["Allow", "Deny"]);
        }
    }
    match_constraints(&spec.get("matchResources"), false, errors);
    if !validating {
        return;
    }
    let actions = spec.get("validationActions");
    if actions.is_empty() {
        actions.missing(errors, "");
    }
    let mut seen = BTreeSet::new();
    for action in actions.items() {
        action.one_of(errors, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.text()) {
            action.duplicate(errors);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid(errors, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
}
