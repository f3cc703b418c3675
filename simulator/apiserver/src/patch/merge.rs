//! JSON merge patches (RFC 7386).

use serde_json::{Map, Value};

use super::without_nulls;

/// Merges `patch` into `target`: objects are merged, `null` removes, everything else replaces.
///
/// Beyond the RFC, as upstream: members that are `null` within the items of a list go too.
pub fn apply(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(members) = target.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                members.remove(name);
            }
            Value::Object(patch) => apply(members.entry(name.clone()).or_insert(Value::Null), patch),
            other => {
                members.insert(name.clone(), without_nulls(other.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(mut target: Value, patch: &Value) -> Value {
        apply(&mut target, patch.as_object().expect("an object"));
        target
    }

    #[test]
    fn the_examples_of_the_rfc_hold() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!(["a"]), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merged(target.clone(), &patch), result, "{target} {patch}");
            // Doing it twice is doing it once.
            assert_eq!(merged(result.clone(), &patch), result, "{target} {patch} twice");
        }
    }
}
