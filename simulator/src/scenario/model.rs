//! A scenario as values. Reading it is [`mod@super::read`]; running it is [`mod@super::run`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::SignedDuration;
use rewake_apiserver::request::Verb;
use serde_json::Value;

use super::yaml::Mark;
use crate::faults::{Effect, When};
use crate::tools::profile::{Existing, OwnerReferences};
use crate::tools::restore::Hold;
use crate::tools::{Profile, Selection};

/// One question, and the steps that answer it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// File name without `.yaml`, with the folders below the scenario folder.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The question, as one sentence.
    pub question: String,
    /// Behaviours covered: `KD-21`, `B13`, `F08`, `I4`.
    pub covers: Vec<String>,
    /// Namespace of objects that name none.
    pub namespace: String,
    /// Restore tool, unless a step names another.
    pub profile: &'static Profile,
    /// The controller is not started before the first step.
    pub starts_without_controller: bool,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Oracles whose alarm is expected, each with the reason.
    pub accepts: BTreeMap<String, String>,
    /// The same story with a safeguard off.
    pub variants: Vec<Variant>,
    /// What the scenario needs of a cluster that not every one has.
    pub needs: Vec<Need>,
}

/// What not every cluster can do.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Need {
    /// Going back to an etcd snapshot.
    Rollback,
    /// Letting chosen requests fail or get lost.
    Faults,
}

/// A run with a safeguard off, and the harm that must then appear.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Where it stands.
    pub mark: Mark,
    /// Name of the safeguard.
    pub without: String,
    /// Checks that hold at the end because the safeguard is off.
    pub harm: Vec<Check>,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it stands.
    pub mark: Mark,
    /// Its name, where it has one.
    pub id: Option<String>,
    /// What it does.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Server-side apply of objects by the user.
    Apply(Vec<Given>),
    /// Create of objects by the user; `refused` holds text that the refusal must contain.
    Create {
        /// The objects.
        objects: Vec<Given>,
        /// The create must be refused with this text.
        refused: Option<String>,
    },
    /// Patch of an object by the user.
    Patch {
        /// Which.
        target: Target,
        /// Subresource, or empty.
        subresource: String,
        /// Merge patch or JSON patch.
        patch: Patch,
        /// The patch must be refused with this text.
        refused: Option<String>,
    },
    /// Delete of an object by the user.
    Delete {
        /// Which.
        target: Target,
        /// `Background`, `Foreground` or `Orphan`; empty for the default.
        propagation: String,
        /// The delete must be refused with this text.
        refused: Option<String>,
    },
    /// A backup.
    Backup {
        /// Its name.
        name: String,
        /// What it takes.
        selection: Selection,
        /// The tool.
        profile: Option<&'static Profile>,
    },
    /// The cluster, or some of it, is lost.
    Disaster(Disaster),
    /// Items that later restores keep back.
    Hold(Hold),
    /// Restores what was kept back.
    Release(Option<String>),
    /// A restore.
    Restore(Restore),
    /// An etcd snapshot is taken.
    Snapshot(String),
    /// The store goes back to an etcd snapshot.
    Rollback {
        /// Which snapshot.
        to: String,
        /// Versions move on instead of going back.
        bump: bool,
    },
    /// The controller is started, stopped, restarted or killed.
    Controller(ControllerAction),
    /// A fault comes into force.
    Fault(Fault),
    /// Faults are removed: one, or all.
    Heal(Option<String>),
    /// Time passes.
    Sleep(SignedDuration),
    /// Until nothing is written any more.
    Settle {
        /// How long nothing must be written.
        quiet: SignedDuration,
        /// How long to wait at most.
        within: SignedDuration,
    },
    /// A check.
    Check(Check),
}

/// A check, which may take time to become true.
#[derive(Clone, Debug)]
pub struct Check {
    /// Where it stands.
    pub mark: Mark,
    /// What must hold.
    pub expectation: Expectation,
    /// How long to wait for it.
    pub within: SignedDuration,
}

