//! One step of a field path, in the form in which `fieldsV1` writes it.
//!
//! Source: `sigs.k8s.io/structured-merge-diff/fieldpath` (`element.go`, `serialize-pe.go`).

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

/// `f:name`, `k:{"name":"a"}`, `v:"a"` or `i:0`, always in the one canonical spelling, so that two
/// elements are the same exactly when their texts are.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Element(Box<str>);

/// An [`Element`] taken apart.
#[derive(Debug)]
pub(super) enum Parsed<'a> {
    /// A field of an object.
    Field(&'a str),
    /// The item of a list that has these keys.
    Key(Map<String, Value>),
    /// The item of a set of scalars.
    Value(Value),
    /// The item at a place.
    Index(i64),
}

impl Element {
    /// The field of this name.
    pub(super) fn field(name: &str) -> Self {
        let mut text = String::with_capacity(name.len() + 2);
        text.push_str("f:");
        text.push_str(name);
        Self(text.into_boxed_str())
    }

    /// The item of a set.
    pub(super) fn value(value: &Value) -> Self {
        Self(format!("v:{value}").into_boxed_str())
    }

    /// The item of a list of type map with these keys (a sorted map, so the spelling is canonical).
    pub(super) fn key(keys: Map<String, Value>) -> Self {
        Self(format!("k:{}", Value::Object(keys)).into_boxed_str())
    }

    /// Reads a member of `fieldsV1`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| format!("missing colon: {text}"))?;
        match kind {
            "f" => Ok(Self(text.into())),
            "v" => {
                let value: Value = serde_json::from_str(rest).map_err(|error| error.to_string())?;
                Ok(Self::value(&value))
            }
            "k" => match serde_json::from_str(rest) {
                Ok(Value::Object(keys)) => Ok(Self::key(keys)),
                _ => Err(format!("invalid key: {rest}")),
            },
            "i" => {
                let index: i64 = rest.parse().map_err(|_| format!("invalid index: {rest}"))?;
                Ok(Self(format!("i:{index}").into_boxed_str()))
            }
            _ => Err(format!("unknown kind of path element: {text}")),
        }
    }

    pub(super) fn into_string(self) -> String {
        self.0.into_string()
    }

    /// The field's name, when this is a field.
    pub(super) fn field_name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }

    pub(super) fn parsed(&self) -> Parsed<'_> {
        let (kind, rest) = self.0.split_at(2);
        match kind {
            "k:" => match serde_json::from_str(rest) {
                Ok(Value::Object(keys)) => Parsed::Key(keys),
                _ => Parsed::Key(Map::new()),
            },
            "v:" => Parsed::Value(serde_json::from_str(rest).unwrap_or_default()),
            "i:" => Parsed::Index(rest.parse().unwrap_or_default()),
            _ => Parsed::Field(rest),
        }
    }

    /// The order in which upstream walks a set: fields, keyed items, values, indexes; keys and
    /// values by value, so that port 80 comes before port 443.
    pub(super) fn walk_order(&self, other: &Self) -> Ordering {
        match (self.parsed(), other.parsed()) {
            (Parsed::Field(left), Parsed::Field(right)) => left.cmp(right),
            (Parsed::Key(left), Parsed::Key(right)) => compare_keys(&left, &right),
            (Parsed::Value(left), Parsed::Value(right)) => compare_values(&left, &right),
            (Parsed::Index(left), Parsed::Index(right)) => left.cmp(&right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

impl Parsed<'_> {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// As messages write a path: `.spec.ports[port=80,protocol="TCP"].name`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parsed() {
            Parsed::Field(name) => write!(f, ".{name}"),
            Parsed::Value(value) => write!(f, "[={}]", Printed(&value)),
            Parsed::Index(index) => write!(f, "[{index}]"),
            Parsed::Key(keys) => {
                f.write_str("[")?;
                for (place, (name, value)) in keys.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={}", Printed(value))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A value within a path.
struct Printed<'a>(&'a Value);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| Printed(item).to_string()).collect();
                write!(f, "[{}]", items.join(","))
            }
            Value::Object(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", Printed(value))).collect();
                write!(f, "{{{}}}", fields.join(";"))
            }
            scalar => write!(f, "{scalar}"),
        }
    }
}

fn compare_keys(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare_values(left_value, right_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// Numbers, strings, booleans, in upstream's order of kinds.
fn compare_values(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        _ => rank(left).cmp(&rank(right)),
    }
}
