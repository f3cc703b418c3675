//! The final state of a scenario as text that two runs share: uids, times, generated names and
//! addresses become stable marks; what is left out is said in the first lines.

use std::collections::{BTreeMap, BTreeSet};

use rewake_apiserver::object::ObjectExt;
use rewake_apiserver::store::{Revision, Store};
use serde_json::{Map, Value, json};

use crate::oracles::{title, uids_in};

/// What stands at the top of each snapshot: everything that the marks hide.
pub const HIDDEN: &str = "\
# uids read `uid(KIND NAMESPACE/NAME)`, uids of objects that are gone `uid(gone N)`, other generated ids `id(N)`;
# generated names read `PREFIX(N)`, times `(time)`, addresses `(ip N)`, node ports `(port N)`, containers `(container N)`.
# digests `(digest N)`. Hidden: resourceVersions; metadata.managedFields but for their managers; Leases; the
# restore tool's labels (which of two equal objects it made is chance).
# Events are summed up at the end. Objects that the scenario did not touch are left out.
";

/// Renders what has changed since `base` (or was made since).
#[must_use]
pub fn render(store: &Store, base: Revision) -> String {
    let mut marks = Marks::of(store);
    let mut objects: Vec<(String, Value)> = Vec::new();
    let mut events = BTreeSet::new();
    for resource in store.resources() {
        for object in store.list(resource, "") {
            let revision = object.resource_version().parse().map(Revision).unwrap_or_default();
            if revision <= base || &*resource.resource == "leases" {
                continue;
            }
            if &*resource.resource == "events" {
                let event = marks.replace(object);
                let regarding = &event["involvedObject"];
                let line = format!(
                    "{} {} on {} {}: {}",
                    event["type"].as_str().unwrap_or_default(),
                    event["reason"].as_str().unwrap_or_default(),
                    regarding["kind"].as_str().unwrap_or_default(),
                    regarding["name"].as_str().unwrap_or_default(),
                    event["message"].as_str().unwrap_or_default(),
                );
                events.insert(line);
                continue;
            }
            let object = marks.replace(object);
            objects.push((title(&object), object));
        }
    }
    objects.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut text = HIDDEN.to_owned();
    for (title, object) in objects {
        text.push_str(&format!("--- # {title}\n{}", to_yaml(&object)));
    }
    if !events.is_empty() {
        text.push_str("--- # Events\n");
        for event in events {
            text.push_str(&format!("# {event}\n"));
        }
    }
    text
}

fn to_yaml(object: &Value) -> String {
    serde_yaml::to_string(object).unwrap_or_else(|error| format!("# this object cannot be written as YAML: {error}\n"))
}

/// Replaces what differs between runs.
struct Marks {
    uids: BTreeMap<String, String>,
    /// Generated names, longest first, with their marks.
    names: Vec<(String, String)>,
    gone: BTreeSet<String>,
    counters: BTreeMap<&'static str, BTreeMap<String, usize>>,
}

impl Marks {
    fn of(store: &Store) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        let mut by_prefix: BTreeMap<String, BTreeMap<String, ()>> = BTreeMap::new();
        let mut order: Vec<(String, String)> = Vec::new();
        let mut gone = BTreeSet::new();
        for entry in store.log_after(Revision(0)) {
            gone.insert(entry.object.uid().to_owned());
            let prefix = entry.object.meta("generateName");
            let name = entry.object.name();
            // Controllers that name things themselves set generateName for show (StatefulSet pods).
            let suffix = name.strip_prefix(prefix).unwrap_or_default();
            if !prefix.is_empty()
                && suffix.len() == 5
                && by_prefix.entry(prefix.to_owned()).or_default().insert(name.to_owned(), ()).is_none()
            {
                order.push((prefix.to_owned(), name.to_owned()));
            }
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (prefix, name) in order {
            let count = counts.entry(prefix.clone()).or_default();
            *count += 1;
            names.push((name, format!("{prefix}({count})")));
        }
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut uids = BTreeMap::new();
        for resource in store.resources() {
            for object in store.list(resource, "") {
                uids.insert(object.uid().to_owned(), format!("uid({})", title(object)));
                gone.remove(object.uid());
            }
        }
        let mut marks = Self { uids, names, gone, counters: BTreeMap::new() };
        // Names inside uid marks are generated too, or hold uids themselves (`pvc-UID`).
        let plain = marks.uids.clone();
        for mark in marks.uids.values_mut() {
            let inner: Vec<String> = uids_in(mark).map(str::to_owned).collect();
            for uid in inner {
                let name = plain.get(&uid).map_or("gone", String::as_str);
                *mark = mark.replace(&uid, name);
            }
        }
        let marked = marks.uids.iter().map(|(uid, mark)| (uid.clone(), marks.text_names(mark))).collect();
        marks.uids = marked;
        marks
    }

