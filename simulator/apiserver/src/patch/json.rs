//! JSON patches (RFC 6902), with the leniency of the library that upstream uses.
//!
//! Where it differs from the RFC: `replace` of an absent member adds it, a negative index counts
//! from the end, `copy` of an absent member gives `null`, and what stands before the first slash of
//! a path is ignored. Source: `gopkg.in/evanphx/json-patch.v4`, `patch.go`.

use serde_json::Value;

use super::{MAX_OPERATIONS, cannot_unmarshal, unprocessable};
use crate::error::ApiError;

/// How many bytes the `copy` operations of one patch may add.
const MAX_COPIED_BYTES: usize = 3 << 20;

/// One operation, its names not yet looked at: an unknown one fails when its turn comes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// `op`
    pub op: String,
    /// `path`, or none.
    pub path: Option<String>,
    /// `from`, or none.
    pub from: Option<String>,
    /// `value`, or none.
    pub value: Option<Value>,
}

/// Reads operations, with what strict decoding complains about.
///
/// # Errors
/// Go's sentence about what is no list of operations.
pub fn decode(patch: &Value, lenient: bool) -> Result<(Vec<Operation>, Vec<String>), String> {
    let mut complaints = Vec::new();
    let operations = match patch {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            items.iter().map(|item| decode_operation(item, &mut complaints)).collect::<Result<_, _>>()?
        }
        other if lenient => return Err(cannot_unmarshal(other, "jsonpatch.Patch")),
        other => return Err(cannot_unmarshal(other, "[]handlers.jsonPatchOp")),
    };
    Ok((operations, complaints))
}

fn decode_operation(item: &Value, complaints: &mut Vec<String>) -> Result<Operation, String> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Ok(Operation::default()),
        other => return Err(cannot_unmarshal(other, "handlers.jsonPatchOp")),
    };
    let mut operation = Operation::default();
    for (name, value) in members {
        let text = || match value {
            Value::String(text) => Ok(Some(text.clone())),
            Value::Null => Ok(None),
            other => Err(cannot_unmarshal(other, "string")
                .replace("Go value of", &format!("Go struct field jsonPatchOp.{name} of"))),
        };
        match name.as_str() {
            "op" => operation.op = text()?.unwrap_or_default(),
            "path" => operation.path = text()?,
            "from" => operation.from = text()?,
            "value" => operation.value = Some(value.clone()),
            unknown => complaints.push(format!("unknown field \"{unknown}\"")),
        }
    }
    Ok(operation)
}

