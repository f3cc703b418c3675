//! Replaces what differs from run to run (uids, versions, times, addresses, generated names) by marks
//! that do not, the same way as it was done when the answers were recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a valid pattern"));
    };
}

pattern!(UID, r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b");
pattern!(TIME, r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b");
pattern!(ADDRESS, r"^(?:10|172|192)\.\d+\.\d+\.\d+$");
pattern!(
    VERSION,
    r#"(in the precondition \(|in record \(|resource version: |current: |resourceVersion: |resourceVersion\\?":\\?")(\d+)"#
);
pattern!(AGE, r"^(?:\d+[smhdy]){1,3}$");
pattern!(PORT, r"127\.0\.0\.1:\d+->");
pattern!(GENERATED, r"^[bcdfghjklmnpqrstvwxz2456789]{5}$");

/// The marks of one case.
pub(crate) struct Normaliser {
    /// Mark and what it stands for, longest first.
    names: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
    addresses: Vec<(String, String)>,
    ports: Vec<(i64, String)>,
    versions: BTreeSet<u64>,
    ranks: BTreeMap<u64, usize>,
    generated: BTreeMap<String, String>,
}

impl Normaliser {
    /// With the names of the case, which become `${NAME}`.
    pub(crate) fn new(mut names: Vec<(String, String)>) -> Self {
        names.sort_by_key(|(_, real)| std::cmp::Reverse(real.len()));
        Self {
            names,
            uids: BTreeMap::new(),
            addresses: Vec::new(),
            ports: Vec::new(),
            versions: BTreeSet::new(),
            ranks: BTreeMap::new(),
            generated: BTreeMap::new(),
        }
    }

    /// A list's, table's or bookmark's version moves with the whole store: it becomes `<rv>`. Managed
    /// fields are sorted: entries of one second have no settled order.
    pub(crate) fn own_versions(value: &mut Value) {
        fn mark(metadata: Option<&mut Value>) {
            if let Some(version) = metadata.and_then(|metadata| metadata.get_mut("resourceVersion"))
                && version.as_str().is_some_and(|text| is_number(text) && text != "0")
            {
                *version = "<rv>".into();
            }
        }
        match value {
            Value::Object(fields) => {
                let is_list = fields.get("items").is_some_and(Value::is_array)
                    || fields.get("rows").is_some_and(Value::is_array)
                    || fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
                let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
                if is_list {
                    mark(fields.get_mut("metadata"));
                } else if is_bookmark && let Some(object) = fields.get_mut("object") {
                    mark(object.get_mut("metadata"));
                    for row in object.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
                        mark(row.get_mut("object").and_then(|object| object.get_mut("metadata")));
                    }
                }
                if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                    entries.sort_by_key(|entry| {
                        ["operation", "manager", "subresource", "apiVersion"]
                            .map(|field| entry[field].as_str().unwrap_or("None").to_owned())
                    });
                }
                fields.values_mut().for_each(Self::own_versions);
            }
            Value::Array(items) => items.iter_mut().for_each(Self::own_versions),
            _ => {}
        }
    }

    /// Finds generated names.
    pub(crate) fn find_generated(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let text = |field: &str| fields.get(field).and_then(Value::as_str);
                if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
                    && name.strip_prefix(prefix).is_some_and(|suffix| GENERATED.is_match(suffix))
                {
                    let next = self.generated.len() + 1;
                    self.generated.entry(name.to_owned()).or_insert_with(|| format!("{prefix}<gen{next}>"));
                }
                fields.values().for_each(|value| self.find_generated(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.find_generated(item)),
            _ => {}
        }
    }

    /// Finds what is numbered: versions, addresses, ports.
    pub(crate) fn collect(&mut self, value: &Value, key: &str) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| self.collect(value, key)),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, key)),
            Value::String(text) if key == "resourceVersion" && is_number(text) && text != "0" => {
                self.versions.extend(text.parse::<u64>());
            }
            Value::String(text) if matches!(key, "clusterIP" | "clusterIPs") && ADDRESS.is_match(text) => {
                self.address(text);
            }
            Value::Number(number) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let port = number.as_i64().unwrap_or_default();
                if port >= 30_000 && !self.ports.iter().any(|(known, _)| *known == port) {
                    self.ports.push((port, format!("<nodePort{}>", self.ports.len() + 1)));
                }
            }
            _ => {}
        }
    }

    fn address(&mut self, text: &str) -> String {
        if let Some((_, mark)) = self.addresses.iter().find(|(known, _)| known == text) {
            return mark.clone();
        }
        let mark = format!("<ip{}>", self.addresses.len() + 1);
        self.addresses.push((text.to_owned(), mark.clone()));
        mark
    }

    /// Ranks the versions found: their order is kept, the gaps are not.
    pub(crate) fn freeze(&mut self) {
        self.ranks = self.versions.iter().enumerate().map(|(at, version)| (*version, at + 1)).collect();
    }

    /// The value with marks.
    pub(crate) fn apply(&mut self, value: &Value, key: &str) -> Value {
        match value {
            Value::Object(fields) => {
                let mut out = Map::new();
                for (key, value) in fields {
                    out.insert(self.text(key), self.apply(value, key));
                }
                Value::Object(out)
            }
            Value::Array(items) => items.iter().map(|item| self.apply(item, key)).collect(),
            Value::Number(number) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let mark = self.ports.iter().find(|(port, _)| Some(*port) == number.as_i64());
                mark.map_or_else(|| value.clone(), |(_, mark)| mark.as_str().into())
            }
            Value::String(text) => self.string(text, key).into(),
            other => other.clone(),
        }
    }

    fn string(&mut self, text: &str, key: &str) -> String {
        match key {
            "cells" if AGE.is_match(text) => "<age>".to_owned(),
            "resourceVersion" if is_number(text) && text != "0" => {
                let rank = text.parse().ok().and_then(|version: u64| self.ranks.get(&version)).copied();
                format!("<rv{}>", rank.unwrap_or(0))
            }
            "clusterIP" | "clusterIPs" if ADDRESS.is_match(text) => self.address(text),
            "continue" if !text.is_empty() => "<continue>".to_owned(),
            _ => self.text(text),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut out = text.to_owned();
        for (mark, real) in &self.names {
            out = out.replace(real, &format!("${{{mark}}}"));
        }
        let mut generated: Vec<(&String, &String)> = self.generated.iter().collect();
        generated.sort_by_key(|(real, _)| std::cmp::Reverse(real.len()));
        for (real, mark) in generated {
            out = out.replace(real, mark);
        }
        let numbers = self.addresses.iter().map(|(real, mark)| (real.clone(), mark));
        let numbers = numbers.chain(self.ports.iter().map(|(real, mark)| (real.to_string(), mark)));
        for (real, mark) in numbers {
            if out.contains(&real) {
                out = replace_word(&out, &real, mark);
            }
        }
        out = self.versions_in(&out);
        out = PORT.replace_all(&out, "127.0.0.1:<port>->").into_owned();
        let uids = &mut self.uids;
        out = UID
            .replace_all(&out, |found: &Captures<'_>| {
                let next = uids.len() + 1;
                uids.entry(found[0].to_owned()).or_insert_with(|| format!("<uid{next}>")).clone()
            })
            .into_owned();
        let time = |found: &Captures<'_>| if found[0].contains('.') { "<microtime>" } else { "<time>" };
        TIME.replace_all(&out, |found: &Captures<'_>| time(found).to_owned()).into_owned()
    }

    /// Versions that a sentence names.
    fn versions_in(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for found in VERSION.captures_iter(text) {
            let (Some(before), Some(number)) = (found.get(1), found.get(2)) else { continue };
            let follows = text[number.end()..].chars().next();
            if follows.is_some_and(|letter| letter == '-' || letter == '_' || letter.is_alphanumeric()) {
                continue;
            }
            out.push_str(&text[end..number.start()]);
            let version: u64 = number.as_str().parse().unwrap_or_default();
            match self.ranks.get(&version) {
                Some(rank) => out.push_str(&format!("<rv{rank}>")),
                None if before.as_str() == "resource version: " || version < 2 => out.push_str(number.as_str()),
                None => out.push_str("<rv>"),
            }
            end = number.end();
        }
        out.push_str(&text[end..]);
        out
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Replaces `word` where no letter or digit touches it.
fn replace_word(text: &str, word: &str, mark: &str) -> String {
    let touches = |letter: Option<char>| letter.is_some_and(|letter| letter == '_' || letter.is_alphanumeric());
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for (start, _) in text.match_indices(word) {
        let alone = !touches(text[..start].chars().next_back()) && !touches(text[start + word.len()..].chars().next());
        if alone && start >= end {
            out.push_str(&text[end..start]);
            out.push_str(mark);
            end = start + word.len();
        }
    }
    out.push_str(&text[end..]);
    out
}
