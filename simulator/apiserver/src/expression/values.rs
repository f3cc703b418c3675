//! JSON as CEL values, and back.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cel::Value as Cel;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelTimestamp,
};
use cel::common::value::Val;
use serde_json::Value;

use crate::schema::{Node, SchemaSet, formats};

/// A JSON value of any type: integers are `int`, other numbers `double`, objects maps.
#[must_use]
pub fn untyped(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Box::new(CelInt::from(integer)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::INFINITY))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(untyped).collect::<Vec<_>>())),
        Value::Object(members) => {
            let members: HashMap<CelMapKey<'_>, Box<dyn Val + '_>> =
                members.iter().map(|(name, value)| (CelMapKey::from(name.as_str()), untyped(value))).collect();
            Box::new(CelMap::from(members))
        }
    }
}

/// A value of a custom object as its schema types it: what the schema does not know is not to be seen, and
/// strings with a format are what the format says.
#[must_use]
pub fn typed<'v>(value: &'v Value, node: &Node, set: &SchemaSet) -> Box<dyn Val + 'v> {
    match value {
        _ if node.int_or_string || node.type_.is_empty() => untyped(value),
        Value::Number(number) if node.type_ == "number" => {
            Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::INFINITY)))
        }
        Value::String(text) => formatted(text, &node.format).unwrap_or_else(|| untyped(value)),
        Value::Array(items) => match node.items {
            Some(id) => {
                let item = |item: &'v Value| typed(item, &set.nodes[id as usize], set);
                Box::new(CelList::from(items.iter().map(item).collect::<Vec<_>>()))
            }
            None => untyped(value),
        },
        Value::Object(members) => {
            let is_resource = node.embedded_resource || std::ptr::eq(node, &raw const set.nodes[0]);
            let mut seen: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = HashMap::new();
            for (name, member) in members {
                match node.properties.get(name) {
                    _ if is_resource && name == "metadata" => {
                        seen.insert(CelMapKey::from("metadata"), metadata(member));
                    }
                    Some(_) if member.is_null() => {}
                    Some(id) => {
                        seen.insert(escaped(name), typed(member, &set.nodes[*id as usize], set));
                    }
                    None if is_resource && matches!(name.as_str(), "apiVersion" | "kind") => {
                        seen.insert(CelMapKey::from(name.as_str()), untyped(member));
                    }
                    None => {
                        if let Some(id) = node.additional {
                            seen.insert(CelMapKey::from(name.as_str()), typed(member, &set.nodes[id as usize], set));
                        } else if node.additional_any {
                            seen.insert(CelMapKey::from(name.as_str()), untyped(member));
                        }
                    }
                }
            }
            Box::new(CelMap::from(seen))
        }
        _ => untyped(value),
    }
}

/// What rules see of an object's metadata.
fn metadata(value: &Value) -> Box<dyn Val + '_> {
    let seen: HashMap<CelMapKey<'_>, Box<dyn Val + '_>> = ["name", "generateName"]
        .into_iter()
        .filter_map(|name| Some((CelMapKey::from(name), untyped(value.get(name)?))))
        .collect();
    Box::new(CelMap::from(seen))
}

fn formatted(text: &str, format: &str) -> Option<Box<dyn Val>> {
    Some(match format {
        "date-time" | "datetime" => Box::new(CelTimestamp::from(chrono::DateTime::parse_from_rfc3339(text).ok()?)),
        "date" => {
            let midnight = format!("{text}T00:00:00Z");
            Box::new(CelTimestamp::from(chrono::DateTime::parse_from_rfc3339(&midnight).ok()?))
        }
        "duration" => {
            let nanos = formats::go_duration_nanos(text)?;
            Box::new(CelDuration::from(chrono::Duration::nanoseconds(nanos)))
        }
        "byte" => Box::new(CelBytes::from(STANDARD.decode(text).ok()?)),
        _ => return None,
    })
}

/// Words that an expression cannot use as the name of a field.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A property's name as expressions write it (`cel.Escape` in `k8s.io/apiserver/pkg/cel`).
#[must_use]
pub fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("__") {
            out.push_str("__underscores__");
            rest = &rest[2..];
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn escaped(name: &str) -> CelMapKey<'_> {
    if RESERVED.contains(&name) || name.contains(['.', '-', '/']) || name.contains("__") {
        CelMapKey::from(escape(name))
    } else {
        CelMapKey::from(name)
    }
}

/// A CEL value as JSON; `None` when JSON has no such value (types, durations, optionals).
#[must_use]
pub fn to_json(value: &Cel) -> Option<Value> {
    match value {
        Cel::Null => Some(Value::Null),
        Cel::Bool(value) => Some(Value::Bool(*value)),
        Cel::Int(value) => Some(Value::from(*value)),
        Cel::UInt(value) => Some(Value::from(*value)),
        Cel::Float(value) => serde_json::Number::from_f64(*value).map(Value::Number),
        Cel::String(text) => Some(Value::from(text.as_str())),
        Cel::List(items) => items.iter().map(to_json).collect::<Option<Vec<_>>>().map(Value::Array),
        Cel::Map(map) => {
            let members = map.map.iter().map(|(name, value)| Some((name.to_string(), to_json(value)?)));
            members.collect::<Option<serde_json::Map<_, _>>>().map(Value::Object)
        }
        _ => None,
    }
}
