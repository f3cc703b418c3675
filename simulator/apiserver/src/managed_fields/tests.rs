//! The rules of ownership, over whole objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::error::ApiError;
use crate::resource::GroupVersionKind;
use crate::schema::{SchemaRef, SchemaSet, builtin};

fn config_map() -> SchemaRef {
    builtin::schema(&GroupVersionKind::new("", "v1", "ConfigMap")).expect("a built-in kind")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a time")
}

fn write<'a>(schema: &'a SchemaRef, manager: &'a str) -> Write<'a> {
    Write {
        schema: schema.clone(),
        custom: false,
        api_version: "v1".to_owned(),
        kind: "ConfigMap",
        subresource: "",
        manager,
        reset: &[],
        served: &[],
        now: at(0),
    }
}

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orders"}, "data": data})
}

/// Who owns what: `manager/operation` to `fieldsV1`.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let name =
                format!("{}/{}", entry["manager"].as_str().unwrap_or(""), entry["operation"].as_str().unwrap_or(""));
            (name, entry["fieldsV1"].clone())
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn created(data: &Value, manager: &str) -> Value {
    let schema = config_map();
    let mut object = map(data);
    on_write(None, &mut object, &write(&schema, manager));
    object["metadata"]["uid"] = "u".into();
    object
}

fn applied(live: Option<&Value>, data: &Value, manager: &str, force: bool) -> Result<Value, ApiError> {
    let schema = config_map();
    let mut object = apply(live, &map(data), force, &write(&schema, manager))?;
    object["metadata"]["uid"] = "u".into();
    // As decoding leaves it: an emptied map is not there.
    if object["data"].as_object().is_none_or(serde_json::Map::is_empty) {
        object.as_object_mut().expect("an object").remove("data");
    }
    Ok(object)
}

#[test]
fn a_writer_owns_what_it_sets_and_loses_what_another_changes_or_removes() {
    let schema = config_map();
    let live = created(&json!({"a": "1", "b": "1"}), "first");
    assert_eq!(owners(&live), json!({"first/Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}}));

    let mut new = live.clone();
    new["data"] = json!({"a": "2", "c": "1"});
    on_write(Some(&live), &mut new, &write(&schema, "second"));
    assert_eq!(
        owners(&new),
        json!({"first/Update": {"f:data": {}}, "second/Update": {"f:data": {"f:a": {}, "f:c": {}}}})
    );
}

#[test]
fn a_write_without_effect_keeps_the_times() {
    let schema = config_map();
    let live = created(&json!({"a": "1"}), "first");
    let later = Write { now: at(60), ..write(&schema, "first") };
    let mut same = live.clone();
    on_write(Some(&live), &mut same, &later);
    keep_times(&live, &mut same);
    assert_eq!(same, live);

    let again = apply(
        Some(&applied(None, &json!({"a": "1"}), "tool", false).expect("applied")),
        &map(&json!({"a": "1"})),
        false,
        &Write { manager: "tool", ..later },
    );
    let time = &again.expect("applied")["metadata"]["managedFields"][0]["time"];
    assert_eq!(time, "2027-01-15T08:00:00Z");
}

#[test]
fn sent_entries_count_and_an_empty_list_clears_them() {
    let schema = config_map();
    let live = created(&json!({"a": "1"}), "first");
    for (sent, expected) in [
        (json!([]), json!({})),
        (json!([{}]), json!({})),
        (json!([{"operation": "Sometimes"}]), owners(&live)),
        (
            json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}}}]),
            json!({"x/Apply": {"f:data": {"f:a": {}}}}),
        ),
    ] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = sent.clone();
        on_write(Some(&live), &mut new, &write(&schema, "second"));
        assert_eq!(owners(&new), expected, "{sent}");
    }
    // An object without entries stays without them until somebody applies.
    let mut untracked = live;
    untracked["metadata"]["managedFields"] = json!(null);
    let mut new = untracked.clone();
    new["data"]["b"] = "1".into();
    on_write(Some(&untracked), &mut new, &write(&schema, "second"));
    assert_eq!(owners(&new), json!({}));
    let after = applied(Some(&untracked), &json!({"b": "1"}), "tool", false).expect("applied");
    assert_eq!(
        owners(&after),
        json!({"tool/Apply": {"f:data": {"f:b": {}}}, "before-first-apply/Update": {"f:data": {".": {}, "f:a": {}}}})
    );
}

#[test]
fn a_conflict_names_managers_and_fields_and_force_takes_them() {
    let live = applied(None, &json!({"a": "1", "b": "1"}), "tool", false).expect("applied");
    let error = applied(Some(&live), &json!({"a": "2", "b": "2"}), "other", false).expect_err("a conflict");
    assert_eq!(error.message, "Apply failed with 2 conflicts: conflicts with \"tool\":\n- .data.a\n- .data.b");
    let forced = applied(Some(&live), &json!({"a": "2"}), "other", true).expect("forced");
    assert_eq!(forced["data"], json!({"a": "2", "b": "1"}));
    assert_eq!(owners(&forced), json!({"tool/Apply": {"f:data": {"f:b": {}}}, "other/Apply": {"f:data": {"f:a": {}}}}));
}

#[test]
fn what_nobody_applies_any_longer_goes_unless_another_owns_it() {
    let live = applied(None, &json!({"a": "1", "b": "1"}), "tool", false).expect("applied");
    let live = applied(Some(&live), &json!({"a": "1"}), "other", false).expect("shared");
    let live = applied(Some(&live), &json!({}), "tool", false).expect("given up");
    assert_eq!(live["data"], json!({"a": "1"}));
    let live = applied(Some(&live), &json!({}), "other", false).expect("given up");
    assert_eq!(live["data"], json!(null));
}

