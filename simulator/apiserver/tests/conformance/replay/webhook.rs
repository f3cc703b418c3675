//! The scripted webhooks of a case: the first rule that fits answers, what was asked is kept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::SignedDuration;
use rewake_apiserver::control_plane::{WebhookAnswer, WebhookCall};
use serde_json::{Value, json};

use super::scope::Scope;
use super::steps::contains;

/// Written into every namespace by a controller, at no settled time: allowed, not kept.
const PUBLISHED: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];

/// The first port that webhooks claim to listen on; nobody does.
const FIRST_PORT: usize = 40_001;

/// One scripted webhook.
pub(crate) struct Webhook {
    pub(crate) name: String,
    /// Address without path.
    pub(crate) host: String,
    rules: Vec<Value>,
    keeps: bool,
    down: bool,
    seen: Vec<Value>,
}

impl Webhook {
    /// The webhooks of a case.
    pub(crate) fn of(script: &Value) -> Vec<Self> {
        let specs = script["webhooks"].as_array().into_iter().flatten();
        specs.enumerate().map(|(at, spec)| Self::new(spec, format!("127.0.0.1:{}", FIRST_PORT + at))).collect()
    }

    fn new(spec: &Value, host: String) -> Self {
        let rules = spec["rules"].as_array().filter(|rules| !rules.is_empty()).cloned();
        Self {
            name: spec["name"].as_str().unwrap_or_default().to_owned(),
            host,
            rules: rules.unwrap_or_else(|| vec![json!({})]),
            keeps: spec["record"] != false,
            down: spec["down"] == true,
            seen: Vec::new(),
        }
    }

    /// What a case can name of it.
    pub(crate) fn shown(&self) -> Value {
        json!({"url": format!("https://{}/{}", self.host, self.name), "host": self.host, "caBundle": bundle()})
    }

    /// Changes it in the middle of a case.
    pub(crate) fn change(&mut self, spec: &Value) {
        if let Some(rules) = spec["rules"].as_array() {
            self.rules.clone_from(rules);
        }
        if let Some(down) = spec["down"].as_bool() {
            self.down = down;
        }
    }

    /// How many reviews wait to be looked at.
    pub(crate) fn waiting(&self) -> usize {
        self.seen.len()
    }

    /// The reviews that came since the last time: with a count the first ones, and the rest is forgotten.
    pub(crate) fn take(&mut self, count: Option<usize>) -> Value {
        let mut seen = std::mem::take(&mut self.seen);
        seen.truncate(count.unwrap_or(usize::MAX));
        json!({"reviews": seen})
    }

    /// Answers a call, after how long.
    pub(crate) fn answer(
        &mut self,
        call: &WebhookCall,
        scope: &Scope,
    ) -> Result<(WebhookAnswer, SignedDuration), String> {
        let at_once = SignedDuration::ZERO;
        if self.down {
            let sentence = format!("dial tcp {}: connect: connection refused", self.host);
            return Ok((WebhookAnswer::Failed(sentence), at_once));
        }
        if call.client_config["caBundle"] != bundle() {
            let sentence = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
            return Ok((WebhookAnswer::Failed(sentence.to_owned()), at_once));
        }
        let review: Value = serde_json::from_slice(&call.body).map_err(|error| format!("a review: {error}"))?;
        let asked = &review["request"];
        let published = asked["name"].as_str().is_some_and(|name| PUBLISHED.contains(&name));
        let mut rule = json!({});
        if published {
            rule["silent"] = true.into();
        } else {
            for candidate in &self.rules {
                if candidate.get("when").is_none() || contains(&scope.fill(&candidate["when"])?, asked) {
                    rule = candidate.clone();
                    break;
                }
            }
        }
        if self.keeps && rule["silent"] != true {
            let mut kept = review.clone();
            let path = call.url.split_once(&*self.host).map_or("", |(_, path)| path);
            kept["path"] = path.into();
            kept["contentType"] = "application/json".into();
            self.seen.push(kept);
        }
        let rule = scope.fill(&rule)?;
        let hang = SignedDuration::try_from_secs_f64(rule["hang"].as_f64().unwrap_or_default())
            .map_err(|error| format!("hang: {error}"))?;
        let timeout = SignedDuration::from_secs(i64::from(call.timeout_seconds));
        if hang >= timeout {
            return Ok((WebhookAnswer::TimedOut, timeout));
        }
        if rule["close"] == true {
            return Ok((WebhookAnswer::Failed("EOF".to_owned()), hang));
        }
        Ok((http(&rule, asked), hang))
    }
}

/// What stands for the certificate that a caller must trust: nothing is encrypted in process.
fn bundle() -> String {
    STANDARD.encode("the certificate of the scripted webhooks")
}

fn http(rule: &Value, asked: &Value) -> WebhookAnswer {
    let given = |field: &str| rule.get(field).cloned();
    let mut response = json!({
        "uid": given("uid").unwrap_or_else(|| asked["uid"].clone()),
        "allowed": rule.get("deny").is_none(),
    });
    if let Some(status) = given("deny").filter(|status| status.as_object().is_some_and(|status| !status.is_empty())) {
        response["status"] = status;
    }
    if rule.get("patch").is_some() || rule.get("rawPatch").is_some() {
        let patch = rule["rawPatch"].as_str().map_or_else(|| rule["patch"].to_string(), str::to_owned);
        response["patchType"] = given("patchType").unwrap_or_else(|| "JSONPatch".into());
        response["patch"] = STANDARD.encode(patch).into();
    }
    if rule["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty()) {
        response["warnings"] = rule["warnings"].clone();
    }
    for (field, value) in rule["response"].as_object().into_iter().flatten() {
        response[field] = value.clone();
    }
    let body = json!({
        "apiVersion": given("apiVersion").unwrap_or_else(|| "admission.k8s.io/v1".into()),
        "kind": given("kind").unwrap_or_else(|| "AdmissionReview".into()),
        "response": response,
    });
    let raw = rule["raw"].as_str().map_or_else(|| body.to_string(), str::to_owned);
    WebhookAnswer::Http {
        code: rule["http"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(200),
        content_type: rule["contentType"].as_str().unwrap_or("application/json").to_owned(),
        body: Bytes::from(raw),
    }
}
