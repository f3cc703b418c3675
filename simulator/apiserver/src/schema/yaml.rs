//! Reading YAML as the API server reads it: as JSON, by the rules of YAML 1.1.
//!
//! `on`, `yes` and `y` are `true`, `0123` is octal, keys become strings, `<<` merges. Source:
//! `sigs.k8s.io/yaml` and its `goyaml.v2` (`resolve.go`, `decode.go`).

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 128;
/// Values that a document may come to once its aliases are replaced: a bound on YAML bombs.
const VALUES_MAX: usize = 1_000_000;

/// Reads the first document.
///
/// # Errors
/// Go's sentence about what is wrong, for example `yaml: line 1: did not find expected node content`.
pub fn read(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let mut reading = Reading::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, _)) => {
                if reading.take(event)? {
                    break;
                }
            }
            Err(error) => return Err(syntax_error(bytes).unwrap_or_else(|| format!("yaml: {}", error.info()))),
        }
    }
    Ok(reading.document.unwrap_or_default())
}

/// The sentence of libyaml, from which Go's library descends as well.
fn syntax_error(bytes: &[u8]) -> Option<String> {
    let error = serde_yaml::from_slice::<Value>(bytes).err()?;
    Some(crate::patch::applied::go_yaml_error(&error))
}

/// A collection whose end has not come yet.
enum Open {
    List(Vec<Value>),
    Map { members: Map<String, Value>, merged: Vec<Value>, key: Option<Key> },
}

/// A key whose value has not come yet.
enum Key {
    Name(String),
    /// `<<`.
    Merge,
}

#[derive(Default)]
struct Reading {
    open: Vec<(Open, usize)>,
    anchors: BTreeMap<usize, (Value, usize)>,
    values: usize,
    document: Option<Value>,
}

impl Reading {
    /// Takes an event; answers whether the document has ended.
    fn take(&mut self, event: Event<'_>) -> Result<bool, String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_key = self.wants_key();
                let plain = style == ScalarStyle::Plain && tag.is_none();
                if is_key && plain && text == "<<" {
                    self.set_key(Key::Merge);
                    return Ok(false);
                }
                let value = scalar(&text, plain, tag.as_deref());
                self.put(value, anchor)?;
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => {
                self.begin(Open::Map { members: Map::new(), merged: Vec::new(), key: None }, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((ended, anchor)) = self.open.pop() {
                    self.put(close(ended), anchor)?;
                }
            }
            Event::Alias(anchor) => {
                let Some((value, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err("yaml: unknown anchor referenced".to_owned());
                };
                // `put` counts one.
                self.values += size.saturating_sub(1);
                self.put(value, 0)?;
            }
            Event::DocumentEnd => return Ok(true),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        Ok(false)
    }

    fn begin(&mut self, opened: Open, anchor: usize) -> Result<(), String> {
        if self.open.len() == DEPTH_MAX {
            return Err(format!("yaml: exceeded max depth of {DEPTH_MAX}"));
        }
        self.open.push((opened, anchor));
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some((Open::Map { key: None, .. }, _)))
    }

    fn set_key(&mut self, name: Key) {
        if let Some((Open::Map { key, .. }, _)) = self.open.last_mut() {
            *key = Some(name);
        }
    }

    /// Puts a complete value where it belongs.
    fn put(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(format!("yaml: document contains excessive aliasing: more than {VALUES_MAX} values"));
        }
        if anchor > 0 {
            let size = size(&value);
            self.anchors.insert(anchor, (value.clone(), size));
        }
        match self.open.last_mut() {
            None => self.document = Some(value),
            Some((Open::List(items), _)) => items.push(value),
            Some((Open::Map { members, merged, key }, _)) => match key.take() {
                Some(Key::Name(name)) => {
                    members.insert(name, value);
                }
                Some(Key::Merge) => match value {
                    Value::Array(several) => merged.extend(several),
                    one => merged.push(one),
                },
                None => *key = Some(Key::Name(key_name(value)?)),
            },
        }
        Ok(())
    }
}

fn close(ended: Open) -> Value {
    match ended {
        Open::List(items) => Value::Array(items),
        Open::Map { mut members, merged, .. } => {
            for other in merged {
                let Value::Object(other) = other else { continue };
                for (name, value) in other {
                    members.entry(name).or_insert(value);
                }
            }
            Value::Object(members)
        }
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// A key as a member's name.
fn key_name(key: Value) -> Result<String, String> {
    match key {
        Value::String(name) => Ok(name),
        Value::Null => Ok("null".to_owned()),
        Value::Bool(_) | Value::Number(_) => Ok(key.to_string()),
        Value::Array(_) | Value::Object(_) => Err("yaml: invalid map key".to_owned()),
    }
}

fn scalar(text: &str, plain: bool, tag: Option<&Tag>) -> Value {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix != "str" => resolve(text),
        None if plain => resolve(text),
        _ => Value::String(text.to_owned()),
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
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Value::String(text.to_owned());
    }
    let digits = text.replace('_', "");
    if let Some(number) = integer(&digits) {
        return Value::Number(number);
    }
    if is_float(&digits)
        && let Ok(float) = digits.parse::<f64>()
    {
        return super::json::number(float);
    }
    Value::String(text.to_owned())
}

fn integer(digits: &str) -> Option<Number> {
    let (negative, rest) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let prefixes = [("0x", 16), ("0X", 16), ("0b", 2), ("0o", 8), ("0", 8)];
    let with_prefix = prefixes.into_iter().find_map(|(prefix, radix)| Some((rest.strip_prefix(prefix)?, radix)));
    let (number, radix) = match with_prefix {
        Some((number, radix)) if !number.is_empty() => (number, radix),
        _ => (rest, 10),
    };
    if number.is_empty() || !number.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(number, radix).ok()?;
    if negative { 0_i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(Number::from(magnitude)) }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = text.find(['e', 'E']).map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa && exponent
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_yaml_1_1_says() {
        for (text, value) in [
            ("{on: yes, \"on\": \"yes\"}", json!({ "true": true, "on": "yes" })),
            ("[n, 0123, 0x1F, -7, +3, 1_000]", json!([false, 83, 31, -7, 3, 1000])),
            ("[1.5, .5, 1e3, 1.2.3, 2001-01-01, 08]", json!([1.5, 0.5, 1000, "1.2.3", "2001-01-01", 8])),
            ("[~, null, '', !!str 1]", json!([null, null, "", "1"])),
            ("{1: a, null: b}", json!({ "1": "a", "null": "b" })),
            ("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3", json!({ "a": { "b": 1, "c": 2 }, "d": { "b": 1, "c": 3 } })),
            ("a: |\n  one\n  two\n", json!({ "a": "one\ntwo\n" })),
            ("", json!(null)),
            ("a: 1\n---\nb: 2", json!({ "a": 1 })),
        ] {
            assert_eq!(read(text.as_bytes()), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(",");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(read(text.as_bytes()).is_err_and(|why| why.contains("excessive aliasing")));
    }
}
