//! YAML with positions: every key and value knows where it stands, so that a complaint about a
//! scenario can name line and column.
//!
//! Bounded: file size, depth, and number of values once aliases are expanded.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// Largest scenario or manifest file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting.
pub const DEPTH_MAX: usize = 64;
/// Most values in one file, aliases expanded.
pub const NODES_MAX: usize = 100_000;

/// A place in a file; line and column count from 1.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Mark {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// What is wrong, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}:{}: {message}", mark.line, mark.column)]
pub struct YamlError {
    /// Where.
    pub mark: Mark,
    /// What, as one sentence.
    pub message: String,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub mark: Mark,
    /// What it is.
    pub data: Data,
}

/// The content of a [`Node`].
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Null, a boolean, a number or a string.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file; keys are strings.
    Map(Vec<(Key, Node)>),
}

/// A key with its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// The text.
    pub text: String,
    /// Where it begins.
    pub mark: Mark,
}

impl YamlError {
    /// A complaint about a place.
    #[must_use]
    pub fn at(mark: Mark, message: impl Into<String>) -> Self {
        Self { mark, message: message.into() }
    }
}

impl Node {
    /// What this is, for complaints: `a list`, `the string "x"`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.data {
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a map".to_owned(),
            Data::Scalar(Value::Null) => "nothing".to_owned(),
            Data::Scalar(Value::String(text)) => format!("the string \"{text}\""),
            Data::Scalar(value) => format!("{value}"),
        }
    }

    /// As JSON, without places.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::List(items) => items.iter().map(Node::to_json).collect(),
            Data::Map(entries) => Value::Object(
                entries.iter().map(|(key, value)| (key.text.clone(), value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Is it null or absent?
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.data, Data::Scalar(Value::Null))
    }
}

/// Reads every document of a file. Empty documents are left out.
///
/// # Errors
/// What is not YAML, repeats a key, has keys that are not strings, or exceeds a bound.
pub fn parse(text: &str) -> Result<Vec<Node>, YamlError> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes; at most {FILE_BYTES_MAX} are read", text.len());
        return Err(YamlError::at(Mark { line: 1, column: 1 }, message));
    }
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: BTreeMap::new(), nodes: 0 };
    let mut documents = Vec::new();
    loop {
        let (event, mark) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) => {
                let (event, mark) = reader.next()?;
                let document = reader.node(event, mark, 0)?;
                if !document.is_null() {
                    documents.push(document);
                }
            }
            _ => {
                let _ = mark;
            }
        }
    }
}

struct Reader<'text> {
    parser: Parser<'text, saphyr_parser::StrInput<'text>>,
    /// Anchored values with the number of values in them.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
}

impl<'text> Reader<'text> {
    fn next(&mut self) -> Result<(Event<'text>, Mark), YamlError> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, Mark { line: span.start.line(), column: span.start.col() + 1 })),
            Some(Err(error)) => {
                let mark = Mark { line: error.marker().line(), column: error.marker().col() + 1 };
                Err(YamlError::at(mark, format!("this is not YAML: {}", error.info())))
            }
            None => Ok((Event::StreamEnd, Mark::default())),
        }
    }

    fn count(&mut self, nodes: usize, mark: Mark) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            let message =
                format!("more than {NODES_MAX} values once aliases are expanded; this looks like a YAML bomb");
            return Err(YamlError::at(mark, message));
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'text>, mark: Mark, depth: usize) -> Result<Node, YamlError> {
        if depth > DEPTH_MAX {
            return Err(YamlError::at(mark, format!("nested more than {DEPTH_MAX} levels deep")));
        }
        self.count(1, mark)?;
        let before = self.nodes;
        let (data, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tagged_text = tag.is_some_and(|tag| tag.suffix == "str");
                let plain = style == ScalarStyle::Plain && !tagged_text;
                (Data::Scalar(if plain { plain_scalar(&text) } else { Value::String(text.into_owned()) }), anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(depth)?, anchor),
            Event::Alias(anchor) => {
                let Some((node, nodes)) = self.anchors.get(&anchor).cloned() else {
                    return Err(YamlError::at(mark, "an alias to a value that contains it or does not exist"));
                };
                self.count(nodes, mark)?;
                return Ok(node);
            }
            _ => return Err(YamlError::at(mark, "a value was expected here")),
        };
        let node = Node { mark, data };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before + 1));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Data, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, mark) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Data::List(items));
            }
            items.push(self.node(event, mark, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Data, YamlError> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, mark) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Data::Map(entries));
            }
            let key = self.node(event, mark, depth + 1)?;
            let text = match key.data {
                Data::Scalar(Value::String(text)) => text,
                Data::Scalar(value) if !value.is_null() => value.to_string(),
                _ => return Err(YamlError::at(mark, "a key must be a string")),
            };
            if let Some((first, _)) = entries.iter().find(|(key, _)| key.text == text) {
                let message = format!("the key \"{text}\" stands twice in this map, first in line {}", first.mark.line);
                return Err(YamlError::at(mark, message));
            }
            let (event, value_mark) = self.next()?;
            let value = self.node(event, value_mark, depth + 1)?;
            entries.push((Key { text, mark }, value));
        }
    }
}

/// A plain scalar by YAML 1.2's core schema, which Kubernetes' tools agree on for everything but
/// `yes` and `no`; those stay strings here.
fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return Value::Number(number.into());
    }
    let looks_numeric = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_digit());
    let number = if looks_numeric { text.parse::<f64>().ok().and_then(Number::from_f64) } else { None };
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_values_know_where_they_stand() {
        let documents = parse("a: 1\nb:\n  - x: yes\n").unwrap();
        let Data::Map(entries) = &documents[0].data else { panic!("a map") };
        assert_eq!(entries[1].0.mark, Mark { line: 2, column: 1 });
        let Data::List(items) = &entries[1].1.data else { panic!("a list") };
        assert_eq!(items[0].mark, Mark { line: 3, column: 5 });
        assert_eq!(documents[0].to_json(), json!({"a": 1, "b": [{"x": "yes"}]}));
    }

    #[rstest]
    #[case::syntax("a: [1", "this is not YAML")]
    #[case::twice("a: 1\na: 2\n", "stands twice")]
    #[case::key("{[1]: 2}", "a key must be a string")]
    fn what_is_wrong_is_refused_with_its_place(#[case] text: &str, #[case] says: &str) {
        let error = parse(text).unwrap_err();
        assert!(error.message.contains(says), "{error}");
        assert!(error.mark.line > 0, "{error}");
    }

    #[test]
    fn a_bomb_is_refused_by_its_expanded_size() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(parse(&text).unwrap_err().message.contains("bomb"));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(parse(&deep).unwrap_err().message.contains("levels deep"));
    }

    #[rstest]
    #[case("1", json!(1))]
    #[case("1.5", json!(1.5))]
    #[case("1e3", json!(1000.0))]
    #[case("1Gi", json!("1Gi"))]
    #[case("1.18", json!(1.18))]
    #[case("--", json!("--"))]
    #[case("'1'", json!("1"))]
    #[case("~", json!(null))]
    fn scalars_read_as_in_kubernetes_tools(#[case] text: &str, #[case] value: Value) {
        assert_eq!(parse(&format!("k: {text}\n")).map(|documents| documents[0].to_json()["k"].clone()), Ok(value));
    }
}
