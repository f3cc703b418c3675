//! The two phases as resumable values: who is asked in which order, and what an answer leads to.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go` and
//! `k8s.io/apiserver/pkg/admission/reinvocation.go`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::matching::Matched;
use super::review::{self, Verdict};
use super::webhooks::Webhook;
use super::{Attributes, Context, Step, plugins, policies};
use crate::control_plane::{WebhookAnswer, WebhookCall};
use crate::error::ApiError;
use crate::object::{Object, set_meta};
use crate::patch::json;

/// A webhook that has been asked and has not yet answered.
#[derive(Clone, Debug)]
struct Asked {
    webhook: Arc<Webhook>,
    matched: Matched,
    /// uid of the review.
    uid: String,
}

/// Why a webhook did not decide.
enum Trouble {
    /// The call went wrong; the failure policy decides.
    Call(String),
    /// The request is refused whatever the failure policy says.
    Refused(ApiError),
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl Trouble {
    /// The refusal, if it comes to one.
    fn settle(self, webhook: &Webhook) -> Result<(), ApiError> {
        match self {
            Self::Call(_) if webhook.ignores_failure => Ok(()),
            Self::Call(why) => Err(ApiError::internal(format!("failed calling webhook {:?}: {why}", webhook.name))),
            Self::Refused(error) => Err(error),
        }
    }
}

/// The call to make, unless it fails before it is made.
fn ask(
    webhook: &Arc<Webhook>,
    matched: Matched,
    attributes: &Attributes,
    context: &mut Context<'_>,
) -> Result<(Asked, WebhookCall), Trouble> {
    if attributes.dry_run && !webhook.knows_dry_run {
        let name = &webhook.name;
        return Err(ApiError::bad_request(format!("admission webhook {name:?} does not support dry run")).into());
    }
    let shown = matched.show(attributes, context)?;
    let url = webhook.url();
    webhook.resolve(context).map_err(|why| Trouble::Call(format!("failed to call webhook: Post \"{url}\": {why}")))?;
    let uid = context.draws.uid();
    let call = WebhookCall {
        name: format!("{}/{}", webhook.configuration, webhook.name),
        url,
        client_config: webhook.client_config.clone(),
        body: review::bytes(&uid, webhook, attributes, &matched, &shown),
        timeout_seconds: webhook.timeout_seconds,
    };
    Ok((Asked { webhook: Arc::clone(webhook), matched, uid }, call))
}

/// The mutating phase. When a webhook changes the object, everything runs a second time, and those
/// webhooks that want it are asked again.
#[derive(Clone, Debug, Default)]
pub(super) struct Mutating {
    second_round: bool,
    /// Has a webhook changed the object in this round?
    changed: bool,
    webhooks: Arc<[Arc<Webhook>]>,
    next: usize,
    asked: Option<Asked>,
    /// Webhooks (by identity) to ask again if another changes the object after them.
    again_if_changed: BTreeSet<String>,
    /// Webhooks to ask in the second round.
    again: BTreeSet<String>,
    /// The object as the webhooks of the first round left it.
    output: Option<Object>,
    /// `metadata.managedFields` before the first webhook was asked.
    managed_fields: Option<Value>,
}

impl Mutating {
    pub(super) fn begin(
        &mut self,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<Step, ApiError> {
        plugins::mutate(attributes, context)?;
        if !attributes.configures_admission() {
            self.changed |= policies::mutating::mutate(attributes, self.second_round, context)?;
            self.webhooks = Arc::clone(context.configurations.mutating());
        }
        if self.second_round && self.output != attributes.object {
            // The plugins changed it after the webhooks had seen it.
            self.again.append(&mut self.again_if_changed);
        }
        self.go_on(attributes, warnings, context)
    }

    pub(super) fn answer(
        &mut self,
        answer: &WebhookAnswer,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<Step, ApiError> {
        let Some(asked) = self.asked.take() else { return self.go_on(attributes, warnings, context) };
        let webhook = &asked.webhook;
        let outcome = review::read(answer, webhook, &asked.uid, true).map_err(Trouble::Call).and_then(|verdict| {
            warnings.extend_from_slice(&verdict.warnings);
            apply(verdict, &asked, attributes, context)
        });
        if matches!(outcome, Ok(true)) {
            self.changed = true;
            self.again.append(&mut self.again_if_changed);
        }
        if webhook.again_if_needed {
            self.again_if_changed.insert(webhook.identity.clone());
        }
        if let Err(trouble) = outcome {
            trouble.settle(webhook)?;
        }
        self.go_on(attributes, warnings, context)
    }

    fn go_on(
        &mut self,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<Step, ApiError> {
        while let Some(webhook) = self.webhooks.get(self.next) {
            self.next += 1;
            let Some(matched) = webhook.wants(attributes, context)? else { continue };
            if self.second_round && !self.again.contains(&webhook.identity) {
                continue;
            }
            match ask(webhook, matched, attributes, context) {
                Ok((asked, call)) => {
                    let object = attributes.object.as_ref();
                    self.managed_fields.get_or_insert_with(|| {
                        object.map_or(Value::Null, |it| it["metadata"]["managedFields"].clone())
                    });
                    self.asked = Some(asked);
                    return Ok(Step::Ask(call));
                }
                Err(trouble) => trouble.settle(webhook)?,
            }
        }
        if self.second_round || !self.changed {
            self.keep_managed_fields(attributes, warnings);
            return Ok(Step::Admitted);
        }
        self.second_round = true;
        self.next = 0;
        self.output.clone_from(&attributes.object);
        self.begin(attributes, warnings, context)
    }

    /// Webhooks may change who owns what, but not into nonsense
    /// (`k8s.io/apimachinery/pkg/util/managedfields`, `NewManagedFieldsValidatingAdmissionController`).
    fn keep_managed_fields(&mut self, attributes: &mut Attributes, warnings: &mut Vec<String>) {
        let Some(before) = self.managed_fields.take() else { return };
        let after = attributes.object.as_ref().map_or(&Value::Null, |object| &object["metadata"]["managedFields"]);
        if *after == before {
            return;
        }
        if let Err(why) = crate::managed_fields::check_entries(after) {
            warnings.push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {why}"
            ));
            if let Some(object) = attributes.object_mut() {
                set_meta(object, "managedFields", before);
            }
        }
    }
}

/// Does to the object what a webhook wants; was it changed?
fn apply(verdict: Verdict, asked: &Asked, attributes: &mut Attributes, context: &Context<'_>) -> Result<bool, Trouble> {
    if let Some(refusal) = verdict.refusal {
        return Err(Trouble::Refused(refusal));
    }
    let Some((patch, patch_type)) = verdict.patch else { return Ok(false) };
    let operations = crate::schema::json::read(&patch)
        .and_then(|operations| json::decode(&operations.value, true))
        .map_err(|why| Trouble::Call(format!("received undecodable patch in webhook response: {why}")))?
        .0;
    if operations.is_empty() {
        return Ok(false);
    }
    let Some(object) = asked.matched.show(attributes, context)?.object else {
        let name = &asked.webhook.name;
        let why = format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        );
        return Err(ApiError::internal(why).into());
    };
    if patch_type != "JSONPatch" {
        return Err(Trouble::Call(format!("unsupported patch type {patch_type:?}")));
    }
    let patched = json::try_apply(&object, &operations).map_err(ApiError::internal)?;
    let kind = &asked.matched.kind;
    let decoded = context.interfaces.decode(kind, patched).map_err(|error| ApiError::internal(error.message))?;
    if decoded == *object {
        return Ok(false);
    }
    let decoded = Arc::new(decoded);
    attributes.object = Some(match *kind == attributes.kind {
        true => decoded,
        false => context.interfaces.convert(&decoded, &attributes.kind)?,
    });
    Ok(true)
}

/// The validating phase: every webhook is asked, then the first refusal counts. Upstream asks them at
/// the same time; here one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Validating {
    /// Webhooks that are yet to be asked, the next one last.
    pending: Vec<(Arc<Webhook>, Matched)>,
    asked: Option<Asked>,
    refusal: Option<ApiError>,
}

