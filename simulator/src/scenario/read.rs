//! Reading scenario files: everything that can be known to be wrong is said before anything runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use rewake_apiserver::request::Verb;
use serde_json::Value;

use super::decode::{Fields, boolean, duration, list, number, text, text_map, texts, unknown, word};
use super::model::{
    Action, Check, ControllerAction, Disaster, Expectation, Fault, Given, GuestLook, Need, Patch, Restore, Scenario,
    Seen, Step, Target, Variant,
};
use super::yaml::{Data, Mark, Node, YamlError, parse};
use crate::faults::{Effect, When};
use crate::tools::profile::{Existing, OwnerReferences, PROFILES};
use crate::tools::restore::Hold;
use crate::tools::{Profile, Selection};

/// What is wrong with a scenario: file, line, column, and one sentence.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}:{}:{}: {message}", path.display(), mark.line, mark.column)]
pub struct ScenarioError {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub mark: Mark,
    /// What.
    pub message: String,
}

type Result<T> = std::result::Result<T, YamlError>;

/// Verbs of steps, for complaints.
const VERBS: &[&str] = &[
    "apply",
    "create",
    "patch",
    "delete",
    "backup",
    "disaster",
    "hold",
    "release",
    "restore",
    "snapshot",
    "rollback",
    "start",
    "stop",
    "restart",
    "cut-watch",
    "mend-watch",
    "fault",
    "crash",
    "heal",
    "sleep",
    "settle",
    "wait",
    "assert",
    "error",
    "count",
    "never",
    "ever",
    "guest",
    "alarm",
    "same-uid",
];

/// How long a check waits unless it says otherwise, on the run's clock.
pub const WITHIN_DEFAULT: SignedDuration = SignedDuration::from_mins(2);
/// Longest time that a step may take, on the run's clock.
pub const WITHIN_MAX: SignedDuration = SignedDuration::from_hours(24);
/// Quiet time after which a cluster counts as settled.
pub const QUIET_DEFAULT: SignedDuration = SignedDuration::from_secs(90);
/// How long settling may take unless a step says otherwise.
pub const SETTLE_DEFAULT: SignedDuration = SignedDuration::from_mins(60);
/// Most steps in a scenario.
pub const STEPS_MAX: usize = 500;

/// Reads the scenario at `path`; its name is its path below `root`.
///
/// `safeguards` are the names that a variant may switch off, `oracles` those that may raise alarms.
///
/// # Errors
/// What is wrong with the file or with a manifest it names.
pub fn read(path: &Path, root: &Path, vocabulary: &Vocabulary<'_>) -> std::result::Result<Scenario, ScenarioError> {
    let fail = |error: YamlError| ScenarioError { path: path.to_owned(), mark: error.mark, message: error.message };
    let start = Mark { line: 1, column: 1 };
    let content = read_file(path).map_err(|message| fail(YamlError::at(start, message)))?;
    let documents = parse(&content).map_err(fail)?;
    let [document] = documents.as_slice() else {
        let message = format!("a scenario is one YAML document, but there are {}", documents.len());
        return Err(fail(YamlError::at(documents.get(1).map_or(start, |second| second.mark), message)));
    };
    let name = path.strip_prefix(root).unwrap_or(path).with_extension("").to_string_lossy().replace('\\', "/");
    let mut reader = Reader {
        path,
        vocabulary,
        namespace: "team".to_owned(),
        ids: BTreeSet::new(),
        backups: BTreeSet::new(),
        snapshots: BTreeSet::new(),
        manifest_error: None,
    };
    let scenario = reader.scenario(name, document);
    match (reader.manifest_error, scenario) {
        (Some(error), _) => Err(error),
        (None, scenario) => scenario.map_err(fail),
    }
}

/// Names that scenarios may use and that others define.
pub struct Vocabulary<'a> {
    /// Safeguards of the controller.
    pub safeguards: &'a [&'a str],
    /// Oracles.
    pub oracles: &'a [&'a str],
}

fn read_file(path: &Path) -> std::result::Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("the file cannot be read: {error}"))?.len();
    if size > super::yaml::FILE_BYTES_MAX as u64 {
        return Err(format!("the file has {size} bytes; at most {} are read", super::yaml::FILE_BYTES_MAX));
    }
    std::fs::read_to_string(path).map_err(|error| format!("the file cannot be read: {error}"))
}

