//! One control plane with a virtual clock: requests are sent to it, control loops work while time passes.

use bytes::Bytes;
use http::request::Parts;
use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::ControlPlane;
use rewake_apiserver::access::Authorization;
use rewake_apiserver::control_plane::{Config, Progress};
use rewake_apiserver::http::authenticate::Tokens;
use rewake_apiserver::http::encode::Encoder;
use rewake_apiserver::http::{self as wire, Received};
use rewake_apiserver::loops;
use rewake_apiserver::request::{Answer, Request, Response, User};
use rewake_apiserver::watch::WatchId;
use serde_json::Value;

use super::scope::Scope;
use super::webhook::Webhook;

/// Areas that were recorded with kube-controller-manager.
const WITH_CONTROLLERS: [&str; 9] = [
    "gc",
    "namespace",
    "statefulset",
    "pvc",
    "webhook-mutating",
    "webhook-validating",
    "endpoints",
    "admission-policy",
    "restore",
];

/// Items that control loops may work on without time passing; more means that they never come to rest.
const ITEMS_MAX: usize = 5_000;

/// How long a request takes.
const REQUEST: SignedDuration = SignedDuration::from_millis(1);

/// Fresh control planes, forked from one of each kind.
pub(crate) struct Stages {
    bare: ControlPlane,
    with_controllers: ControlPlane,
    epoch: Timestamp,
}

impl Default for Stages {
    fn default() -> Self {
        let epoch = Timestamp::from_second(1_800_000_000).expect("a time");
        let config = Config { seed: 1, authorization: Authorization::Rbac, ..Config::default() };
        let bare = ControlPlane::new(&config, epoch);
        let mut with_controllers = bare.clone();
        for control_loop in loops::standard() {
            with_controllers.add_loop(control_loop, epoch);
        }
        Self { bare, with_controllers, epoch }
    }
}

impl Stages {
    /// A control plane as the area was recorded with.
    pub(crate) fn stage(&self, area: &str, webhooks: Vec<Webhook>) -> Result<Stage, String> {
        let plane = if WITH_CONTROLLERS.contains(&area) { &self.with_controllers } else { &self.bare };
        let mut tokens = Tokens::default();
        tokens.insert("admin", admin());
        tokens.insert("devtoken", User { name: "dev".to_owned(), ..User::default() });
        let mut stage = Stage {
            plane: plane.clone(),
            now: self.epoch,
            tokens,
            webhooks,
            scope: Scope::default(),
            watches: Vec::new(),
        };
        stage.settle()?;
        Ok(stage)
    }
}

fn admin() -> User {
    User { uid: "admin".to_owned(), ..User::admin("admin") }
}

/// A control plane on which one case runs.
pub(crate) struct Stage {
    plane: ControlPlane,
    pub(crate) now: Timestamp,
    tokens: Tokens,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) scope: Scope,
    watches: Vec<Watching>,
}

/// A watch that is read.
pub(crate) struct Watching {
    watch: WatchId,
    encoder: Encoder,
    events: Vec<Value>,
    /// How many events are wanted, and until when they are waited for.
    wanted: usize,
    until: Timestamp,
    /// `timeoutSeconds`.
    end: Option<Timestamp>,
    closed: bool,
}

/// Number of a [`Watching`].
pub(crate) type WatchNumber = usize;

/// What a request led to.
pub(crate) enum Reply {
    /// A response.
    Response(http::Response<Bytes>),
    /// An accepted watch.
    Watch(WatchNumber),
}

impl Stage {
    /// Sends a request; a watch is read as `watch` (seconds, events) says.
    pub(crate) fn send(&mut self, parts: &Parts, body: Bytes, watch: (f64, usize)) -> Result<Reply, String> {
        self.now += REQUEST;
        let user = match self.tokens.authenticate(&parts.headers) {
            Ok(user) => user,
            Err(error) => return Ok(Reply::Response(wire::refusal(parts, &error))),
        };
        let call = match wire::receive(&self.plane.view(), &user, parts, body) {
            Received::Answer(response) => return Ok(Reply::Response(response)),
            Received::Connect(connect) => {
                let response = connect.answer(&self.plane.view(), None);
                return Ok(Reply::Response(response.unwrap_or_else(|error| wire::refusal(parts, &error))));
            }
            Received::Run(call) => *call,
        };
        let mut encoder = call.encoder;
        let timeout = call.request.options.get("timeoutSeconds").parse::<i64>().ok().filter(|seconds| *seconds > 0);
        let response = self.run(call.request)?;
        let encoded = encoder.response(&response, self.now);
        let Answer::Watch(id) = response.body else { return Ok(Reply::Response(encoded)) };
        let seconds = SignedDuration::try_from_secs_f64(watch.0).map_err(|error| error.to_string())?;
        self.watches.push(Watching {
            watch: id,
            encoder,
            events: Vec::new(),
            wanted: watch.1,
            until: self.now + seconds,
            end: timeout.map(|timeout| self.now + SignedDuration::from_secs(timeout)),
            closed: false,
        });
        self.poll_watches()?;
        Ok(Reply::Watch(self.watches.len() - 1))
    }