/// Applies operations in turn.
///
/// # Errors
/// 413 for more than 10,000 operations, 422 when one does not apply.
pub fn apply(document: &Value, operations: &[Operation]) -> Result<Value, ApiError> {
    if operations.len() > MAX_OPERATIONS {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    let mut document = document.clone();
    let mut copied = 0;
    for operation in operations {
        operation.apply(&mut document, &mut copied).ok_or_else(unprocessable)?;
    }
    Ok(document)
}

impl Operation {
    /// `None` when it does not apply: upstream answers one sentence whatever the reason.
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Option<()> {
        let path = self.path.as_deref()?;
        let value = || self.value.clone().unwrap_or_default();
        match self.op.as_str() {
            "add" => add(document, path, value()),
            "remove" => remove(document, path).map(drop),
            "replace" if path.is_empty() => {
                let value = value();
                (value.is_object() || value.is_array()).then(|| *document = value)
            }
            "replace" => {
                let (parent, key) = find(document, path)?;
                match parent {
                    Value::Object(members) => {
                        members.insert(key, value());
                    }
                    Value::Array(items) => {
                        let index = index(&key, items.len())?;
                        *items.get_mut(index)? = value();
                    }
                    _ => return None,
                }
                Some(())
            }
            "move" => {
                let value = remove(document, self.from.as_deref()?)?;
                add(document, path, value)
            }
            "copy" => {
                let value = get(document, self.from.as_deref()?)?.cloned().unwrap_or_default();
                *copied += value.to_string().len();
                if *copied > MAX_COPIED_BYTES {
                    return None;
                }
                add(document, path, value)
            }
            "test" => {
                let expected = self.value.as_ref().unwrap_or(&Value::Null);
                let found = if path.is_empty() { Some(&*document) } else { get(document, path)? };
                (found.unwrap_or(&Value::Null) == expected).then_some(())
            }
            _ => None,
        }
    }
}

/// The container that a path leads to, and the last step as a key of it.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parents, key) = steps(path)?;
    let mut container = document;
    for step in parents {
        container = match container {
            Value::Object(members) => members.get_mut(&step)?,
            Value::Array(items) => {
                let index = index(&step, items.len())?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    (container.is_object() || container.is_array()).then_some((container, key))
}

/// The value at a path; the inner `None` when its container has no such member.
#[expect(clippy::option_option, reason = "no such path and no such member are told apart")]
fn get<'a>(document: &'a mut Value, path: &str) -> Option<Option<&'a Value>> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(members) => Some(members.get(&key)),
        Value::Array(items) => items.get(index(&key, items.len())?).map(Some),
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // One more place than there are items: -1 is the end.
            let index = index(&key, items.len() + 1).filter(|index| *index <= items.len())?;
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(members) => members.remove(&key),
        Value::Array(items) => {
            let index = index(&key, items.len()).filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

/// An index; negative ones count from the end.
fn index(key: &str, len: usize) -> Option<usize> {
    let index: isize = key.parse().ok()?;
    if index >= 0 { usize::try_from(index).ok() } else { len.checked_add_signed(index) }
}

/// The steps of a path, unescaped, the last one apart.
fn steps(path: &str) -> Option<(Vec<String>, String)> {
    let mut steps: Vec<String> =
        path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let last = steps.pop()?;
    Some((steps, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(document: &Value, patch: &Value) -> Option<Value> {
        let (operations, _) = decode(patch, false).expect("operations");
        apply(document, &operations).ok()
    }

    #[test]
    fn operations_apply_as_upstream_applies_them() {
        let document = json!({"data": {"a": "1"}, "list": ["a", "b"], "none": null});
        for (patch, result) in [
            (json!([{"op": "replace", "path": "/data/x", "value": 1}]), Some(json!({"a": "1", "x": 1}))),
            (json!([{"op": "add", "path": "/data/x~1y~0z", "value": 1}]), Some(json!({"a": "1", "x/y~z": 1}))),
            (json!([{"op": "move", "from": "/data/a", "path": "/data/b"}]), Some(json!({"b": "1"}))),
            (json!([{"op": "copy", "from": "/data/x", "path": "/data/b"}]), Some(json!({"a": "1", "b": null}))),
            (json!([{"op": "test", "path": "/data/x", "value": null}]), Some(json!({"a": "1"}))),
            (json!([{"op": "remove", "path": "/data/x"}]), None),
            (json!([{"op": "move", "from": "/data/x", "path": "/data/b"}]), None),
            (json!([{"op": "add", "path": "/none/x", "value": 1}]), None),
            (json!([{"op": "add", "path": "", "value": {}}]), None),
            (json!([{"op": "explode", "path": "/data/a"}]), None),
            (json!([{"path": "/data/a", "value": 1}]), None),
        ] {
            let found = patched(&document, &patch).map(|document| document["data"].clone());
            assert_eq!(found, result, "{patch}");
        }
        for (path, result) in [
            ("/list/-", Some(json!(["a", "b", "x"]))),
            ("/list/-1", Some(json!(["a", "b", "x"]))),
            ("/list/-3", Some(json!(["x", "a", "b"]))),
            ("/list/0", Some(json!(["x", "a", "b"]))),
            ("/list/-4", None),
            ("/list/3", None),
            ("/list/one", None),
        ] {
            let found = patched(&document, &json!([{"op": "add", "path": path, "value": "x"}]));
            assert_eq!(found.map(|document| document["list"].clone()), result, "{path}");
        }
    }

    #[test]
    fn more_operations_than_the_bound_are_refused_by_name_of_the_bound() {
        let operations = vec![Operation::default(); MAX_OPERATIONS + 1];
        let error = apply(&json!({}), &operations).expect_err("too many");
        assert_eq!((error.code, error.message.ends_with("is 10000, got 10001")), (413, true));
    }
}
