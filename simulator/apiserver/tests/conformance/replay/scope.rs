//! Names that a case uses in `${…}`: its namespaces and tag, earlier answers, webhooks.

use serde_json::{Map, Value};

/// What `${…}` can name.
#[derive(Default)]
pub(crate) struct Scope(pub(crate) Map<String, Value>);

impl Scope {
    /// Replaces every `${…}` in the strings and keys of `value`; a string that is nothing else takes the
    /// value itself.
    pub(crate) fn fill(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
                Some(expression) if !expression.contains('}') => self.resolve(expression)?,
                _ => self.text(text)?.into(),
            },
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?,
            Value::Object(fields) => {
                let mut out = Map::new();
                for (key, value) in fields {
                    out.insert(self.text(key)?, self.fill(value)?);
                }
                Value::Object(out)
            }
            other => other.clone(),
        })
    }

    fn text(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else { break };
            out.push_str(&rest[..start]);
            match self.resolve(&rest[start + 2..start + length])? {
                Value::String(text) => out.push_str(&text),
                other => out.push_str(&other.to_string()),
            }
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn resolve(&self, expression: &str) -> Result<Value, String> {
        if let Some((unit, times)) = expression.strip_prefix("repeat:").and_then(|rest| rest.rsplit_once(':')) {
            let times: usize = times.parse().map_err(|_| format!("${{{expression}}} repeats no number of times"))?;
            return Ok(unit.repeat(times).into());
        }
        let names = names(expression);
        let first = names.first().and_then(|name| self.0.get(*name));
        let mut value = first.ok_or_else(|| format!("unknown name in ${{{expression}}}"))?;
        for name in &names[1..] {
            value = match value {
                Value::Array(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
                other => other.get(*name),
            }
            .unwrap_or(&Value::Null);
        }
        Ok(value.clone())
    }
}

/// `a.b['c.d'][0]` as names.
fn names(expression: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = expression;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']").unwrap_or(quoted.len());
            out.push(&quoted[..end]);
            rest = quoted.get(end + 2..).unwrap_or_default();
            continue;
        }
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        if end > 0 {
            out.push(&rest[..end]);
        }
        // A bracket stays when it opens a quoted name.
        let keep = usize::from(!rest[end..].starts_with("['"));
        rest = rest.get(end + keep..).unwrap_or_default();
    }
    out
}
