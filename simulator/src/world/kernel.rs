//! What every actor shares: the control plane, the clock, the trace, the faults.
//!
//! [`Api`] is a handle to it; [`Api::send`] is how anybody in a run talks to the control plane. It
//! holds no lock while a webhook answers, so the webhook may read through the same handle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::control_plane::{Config, Progress, WebhookAnswer, WebhookCall};
use rewake_apiserver::guest::{ExecResult, GuestReport, Guests, VolumeData};
use rewake_apiserver::loops::ControlLoop;
use rewake_apiserver::object::ObjectExt;
use rewake_apiserver::request::{Request, Response, Verb};
use rewake_apiserver::resource::GroupResource;
use rewake_apiserver::store::{Revision, Store};
use rewake_apiserver::{ApiError, ControlPlane};

use crate::decisions::Decisions;
use crate::faults::{Effect, Faults};
use crate::tools::Archive;
use crate::trace::{Actor, RequestEntry, Trace, What};

/// Answers webhook calls for a Service: the controller under test, while it runs.
pub trait WebhookHandler: Send + Sync {
    /// The certificate bundle that a webhook configuration must carry to trust this endpoint, as in
    /// `clientConfig.caBundle`.
    fn ca_bundle(&self) -> &str;
    /// Answers one `AdmissionReview`.
    fn review(&self, body: bytes::Bytes) -> BoxFuture<'_, bytes::Bytes>;
}

/// The shared part of a [`crate::World`].
pub struct Kernel {
    /// The control plane.
    pub plane: ControlPlane,
    /// Virtual time.
    pub now: Timestamp,
    /// Decisions taken so far, and the source of the next.
    pub decisions: Decisions,
    /// The story so far.
    pub trace: Trace,
    /// Faults in force.
    pub faults: Faults,
    /// What containers hold.
    pub guests: Guests,
    /// Requests by actor, reads included.
    pub calls: BTreeMap<Actor, u64>,
    /// Index of the scenario step that runs.
    pub step: usize,
    /// Webhook endpoints that listen, by namespace and name of the Service before them.
    pub(crate) webhooks: BTreeMap<(String, String), Arc<dyn WebhookHandler>>,
    /// Actors that a fault has killed and that have not been buried yet.
    pub(crate) crashed: BTreeSet<Actor>,
}

/// The connection broke: the caller cannot know whether the request was carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the connection was lost before an answer came")]
pub struct ConnectionLost;

/// A handle to the [`Kernel`].
#[derive(Clone)]
pub struct Api(Arc<Mutex<Kernel>>);

/// Virtual time at which every run begins. Any fixed instant does; this one is easy to read.
///
/// # Panics
/// Never: the constant is a valid time.
#[must_use]
pub fn epoch() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().expect("a valid time")
}

/// Control loops of a simulated cluster that no scenario asks about: nothing in a world connects to a
/// Service or reads the cluster's certificate, and what they make would stand in every snapshot.
const LEFT_OUT: [&str; 3] = ["serviceaccount-controller", "endpoints-controller", "endpointslice-controller"];

/// The control loops of a simulated cluster beside those that every API server has.
pub(super) fn loops() -> Vec<Box<dyn ControlLoop>> {
    let mut loops = rewake_apiserver::loops::standard();
    loops.retain(|control_loop| !LEFT_OUT.contains(&control_loop.name()));
    loops.push(rewake_apiserver::loops::node());
    loops
}

