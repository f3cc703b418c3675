//! A whole simulated cluster: control plane, clock, controller under test, restore tool.
//!
//! [`World::step`] lets one actor do one thing. Which one is a [decision](crate::decisions), so
//! orders can be asked for; everything is plain data between steps, so [`World::fork`] is cheap.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rewake_apiserver::control_plane::Config;
use rewake_apiserver::request::{Request, Response};
use rewake_apiserver::store::{Revision, Store};

use crate::subject::Subject;
use crate::tools::{Tool, ToolMove};
use crate::trace::Actor;

mod kernel;

pub use kernel::{Api, ConnectionLost, Kernel, WebhookHandler, epoch};

/// Steps after which [`World::settle`] gives up: far above what any sound run needs.
pub const SETTLE_STEPS_MAX: usize = 50_000;

/// A simulated cluster.
pub struct World {
    api: Api,
    subject: Option<Box<dyn Subject>>,
    /// Up to which version the subject has received watch events.
    delivered: Revision,
    /// Watch events do not reach the subject.
    watch_cut: bool,
    tool: Option<RunningTool>,
    finished_tools: Vec<Tool>,
    snapshots: BTreeMap<String, Store>,
    restart_after_crash: Option<SignedDuration>,
    restart_at: Option<Timestamp>,
}

#[derive(Clone)]
struct RunningTool {
    tool: Tool,
    answer: Option<Response>,
    due: Timestamp,
    pace: SignedDuration,
}

/// Who can move.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Mover {
    Restart,
    Subject,
    Tool,
    Loop(usize, &'static str),
}

/// How [`World::settle`] ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Settled {
    /// Nothing has been written for the quiet time.
    Quiet,
    /// Writes went on until the limit; the actor that wrote last, most often.
    StillWriting {
        /// Who wrote most during the second half of the wait.
        busiest: String,
        /// How often.
        writes: usize,
    },
}