    fn count(&mut self, kind: &'static str, text: &str) -> usize {
        let seen = self.counters.entry(kind).or_default();
        let next = seen.len() + 1;
        *seen.entry(text.to_owned()).or_insert(next)
    }

    fn replace(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            if let Some(fields) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
                let managers: BTreeSet<String> = fields.iter().map(manager).collect();
                metadata.insert("managedFields".to_owned(), managers.into_iter().map(Value::String).collect());
            }
        }
        self.value("", &object)
    }

    fn value(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(key, item)).collect(),
            Value::Object(fields) => {
                let mut out = Map::new();
                for (key, field) in
                    fields.iter().filter(|(key, _)| *key != "resourceVersion" && !key.starts_with("velero.io/"))
                {
                    if key == "labels" && is_only_from_the_tool(field) {
                        continue;
                    }
                    let replaced = self.value(key, field);
                    out.insert(self.text(key), replaced);
                }
                Value::Object(out)
            }
            Value::Number(_) if key == "nodePort" || key == "healthCheckNodePort" => {
                json!(format!("(port {})", self.count("port", &value.to_string())))
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        if is_time(text) {
            return "(time)".to_owned();
        }
        if text.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_private()) {
            return format!("(ip {})", self.count("ip", text));
        }
        if let Some(id) = text.strip_prefix("containerd://") {
            return format!("(container {})", self.count("container", id));
        }
        let mut out = self.text_names(text);
        let uids: Vec<String> = uids_in(text).map(str::to_owned).collect();
        for uid in uids {
            let mark = match self.uids.get(&uid) {
                Some(mark) => mark.clone(),
                None if self.gone.contains(&uid) => format!("uid(gone {})", self.count("gone", &uid)),
                None => format!("id({})", self.count("id", &uid)),
            };
            out = out.replace(&uid, &mark);
        }
        let out = DIGEST_LENGTHS
            .iter()
            .fold(out, |out, length| mask_hex(&out, *length, |id| format!("(digest {})", self.count("digest", id))));
        mask_hex(&out, CONTAINER_LENGTH, |id| format!("(container {})", self.count("container", id)))
    }

    fn text_names(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, mark) in &self.names {
            if out.contains(name.as_str()) {
                out = out.replace(name.as_str(), mark);
            }
        }
        out
    }
}

/// Container ids are so many hexadecimal digits.
const CONTAINER_LENGTH: usize = 64;
/// Digests of uids and of connections, as the reference controller keeps them, are so many.
const DIGEST_LENGTHS: [usize; 2] = [16, 32];

/// Replaces every run of exactly `length` hexadecimal digits.
fn mask_hex(text: &str, length: usize, mut mark: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    for character in text.chars().chain(['\0']) {
        if character.is_ascii_hexdigit() {
            run.push(character);
            continue;
        }
        if run.len() == length {
            out.push_str(&mark(&run));
        } else {
            out.push_str(&run);
        }
        run.clear();
        if character != '\0' {
            out.push(character);
        }
    }
    out
}