struct Reader<'a> {
    path: &'a Path,
    vocabulary: &'a Vocabulary<'a>,
    namespace: String,
    ids: BTreeSet<String>,
    backups: BTreeSet<String>,
    snapshots: BTreeSet<String>,
    /// What is wrong in a manifest rather than in the scenario: it has a path of its own.
    manifest_error: Option<ScenarioError>,
}

impl Reader<'_> {
    fn scenario(&mut self, name: String, node: &Node) -> Result<Scenario> {
        if let Data::Map(entries) = &node.data
            && entries.first().is_none_or(|(key, _)| key.text != "question")
        {
            return Err(YamlError::at(node.mark, "a scenario opens with `question:`, the one question it asks"));
        }
        let mut fields = Fields::of(node, "a scenario")?;
        let question = text(fields.require("question")?)?;
        let covers_node = fields.require("covers")?;
        let covers = texts(covers_node)?;
        if let Some(bad) = covers.iter().find(|id| !is_id(id)) {
            let message =
                format!("`{bad}` is no behaviour; they read `KD-21`, `B13`, `I4`, `F08`, `O16` or `FK-order`");
            return Err(YamlError::at(covers_node.mark, message));
        }
        if let Some(namespace) = fields.read("namespace", text)? {
            self.namespace = namespace;
        }
        let profile = fields.read("profile", profile)?.unwrap_or_else(Profile::newest);
        let starts_without_controller = fields.read("without-controller", boolean)?.unwrap_or(false);
        let needs = fields.read("needs", |node| list(node, need))?.unwrap_or_default();
        let accepts = fields.read("accepts", text_map)?.unwrap_or_default();
        let oracles = self.vocabulary.oracles;
        if let Some(bad) = accepts.keys().find(|name| !oracles.contains(&name.as_str())) {
            return Err(YamlError::at(node.mark, unknown("there is no oracle", bad, oracles.iter().copied())));
        }
        let steps_node = fields.require("steps")?;
        let Data::List(items) = &steps_node.data else {
            return Err(YamlError::at(
                steps_node.mark,
                format!("`steps` is a list, but this is {}", steps_node.describe()),
            ));
        };
        if items.len() > STEPS_MAX {
            return Err(YamlError::at(
                steps_node.mark,
                format!("{} steps; a scenario has at most {STEPS_MAX}", items.len()),
            ));
        }
        let mut steps = Vec::with_capacity(items.len());
        for item in items {
            let step = self.step(item)?;
            if let Some(id) = &step.id
                && !self.ids.insert(id.clone())
            {
                return Err(YamlError::at(step.mark, format!("there are two steps with the id `{id}`")));
            }
            steps.push(step);
        }
        let variants = match fields.take("variants") {
            Some(node) => list(node, |node| self.variant(node))?,
            None => Vec::new(),
        };
        fields.end()?;
        Ok(Scenario {
            name,
            path: self.path.to_owned(),
            question,
            covers,
            namespace: self.namespace.clone(),
            profile,
            starts_without_controller,
            steps,
            accepts,
            variants,
            needs,
        })
    }

    fn variant(&mut self, node: &Node) -> Result<Variant> {
        let mut fields = Fields::of(node, "a variant")?;
        let without_node = fields.require("without")?;
        let without = text(without_node)?;
        let safeguards = self.vocabulary.safeguards;
        if !safeguards.contains(&without.as_str()) {
            let message = unknown("the controller has no safeguard", &without, safeguards.iter().copied());
            return Err(YamlError::at(without_node.mark, message));
        }
        let harm = list(fields.require("harm")?, |node| match self.step(node)?.action {
            Action::Check(check) => Ok(check),
            _ => Err(YamlError::at(
                node.mark,
                "harm is shown by checks: assert, error, count, never, ever, guest, alarm, same-uid",
            )),
        })?;
        if harm.is_empty() {
            return Err(YamlError::at(node.mark, "a variant must show harm, or it proves nothing"));
        }
        fields.end()?;
        Ok(Variant { mark: node.mark, without, harm })
    }

    fn step(&mut self, node: &Node) -> Result<Step> {
        let mut fields = Fields::of(node, "a step")?;
        let Some((verb, value)) = fields.take_first() else {
            return Err(YamlError::at(node.mark, "a step has a verb, such as `apply` or `restore`"));
        };
        let id = fields.read("id", text)?;
        let action = match verb.text.as_str() {
            "apply" => Action::Apply(self.objects(value)?),
            "create" => Action::Create { objects: self.objects(value)?, refused: fields.read("refused", text)? },
            "patch" => self.patch(value, &mut fields)?,
            "delete" => self.delete(value, &mut fields)?,
            "backup" => self.backup(value)?,
            "disaster" => self.disaster(value)?,
            "hold" => self.hold(value, id.clone())?,
            "release" => Action::Release(self.release(value)?),
            "restore" => self.restore(value)?,
            "snapshot" => {
                let name = text(value)?;
                self.snapshots.insert(name.clone());
                Action::Snapshot(name)
            }
            "rollback" => self.rollback(value)?,
            "start" => controller(value, ControllerAction::Start)?,
            "stop" => controller(value, ControllerAction::Stop)?,
            "restart" => controller(value, ControllerAction::Restart)?,
            "cut-watch" => controller(value, ControllerAction::CutWatch)?,
            "mend-watch" => controller(value, ControllerAction::MendWatch)?,
            "fault" => Action::Fault(self.fault(value, id.clone())?),
            "crash" => Action::Fault(self.crash(value, id.clone())?),
            "heal" => Action::Heal(self.heal(value)?),
            "sleep" => Action::Sleep(bounded(value)?),
            "settle" => settle(value)?,
            "wait" => self.wait(value)?,
            _ => match self.expectation(&verb.text, value, verb.mark)? {
                Some(expectation) => {
                    let within = fields.read("within", bounded)?.unwrap_or(WITHIN_DEFAULT);
                    Action::Check(Check { mark: verb.mark, expectation, within })
                }
                None => {
                    return Err(YamlError::at(
                        verb.mark,
                        unknown("there is no verb", &verb.text, VERBS.iter().copied()),
                    ));
                }
            },
        };
        fields.end()?;
        Ok(Step { mark: verb.mark, id, action })
    }

    fn expectation(&mut self, verb: &str, value: &Node, mark: Mark) -> Result<Option<Expectation>> {
        Ok(Some(match verb {
            "assert" => Expectation::Assert(self.partial(value)?),
            "error" => Expectation::Error(self.partial(value)?),
            "count" => {
                let mut fields = Fields::of(value, "a count")?;
                let is = number(fields.require("is")?)?;
                let target = self.target_fields(fields, value.mark)?;
                Expectation::Count { target, is }
            }
            "never" => Expectation::Never(self.seen(value)?),
            "ever" => Expectation::Ever(self.seen(value)?),
            "guest" => {
                let mut fields = Fields::of(value, "a guest check")?;
                let pod = text(fields.require("pod")?)?;
                let labels = fields.read("labels", text_map)?.unwrap_or_default();
                let configured = fields.read("configured", number)?;
                let notified = fields.read("notified", texts)?;
                fields.end()?;
                let look = match (configured, notified) {
                    (Some(times), None) => GuestLook::Configured(times),
                    (None, Some(lines)) if !lines.is_empty() => GuestLook::Notified(lines),
                    _ => {
                        return Err(YamlError::at(
                            mark,
                            "a guest check looks at either `configured` or `notified`, and at least one notification",
                        ));
                    }
                };
                Expectation::Guest { pod, labels, look }
            }
            "alarm" => {
                let name = text(value)?;
                if !self.vocabulary.oracles.contains(&name.as_str()) {
                    return Err(YamlError::at(
                        value.mark,
                        unknown("there is no oracle", &name, self.vocabulary.oracles.iter().copied()),
                    ));
                }
                Expectation::Alarm(name)
            }
            "same-uid" => {
                let mut fields = Fields::of(value, "a same-uid check")?;
                let since = self.step_id(fields.require("since")?)?;
                let target = self.target_fields(fields, value.mark)?;
                Expectation::SameUid { target, since }
            }
            _ => return Ok(None),
        }))
    }

    /// A partial object to match against: it needs a kind.
    fn partial(&self, node: &Node) -> Result<Value> {
        let object = node.to_json();
        if object["kind"].as_str().unwrap_or_default().is_empty() {
            return Err(YamlError::at(node.mark, "an object to look for needs at least `kind`"));
        }
        Ok(object)
    }

    fn target(&self, node: &Node) -> Result<Target> {
        self.target_fields(Fields::of(node, "a target")?, node.mark)
    }

    fn target_fields(&self, mut fields: Fields<'_>, mark: Mark) -> Result<Target> {
        let target = Target {
            mark,
            api_version: fields.read("apiVersion", text)?,
            kind: text(fields.require("kind")?)?,
            namespace: fields.read("namespace", text)?,
            name: fields.read("name", text)?,
            labels: fields.read("labels", text_map)?.unwrap_or_default(),
        };
        fields.end()?;
        Ok(target)
    }

    /// Objects of a step: files, inline objects, or a list of both.
    fn objects(&mut self, node: &Node) -> Result<Vec<Given>> {
        let mut objects = Vec::new();
        for items in list(node, |item| self.object(item))? {
            objects.extend(items);
        }
        if objects.is_empty() {
            return Err(YamlError::at(node.mark, "there is nothing to send here"));
        }
        Ok(objects)
    }

    fn object(&mut self, node: &Node) -> Result<Vec<Given>> {
        match &node.data {
            Data::Map(_) => Ok(vec![given(self.path, node)?]),
            _ => {
                let file = text(node)?;
                let path = self.path.parent().unwrap_or(Path::new(".")).join(&file);
                if !path.is_file() {
                    return Err(YamlError::at(node.mark, missing_file(&file, &path)));
                }
                match manifests(&path) {
                    Ok(objects) => Ok(objects),
                    Err(error) => {
                        let message = error.message.clone();
                        self.manifest_error = Some(error);
                        Err(YamlError::at(node.mark, message))
                    }
                }
            }
        }
    }

    fn patch(&mut self, node: &Node, step: &mut Fields<'_>) -> Result<Action> {
        let target = self.target(node)?;
        let merge = step.read("merge", |node| Ok(node.to_json()))?;
        let json = step.read("json", |node| Ok(node.to_json()))?;
        let patch = match (merge, json) {
            (Some(patch), None) => Patch::Merge(patch),
            (None, Some(patch)) => Patch::Json(patch),
            _ => return Err(YamlError::at(node.mark, "a patch step needs either `merge` or `json`")),
        };
        let subresource = step.read("subresource", text)?.unwrap_or_default();
        Ok(Action::Patch { target, subresource, patch, refused: step.read("refused", text)? })
    }

    fn delete(&mut self, node: &Node, step: &mut Fields<'_>) -> Result<Action> {
        let target = self.target(node)?;
        let policies = [("Background", "Background"), ("Foreground", "Foreground"), ("Orphan", "Orphan")];
        let propagation =
            step.read("propagation", |node| word(node, "propagation policy", &policies))?.unwrap_or_default();
        Ok(Action::Delete { target, propagation: propagation.to_owned(), refused: step.read("refused", text)? })
    }

    fn backup(&mut self, node: &Node) -> Result<Action> {
        if let Data::Scalar(Value::String(name)) = &node.data {
            self.backups.insert(name.clone());
            let selection = Selection { namespaces: vec![self.namespace.clone()], ..Selection::default() };
            return Ok(Action::Backup { name: name.clone(), selection, profile: None });
        }
        let mut fields = Fields::of(node, "a backup step")?;
        let name = text(fields.require("name")?)?;
        let profile = fields.read("profile", profile)?;
        let mut selection = selection(&mut fields)?;
        if selection.namespaces.is_empty() {
            selection.namespaces.push(self.namespace.clone());
        }
        fields.end()?;
        self.backups.insert(name.clone());
        Ok(Action::Backup { name, selection, profile })
    }

    fn disaster(&self, node: &Node) -> Result<Action> {
        if node.is_null() {
            return Ok(Action::Disaster(Disaster::Namespaces(vec![self.namespace.clone()])));
        }
        let mut fields = Fields::of(node, "a disaster step")?;
        let namespaces = fields.read("namespaces", texts)?;
        let objects = fields.read("objects", |node| list(node, |node| self.target(node)))?;
        fields.end()?;
        match (namespaces, objects) {
            (Some(namespaces), None) => Ok(Action::Disaster(Disaster::Namespaces(namespaces))),
            (None, Some(objects)) => Ok(Action::Disaster(Disaster::Objects(objects))),
            _ => Err(YamlError::at(node.mark, "a disaster takes either `namespaces` or `objects`")),
        }
    }

    fn hold(&mut self, node: &Node, id: Option<String>) -> Result<Action> {
        let mut fields = Fields::of(node, "a hold step")?;
        let hold = Hold {
            id: id.unwrap_or_default(),
            resource: text(fields.require("resource")?)?,
            name: fields.read("name", text)?.unwrap_or_default(),
            labels: fields.read("labels", text_map)?.unwrap_or_default(),
        };
        fields.end()?;
        Ok(Action::Hold(hold))
    }

    fn release(&self, node: &Node) -> Result<Option<String>> {
        if node.is_null() { Ok(None) } else { self.step_id(node).map(Some) }
    }

    fn heal(&self, node: &Node) -> Result<Option<String>> {
        if node.is_null() { Ok(None) } else { self.step_id(node).map(Some) }
    }

    /// The id of an earlier step.
    fn step_id(&self, node: &Node) -> Result<String> {
        let id = text(node)?;
        if self.ids.contains(&id) {
            return Ok(id);
        }
        let known = self.ids.iter().map(String::as_str);
        Err(YamlError::at(
            node.mark,
            if self.ids.is_empty() {
                format!("no earlier step has the id `{id}`")
            } else {
                unknown("no earlier step has the id", &id, known)
            },
        ))
    }

    fn restore(&mut self, node: &Node) -> Result<Action> {
        let (from_node, mut fields) = match &node.data {
            Data::Scalar(_) => (node, None),
            _ => {
                let mut fields = Fields::of(node, "a restore step")?;
                (fields.require("from")?, Some(fields))
            }
        };
        let from = text(from_node)?;
        if !self.backups.contains(&from) {
            let known = self.backups.iter().map(String::as_str);
            let message = if self.backups.is_empty() {
                format!("no earlier step takes the backup `{from}`")
            } else {
                unknown("no earlier step takes the backup", &from, known)
            };
            return Err(YamlError::at(from_node.mark, message));
        }
        let mut restore = Restore {
            from,
            profile: None,
            selection: Selection::default(),
            mapping: std::collections::BTreeMap::new(),
            order: None,
            shuffle: false,
            existing: None,
            restore_status: Vec::new(),
            owner_references: None,
            stop_after: None,
            with_volumes: true,
            background: false,
            pace: SignedDuration::from_millis(50),
        };
        if let Some(mut fields) = fields.take() {
            restore.profile = fields.read("profile", profile)?;
            restore.selection = selection(&mut fields)?;
            restore.mapping = fields.read("mapping", text_map)?.unwrap_or_default();
            restore.order = fields.read("order", texts)?;
            restore.shuffle = fields.read("shuffle", boolean)?.unwrap_or(false);
            restore.existing = fields.read("existing", |node| {
                word(
                    node,
                    "existing-resource policy",
                    &[
                        ("none", Existing::Skip),
                        ("update", Existing::MergePatch),
                        ("replace", Existing::Replace),
                        ("apply", Existing::Apply),
                    ],
                )
            })?;
            restore.restore_status = fields.read("status", texts)?.unwrap_or_default();
            restore.owner_references = fields.read("owner-references", |node| {
                word(
                    node,
                    "treatment of owner references",
                    &[
                        ("dropped", OwnerReferences::Dropped),
                        ("stale", OwnerReferences::KeptStale),
                        ("relinked", OwnerReferences::FromLiveOwner),
                        ("rebuilt", OwnerReferences::Rebuilt),
                    ],
                )
            })?;
            restore.stop_after =
                fields.read("stop-after", number)?.map(|items| usize::try_from(items).unwrap_or(usize::MAX));
            restore.with_volumes = fields.read("volumes", boolean)?.unwrap_or(true);
            restore.background = fields.read("background", boolean)?.unwrap_or(false);
            if let Some(pace) = fields.read("pace", bounded)? {
                restore.pace = pace;
            }
            fields.end()?;
        }
        Ok(Action::Restore(restore))
    }

    fn rollback(&self, node: &Node) -> Result<Action> {
        let mut fields = Fields::of(node, "a rollback step")?;
        let to_node = fields.require("to")?;
        let to = text(to_node)?;
        if !self.snapshots.contains(&to) {
            return Err(YamlError::at(to_node.mark, format!("no earlier step takes the snapshot `{to}`")));
        }
        let bump = fields.read("bump", boolean)?.unwrap_or(false);
        fields.end()?;
        Ok(Action::Rollback { to, bump })
    }

    fn fault(&self, node: &Node, id: Option<String>) -> Result<Fault> {
        let mut fields = Fields::of(node, "a fault step")?;
        if let Some(name) = fields.read("webhook-down", text)? {
            fields.end()?;
            return Ok(Fault::WebhookDown(name));
        }
        let refuse = fields.read("refuse", |node| {
            let mut fields = Fields::of(node, "a refusal")?;
            let code_node = fields.require("code")?;
            let code = u16::try_from(number(code_node)?)
                .ok()
                .filter(|code| [403, 404, 409, 422, 429, 500, 503].contains(code));
            let code = code.ok_or_else(|| {
                YamlError::at(code_node.mark, "a refusal has one of the codes 403, 404, 409, 422, 429, 500, 503")
            })?;
            let message =
                fields.read("message", text)?.unwrap_or_else(|| "refused by a fault of the scenario".to_owned());
            fields.end()?;
            Ok(Effect::Refuse { code, message })
        })?;
        let lose = fields.read("lose-answer", boolean)?.unwrap_or(false);
        let effect = match (refuse, lose) {
            (Some(effect), false) => effect,
            (None, true) => Effect::LoseAnswer,
            _ => {
                return Err(YamlError::at(
                    node.mark,
                    "a fault is one of `refuse`, `lose-answer: true` and `webhook-down`",
                ));
            }
        };
        rule(fields, id, effect, node.mark, false)
    }

    fn crash(&self, node: &Node, id: Option<String>) -> Result<Fault> {
        let mut fields = Fields::of(node, "a crash step")?;
        let effect = fields
            .read("moment", |node| {
                word(
                    node,
                    "moment of a crash",
                    &[("before", Effect::CrashBefore), ("after", Effect::CrashAfter)]
                        .map(|(name, effect)| (name, matches!(effect, Effect::CrashBefore))),
                )
            })?
            .map_or(Effect::CrashAfter, |before| if before { Effect::CrashBefore } else { Effect::CrashAfter });
        rule(fields, id, effect, node.mark, true)
    }

    fn wait(&mut self, node: &Node) -> Result<Action> {
        let mut fields = Fields::of(node, "a wait step")?;
        let until = fields.require("until")?;
        let within = fields.read("within", bounded)?.unwrap_or(WITHIN_DEFAULT);
        fields.end()?;
        let mut inner = Fields::of(until, "what to wait for")?;
        let Some((verb, value)) = inner.take_first() else {
            return Err(YamlError::at(until.mark, "what to wait for is a check, such as `assert`"));
        };
        inner.end()?;
        match self.expectation(&verb.text, value, verb.mark)? {
            Some(expectation) => Ok(Action::Check(Check { mark: node.mark, expectation, within })),
            None => Err(YamlError::at(
                verb.mark,
                unknown("there is no check", &verb.text, ["assert", "error", "count", "guest"].into_iter()),
            )),
        }
    }

    fn seen(&self, node: &Node) -> Result<Seen> {
        let mut fields = Fields::of(node, "a request pattern")?;
        let seen = Seen {
            by: fields.read("by", text)?,
            verb: fields.read("verb", verb)?,
            resource: text(fields.require("resource")?)?,
            subresource: fields.read("subresource", text)?,
            name: fields.read("name", text)?.unwrap_or_default(),
            since: fields.read("since", |node| self.step_id(node))?,
            refused: fields.read("refused", boolean)?.unwrap_or(false),
        };
        fields.end()?;
        Ok(seen)
    }
}

