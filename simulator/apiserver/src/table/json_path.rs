//! The part of Kubernetes' JSONPath that printer columns use: fields, indices, slices, wildcards,
//! filters, recursive descent.
//!
//! Source: `k8s.io/client-go/util/jsonpath`. Not here: `range`, text outside of the path.

use serde_json::Value;

/// Steps of one path; longer ones are refused.
const STEPS_MAX: usize = 64;

/// Values that one path may pick; the rest is not looked at.
const PICKED_MAX: usize = 10_000;

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`, `['name']`
    Field(String),
    /// `[0]`, `[-1]`
    Index(i64),
    /// `[1:3]`
    Slice(Option<i64>, Option<i64>),
    /// `.*`, `[*]`
    All,
    /// `..`
    Descend,
    /// `['a','b']`
    Union(Vec<String>),
    /// `[?(@.a == "b")]`
    Filter { left: Operand, test: Option<(Compare, Operand)> },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("JSONPath cannot be read at {0:?}")]
pub(crate) struct PathError(String);

impl JsonPath {
    /// Reads a path such as `.spec.ports[*].name`.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        let text = text.trim().trim_start_matches('$');
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if steps.len() >= STEPS_MAX {
                return Err(PathError(format!("step {STEPS_MAX}")));
            }
            if let Some(after) = rest.strip_prefix("..") {
                steps.push(Step::Descend);
                rest = after;
                if !rest.is_empty() && !rest.starts_with('[') {
                    rest = field(rest, &mut steps)?;
                }
            } else if let Some(after) = rest.strip_prefix('.') {
                rest = if after.is_empty() { after } else { field(after, &mut steps)? };
            } else if rest.starts_with('[') {
                let end = closing(rest).ok_or_else(|| PathError(rest.to_owned()))?;
                steps.push(bracket(rest[1..end].trim())?);
                rest = &rest[end + 1..];
            } else {
                rest = field(rest, &mut steps)?;
            }
        }
        Ok(Self { steps })
    }

    /// What the path picks, in document order.
    pub(crate) fn pick<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        let mut current = vec![root];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in current {
                step.pick(value, &mut next);
                if next.len() > PICKED_MAX {
                    next.truncate(PICKED_MAX);
                    break;
                }
            }
            current = next;
        }
        current
    }
}

impl Step {
    fn pick<'v>(&self, value: &'v Value, out: &mut Vec<&'v Value>) {
        match self {
            Self::Field(name) => out.extend(value.get(name)),
            Self::Union(names) => out.extend(names.iter().filter_map(|name| value.get(name))),
            Self::Index(index) => {
                if let Value::Array(items) = value {
                    out.extend(position(*index, items.len()).and_then(|at| items.get(at)));
                }
            }
            Self::Slice(from, to) => {
                if let Value::Array(items) = value {
                    let from = from.map_or(Some(0), |from| position(from, items.len())).unwrap_or(items.len());
                    let to = to.map_or(Some(items.len()), |to| position(to, items.len())).unwrap_or(items.len());
                    out.extend(items.iter().take(to).skip(from));
                }
            }
            Self::All => match value {
                Value::Array(items) => out.extend(items),
                Value::Object(fields) => out.extend(fields.values()),
                _ => {}
            },
            Self::Descend => descend(value, out),
            Self::Filter { left, test } => {
                if let Value::Array(items) = value {
                    out.extend(items.iter().filter(|item| holds(item, left, test.as_ref())));
                }
            }
        }
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

/// The value and everything inside of it. Depth is bounded by decoding, which refuses deeper documents.
fn descend<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    if out.len() > PICKED_MAX {
        return;
    }
    out.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| descend(field, out)),
        _ => {}
    }
}

fn holds(item: &Value, left: &Operand, test: Option<&(Compare, Operand)>) -> bool {
    fn value<'a>(operand: &'a Operand, item: &'a Value) -> Option<&'a Value> {
        match operand {
            Operand::Path(path) => path.pick(item).first().copied(),
            Operand::Literal(literal) => Some(literal),
        }
    }
    let Some(left) = value(left, item) else { return false };
    let Some((compare, right)) = test else { return true };
    let Some(right) = value(right, item) else { return false };
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right)),
    };
    let Some(order) = order else { return *compare == Compare::NotEqual };
    match compare {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Less => order.is_lt(),
        Compare::LessOrEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterOrEqual => order.is_ge(),
    }
}

/// Reads a field name up to the next unescaped `.` or `[`; answers what follows.
fn field<'t>(text: &'t str, steps: &mut Vec<Step>) -> Result<&'t str, PathError> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => {
                end = at;
                break;
            }
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            _ => name.push(letter),
        }
    }
    if name.is_empty() {
        return Err(PathError(text.to_owned()));
    }
    steps.push(if name == "*" { Step::All } else { Step::Field(name) });
    Ok(&text[end..])
}

/// The position of the bracket that closes the first one, quotes passed over.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Result<Step, PathError> {
    let error = || PathError(inside.to_owned());
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return self::filter(filter);
    }
    if inside.starts_with(['\'', '"']) {
        let names: Option<Vec<String>> = inside.split(',').map(|part| unquote(part.trim())).collect();
        let mut names = names.ok_or_else(error)?;
        return Ok(if names.len() == 1 { Step::Field(names.swap_remove(0)) } else { Step::Union(names) });
    }
    if let Some((from, to)) = inside.split_once(':') {
        let bound = |text: &str| -> Result<Option<i64>, PathError> {
            if text.trim().is_empty() { Ok(None) } else { text.trim().parse().map(Some).map_err(|_| error()) }
        };
        return Ok(Step::Slice(bound(from)?, bound(to)?));
    }
    inside.parse().map(Step::Index).map_err(|_| error())
}

fn filter(text: &str) -> Result<Step, PathError> {
    const OPERATORS: [(&str, Compare); 6] = [
        ("==", Compare::Equal),
        ("!=", Compare::NotEqual),
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ];
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, _) => {
                if let Some((sign, compare)) = OPERATORS.iter().find(|(sign, _)| text[at..].starts_with(sign)) {
                    let right = operand(text[at + sign.len()..].trim())?;
                    return Ok(Step::Filter { left: operand(text[..at].trim())?, test: Some((*compare, right)) });
                }
            }
        }
    }
    Ok(Step::Filter { left: operand(text.trim())?, test: None })
}

fn operand(text: &str) -> Result<Operand, PathError> {
    if let Some(path) = text.strip_prefix('@') {
        return JsonPath::parse(path).map(Operand::Path);
    }
    if let Some(text) = unquote(text) {
        return Ok(Operand::Literal(text.into()));
    }
    serde_json::from_str(text).map(Operand::Literal).map_err(|_| PathError(text.to_owned()))
}

fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    Some(inside.replace(&format!("\\{quote}"), &quote.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_pick_what_printer_columns_ask_for() {
        let object = json!({
            "spec": {"zones": ["eu", "us", "ap"], "a.b": 1},
            "status": {"members": [{"name": "m0", "role": "replica"}, {"name": "m1", "role": "primary", "n": 3}]},
        });
        let table = [
            (".spec.zones", json!([["eu", "us", "ap"]])),
            ("{.spec.zones}", json!([])),
            (".spec.zones[0]", json!(["eu"])),
            (".spec.zones[-1]", json!(["ap"])),
            (".spec.zones[1:]", json!(["us", "ap"])),
            (".spec.zones[*]", json!(["eu", "us", "ap"])),
            (".spec.a\\.b", json!([1])),
            (".spec['a.b']", json!([1])),
            (".status.members[?(@.role==\"primary\")].name", json!(["m1"])),
            (".status.members[?(@.n>2)].name", json!(["m1"])),
            (".status.members[?(@.n)].name", json!(["m1"])),
            (".status..role", json!(["replica", "primary"])),
            (".absent.deep", json!([])),
        ];
        for (path, want) in table {
            let picked = JsonPath::parse(path).map(|path| json!(path.pick(&object))).unwrap_or(json!("unreadable"));
            assert_eq!(picked, want, "{path}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_read_is_an_error() {
        for path in [".a[", ".a[x]", "...", ".a[?(@.b==)]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
