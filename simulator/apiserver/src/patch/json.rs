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
    try_apply(document, operations).map_err(|_| unprocessable())
}

/// Applies operations in turn, and tells why one does not apply: callers that answer it (admission) see
/// the library's own sentence.
///
/// # Errors
/// The sentence.
pub fn try_apply(document: &Value, operations: &[Operation]) -> Result<Value, String> {
    let mut document = document.clone();
    let mut copied = 0;
    for operation in operations {
        operation.apply(&mut document, &mut copied)?;
    }
    Ok(document)
}

/// What the library says of a member that is not there.
const MISSING: &str = "missing value";

impl Operation {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let op = self.op.as_str();
        let decoded = |field: &Option<String>, name: &str| {
            field.clone().ok_or_else(|| format!("{op} operation failed to decode {name}: {MISSING}"))
        };
        let value = || self.value.clone().unwrap_or_default();
        match op {
            "add" => {
                let path = decoded(&self.path, "path")?;
                let (container, key) = find(document, &path).ok_or_else(|| {
                    format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
                })?;
                add(container, &key, value()).map_err(|why| format!("error in add for path: '{path}': {why}"))
            }
            "remove" => {
                let path = decoded(&self.path, "path")?;
                let (container, key) = find(document, &path).ok_or_else(|| {
                    format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
                })?;
                let removed =
                    remove(container, &key).map_err(|why| format!("error in remove for path: '{path}': {why}"));
                removed.map(drop)
            }
            "replace" => {
                let path = decoded(&self.path, "path")?;
                let value = value();
                if path.is_empty() {
                    if !value.is_object() && !value.is_array() {
                        return Err("replace operation value must be object or array".to_owned());
                    }
                    *document = value;
                    return Ok(());
                }
                let (container, key) = find(document, &path).ok_or_else(|| {
                    format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
                })?;
                replace(container, key, value)
                    .ok_or_else(|| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))
            }
            "move" | "copy" => self.transfer(document, copied),
            "test" => self.test(document),
            _ => Err(format!("Unexpected kind: {op}")),
        }
    }

    /// `move` and `copy`.
    fn transfer(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let op = self.op.as_str();
        let field = |field: &Option<String>, name: &str| {
            field.clone().ok_or_else(|| format!("{op} operation failed to decode {name}: {MISSING}"))
        };
        let from = field(&self.from, "from")?;
        let missing =
            |what: &str, path: &str| format!("{op} operation does not apply: doc is missing {what}: {path}: {MISSING}");
        let (container, key) = find(document, &from).ok_or_else(|| missing("from path", &from))?;
        let value = if op == "move" {
            remove(container, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))?
        } else {
            let value = member(container, &key).map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
            value.cloned().unwrap_or_default()
        };
        let path = field(&self.path, "path")?;
        let (container, key) = find(document, &path).ok_or_else(|| missing("destination path", &path))?;
        if op == "move" {
            return add(container, &key, value).map_err(|why| format!("error in move for path: '{path}': {why}"));
        }
        *copied += value.to_string().len();
        if *copied > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                 {MAX_COPIED_BYTES}"
            ));
        }
        add(container, &key, value).map_err(|why| format!("error while adding value during copy: {why}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path.as_deref().ok_or_else(|| format!("test operation failed to decode path: {MISSING}"))?;
        let expected = self.value.as_ref().unwrap_or(&Value::Null);
        let found = if path.is_empty() {
            Some(&*document)
        } else {
            let (container, key) = find(document, path)
                .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
            member(container, &key).map_err(|why| format!("error in test for path: '{path}': {why}"))?
        };
        let found = found.unwrap_or(&Value::Null);
        if found == expected {
            return Ok(());
        }
        let what = if found.is_null() || expected.is_null() || path.is_empty() { "path" } else { "value" };
        Err(format!("testing {what} {path} failed: test failed"))
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
                let index = index(&step, items.len()).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    (container.is_object() || container.is_array()).then_some((container, key))
}

/// A member of a container; `None` when an object has no such member.
fn member<'a>(container: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match container {
        Value::Array(items) => {
            let index = index(key, items.len())?;
            items.get(index).map(Some).ok_or_else(|| invalid_index(key))
        }
        other => Ok(other.get(key)),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // One more place than there are items: -1 is the end.
            let index = index(key, items.len() + 1)?;
            if index > items.len() {
                return Err(invalid_index(key));
            }
            items.insert(index, value);
        }
        other => other[key] = value,
    }
    Ok(())
}

fn replace(container: &mut Value, key: String, value: Value) -> Option<()> {
    match container {
        Value::Array(items) => {
            let index = index(&key, items.len()).ok()?;
            *items.get_mut(index)? = value;
        }
        other => other[key] = value,
    }
    Some(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(items) => {
            let index = index(key, items.len())?;
            if index >= items.len() {
                return Err(invalid_index(key));
            }
            Ok(items.remove(index))
        }
        other => other
            .as_object_mut()
            .and_then(|members| members.remove(key))
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
    }
}

fn invalid_index(key: &str) -> String {
    format!("Unable to access invalid index: {key}: invalid index referenced")
}

/// An index; negative ones count from the end.
fn index(key: &str, len: usize) -> Result<usize, String> {
    let index: isize = key.parse().map_err(|_| {
        format!("value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax")
    })?;
    let index = if index >= 0 { usize::try_from(index).ok() } else { len.checked_add_signed(index) };
    index.ok_or_else(|| invalid_index(key))
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
    fn what_does_not_apply_says_why() {
        let document = json!({"metadata": {"name": "a"}, "list": []});
        for (operation, sentence) in [
            (
                json!({"op": "remove", "path": "/metadata/labels/x"}),
                "remove operation does not apply: doc is missing path: \"/metadata/labels/x\": missing value",
            ),
            (
                json!({"op": "remove", "path": "/metadata/x"}),
                "error in remove for path: '/metadata/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "test", "path": "/metadata/name", "value": "b"}),
                "testing value /metadata/name failed: test failed",
            ),
            (
                json!({"op": "test", "path": "/metadata/x", "value": "b"}),
                "testing path /metadata/x failed: test failed",
            ),
            (
                json!({"op": "add", "path": "/list/3", "value": 1}),
                "error in add for path: '/list/3': Unable to access invalid index: 3: invalid index referenced",
            ),
            (json!({"op": "explode", "path": "/x"}), "Unexpected kind: explode"),
        ] {
            let (operations, _) = decode(&json!([operation]), true).expect("operations");
            assert_eq!(try_apply(&document, &operations), Err(sentence.to_owned()));
        }
    }

    #[test]
    fn more_operations_than_the_bound_are_refused_by_name_of_the_bound() {
        let operations = vec![Operation::default(); MAX_OPERATIONS + 1];
        let error = apply(&json!({}), &operations).expect_err("too many");
        assert_eq!((error.code, error.message.ends_with("is 10000, got 10001")), (413, true));
    }
}