/// What a [`Check`] demands.
#[derive(Clone, Debug)]
pub enum Expectation {
    /// There is an object that contains this.
    Assert(Value),
    /// No object contains this.
    Error(Value),
    /// So many objects are selected.
    Count {
        /// Which.
        target: Target,
        /// How many.
        is: u64,
    },
    /// No request like this has been carried out, since a step (or since the start).
    Never(Seen),
    /// A request like this has been carried out, since a step (or since the start).
    Ever(Seen),
    /// What a container holds.
    Guest {
        /// The pod's name; `*` as a glob.
        pod: String,
        /// Labels that the pod has.
        labels: BTreeMap<String, String>,
        /// What to look at.
        look: GuestLook,
    },
    /// An oracle raises an alarm (in a variant: the harm).
    Alarm(String),
    /// The object still has the uid it had at the end of a step.
    SameUid {
        /// Which object.
        target: Target,
        /// At the end of which step.
        since: String,
    },
}

/// What to look at in a container.
#[derive(Clone, Debug)]
pub enum GuestLook {
    /// How often configure has run.
    Configured(u64),
    /// The notifications it received, in order, each as its arguments joined by blanks; a wanted one
    /// need only be contained.
    Notified(Vec<String>),
}

/// A pattern over carried out requests.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Who asked.
    pub by: Option<String>,
    /// The verb.
    pub verb: Option<Verb>,
    /// `plural` or `plural.group`.
    pub resource: String,
    /// Subresource; `None` matches any.
    pub subresource: Option<String>,
    /// Name, with `*` as a glob; empty means every name.
    pub name: String,
    /// Only since the end of this step.
    pub since: Option<String>,
    /// Only requests that were refused (`true`) or carried out (`false`).
    pub refused: bool,
}

/// Objects by kind, and name or labels.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Where it stands.
    pub mark: Mark,
    /// `apiVersion`, where it matters.
    pub api_version: Option<String>,
    /// Kind.
    pub kind: String,
    /// Namespace, unless the scenario's.
    pub namespace: Option<String>,
    /// Name, with `*` as a glob.
    pub name: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// An object to send, with where it came from.
#[derive(Clone, Debug)]
pub struct Given {
    /// The manifest file, or the scenario for inline objects.
    pub from: PathBuf,
    /// Where it stands in it.
    pub mark: Mark,
    /// The object.
    pub object: Value,
}

/// A patch.
#[derive(Clone, Debug)]
pub enum Patch {
    /// JSON merge patch.
    Merge(Value),
    /// JSON patch.
    Json(Value),
}

/// What is lost.
#[derive(Clone, Debug)]
pub enum Disaster {
    /// These namespaces with all that is in them, for good: finalizers do not hold them.
    Namespaces(Vec<String>),
    /// These objects, without their dependents; finalizers do not hold them.
    Objects(Vec<Target>),
}

/// A restore step.
#[derive(Clone, Debug)]
pub struct Restore {
    /// Name of the backup.
    pub from: String,
    /// The tool.
    pub profile: Option<&'static Profile>,
    /// What it takes.
    pub selection: Selection,
    /// Old namespace to new namespace.
    pub mapping: BTreeMap<String, String>,
    /// Types first, in this order.
    pub order: Option<Vec<String>>,
    /// Items in random order.
    pub shuffle: bool,
    /// What to do with what exists.
    pub existing: Option<Existing>,
    /// Types whose status is restored.
    pub restore_status: Vec<String>,
    /// Owner references.
    pub owner_references: Option<OwnerReferences>,
    /// The tool is killed after so many items.
    pub stop_after: Option<usize>,
    /// Volume contents come back.
    pub with_volumes: bool,
    /// The next step does not wait for its end.
    pub background: bool,
    /// Time between two requests.
    pub pace: SignedDuration,
}

/// What happens to the controller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ControllerAction {
    /// It starts.
    Start,
    /// It stops, cleanly.
    Stop,
    /// It stops and starts.
    Restart,
    /// Its watches go silent.
    CutWatch,
    /// Its watches speak again.
    MendWatch,
}

/// A fault step.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A rule over requests.
    Rule {
        /// Name.
        id: String,
        /// Which requests.
        when: When,
        /// How many pass first.
        skip: u32,
        /// How often it strikes.
        times: Option<u32>,
        /// What it does.
        effect: Effect,
        /// After a crash, the controller comes back after this time.
        restart: Option<SignedDuration>,
    },
    /// Webhooks whose name contains this are unreachable.
    WebhookDown(String),
}

