//! From YAML nodes to typed values, with complaints that name the place and the nearest right name.

use std::str::FromStr;

use jiff::SignedDuration;
use serde_json::Value;

use super::yaml::{Data, Mark, Node, YamlError};

/// A map that is being read: fields are taken out one by one, what is left at the end is unknown.
pub struct Fields<'node> {
    mark: Mark,
    what: &'static str,
    entries: Vec<(&'node super::yaml::Key, &'node Node)>,
    known: Vec<&'static str>,
}

type Result<T> = std::result::Result<T, YamlError>;

impl<'node> Fields<'node> {
    /// Starts reading `node`, which must be a map; `what` names it in complaints (`a backup step`).
    ///
    /// # Errors
    /// When it is not a map.
    pub fn of(node: &'node Node, what: &'static str) -> Result<Self> {
        match &node.data {
            Data::Map(entries) => Ok(Self {
                mark: node.mark,
                what,
                entries: entries.iter().map(|(key, value)| (key, value)).collect(),
                known: Vec::new(),
            }),
            _ => Err(YamlError::at(node.mark, format!("{what} is a map of fields, but this is {}", node.describe()))),
        }
    }

    /// Like [`Fields::of`], but nothing at all counts as an empty map.
    ///
    /// # Errors
    /// When it is neither a map nor nothing.
    pub fn of_optional(node: &'node Node, what: &'static str) -> Result<Self> {
        if node.is_null() {
            return Ok(Self { mark: node.mark, what, entries: Vec::new(), known: Vec::new() });
        }
        Self::of(node, what)
    }

    /// Where the map begins.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Takes a field, if it is there.
    pub fn take(&mut self, name: &'static str) -> Option<&'node Node> {
        self.known.push(name);
        let at = self.entries.iter().position(|(key, _)| key.text == name)?;
        Some(self.entries.remove(at).1)
    }

    /// Takes a field that must be there.
    ///
    /// # Errors
    /// When it is missing.
    pub fn require(&mut self, name: &'static str) -> Result<&'node Node> {
        self.take(name).ok_or_else(|| YamlError::at(self.mark, format!("{} needs the field `{name}`", self.what)))
    }

    /// Takes a field and reads it; `None` when it is not there.
    ///
    /// # Errors
    /// When it does not read.
    pub fn read<T>(&mut self, name: &'static str, read: impl FnOnce(&Node) -> Result<T>) -> Result<Option<T>> {
        self.take(name).map(read).transpose()
    }

    /// Takes the first entry of the map, whatever its key: a step's verb.
    pub fn take_first(&mut self) -> Option<(&'node super::yaml::Key, &'node Node)> {
        if self.entries.is_empty() { None } else { Some(self.entries.remove(0)) }
    }

    /// Ends reading: whatever has not been taken is unknown.
    ///
    /// # Errors
    /// When a field is left.
    pub fn end(self) -> Result<()> {
        let Some((key, _)) = self.entries.first() else { return Ok(()) };
        let message = unknown(&format!("{} has no field", self.what), &key.text, self.known.iter().copied());
        Err(YamlError::at(key.mark, message))
    }
}

/// `… "tset"; did you mean "test"?`, or the list of what there is when nothing is near.
#[must_use]
pub fn unknown<'a>(sentence: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match near(name, known.clone()) {
        Some(near) => format!("{sentence} `{name}`; did you mean `{near}`?"),
        None => {
            let known: Vec<String> = known.map(|known| format!("`{known}`")).collect();
            format!("{sentence} `{name}`; there are {}", known.join(", "))
        }
    }
}

/// The name most like `name`, if any is near enough to be what was meant.
#[must_use]
pub fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(likeness, _)| *likeness > 0.78)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// A string; numbers and booleans are taken as written.
///
/// # Errors
/// When it is a list, a map or nothing.
pub fn text(node: &Node) -> Result<String> {
    match &node.data {
        Data::Scalar(Value::String(text)) => Ok(text.clone()),
        Data::Scalar(value) if !value.is_null() => Ok(value.to_string()),
        _ => Err(YamlError::at(node.mark, format!("a string belongs here, but this is {}", node.describe()))),
    }
}

/// `true` or `false`.
///
/// # Errors
/// When it is anything else.
pub fn boolean(node: &Node) -> Result<bool> {
    match &node.data {
        Data::Scalar(Value::Bool(value)) => Ok(*value),
        _ => Err(YamlError::at(node.mark, format!("`true` or `false` belongs here, but this is {}", node.describe()))),
    }
}

/// A whole number that is not negative.
///
/// # Errors
/// When it is anything else.
pub fn number(node: &Node) -> Result<u64> {
    match &node.data {
        Data::Scalar(Value::Number(number)) if number.is_u64() => Ok(number.as_u64().unwrap_or_default()),
        _ => {
            let message = format!("a whole number that is not negative belongs here, but this is {}", node.describe());
            Err(YamlError::at(node.mark, message))
        }
    }
}

/// A span of time: `30s`, `5m`, `1h 30m`, `250ms`.
///
/// # Errors
/// When it is anything else.
pub fn duration(node: &Node) -> Result<SignedDuration> {
    let text = text(node)?;
    let refuse = || {
        YamlError::at(node.mark, format!("a time such as `30s`, `5m` or `250ms` belongs here, but this is `{text}`"))
    };
    let time = humantime::Duration::from_str(&text).map_err(|_| refuse())?;
    SignedDuration::try_from(*time).map_err(|_| refuse())
}

/// A list whose items read with `read`; a single item stands for a list of one.
///
/// # Errors
/// When an item does not read.
pub fn list<T>(node: &Node, mut read: impl FnMut(&Node) -> Result<T>) -> Result<Vec<T>> {
    match &node.data {
        Data::List(items) => items.iter().map(read).collect(),
        Data::Scalar(Value::Null) => Ok(Vec::new()),
        _ => Ok(vec![read(node)?]),
    }
}

/// A list of strings; a single string stands for a list of one.
///
/// # Errors
/// When an item is not a string.
pub fn texts(node: &Node) -> Result<Vec<String>> {
    list(node, text)
}

/// A map from strings to strings.
///
/// # Errors
/// When it is not one.
pub fn text_map(node: &Node) -> Result<std::collections::BTreeMap<String, String>> {
    match &node.data {
        Data::Map(entries) => entries.iter().map(|(key, value)| Ok((key.text.clone(), text(value)?))).collect(),
        _ => Err(YamlError::at(node.mark, format!("a map of strings belongs here, but this is {}", node.describe()))),
    }
}

/// One of these words.
///
/// # Errors
/// When it is another.
pub fn word<T: Copy>(node: &Node, what: &str, words: &[(&str, T)]) -> Result<T> {
    let text = text(node)?;
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        YamlError::at(node.mark, unknown(&format!("there is no {what}"), &text, words.iter().map(|(word, _)| *word)))
    })
}
