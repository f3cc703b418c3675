//! Reading YAML as the API server reads it: as JSON, with the scalars of YAML 1.1 (`on` is true).
//!
//! Source: `sigs.k8s.io/yaml`, which converts with `goyaml.v2/resolve.go`.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::json::{Document, number};

/// Deepest nesting, as for JSON.
const MAX_DEPTH: usize = 128;
/// Most values of a document once its aliases are followed.
const MAX_VALUES: usize = 1_000_000;

/// Reads one YAML document; of several, the first.
///
/// # Errors
/// Go's sentence about what is wrong, for example `yaml: line 1: did not find expected node content`.
pub fn read(bytes: &[u8]) -> Result<Document, String> {
    // This parser descends from the same library as Go's and words errors alike, but it resolves scalars by
    // YAML 1.2; so it judges the syntax, and the values are taken from events.
    let mut documents = serde_yaml::Deserializer::from_slice(bytes);
    if let Some(first) = documents.next() {
        serde::Deserialize::deserialize(first)
            .map(|_: IgnoredAny| ())
            .or_else(|error| if is_duplicate(&error) { Ok(()) } else { Err(go_words(&error)) })?;
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let mut reader = Reader { events: Parser::new_from_str(text), anchors: BTreeMap::new(), left: MAX_VALUES };
    let mut document = Document::default();
    loop {
        match reader.next()? {
            Some(Event::StreamStart | Event::DocumentStart(_) | Event::Nothing) => {}
            Some(Event::StreamEnd | Event::DocumentEnd) | None => return Ok(document),
            Some(event) => {
                document.value = reader.value(event, 0, &mut document.duplicates)?;
                return Ok(document);
            }
        }
    }
}

/// Members given twice are no syntax error to Go; strict decoding names them.
fn is_duplicate(error: &serde_yaml::Error) -> bool {
    error.to_string().contains("duplicate entry")
}

/// A YAML error as Go's library words it. Both descend from libyaml and share its sentences; Go
/// names the line at which the construct began, counted from zero (from one while scanning tokens),
/// and none for the first line.
fn go_words(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let end = [" at line ", " at position ", ", while "].iter().filter_map(|mark| text.find(mark)).min();
    let problem = &text[..end.unwrap_or(text.len())];
    let rest = text.split_once(" at line ").map_or("", |(_, rest)| rest);
    let number = |text: &str| text.split(' ').next().and_then(|digits| digits.parse::<usize>().ok());
    let began = rest.split_once(" at line ").and_then(|(_, context)| number(context)).filter(|line| *line > 1);
    let scanning = rest.contains("while scanning");
    match began.or_else(|| number(rest)).map(|line| line - usize::from(!scanning)) {
        Some(line) if line > usize::from(scanning) => format!("yaml: line {line}: {problem}"),
        _ => format!("yaml: {problem}"),
    }
}

struct Reader<'t> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    anchors: BTreeMap<usize, Value>,
    /// How many more values may be made.
    left: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Option<Event<'t>>, String> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok((event, _))) => Ok(Some(event)),
            Some(Err(error)) => Err(format!("yaml: line {}: {}", error.marker().line(), error.info())),
        }
    }

    fn spend(&mut self, values: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(values).ok_or("yaml: document contains excessive aliasing")?;
        Ok(())
    }

    /// The value that begins with `event`.
    fn value(&mut self, event: Event<'t>, depth: usize, duplicates: &mut Vec<String>) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("yaml: exceeded max depth of {MAX_DEPTH}"));
        }
        self.spend(1)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.as_deref().is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let plain = style == ScalarStyle::Plain && !is_text;
                (anchor, if plain { resolve(&text) } else { Value::String(text.into_owned()) })
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned().ok_or("yaml: unknown anchor referenced")?;
                self.spend(count(&value))?;
                (0, value)
            }
            Event::SequenceStart(anchor, _) => (anchor, self.sequence(depth, duplicates)?),
            Event::MappingStart(anchor, _) => (anchor, self.mapping(depth, duplicates)?),
            _ => return Err("yaml: unexpected end of stream".to_owned()),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self, depth: usize, duplicates: &mut Vec<String>) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Some(Event::SequenceEnd) | None => return Ok(Value::Array(items)),
                Some(event) => {
                    let before = duplicates.len();
                    let item = self.value(event, depth + 1, duplicates)?;
                    super::prepend(&mut duplicates[before..], || format!("[{}]", items.len()));
                    items.push(item);
                }
            }
        }
    }

    fn mapping(&mut self, depth: usize, duplicates: &mut Vec<String>) -> Result<Value, String> {
        let mut members = Map::new();
        let mut merged = Vec::new();
        loop {
            let key = match self.next()? {
                Some(Event::MappingEnd) | None => break,
                Some(event) => self.value(event, depth + 1, duplicates)?,
            };
            let Some(event) = self.next()? else { break };
            let name = match key {
                Value::String(name) => name,
                Value::Null => "null".to_owned(),
                Value::Bool(_) | Value::Number(_) => key.to_string(),
                Value::Array(_) | Value::Object(_) => return Err(format!("yaml: invalid map key: {key}")),
            };
            let before = duplicates.len();
            let value = self.value(event, depth + 1, duplicates)?;
            super::prepend(&mut duplicates[before..], || name.clone());
            if name == "<<" {
                merged.push(value);
                continue;
            }
            if members.contains_key(&name) {
                duplicates.push(name.clone());
            }
            members.insert(name, value);
        }
        for source in merged {
            let sources = if let Value::Array(sources) = source { sources } else { vec![source] };
            for source in sources {
                let Value::Object(source) = source else {
                    return Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
                };
                for (name, value) in source {
                    members.entry(name).or_insert(value);
                }
            }
        }
        Ok(Value::Object(members))
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>() + 1,
        Value::Object(members) => members.values().map(count).sum::<usize>() + 1,
        _ => 1,
    }
}