impl Api {
    /// A fresh control plane.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let now = epoch();
        let mut plane = ControlPlane::new(config, now);
        for control_loop in loops() {
            plane.add_loop(control_loop, now);
        }
        Self(Arc::new(Mutex::new(Kernel {
            plane,
            now,
            decisions: Decisions::new(config.seed),
            trace: Trace::new(now),
            faults: Faults::default(),
            guests: Guests::default(),
            calls: BTreeMap::new(),
            step: 0,
            webhooks: BTreeMap::new(),
            crashed: BTreeSet::new(),
        })))
    }

    /// Access to the kernel. Never held across a webhook call.
    pub fn kernel(&self) -> MutexGuard<'_, Kernel> {
        // A panic while the lock was held has already failed the run; what it left is still worth reporting.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy that shares nothing that changes. Webhook endpoints are not copied: they hold handles
    /// to this kernel; whoever forks registers them anew.
    #[must_use]
    pub fn fork(&self) -> Self {
        let kernel = self.kernel();
        Self(Arc::new(Mutex::new(Kernel {
            plane: kernel.plane.clone(),
            now: kernel.now,
            decisions: kernel.decisions.clone(),
            trace: kernel.trace.clone(),
            faults: kernel.faults.clone(),
            guests: kernel.guests.clone(),
            calls: kernel.calls.clone(),
            step: kernel.step,
            webhooks: BTreeMap::new(),
            crashed: kernel.crashed.clone(),
        })))
    }

    /// Sends a request and waits for its answer, webhooks included.
    ///
    /// # Errors
    /// [`ConnectionLost`] when a fault strikes the caller or the answer.
    pub async fn send(&self, by: &Actor, request: Request) -> Result<Response, ConnectionLost> {
        let mut about = About::new(by, &request);
        let mut lose_answer = None;
        let mut progress = {
            let mut kernel = self.kernel();
            if kernel.crashed.contains(by) {
                return Err(ConnectionLost);
            }
            kernel.count(by);
            match kernel.faults.strike(by, &request) {
                Some((id, Effect::Refuse { code, message })) => {
                    kernel.note(by, format!("fault {id} refuses the next request"));
                    Progress::Done(refusal(code, &message).into())
                }
                Some((id, Effect::CrashBefore)) => {
                    kernel.crash(by, &id, "before");
                    return Err(ConnectionLost);
                }
                Some((id, effect)) => {
                    lose_answer = Some((id, effect));
                    kernel.begin(request, &mut about)
                }
                None => kernel.begin(request, &mut about),
            }
        };
        let response = loop {
            match progress {
                Progress::Done(response) => break response,
                Progress::Ask(call, paused) => {
                    let answer = self.ask(&call).await;
                    let mut kernel = self.kernel();
                    let now = kernel.now;
                    progress = kernel.carry_on(&mut about, |plane| plane.resume(paused, &answer, now));
                }
            }
        };
        let mut kernel = self.kernel();
        kernel.record(about, &response);
        match lose_answer {
            None => Ok(response),
            Some((id, Effect::CrashAfter)) => {
                kernel.crash(by, &id, "after");
                Err(ConnectionLost)
            }
            Some((id, _)) => {
                kernel.note(by, format!("fault {id} loses the answer"));
                Err(ConnectionLost)
            }
        }
    }

    /// Calls a webhook the way the API server would: through its Service, trusting its bundle.
    async fn ask(&self, call: &WebhookCall) -> WebhookAnswer {
        let handler = self.kernel().endpoint(call);
        let (answer, outcome) = match handler {
            Err(why) => (WebhookAnswer::Failed(why.clone()), why),
            Ok(handler) => {
                let body = handler.review(call.body.clone()).await;
                let outcome = describe_review(&body);
                (WebhookAnswer::Http { code: 200, content_type: "application/json".to_owned(), body }, outcome)
            }
        };
        let mut kernel = self.kernel();
        let (now, step) = (kernel.now, kernel.step);
        kernel.trace.push(now, step, What::Webhook { name: call.name.as_str().into(), outcome: outcome.into() });
        answer
    }
}

