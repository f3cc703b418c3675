//! Jobs and CronJobs.
//!
//! Source: `pkg/apis/batch/v1/defaults.go`, `pkg/registry/batch/job/strategy.go`,
//! `pkg/apis/batch/validation/validation.go`.

use serde_json::{Value, json};

use super::at::{At, Errors, same};
use super::fill::{fill, fill_zero, is_empty, object_in, put, within};
use super::{Context, OnUpdate, Strategy, go, pod_defaults, pod_spec};
use crate::error::ApiError;
use crate::object::{ObjectExt, set_meta};
use crate::selector::LabelSelector;

pub(super) static JOBS: Strategy = Strategy {
    generation: &["/spec"],
    // Kept from the first version of the API: pods of a deleted Job stay unless a policy is given.
    default_propagation: Some("Orphan"),
    default: |job| {
        within(job, "spec", default_spec);
        labels_from_template(job);
    },
    prepare_for_create,
    validate: |job, errors| {
        generated_selector(job, errors);
        validate_spec(&At::root(job).get("spec"), errors);
    },
    validate_update,
    on_update: OnUpdate::Changes,
    ..Strategy::PLAIN
};

pub(super) static CRON_JOBS: Strategy = Strategy {
    generation: &["/spec"],
    default: |cron_job| {
        within(cron_job, "spec", |spec| {
            fill_zero(spec, "concurrencyPolicy", "Allow");
            fill(spec, "suspend", false);
            fill(spec, "successfulJobsHistoryLimit", 3);
            fill(spec, "failedJobsHistoryLimit", 1);
            // Jobs are filled in when they are made; their templates only have the pod's defaults.
            within(spec, "jobTemplate", |template| within(template, "spec", pod_defaults::template));
        });
    },
    validate: validate_cron_job,
    on_update: OnUpdate::RulesThenChanges,
    ..Strategy::PLAIN
};

const LEGACY_UID_LABEL: &str = "controller-uid";
const LEGACY_NAME_LABEL: &str = "job-name";
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";

fn default_spec(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        put(spec, "completions", 1.into());
    }
    fill(spec, "parallelism", 1);
    let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i64::from(i32::MAX) };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
    pod_defaults::template(spec);
}

fn labels_from_template(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if !is_empty(&labels) && is_empty(&job["metadata"]["labels"]) {
        set_meta(job, "labels", labels);
    }
}

/// The selector of a Job is made from its uid, unless it says that it brings its own.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a hook")]
fn prepare_for_create(job: &mut Value, _context: &mut Context<'_>) -> Result<(), ApiError> {
    if job["spec"]["manualSelector"] != true {
        let (name, uid) = (job.name().to_owned(), job.uid().to_owned());
        let nested = |holder: &mut Value, path: &[&str], entries: &[(&str, &str)]| {
            let mut place = holder;
            for field in path {
                let Some(inner) = object_in(place, field) else { return };
                place = inner;
            }
            for (key, value) in entries {
                // Values that are there stay; validation refuses wrong ones.
                fill(place, key, *value);
            }
        };
        nested(
            job,
            &["spec", "template", "metadata", "labels"],
            &[(LEGACY_NAME_LABEL, &name), (NAME_LABEL, &name), (LEGACY_UID_LABEL, &uid), (UID_LABEL, &uid)],
        );
        nested(job, &["spec", "selector", "matchLabels"], &[(UID_LABEL, &uid)]);
    }
    labels_from_template(job);
    Ok(())
}

fn generated_selector(job: &Value, errors: &mut Errors) {
    let root = At::root(job);
    let spec = root.get("spec");
    let selector = spec.get("selector");
    if job["spec"]["manualSelector"] == true || selector.is_absent() {
        return;
    }
    let template = spec.get("template");
    let metadata = template.get("metadata");
    let labels = metadata.get("labels");
    let expected = [
        (LEGACY_UID_LABEL, job.uid()),
        (LEGACY_NAME_LABEL, job.name()),
        (UID_LABEL, job.uid()),
        (NAME_LABEL, job.name()),
    ];
    for (key, value) in expected {
        let label = labels.key(key);
        if label.is_absent() {
            label.missing(errors, &format!("must be '{value}'"));
        } else if label.text() != value {
            label.invalid_as(errors, labels.value().to_string(), format!("must be '{value}'"));
        }
    }
    let own = json!({UID_LABEL: job.uid(), NAME_LABEL: job.name(), LEGACY_UID_LABEL: job.uid(), LEGACY_NAME_LABEL: job.name()});
    if !LabelSelector::from_object(selector.value()).matches(&own) {
        selector.invalid_as(errors, go::LABEL_SELECTOR.print(selector.value()), "`selector` not auto-generated");
    }
}

