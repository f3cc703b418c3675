//! Bodies in Kubernetes' protobuf encoding, which typed Go clients (`kubectl create configmap`) send for
//! built-in kinds. Read only: answers are JSON, which every such client accepts.
//!
//! Source: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`. Field numbers are in
//! `data/protobuf-fields.txt`; fields that are not there are passed over, as protobuf has it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::SchemaRef;
use super::builtin;
use super::json::Document;
use crate::resource::{GroupVersionKind, split_api_version};

/// What every such body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Messages inside of messages; deeper ones are refused.
const DEPTH_MAX: u32 = 64;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// One field of a message.
struct Field {
    name: &'static str,
    kind: Kind,
    repeated: bool,
}

enum Kind {
    Text,
    Bool,
    Integer,
    Double,
    Float,
    Bytes,
    Message(&'static str),
    /// A map from texts to this.
    Map(Box<Kind>),
}

type Messages = BTreeMap<&'static str, BTreeMap<u64, Field>>;

fn messages() -> &'static Messages {
    static MESSAGES: OnceLock<Messages> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let mut messages = Messages::new();
        let mut current = "";
        for line in include_str!("../../data/protobuf-fields.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let Some(field) = line.strip_prefix(' ') else {
                current = line;
                messages.entry(current).or_default();
                continue;
            };
            debug_assert!(!field.is_empty(), "a field has a number");
            let (Some(number), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
            let repeated = kind.starts_with('*');
            let field = Field { name, kind: kind_of(kind.trim_start_matches('*')), repeated };
            messages.entry(current).or_default().insert(number.parse().unwrap_or_default(), field);
        }
        messages
    })
}

fn kind_of(text: &'static str) -> Kind {
    match text {
        "s" => Kind::Text,
        "b" => Kind::Bool,
        "i" | "u" => Kind::Integer,
        "d" => Kind::Double,
        "f" => Kind::Float,
        "y" => Kind::Bytes,
        other => match other.strip_prefix("{}") {
            Some(values) => Kind::Map(Box::new(kind_of(values))),
            None => Kind::Message(other),
        },
    }
}

/// Reads a body.
///
/// # Errors
/// A sentence on what is wrong with it.
pub fn read(bytes: &[u8]) -> Result<Document, String> {
    let envelope = bytes
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields(envelope) {
        match field? {
            (1, Wire::Bytes(type_meta)) => {
                for field in Fields(type_meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(inside)) => raw = inside,
            _ => {}
        }
    }
    let (group, version) = split_api_version(&api_version);
    let schema = builtin::schema(&GroupVersionKind::new(group, version, &kind));
    let name = match (&schema, kind.as_str()) {
        (_, "DeleteOptions") => Some(format!("{META}DeleteOptions")),
        (Some(schema), _) => schema.node().name.clone(),
        (None, _) => None,
    };
    let name = name.filter(|name| messages().contains_key(name.as_str()));
    let name = name.ok_or_else(|| format!("no kind \"{kind}\" is registered for version \"{api_version}\""))?;
    let mut value = message(&name, raw, 0)?;
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    Ok(Document { value, duplicates: Vec::new() })
}

/// One value as it stands in the bytes.
enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Fixed64(u64),
    Fixed32(u32),
}

/// The fields of a message, in order.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or("unexpected EOF")?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("unexpected EOF")?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire<'b>), String> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Fixed64(self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| "unexpected EOF")?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|_| "unexpected EOF")?)?)
            }
            5 => Wire::Fixed32(self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| "unexpected EOF")?),
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok((key >> 3, value))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Wire<'b>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "proto: invalid UTF-8".to_owned())
}

/// A message as JSON.
fn message(name: &str, bytes: &[u8], depth: u32) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("messages are nested deeper than {DEPTH_MAX}"));
    }
    if let Some(value) = scalar(name, bytes)? {
        return Ok(value);
    }
    let mut out = Map::new();
    let fields = messages().get(name);
    let schema = builtin::named(name);
    for field in Fields(bytes) {
        let (number, wire) = field?;
        let Some(field) = fields.and_then(|fields| fields.get(&number)) else { continue };
        let json_name = schema.as_ref().map_or(Some(field.name), |schema| json_name(schema, field.name));
        let name = json_name.unwrap_or(field.name).to_owned();
        match &field.kind {
            Kind::Map(values) => {
                let (key, value) = entry(values, &wire, depth)?;
                let map = out.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            kind => {
                let value = single(kind, &wire, depth)?;
                // What Go embeds has no field of its own in JSON.
                let embedded = matches!(kind, Kind::Message(_)) && json_name.is_none();
                match value {
                    Value::Object(inner) if embedded => out.extend(inner),
                    value if field.repeated => {
                        let list = out.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                        if let Value::Array(list) = list {
                            list.push(value);
                        }
                    }
                    Value::Null => {}
                    value => {
                        out.insert(name, value);
                    }
                }
            }
        }
    }
    Ok(Value::Object(out))
}

