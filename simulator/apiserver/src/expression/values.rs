//! JSON as CEL values, and back.

use std::collections::HashMap;

use cel::Value as Cel;
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString};
use cel::common::value::Val;
use serde_json::Value;

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