impl World {
    /// A fresh cluster without a controller.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let api = Api::new(config);
        let delivered = api.kernel().store().revision();
        Self {
            api,
            subject: None,
            delivered,
            watch_cut: false,
            tool: None,
            finished_tools: Vec::new(),
            snapshots: BTreeMap::new(),
            restart_after_crash: None,
            restart_at: None,
        }
    }

    /// The handle through which everybody talks to the control plane.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.api.kernel().now
    }

    /// A copy that from here on lives its own life. Costs a few pointers.
    #[must_use]
    pub fn fork(&self) -> Self {
        let api = self.api.fork();
        let subject = self.subject.as_ref().map(|subject| subject.fork(&api));
        let fork = Self {
            subject,
            delivered: self.delivered,
            watch_cut: self.watch_cut,
            tool: self.tool.clone(),
            finished_tools: self.finished_tools.clone(),
            snapshots: self.snapshots.clone(),
            restart_after_crash: self.restart_after_crash,
            restart_at: self.restart_at,
            api,
        };
        fork.publish_webhook();
        fork
    }

    /// Puts a controller into the cluster; it does not run yet.
    pub fn install(&mut self, subject: Box<dyn Subject>) {
        self.subject = Some(subject);
    }

    /// Is the controller running?
    #[must_use]
    pub fn is_subject_running(&self) -> bool {
        self.subject.as_ref().is_some_and(|subject| subject.is_running())
    }

    /// Starts the controller: it lists what it watches, then listens.
    pub fn start_subject(&mut self) {
        let Some(subject) = &mut self.subject else { return };
        {
            let mut kernel = self.api.kernel();
            let who = Actor::Subject(Arc::clone(subject.name()));
            kernel.crashed.remove(&who);
            kernel.note(&who, "starts");
            subject.start(kernel.store(), kernel.now);
            self.delivered = kernel.store().revision();
        }
        self.publish_webhook();
    }

    /// Stops the controller: memory, watches and webhook endpoint are gone.
    pub fn stop_subject(&mut self) {
        let Some(subject) = &mut self.subject else { return };
        subject.stop();
        let mut kernel = self.api.kernel();
        kernel.note(&Actor::Subject(Arc::clone(subject.name())), "is gone");
        kernel.webhooks.clear();
    }

    /// The webhook endpoints that listen, by namespace and name of the Service before them.
    #[must_use]
    pub fn webhook_endpoints(&self) -> Vec<((String, String), Arc<dyn WebhookHandler>)> {
        let kernel = self.api.kernel();
        kernel.webhooks.iter().map(|(service, handler)| (service.clone(), Arc::clone(handler))).collect()
    }

    fn publish_webhook(&self) {
        let mut kernel = self.api.kernel();
        kernel.webhooks.clear();
        if let Some((service, handler)) = self.subject.as_ref().filter(|s| s.is_running()).and_then(|s| s.webhook()) {
            kernel.webhooks.insert(service, handler);
        }
    }

    /// Cuts or mends the controller's watches. What was missed arrives once they are mended.
    pub fn cut_watch(&mut self, cut: bool) {
        self.watch_cut = cut;
    }

    /// Keeps the present state of the store under a name, as an etcd snapshot does.
    pub fn snapshot(&mut self, name: &str) {
        let store = self.api.kernel().store().clone();
        self.snapshots.insert(name.to_owned(), store);
    }

    /// Goes back to a kept state; see [`Store::roll_back`]. Answers whether there is one of that name.
    pub fn roll_back(&mut self, name: &str, bump: bool) -> bool {
        let Some(snapshot) = self.snapshots.get(name) else { return false };
        let mut kernel = self.api.kernel();
        let now = kernel.now;
        kernel.plane.roll_back(snapshot, bump, kernel::loops(), now);
        kernel.note(&Actor::Tool, format!("the store is back at snapshot {name}, version {}", snapshot.revision()));
        true
    }

    /// Sends a request of the scenario itself. It takes effect before anybody else moves.
    ///
    /// # Errors
    /// [`ConnectionLost`] when a fault strikes it.
    pub async fn send(&self, by: &Actor, request: Request) -> Result<Response, ConnectionLost> {
        self.api.send(by, request).await
    }

    /// Sets a backup or restore tool to work, one request every `pace`.
    pub fn start_tool(&mut self, tool: Tool, pace: SignedDuration) {
        self.tool = Some(RunningTool { tool, answer: None, due: self.now(), pace });
    }

    /// The tools that have finished, or were killed, since the last call.
    pub fn take_finished_tools(&mut self) -> Vec<Tool> {
        std::mem::take(&mut self.finished_tools)
    }

    /// Starts the controller again this long after the next crash.
    pub fn restart_after_crash(&mut self, time: SignedDuration) {
        self.restart_after_crash = Some(time);
    }

    /// Is a tool at work?
    #[must_use]
    pub fn is_tool_running(&self) -> bool {
        self.tool.is_some()
    }

    /// Lets one actor do one thing, moving the clock on first when nobody can move now. Answers
    /// `false` when nobody will ever move again, or not before `until`; the clock then stands at `until`.
    pub async fn step(&mut self, until: Timestamp) -> bool {
        self.deliver();
        let Some((mover, at)) = self.next_mover(until) else {
            self.api.kernel().advance_to(until);
            return false;
        };
        self.api.kernel().advance_to(at);
        match mover {
            Mover::Restart => {
                self.restart_at = None;
                self.start_subject();
            }
            Mover::Subject => self.step_subject().await,
            Mover::Tool => self.step_tool().await,
            Mover::Loop(index, name) => self.step_loop(index, name).await,
        }
        true
    }

    /// Steps until the clock has moved on by `time`.
    pub async fn run_for(&mut self, time: SignedDuration) {
        let until = self.now() + time;
        while self.step(until).await {}
    }

    /// Steps until nothing has been written for `quiet`, or until `limit` has passed.
    pub async fn settle(&mut self, quiet: SignedDuration, limit: SignedDuration) -> Settled {
        let start = self.now();
        let (mut revision, mut last_write) = (self.api.kernel().store().revision(), start);
        let mut steps = 0;
        loop {
            if self.now().duration_since(start) > limit || steps > SETTLE_STEPS_MAX {
                return self.still_writing(start + limit / 2);
            }
            if !self.step(last_write + quiet).await && self.tool.is_none() {
                return Settled::Quiet;
            }
            steps += 1;
            let kernel = self.api.kernel();
            if kernel.store().revision() != revision {
                (revision, last_write) = (kernel.store().revision(), kernel.now);
            }
        }
    }

    fn still_writing(&self, since: Timestamp) -> Settled {
        let kernel = self.api.kernel();
        let mut writers: BTreeMap<String, usize> = BTreeMap::new();
        for (_, request) in kernel.trace.requests().filter(|(entry, _)| entry.at >= since) {
            *writers.entry(format!("{} {} {}", request.by, request.verb.as_str(), request.resource)).or_default() += 1;
        }
        let (busiest, writes) = writers.into_iter().max_by_key(|(_, writes)| *writes).unwrap_or_default();
        Settled::StillWriting { busiest, writes }
    }

    /// Hands the subject the watch events it has not yet received.
    fn deliver(&mut self) {
        let Some(subject) = self.subject.as_mut().filter(|subject| subject.is_running()) else { return };
        if self.watch_cut {
            return;
        }
        let kernel = self.api.kernel();
        // After a roll-back the subject's watches are ahead of the store and stay silent until it has
        // caught up, as upstream's do.
        for entry in kernel.store().log_after(self.delivered) {
            subject.notice(entry, kernel.now);
        }
        self.delivered = self.delivered.max(kernel.store().revision());
    }

    /// The actor that moves next, and when; `None` when nobody does before or at `until`.
    fn next_mover(&self, until: Timestamp) -> Option<(Mover, Timestamp)> {
        let mut kernel = self.api.kernel();
        let now = kernel.now;
        let mut movers: Vec<(Mover, Timestamp)> = Vec::new();
        movers.extend(self.subject.as_ref().and_then(|subject| subject.due()).map(|due| (Mover::Subject, due)));
        movers.extend(self.restart_at.map(|due| (Mover::Restart, due)));
        movers.extend(self.tool.as_ref().map(|tool| (Mover::Tool, tool.due)));
        movers.extend(kernel.plane.loops().filter_map(|(index, name, due)| Some((Mover::Loop(index, name), due?))));
        let earliest = movers.iter().map(|(_, due)| *due).min()?.max(now);
        if earliest > until {
            return None;
        }
        // All that are due by the earliest moment may move: which of them does is a decision.
        movers.retain(|(_, due)| *due <= earliest);
        movers.sort();
        let chosen = kernel.decisions.choose("next", movers.len());
        Some((movers.swap_remove(chosen).0, earliest))
    }

    async fn step_subject(&mut self) {
        let Some(subject) = &mut self.subject else { return };
        let now = self.api.kernel().now;
        subject.step(now).await;
        let who = Actor::Subject(Arc::clone(subject.name()));
        let crashed = self.api.kernel().crashed.remove(&who);
        if crashed {
            self.stop_subject();
            self.restart_at = self.restart_after_crash.take().map(|wait| now + wait);
        }
    }

    async fn step_tool(&mut self) {
        let Some(mut running) = self.tool.take() else { return };
        let answer = running.answer.take();
        let next = {
            let mut kernel = self.api.kernel();
            let now = kernel.now;
            running.tool.next(answer.as_ref(), &mut kernel.decisions, now)
        };
        if let Tool::Restore(run) = &mut running.tool {
            let mut kernel = self.api.kernel();
            for (claim_uid, data) in run.take_volumes() {
                kernel.guests.fill_volume(&claim_uid, data);
            }
        }
        match next {
            ToolMove::Send(request) => match self.api.send(&Actor::Tool, request).await {
                Ok(response) => {
                    running.answer = Some(response);
                    running.due = self.now() + running.pace;
                    self.tool = Some(running);
                }
                Err(ConnectionLost) => {
                    self.api.kernel().crashed.remove(&Actor::Tool);
                    self.finish_tool(running.tool, "is killed; what it has restored so far stays");
                }
            },
            ToolMove::Wait(time) => {
                running.due = self.now() + time;
                self.tool = Some(running);
            }
            ToolMove::Finished => {
                let outcome = running.tool.summary();
                self.finish_tool(running.tool, &outcome);
            }
        }
    }

    fn finish_tool(&mut self, tool: Tool, outcome: &str) {
        self.api.kernel().note(&Actor::Tool, outcome);
        self.finished_tools.push(tool);
    }

    async fn step_loop(&mut self, index: usize, name: &'static str) {
        let by = Actor::Loop(name);
        let work = {
            let mut kernel = self.api.kernel();
            let now = kernel.now;
            kernel.plane.work(index, now)
        };
        let mut responses = Vec::with_capacity(work.requests.len());
        for request in &work.requests {
            let Ok(response) = self.api.send(&by, request.clone()).await else { break };
            let refused = !response.is_success();
            responses.push(response);
            if refused && !work.keep_going {
                break;
            }
        }
        let mut kernel = self.api.kernel();
        kernel.crashed.remove(&by);
        let now = kernel.now;
        kernel.plane.done(index, &work, &responses, now);
    }
}
