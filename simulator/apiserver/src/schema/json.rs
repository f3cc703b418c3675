//! Reading JSON as the API server reads it: numbers, duplicate members, and what a syntax error is called.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A document that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The value; of members given twice, the last.
    pub value: Value,
    /// Paths of members given twice, for example `data.a`.
    pub duplicates: Vec<String>,
}

/// Reads one JSON document.
///
/// # Errors
/// Go's sentence about what is wrong, for example `unexpected end of JSON input`.
pub fn read(bytes: &[u8]) -> Result<Document, String> {
    let mut duplicates = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Reading { duplicates: &mut duplicates }.deserialize(&mut reader);
    match value.and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(Document { value, duplicates }),
        Err(error) => Err(super::json_errors::describe(bytes).unwrap_or_else(|| error.to_string())),
    }
}

/// A number as upstream's decoder keeps it and encoder writes it: an integer where it is one.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within the range are cast")]
pub fn number(float: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        return Value::from(float as i64);
    }
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

struct Reading<'a> {
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let before = self.duplicates.len();
            match access.next_element_seed(Reading { duplicates: &mut *self.duplicates })? {
                Some(item) => {
                    super::prepend(&mut self.duplicates[before..], || format!("[{}]", items.len()));
                    items.push(item);
                }
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key_seed(Name)? {
            let before = self.duplicates.len();
            let value = access.next_value_seed(Reading { duplicates: &mut *self.duplicates })?;
            super::prepend(&mut self.duplicates[before..], || name.clone());
            if members.contains_key(&name) {
                self.duplicates.push(name.clone());
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

/// A member's name.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        String::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        let text = br#"{"big":9007199254740993,"e":1e3,"f":1.50,"max":9223372036854775807,"neg":-5,"whole":2.0}"#;
        let expected = json!({"big": 9007199254740993i64, "e": 1000, "f": 1.5, "max": i64::MAX, "neg": -5, "whole": 2});
        assert_eq!(read(text).map(|document| document.value), Ok(expected));
    }

    #[test]
    fn members_given_twice_are_named_and_the_last_counts() {
        let document = read(br#"{"a":1,"list":[{"b":1},{"b":1,"b":2}],"a":{"c":1,"c":1}}"#).expect("JSON");
        assert_eq!(document.value, json!({"a": {"c": 1}, "list": [{"b": 1}, {"b": 2}]}));
        assert_eq!(document.duplicates, ["list[1].b", "a.c", "a"]);
    }
}