fn validate_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    template_spec(spec, errors);
    let selector = spec.get("selector");
    if selector.is_absent() {
        selector.missing(errors, "");
        return;
    }
    pod_spec::label_selector(&selector, errors);
    let template = spec.get("template");
    let metadata = template.get("metadata");
    let labels = metadata.get("labels");
    if !LabelSelector::from_object(selector.value()).matches(labels.value()) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// What a Job's spec must be like wherever it stands.
fn template_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.get(field).non_negative(errors);
    }
    let mode = spec.get("completionMode");
    if mode.text() == "Indexed" && spec.get("completions").is_absent() {
        spec.get("completions").missing(errors, "when completion mode is Indexed");
    }
    mode.optional_one_of(errors, &["Indexed", "NonIndexed"]);
    pod_spec::template(&spec.get("template"), errors);
    let template = spec.get("template");
    let pod = template.get("spec");
    let policy = pod.get("restartPolicy");
    match policy.text() {
        "OnFailure" | "Never" => {}
        "Always" | "" => policy.missing(errors, "valid values: \"OnFailure\", \"Never\""),
        _ => policy.one_of(errors, &["OnFailure", "Never"]),
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.get("spec");
    validate_spec(&spec, errors);
    let before = &old["spec"];
    let immutable = |field: &'static str, errors: &mut Errors| {
        let place = spec.get(field);
        if !same(place.value(), &before[field]) {
            place.invalid(errors, "field is immutable");
        }
    };
    // An elastic indexed Job may change both counts together.
    let elastic =
        new["spec"]["completionMode"] == "Indexed" && new["spec"]["completions"] == new["spec"]["parallelism"];
    if !elastic {
        immutable("completions", errors);
    }
    immutable("selector", errors);
    // A suspended Job that has not started may still be placed elsewhere.
    let mut template = new["spec"]["template"].clone();
    let unstarted = before["suspend"] == true && old["status"]["startTime"].is_null();
    if unstarted {
        for field in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            put(&mut template["spec"], field, before["template"]["spec"][field].clone());
        }
        for field in ["labels", "annotations"] {
            if let Some(metadata) = object_in(&mut template, "metadata") {
                put(metadata, field, before["template"]["metadata"][field].clone());
            }
        }
    }
    if !same(&template, &before["template"]) {
        spec.get("template").invalid(errors, "field is immutable");
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(field, errors);
    }
}

/// A CronJob's name leaves eleven characters for the time that its Jobs' names end in.
const CRON_JOB_NAME_MAX: usize = 52;

fn validate_cron_job(cron_job: &Value, errors: &mut Errors) {
    let root = At::root(cron_job);
    let metadata = root.get("metadata");
    let spec = root.get("spec");
    let schedule = spec.get("schedule");
    if schedule.is_empty() {
        schedule.missing(errors, "");
    } else if let Some(wrong) = super::cron::problem(schedule.text()) {
        schedule.invalid(errors, wrong);
    }
    let zone = spec.get("timeZone");
    if !zone.is_absent() {
        if schedule.text().contains("TZ") {
            schedule.invalid(errors, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        if zone.is_empty() {
            zone.invalid(errors, "timeZone must be nil or non-empty string");
        } else if zone.text().eq_ignore_ascii_case("local") {
            zone.invalid(
                errors,
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            );
        } else if !super::cron::is_time_zone(zone.text()) {
            zone.invalid(errors, format!("unknown time zone {}", zone.text()));
        }
    }
    spec.get("startingDeadlineSeconds").non_negative(errors);
    let policy = spec.get("concurrencyPolicy");
    if policy.required(errors) {
        policy.one_of(errors, &["Allow", "Forbid", "Replace"]);
    }
    template_spec(&spec.get("jobTemplate").get("spec"), errors);
    let manual = spec.get("jobTemplate").get("spec").get("manualSelector").is_true();
    if manual {
        let template = spec.get("jobTemplate");
        let job = template.get("spec");
        job.get("manualSelector").one_of(errors, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.get(field).non_negative(errors);
    }
    let name = metadata.get("name");
    if name.text().len() > CRON_JOB_NAME_MAX {
        name.invalid(errors, format!("must be no more than {CRON_JOB_NAME_MAX} characters"));
    }
}