impl Kernel {
    /// The committed objects.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.plane.view().store()
    }

    /// Counts an API call.
    pub fn count(&mut self, by: &Actor) {
        *self.calls.entry(by.clone()).or_default() += 1;
    }

    /// What can be told of the guest in a pod.
    #[must_use]
    pub fn guest_report(&self, namespace: &str, pod: &str) -> GuestReport {
        self.guests.report(&self.plane.view(), namespace, pod, rewake_controller::guest::DIR)
    }

    /// What the claims in a backup hold just now, by namespace and name.
    #[must_use]
    pub fn volumes_of(&self, archive: &Archive) -> BTreeMap<(String, String), VolumeData> {
        let claims = archive.items.iter().filter(|(key, _)| &*key.resource.resource == "persistentvolumeclaims");
        claims
            .map(|(key, claim)| ((key.namespace.clone(), key.name.clone()), self.guests.volume(claim.uid())))
            .collect()
    }

    /// Runs a command in a container, as `pods/exec` would.
    ///
    /// # Errors
    /// Why the container cannot be reached.
    pub fn exec(
        &mut self,
        namespace: &str,
        pod: &str,
        container: &str,
        argv: &[String],
        stdin: &[u8],
    ) -> Result<ExecResult, String> {
        let view = self.plane.view();
        self.guests.exec(&view, namespace, pod, container, argv, stdin)
    }

    /// Adds a note to the trace.
    pub fn note(&mut self, by: &Actor, text: impl Into<Arc<str>>) {
        self.trace.push(self.now, self.step, What::Note { by: by.clone(), text: text.into() });
    }

    /// Moves the clock on. Time never goes back.
    pub fn advance_to(&mut self, time: Timestamp) {
        self.now = self.now.max(time);
    }

    /// Moves the clock on.
    pub fn advance(&mut self, by: SignedDuration) {
        self.advance_to(self.now + by);
    }

    fn begin(&mut self, request: Request, about: &mut About) -> Progress {
        let now = self.now;
        self.carry_on(about, |plane| plane.begin(request, now))
    }

    /// Runs a part of a request and remembers which versions it committed.
    fn carry_on(&mut self, about: &mut About, part: impl FnOnce(&mut ControlPlane) -> Progress) -> Progress {
        let before = self.store().revision();
        let progress = part(&mut self.plane);
        let after = self.store().revision();
        if after > before {
            about.committed(Revision(before.0 + 1), after);
        }
        progress
    }

    fn record(&mut self, about: About, response: &Response) {
        if let Some(entry) = about.into_entry(response) {
            self.trace.push(self.now, self.step, What::Request(entry));
        }
    }

    fn crash(&mut self, who: &Actor, fault: &str, when: &str) {
        self.note(who, format!("crashes {when} its request (fault {fault})"));
        self.crashed.insert(who.clone());
    }

    fn endpoint(&self, call: &WebhookCall) -> Result<Arc<dyn WebhookHandler>, String> {
        let service = &call.client_config["service"];
        let (Some(namespace), Some(name)) = (service["namespace"].as_str(), service["name"].as_str()) else {
            return Err("dial tcp: lookup of a URL outside the simulation: no such host".to_owned());
        };
        if self.store().get(&GroupResource::new("", "services"), namespace, name).is_none() {
            return Err(format!("service \"{name}\" not found"));
        }
        let listening = self.webhooks.get(&(namespace.to_owned(), name.to_owned()));
        let Some(handler) = listening.filter(|_| !self.faults.is_webhook_down(&call.name)) else {
            let port = service["port"].as_u64().unwrap_or(443);
            return Err(format!("dial tcp {name}.{namespace}.svc:{port}: connect: connection refused"));
        };
        if call.client_config["caBundle"].as_str().unwrap_or_default() != handler.ca_bundle() {
            return Err("tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned());
        }
        Ok(Arc::clone(handler))
    }
}

fn refusal(code: u16, message: &str) -> ApiError {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    ApiError::new(code, reason, message)
}

fn describe_review(body: &[u8]) -> String {
    let Ok(review) = serde_json::from_slice::<serde_json::Value>(body) else {
        return "an answer that is not JSON".to_owned();
    };
    let response = &review["response"];
    match (response["allowed"].as_bool(), response["patch"].is_string()) {
        (Some(true), true) => "allowed, with a patch".to_owned(),
        (Some(true), false) => "allowed".to_owned(),
        _ => format!("refused: {}", response["status"]["message"].as_str().unwrap_or("no reason given")),
    }
}

/// What the trace tells of a request, collected while it runs.
struct About {
    entry: RequestEntry,
    is_read: bool,
}

impl About {
    fn new(by: &Actor, request: &Request) -> Self {
        let mut resource = GroupResource::new(&request.group, &request.resource).to_string();
        if !request.subresource.is_empty() {
            resource = format!("{resource}/{}", request.subresource);
        }
        Self {
            entry: RequestEntry {
                by: by.clone(),
                verb: request.verb,
                resource: resource.into(),
                namespace: request.namespace.as_str().into(),
                name: request.name.as_str().into(),
                code: 0,
                message: None,
                revisions: None,
            },
            is_read: matches!(request.verb, Verb::Get | Verb::List | Verb::Watch),
        }
    }

    fn committed(&mut self, first: Revision, last: Revision) {
        let first = self.entry.revisions.map_or(first, |(first, _)| first);
        self.entry.revisions = Some((first, last));
    }

    fn into_entry(self, response: &Response) -> Option<RequestEntry> {
        if self.is_read {
            return None;
        }
        let mut entry = self.entry;
        entry.code = response.code;
        let body = response.json();
        if !response.is_success() {
            entry.message = body["message"].as_str().map(Into::into);
        } else if let Some(name) = body["metadata"]["name"].as_str() {
            entry.name = name.into();
        }
        Some(entry)
    }
}