/// The name of a field in JSON, which may differ in case (`uID` is `uid`); `None` when it has none.
fn json_name<'s>(schema: &'s SchemaRef, name: &'s str) -> Option<&'s str> {
    if schema.property(name).is_some() {
        return Some(name);
    }
    schema.properties().map(|(property, _)| property).find(|property| property.eq_ignore_ascii_case(name))
}

fn entry(values: &Kind, wire: &Wire<'_>, depth: u32) -> Result<(String, Value), String> {
    let Wire::Bytes(bytes) = wire else { return Err("proto: a map entry is no message".to_owned()) };
    let (mut key, mut value) = (String::new(), single(values, &Wire::Bytes(&[]), depth).unwrap_or_default());
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => value = single(values, &wire, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn single(kind: &Kind, wire: &Wire<'_>, depth: u32) -> Result<Value, String> {
    Ok(match (kind, wire) {
        (Kind::Text, Wire::Bytes(bytes)) => utf8(bytes)?.into(),
        (Kind::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Kind::Message(name), Wire::Bytes(bytes)) => message(name, bytes, depth + 1)?,
        (Kind::Bool, Wire::Number(number)) => (*number != 0).into(),
        // Negative numbers are sent as the two's complement.
        (Kind::Integer, Wire::Number(number)) => number.cast_signed().into(),
        (Kind::Double, Wire::Fixed64(bits)) => f64::from_bits(*bits).into(),
        (Kind::Float, Wire::Fixed32(bits)) => f32::from_bits(*bits).into(),
        _ => return Err("proto: wrong wireType".to_owned()),
    })
}

/// Messages that are no objects in JSON.
fn scalar(name: &str, bytes: &[u8]) -> Result<Option<Value>, String> {
    let mut numbers = BTreeMap::new();
    let mut texts = BTreeMap::new();
    let is_scalar =
        matches!(
            name.rsplit_once('.'),
            Some((
                "io.k8s.apimachinery.pkg.api.resource"
                    | "io.k8s.apimachinery.pkg.util.intstr"
                    | "io.k8s.apimachinery.pkg.runtime",
                _
            ))
        ) || name.strip_prefix(META).is_some_and(|name| matches!(name, "Time" | "MicroTime" | "Duration" | "FieldsV1"));
    if !is_scalar {
        return Ok(None);
    }
    for field in Fields(bytes) {
        match field? {
            (number, Wire::Number(value)) => {
                numbers.insert(number, value.cast_signed());
            }
            (number, Wire::Bytes(text)) => {
                texts.insert(number, text);
            }
            _ => {}
        }
    }
    let number = |field: u64| numbers.get(&field).copied().unwrap_or_default();
    let text = |field: u64| texts.get(&field).copied().unwrap_or_default();
    let short = name.rsplit('.').next().unwrap_or_default();
    Ok(Some(match short {
        "Quantity" => utf8(text(1))?.into(),
        "IntOrString" if number(1) == 0 => number(2).into(),
        "IntOrString" => utf8(text(3))?.into(),
        // The zero time is sent as an empty message.
        "Time" | "MicroTime" if bytes.is_empty() => Value::Null,
        "Time" | "MicroTime" => {
            let nanoseconds = i32::try_from(number(2)).unwrap_or_default();
            let time = Timestamp::new(number(1), nanoseconds).map_err(|error| error.to_string())?;
            let format = if short == "Time" { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
            time.strftime(format).to_string().into()
        }
        "Duration" => format!("{}s", number(1) / 1_000_000_000).into(),
        // JSON inside of protobuf.
        _ if text(1).is_empty() => Value::Null,
        _ => serde_json::from_slice(text(1)).map_err(|error| error.to_string())?,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("a short field");
        [&[number << 3 | 2, length], bytes].concat()
    }

    #[test]
    fn a_body_of_a_typed_client_reads_like_its_json() {
        let labels = field(11, &[field(1, b"a"), field(2, b"b")].concat());
        let metadata = field(1, &[field(1, b"x"), field(8, b""), labels].concat());
        let data = field(2, &[field(1, b"k"), field(2, b"v")].concat());
        let type_meta = field(1, &[field(1, b"v1"), field(2, b"ConfigMap")].concat());
        let body = [MAGIC, &type_meta, &field(2, &[metadata, data].concat())].concat();
        let want = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "labels": {"a": "b"}}, "data": {"k": "v"},
        });
        assert_eq!(read(&body).map(|document| document.value), Ok(want));
        for end in 0..body.len() {
            // Cut off anywhere, it is refused or shorter, never a panic.
            let _cut_off = read(&body[..end]);
        }
    }

    #[test]
    fn every_message_that_a_field_names_is_known_or_no_object() {
        for (message, fields) in messages() {
            for field in fields.values() {
                if let Kind::Message(name) = &field.kind {
                    assert!(messages().contains_key(name), "{message} {}: {name}", field.name);
                }
            }
        }
    }
}