    /// Runs a request to its end.
    fn run(&mut self, request: Request) -> Result<Response, String> {
        let mut progress = self.plane.begin(request, self.now);
        loop {
            match progress {
                Progress::Done(response) => return Ok(response),
                Progress::Ask(call, paused) => {
                    let webhook = self.webhooks.iter_mut().find(|webhook| call.url.contains(&webhook.host));
                    let webhook = webhook.ok_or_else(|| format!("nobody listens at {}", call.url))?;
                    let (answer, after) = webhook.answer(&call, &self.scope)?;
                    self.now += after;
                    progress = self.plane.resume(paused, &answer, self.now);
                }
            }
        }
    }

    /// Lets control loops do everything that is due now.
    ///
    /// # Errors
    /// When they never come to rest.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let mut last = "";
        for _ in 0..ITEMS_MAX {
            let due = self.plane.loops().find(|(_, _, due)| due.is_some_and(|due| due <= self.now));
            let Some((number, name, _)) = due else { return Ok(()) };
            last = name;
            let work = self.plane.work(number, self.now);
            let mut responses = Vec::new();
            for request in &work.requests {
                // A call that nobody can answer is a fault of the case; the next step will show it.
                let mut request = request.clone();
                // The recorded controllers all acted as the user of the replay.
                if request.user.name.starts_with("system:serviceaccount:kube-system:") {
                    request.user = admin();
                }
                let Ok(response) = self.run(request) else { break };
                let refused = !response.is_success();
                responses.push(response);
                if refused && !work.keep_going {
                    break;
                }
            }
            self.plane.done(number, &work, &responses, self.now);
        }
        Err(format!("control loops never come to rest, {last} least of all"))
    }

    /// Lets time pass: loops work as they fall due, watches are read.
    pub(crate) fn pass(&mut self, duration: SignedDuration) -> Result<(), String> {
        let until = self.now + duration;
        loop {
            self.settle()?;
            self.poll_watches()?;
            if self.now >= until {
                return Ok(());
            }
            let dues = self.plane.loops().filter_map(|(_, _, due)| due);
            let watch_dues = self.watches.iter().filter_map(|watch| {
                let due = self.plane.watch_due(watch.watch);
                [due, watch.end].into_iter().flatten().filter(|due| *due > self.now).min()
            });
            let next = dues.chain(watch_dues).filter(|due| *due > self.now).min();
            self.now = next.map_or(until, |next| next.min(until));
        }
    }

    fn poll_watches(&mut self) -> Result<(), String> {
        for watching in &mut self.watches {
            if watching.done(self.now) {
                continue;
            }
            match self.plane.poll_watch(watching.watch, self.now) {
                None => watching.closed = true,
                Some(events) => {
                    for event in events {
                        let line = watching.encoder.event(&event, self.now);
                        watching.events.push(serde_json::from_slice(&line).map_err(|error| error.to_string())?);
                    }
                }
            }
            watching.closed |= watching.end.is_some_and(|end| end <= self.now);
        }
        Ok(())
    }

    /// Reads a watch to the end of what was asked for: its events, and whether the server ended it.
    pub(crate) fn finish(&mut self, number: WatchNumber) -> Result<(Vec<Value>, bool), String> {
        const STEP: SignedDuration = SignedDuration::from_millis(50);
        while !self.watches[number].done(self.now) {
            self.pass(STEP)?;
        }
        let watching = &mut self.watches[number];
        self.plane.close_watch(watching.watch);
        Ok((std::mem::take(&mut watching.events), watching.closed))
    }
}

impl Watching {
    fn done(&self, now: Timestamp) -> bool {
        self.closed || self.events.len() >= self.wanted || now >= self.until
    }
}