fn rule(mut fields: Fields<'_>, id: Option<String>, effect: Effect, mark: Mark, is_crash: bool) -> Result<Fault> {
    let when = When {
        by: Some(fields.read("by", text)?.unwrap_or_else(|| "controller".to_owned())),
        verb: fields.read("verb", verb)?,
        writes: is_crash,
        resource: fields.read("resource", text)?,
        subresource: fields.read("subresource", text)?,
        name: fields.read("name", text)?,
    };
    let skip = small(fields.read("skip", number)?.unwrap_or_default());
    let times = fields.read("times", number)?.map(small).or(is_crash.then_some(1));
    let restart = if is_crash { fields.read("restart", bounded)? } else { None };
    fields.end()?;
    let id = id.unwrap_or_else(|| format!("line {}", mark.line));
    Ok(Fault::Rule { id, when, skip, times, effect, restart })
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The objects of a manifest file (YAML or JSON, any number of documents, `List`s flattened).
///
/// # Errors
/// What is wrong with the file.
pub fn manifests(path: &Path) -> std::result::Result<Vec<Given>, ScenarioError> {
    let fail = |error: YamlError| ScenarioError { path: path.to_owned(), mark: error.mark, message: error.message };
    let content = read_file(path).map_err(|message| fail(YamlError::at(Mark { line: 1, column: 1 }, message)))?;
    let mut objects = Vec::new();
    for document in parse(&content).map_err(fail)? {
        let is_list = document.to_json()["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match (&document.data, is_list) {
            (Data::Map(entries), true) => {
                let items = entries.iter().find(|(key, _)| key.text == "items").map(|(_, items)| items);
                for item in items.into_iter().flat_map(|items| match &items.data {
                    Data::List(items) => items.as_slice(),
                    _ => &[],
                }) {
                    objects.push(given(path, item).map_err(fail)?);
                }
            }
            _ => objects.push(given(path, &document).map_err(fail)?),
        }
    }
    Ok(objects)
}

fn given(path: &Path, node: &Node) -> Result<Given> {
    let object = node.to_json();
    for field in ["apiVersion", "kind"] {
        if object[field].as_str().unwrap_or_default().is_empty() {
            return Err(YamlError::at(node.mark, format!("this object has no `{field}`")));
        }
    }
    let metadata = &object["metadata"];
    if metadata["name"].as_str().or(metadata["generateName"].as_str()).unwrap_or_default().is_empty() {
        return Err(YamlError::at(node.mark, "this object has no `metadata.name`"));
    }
    Ok(Given { from: path.to_owned(), mark: node.mark, object })
}

fn missing_file(file: &str, path: &Path) -> String {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match super::decode::near(wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("there is no file `{file}`; did you mean `{near}`?"),
        None => format!("there is no file `{file}` (paths are relative to the scenario)"),
    }
}

fn profile(node: &Node) -> Result<&'static Profile> {
    let name = text(node)?;
    Profile::named(&name).ok_or_else(|| {
        YamlError::at(
            node.mark,
            unknown("there is no restore tool profile", &name, PROFILES.iter().map(|profile| profile.name)),
        )
    })
}