#[test]
fn kubectl_takes_over_what_it_applied_client_side() {
    let schema = config_map();
    let mut live = map(&json!({"a": "1"}));
    let last = map(&json!({"a": "1"})).to_string();
    live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    on_write(None, &mut live, &write(&schema, "kubectl-client-side-apply"));
    let after = applied(Some(&live), &json!({"a": "<2>"}), "kubectl", false).expect("no conflict");
    assert_eq!(
        after["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"orders\"}}\n"
    );
    assert!(applied(Some(&live), &json!({"a": "2"}), "somebody", false).is_err());
}

#[test]
fn built_in_structs_are_there_from_the_start_and_custom_ones_are_not() {
    let deployments = builtin::schema(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("a built-in kind");
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "resources": {}}]}}});
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec,
        "status": {}});
    let mut custom = object.clone();
    let write = Write {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment",
        reset: &[&["status"]],
        ..write(&deployments, "tool")
    };
    on_write(None, &mut object, &write);
    assert_eq!(
        owners(&object)["tool/Update"],
        json!({"f:spec": {"f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}}, "f:template": {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:resources": {},
            "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}
        }}}}}})
    );

    let free = SchemaSet::single(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    on_write(None, &mut custom, &Write { schema: free, custom: true, ..write });
    let owned = &owners(&custom)["tool/Update"]["f:spec"];
    assert_eq!(owned["f:template"]["f:spec"]["f:containers"], json!({}));
    assert_eq!(owned["f:strategy"], json!({".": {}, "f:type": {}}));
}

#[test]
fn what_does_not_fit_the_schema_is_refused_in_upstreams_words() {
    for (object, message) in [
        (json!({"retention": "7d"}), ".retention: field not declared in schema"),
        (json!({"data": {"a": 1}}), ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"metadata": {"finalizers": ["x", "x"]}}), ".metadata.finalizers: duplicate entries for key [=\"x\"]"),
        (json!({"immutable": "yes"}), ".immutable: expected boolean, got &{yes}"),
    ] {
        let schema = config_map();
        let mut sent = object.clone();
        sent["apiVersion"] = "v1".into();
        sent["kind"] = "ConfigMap".into();
        let error = apply(None, &sent, false, &write(&schema, "tool")).expect_err("refused");
        let prefix = "failed to create typed patch object (/; /v1, Kind=ConfigMap): ";
        assert_eq!(error.message.strip_prefix(prefix), Some(message), "{object}");
    }
}

#[test]
fn replicas_move_between_scale_and_object() {
    let parent = json!({"metadata": {"managedFields": [{"manager": "tool", "operation": "Apply",
        "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}}}]}});
    let replicas = scale::Replicas { api_version: "apps/v1", path: &["spec", "replicas"] };
    let schema = builtin::schema(&GroupVersionKind::new("autoscaling", "v1", "Scale")).expect("a built-in kind");
    let view = |replicas: i64| json!({"metadata": {"uid": "u"}, "spec": {"replicas": replicas}});
    let (mut live, mut new) = (view(1), view(5));
    live["metadata"]["managedFields"] = scale::entries_of_scale(&parent, replicas);
    let write = Write {
        api_version: "autoscaling/v1".to_owned(),
        kind: "Scale",
        subresource: "scale",
        ..write(&schema, "scaler")
    };
    on_write(Some(&live), &mut new, &write);
    let entries = scale::entries_of_parent(&parent, &new["metadata"]["managedFields"], replicas);
    let after = json!({"metadata": {"managedFields": entries}});
    assert_eq!(
        owners(&after),
        json!({"tool/Apply": {"f:spec": {"f:paused": {}}}, "scaler/Update": {"f:spec": {"f:replicas": {}}}})
    );
    assert_eq!(entries[1]["subresource"], "scale");
    assert_eq!(entries[1]["apiVersion"], "apps/v1");
}

/// Objects drawn from a small alphabet, so that they overlap often.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn data(&mut self) -> Value {
        // Never empty: an empty map is dropped on decoding and so appears anew, as a conflict, in each apply.
        let mut data = serde_json::Map::from_iter([("e".to_owned(), "0".into())]);
        for key in ["a", "b", "c", "d"] {
            if self.below(2) == 0 {
                data.insert(key.to_owned(), self.below(2).to_string().into());
            }
        }
        data.into()
    }
}

#[test]
fn laws_of_apply_hold_for_any_history() {
    let mut draws = Draws(1);
    for round in 0..300 {
        let mut live: Option<Value> = None;
        for _ in 0..6 {
            let manager = ["x", "y", "z"][usize::try_from(draws.below(3)).expect("small")];
            let (data, force) = (draws.data(), draws.below(2) == 0);
            let Ok(object) = applied(live.as_ref(), &data, manager, force) else { continue };
            // Whatever is applied stands in the object, and applying it again changes nothing.
            for (key, value) in data.as_object().expect("an object") {
                assert_eq!(&object["data"][key], value, "round {round}");
            }
            let mut again = applied(Some(&object), &data, manager, false).expect("no conflict with oneself");
            keep_times(&object, &mut again);
            assert_eq!(again, object, "round {round}");
            // Every field has an owner, and nobody owns a field that is not there.
            for (key, _) in object["data"].as_object().into_iter().flatten() {
                let owned = |fields: &Value| fields["f:data"].get(format!("f:{key}")).is_some();
                assert!(owners(&object).as_object().expect("owners").values().any(owned), "round {round}: {key}");
            }
            live = Some(object);
        }
    }
}