/// What a plain scalar means.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let looks_numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if !looks_numeric {
        return Value::from(text);
    }
    let plain = text.replace('_', "");
    integer(&plain).map(Value::from).or_else(|| float(&plain)).unwrap_or_else(|| Value::from(text))
}

/// Decimal, `0x`, `0b`, `0o` and, as Go reads them, octal numbers with a leading zero.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    let amount = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -amount } else { amount }).ok()
}

fn float(text: &str) -> Option<Value> {
    let digits = text.trim_start_matches(['+', '-']);
    let is_float = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'))
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    if is_float { text.parse().ok().map(number) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_mean_what_they_mean_in_yaml_1_1() {
        let text = "on: yes\nquoted: 'yes'\ncount: 1\nf: 1.50\noct: 0644\nhex: 0x10\ntime: 2026-01-02T03:04:05Z\nnone: ~\n\
                    ip: 10.0.0.1\nexp: 1e3\nblock: |\n  a\n  b\nlist: [a, -1]\nversion: 1.2.3\ncpu: 500m\nempty:\n";
        let expected = json!({
            "true": true, "quoted": "yes", "count": 1, "f": 1.5, "oct": 420, "hex": 16, "time": "2026-01-02T03:04:05Z",
            "none": null, "ip": "10.0.0.1", "exp": 1000, "block": "a\nb\n", "list": ["a", -1], "version": "1.2.3",
            "cpu": "500m", "empty": null,
        });
        assert_eq!(read(text.as_bytes()).map(|document| document.value), Ok(expected));
    }

    #[test]
    fn aliases_are_followed_and_bombs_refused() {
        let document = read(b"a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\na: 1\n").expect("YAML");
        assert_eq!(document.value, json!({"a": 1, "c": {"b": 1}, "d": {"b": 1, "e": 2}}));
        assert_eq!(document.duplicates, ["a"]);
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let previous = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![previous; 10].join(", ")));
        }
        assert!(read(bomb.as_bytes()).is_err());
    }

    #[test]
    fn syntax_errors_are_worded_as_go_words_them() {
        assert_eq!(read(b"a: [\n").map(|_| ()), Err("yaml: line 1: did not find expected node content".to_owned()));
        assert_eq!(read(b"").map(|document| document.value), Ok(Value::Null));
    }
}