impl Step {
    /// The step in a few words, for traces and reports.
    #[must_use]
    pub fn words(&self) -> String {
        let objects = |objects: &[Given]| {
            let names: Vec<String> = objects
                .iter()
                .map(|given| {
                    format!(
                        "{} {}",
                        given.object["kind"].as_str().unwrap_or_default(),
                        given.object["metadata"]["name"].as_str().unwrap_or_default()
                    )
                })
                .collect();
            names.join(", ")
        };
        let expecting = |refused: &Option<String>| if refused.is_some() { " (to be refused)" } else { "" };
        match &self.action {
            Action::Apply(given) => format!("apply {}", objects(given)),
            Action::Create { objects: given, refused } => format!("create {}{}", objects(given), expecting(refused)),
            Action::Patch { target, refused, .. } => format!("patch {target}{}", expecting(refused)),
            Action::Delete { target, refused, .. } => format!("delete {target}{}", expecting(refused)),
            Action::Backup { name, .. } => format!("backup {name}"),
            Action::Disaster(Disaster::Namespaces(namespaces)) => {
                format!("disaster: namespaces {} are lost", namespaces.join(", "))
            }
            Action::Disaster(Disaster::Objects(targets)) => {
                let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
                format!("disaster: {} lost", names.join(", "))
            }
            Action::Hold(hold) => format!("hold {} {}", hold.resource, hold.name),
            Action::Release(id) => format!("release {}", id.as_deref().unwrap_or("everything held")),
            Action::Restore(restore) => format!("restore {}", restore.from),
            Action::Snapshot(name) => format!("etcd snapshot {name}"),
            Action::Rollback { to, bump } => {
                format!("etcd roll-back to {to}{}", if *bump { ", versions bumped" } else { "" })
            }
            Action::Controller(action) => match action {
                ControllerAction::Start => "start the controller".to_owned(),
                ControllerAction::Stop => "stop the controller".to_owned(),
                ControllerAction::Restart => "restart the controller".to_owned(),
                ControllerAction::CutWatch => "cut the controller's watches".to_owned(),
                ControllerAction::MendWatch => "mend the controller's watches".to_owned(),
            },
            Action::Fault(Fault::Rule { id, .. }) => format!("fault {id}"),
            Action::Fault(Fault::WebhookDown(name)) => format!("fault: webhook {name} is down"),
            Action::Heal(id) => format!("heal {}", id.as_deref().unwrap_or("every fault")),
            Action::Sleep(time) => format!("sleep {time:#}"),
            Action::Settle { .. } => "settle".to_owned(),
            Action::Check(check) => check.words(),
        }
    }
}

impl Check {
    /// The check in a few words.
    #[must_use]
    pub fn words(&self) -> String {
        let name = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or("(any name)");
            format!("{} {name}", object["kind"].as_str().unwrap_or_default())
        };
        match &self.expectation {
            Expectation::Assert(object) => format!("assert {}", name(object)),
            Expectation::Error(object) => format!("no such {}", name(object)),
            Expectation::Count { target, is } => format!("count {target} is {is}"),
            Expectation::Never(seen) => format!("never {seen}"),
            Expectation::Ever(seen) => format!("ever {seen}"),
            Expectation::Guest { pod, look: GuestLook::Configured(times), .. } => {
                format!("pod {pod} was configured {times} times")
            }
            Expectation::Guest { pod, look: GuestLook::Notified(_), .. } => format!("pod {pod} was notified"),
            Expectation::Alarm(oracle) => format!("alarm of oracle {oracle}"),
            Expectation::SameUid { target, since } => format!("{target} has the uid it had at step {since}"),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(name) = &self.name {
            match &self.namespace {
                Some(namespace) => write!(f, " {namespace}/{name}")?,
                None => write!(f, " {name}")?,
            }
        }
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if labels.is_empty() { Ok(()) } else { write!(f, " [{}]", labels.join(",")) }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = self.verb.map_or("any write to", Verb::as_str);
        write!(f, "{verb} {}", self.resource)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        match &self.since {
            Some(since) => write!(f, " since step {since}"),
            None => Ok(()),
        }
    }
}