fn selection(fields: &mut Fields<'_>) -> Result<Selection> {
    Ok(Selection {
        namespaces: fields.read("namespaces", texts)?.unwrap_or_default(),
        exclude_namespaces: fields.read("exclude-namespaces", texts)?.unwrap_or_default(),
        resources: fields.read("resources", texts)?.unwrap_or_default(),
        exclude_resources: fields.read("exclude-resources", texts)?.unwrap_or_default(),
        labels: fields.read("labels", text_map)?.unwrap_or_default(),
        cluster_resources: fields.read("cluster-resources", boolean)?,
    })
}

fn settle(node: &Node) -> Result<Action> {
    let mut fields = Fields::of_optional(node, "a settle step")?;
    let quiet = fields.read("quiet", bounded)?.unwrap_or(QUIET_DEFAULT);
    let within = fields.read("within", bounded)?.unwrap_or(SETTLE_DEFAULT);
    fields.end()?;
    Ok(Action::Settle { quiet, within })
}

fn controller(node: &Node, action: ControllerAction) -> Result<Action> {
    word(node, "thing to start or stop", &[("controller", action)]).map(Action::Controller)
}

fn need(node: &Node) -> Result<Need> {
    word(node, "need", &[("rollback", Need::Rollback), ("faults", Need::Faults)])
}

fn verb(node: &Node) -> Result<Verb> {
    let verbs = [Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
    word(node, "verb", &verbs.map(|verb| (verb.as_str(), verb)))
}

/// A time that is not longer than a run may take.
fn bounded(node: &Node) -> Result<SignedDuration> {
    let time = duration(node)?;
    if time > WITHIN_MAX {
        return Err(YamlError::at(node.mark, "no step takes longer than 24h"));
    }
    Ok(time)
}

fn is_id(id: &str) -> bool {
    let digits = |text: &str| {
        !text.is_empty() && text.trim_end_matches(|c: char| c.is_ascii_lowercase()).bytes().all(|b| b.is_ascii_digit())
    };
    id.starts_with("FK-")
        || ["KD-", "B", "I", "F", "O", "A"].into_iter().any(|prefix| id.strip_prefix(prefix).is_some_and(digits))
}