fn is_only_from_the_tool(labels: &Value) -> bool {
    labels
        .as_object()
        .is_some_and(|labels| !labels.is_empty() && labels.keys().all(|key| key.starts_with("velero.io/")))
}

fn manager(entry: &Value) -> String {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let subresource = match entry["subresource"].as_str() {
        Some(subresource) => format!(" {subresource}"),
        None => String::new(),
    };
    format!("{} {}{subresource}", text("manager"), text("operation"))
}

fn is_time(text: &str) -> bool {
    text.len() >= 20
        && text.ends_with('Z')
        && text.as_bytes().get(10) == Some(&b'T')
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// One difference between two snapshots, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// `KIND NAME`.
    pub object: String,
    /// Path of the field; empty when the object itself is missing or new.
    pub field: String,
    /// In words.
    pub message: String,
}

/// What differs, object by object and field by field, in the order of the snapshots.
#[must_use]
pub fn compare(expected: &str, actual: &str) -> Vec<Difference> {
    let (expected, actual) = (split(expected), split(actual));
    let mut differences = Vec::new();
    let titles: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
    for title in titles {
        let object = title.clone();
        match (expected.get(title), actual.get(title)) {
            (Some(_), None) => {
                differences.push(Difference { object, field: String::new(), message: "is missing".to_owned() });
            }
            (None, Some(_)) => {
                differences.push(Difference { object, field: String::new(), message: "is new".to_owned() });
            }
            (Some(before), Some(after)) => fields("", before, after, &mut |field, message| {
                differences.push(Difference { object: object.clone(), field, message });
            }),
            (None, None) => {}
        }
    }
    differences
}

fn split(snapshot: &str) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for document in snapshot.split("--- # ").skip(1) {
        let (title, body) = document.split_once('\n').unwrap_or((document, ""));
        let value = if title == "Events" {
            body.lines().map(|line| Value::String(line.trim_start_matches("# ").to_owned())).collect()
        } else {
            serde_yaml::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
        };
        objects.insert(title.to_owned(), value);
    }
    objects
}

fn fields(path: &str, before: &Value, after: &Value, report: &mut impl FnMut(String, String)) {
    if before == after {
        return;
    }
    let name = || path.trim_start_matches('.').to_owned();
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => fields(&path, old, new, report),
                    (Some(old), None) => report(path[1..].to_owned(), format!("is gone; it was {}", short(old))),
                    (None, Some(new)) => report(path[1..].to_owned(), format!("is new: {}", short(new))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                fields(&format!("{path}[{at}]"), old, new, report);
            }
        }
        _ => report(name(), format!("is {}, was {}", short(after), short(before))),
    }
}

fn short(value: &Value) -> String {
    const LENGTH_MAX: usize = 120;
    let text = value.to_string();
    if text.chars().count() <= LENGTH_MAX {
        return text;
    }
    let start: String = text.chars().take(LENGTH_MAX).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_object_and_field() {
        let before = "# x\n--- # Pod a\nspec:\n  n: 1\n--- # Pod b\nspec: {}\n";
        let after = "# x\n--- # Pod a\nspec:\n  n: 2\n--- # Pod c\nspec: {}\n";
        let words: Vec<String> =
            compare(before, after).iter().map(|d| format!("{} {} {}", d.object, d.field, d.message)).collect();
        assert_eq!(words, ["Pod a spec.n is 2, was 1", "Pod b  is missing", "Pod c  is new"]);
    }

    #[test]
    fn ids_are_marked_inside_text_by_their_length() {
        let mask = |text: &str| mask_hex(text, 16, |_| "(id)".to_owned());
        assert_eq!(mask("blue/0123456789abcdef"), "blue/(id)");
        assert_eq!(mask("0123456789abcdef=0"), "(id)=0");
        assert_eq!(mask("0123456789abcdef0"), "0123456789abcdef0");
        assert_eq!(mask("no id"), "no id");
    }
}