impl Validating {
    pub(super) fn begin(
        &mut self,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<Step, ApiError> {
        plugins::validate(attributes, warnings, context)?;
        if !attributes.configures_admission() {
            policies::validating::validate(attributes, warnings, context)?;
            for webhook in context.configurations.validating().iter() {
                if let Some(matched) = webhook.wants(attributes, context)? {
                    self.pending.push((Arc::clone(webhook), matched));
                }
            }
            self.pending.reverse();
        }
        self.go_on(attributes, context)
    }

    pub(super) fn answer(
        &mut self,
        answer: &WebhookAnswer,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<Step, ApiError> {
        if let Some(asked) = self.asked.take() {
            let outcome = match review::read(answer, &asked.webhook, &asked.uid, false) {
                Ok(verdict) => {
                    warnings.extend_from_slice(&verdict.warnings);
                    verdict.refusal.map_or(Ok(()), Err)
                }
                Err(why) => Trouble::Call(why).settle(&asked.webhook),
            };
            self.note(outcome);
        }
        self.go_on(attributes, context)
    }

    fn note(&mut self, outcome: Result<(), ApiError>) {
        if let Err(error) = outcome {
            self.refusal.get_or_insert(error);
        }
    }

    fn go_on(&mut self, attributes: &mut Attributes, context: &mut Context<'_>) -> Result<Step, ApiError> {
        while let Some((webhook, matched)) = self.pending.pop() {
            match ask(&webhook, matched, attributes, context) {
                Ok((asked, call)) => {
                    self.asked = Some(asked);
                    return Ok(Step::Ask(call));
                }
                Err(trouble) => self.note(trouble.settle(&webhook)),
            }
        }
        match self.refusal.take() {
            Some(refusal) => Err(refusal),
            None => plugins::charge(attributes, context).map(|()| Step::Admitted),
        }
    }
}
