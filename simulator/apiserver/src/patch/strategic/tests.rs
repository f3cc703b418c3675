use serde_json::json;

use super::*;
use crate::schema::builtin;

fn patched(original: &Value, patch: &Value) -> Result<Value, ApiError> {
    let schema = builtin::named("io.k8s.api.core.v1.PodSpec").expect("a built-in type");
    apply(original, patch.as_object().expect("an object"), &schema)
}

#[test]
fn lists_with_a_merge_key_are_merged_and_the_patch_goes_first() {
    let original = json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b"}], "tolerations": [{"key": "x"}],
        "nodeSelector": {"disk": "ssd", "zone": "eu"}});
    for (patch, field, result) in [
        (
            json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "c"}]}),
            "containers",
            json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c"}]),
        ),
        (
            json!({"containers": [{"name": "c"}]}),
            "containers",
            json!([{"name": "c"}, {"name": "a", "image": "a:1"}, {"name": "b"}]),
        ),
        (json!({"containers": [{"name": "a", "$patch": "delete"}]}), "containers", json!([{"name": "b"}])),
        (json!({"containers": [{"name": "s"}, {"$patch": "replace"}]}), "containers", json!([{"name": "s"}])),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            "containers",
            json!([{"name": "b"}, {"name": "a", "image": "a:1"}]),
        ),
        (json!({"tolerations": [{"key": "y"}]}), "tolerations", json!([{"key": "y"}])),
        (json!({"nodeSelector": {"zone": null, "rack": "3"}}), "nodeSelector", json!({"disk": "ssd", "rack": "3"})),
        (json!({"nodeSelector": {"$patch": "replace", "rack": "3"}}), "nodeSelector", json!({"rack": "3"})),
        (json!({"nodeSelector": null}), "nodeSelector", json!(null)),
        // What is new is taken as it is, less what only has a meaning against something old.
        (json!({"initContainers": [{"name": "i", "$patch": "delete"}]}), "initContainers", json!([])),
        (json!({"securityContext": {"runAsUser": null, "fsGroup": 1}}), "securityContext", json!({"fsGroup": 1})),
    ] {
        let found = patched(&original, &patch).expect("it applies");
        assert_eq!(found[field], result, "{patch}");
    }
}

#[test]
fn malformed_directives_are_refused_in_upstreams_words() {
    let original = json!({"containers": [{"name": "a"}], "nodeSelector": {"a": "1"}});
    for (patch, code, message) in [
        (
            json!({"nodeSelector": {"$patch": "explode"}}),
            500,
            "unknown patch type: explode in map: map[$patch:explode]",
        ),
        (json!({"containers": [{"image": "x"}]}), 500, "map: map[image:x] does not contain declared merge key: name"),
        (json!({"$retainKeys": ["a"], "b": 1}), 400, "invalid patch format of retainKeys"),
        (json!({"$deleteFromPrimitiveList": []}), 400, "invalid patch format of primitive list"),
        (
            json!({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "y"}]}),
            500,
            "The order in patch list:\n[map[name:y]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n",
        ),
    ] {
        let error = patched(&original, &patch).expect_err("refused");
        assert_eq!((error.code, error.message.as_str()), (code, message), "{patch}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_by_go_kind() {
    let schema = builtin::named("io.k8s.api.core.v1.PodSpec").expect("a built-in type");
    for (value, error) in [
        (json!({"containers": "x"}), Some("cannot restore slice from string")),
        (json!({"nodeSelector": []}), Some("cannot restore map from slice")),
        (json!({"securityContext": 1}), Some("cannot restore struct from: int64")),
        (json!({"priority": "x"}), Some("unrecognized type: int32")),
        (json!({"hostname": 1}), Some("cannot convert int64 to string")),
        (json!({"hostname": "a", "unknown": 1}), None),
    ] {
        assert_eq!(conversion_error(&schema, &value).as_deref(), error, "{value}");
    }
}
