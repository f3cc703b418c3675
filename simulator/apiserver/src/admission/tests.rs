//! Rules of admission, on chains driven by hand: no control plane, no webhook servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use serde_json::{Value, json};

use super::*;
use crate::schema::builtin;
use crate::store::Change;

/// Kinds as upstream serves them; conversions only change the version.
struct Kinds;

impl ObjectInterfaces for Kinds {
    fn equivalents(&self, resource: &Resource) -> Vec<Arc<Resource>> {
        builtin::resources().iter().filter(|other| other.group_resource == resource.group_resource).cloned().collect()
    }

    fn convert(&self, object: &Object, to: &GroupVersionKind) -> Result<Object, ApiError> {
        let mut object = (**object).clone();
        object["apiVersion"] = to.api_version().into();
        Ok(Arc::new(object))
    }

    fn decode(&self, _kind: &GroupVersionKind, object: Value) -> Result<Value, ApiError> {
        Ok(object)
    }

    fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let same = |resource: &&Arc<Resource>| resource.api_version() == api_version && &*resource.kind.kind == kind;
        builtin::resources().iter().find(same).cloned()
    }
}

/// A cluster with namespace `ns` and these objects.
struct Cluster {
    store: Store,
    configurations: Configurations,
    draws: Draws,
}

impl Cluster {
    fn with(objects: &[Value]) -> Self {
        let mut store = Store::default();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "ns", "labels": {"team": "db"}}, "status": {"phase": "Active"}});
        for object in [&namespace].into_iter().chain(objects) {
            let resource = Kinds.by_kind(object.api_version(), object.kind()).expect("a built-in kind");
            store.commit(&resource.group_resource, Change::Put(Arc::new(object.clone())), &"test".into());
        }
        let configurations = Configurations::of(&store);
        Self { store, configurations, draws: Draws::new(1) }
    }

    /// Runs a phase to its end; `answer` is asked for each review (webhook and request) and gives the
    /// `response` without uid.
    fn run(
        &mut self,
        mut chain: Chain,
        mut answer: impl FnMut(&str, &Value) -> Value,
    ) -> (Result<Attributes, ApiError>, Vec<String>) {
        let mut context = Context {
            store: &self.store,
            interfaces: &Kinds,
            configurations: &self.configurations,
            draws: &mut self.draws,
        };
        let mut step = chain.begin(&mut context);
        loop {
            let call = match step {
                Ok(Step::Ask(call)) => call,
                Ok(Step::Admitted) => {
                    let (attributes, warnings) = chain.finish();
                    return (Ok(attributes), warnings);
                }
                Err(error) => return (Err(error), chain.warnings().to_vec()),
            };
            let review: Value = serde_json::from_slice(&call.body).expect("a review is JSON");
            let mut response = answer(call.name.rsplit('/').next().unwrap(), &review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            let answer = WebhookAnswer::Http { code: 200, content_type: String::new(), body: body.to_string().into() };
            step = chain.answer(&answer, &mut context);
        }
    }

    fn mutate(&mut self, attributes: Attributes) -> Result<Value, ApiError> {
        let (outcome, _) = self.run(Chain::mutating(attributes), |_, _| unreachable!("no webhooks"));
        outcome.map(|attributes| attributes.object.map_or(Value::Null, |object| (*object).clone()))
    }

    fn validate(&mut self, attributes: Attributes) -> (Option<ApiError>, Vec<String>) {
        let (outcome, warnings) = self.run(Chain::validating(attributes), |_, _| unreachable!("no webhooks"));
        (outcome.err(), warnings)
    }
}

/// The create of an object in namespace `ns` (or of a cluster-scoped one).
fn create(object: Value) -> Attributes {
    let resource = Kinds.by_kind(object.api_version(), object.kind()).expect("a built-in kind");
    Attributes {
        operation: Operation::Create,
        subresource: String::new(),
        kind: resource.kind.clone(),
        namespace: if resource.namespaced { "ns".to_owned() } else { String::new() },
        name: object.name().to_owned(),
        object: Some(Arc::new(object)),
        old_object: None,
        options: options("CreateOptions", Value::Null),
        user: Arc::new(User::admin("admin")),
        dry_run: false,
        resource,
    }
}

fn update(old: Value, new: Value) -> Attributes {
    Attributes { operation: Operation::Update, old_object: Some(Arc::new(old)), ..create(new) }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}})
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db", "namespace": "ns"}});
    pod["spec"] = spec;
    pod
}

fn webhooks(kind: &str, name: &str, webhooks: &[(&str, Value)]) -> Value {
    let webhook = |(name, more): &(&str, Value)| {
        let mut webhook = json!({
            "name": name, "clientConfig": {"url": "https://127.0.0.1:1/x"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent",
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            webhook[field] = value.clone();
        }
        webhook
    };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": webhooks.iter().map(webhook).collect::<Vec<_>>()})
}

fn patch(operations: &Value) -> Value {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

#[test]
fn mutating_webhooks_go_by_configuration_and_position_and_again_if_needed() {
    let never = json!({"reinvocationPolicy": "Never"});
    let mut cluster = Cluster::with(&[
        webhooks("MutatingWebhookConfiguration", "b", &[("last", never.clone())]),
        webhooks(
            "MutatingWebhookConfiguration",
            "a",
            &[("again", json!({"reinvocationPolicy": "IfNeeded"})), ("never", never)],
        ),
    ]);
    let mut asked = Vec::new();
    let (outcome, _) = cluster.run(Chain::mutating(create(config_map("a"))), |webhook, request| {
        asked.push(webhook.to_owned());
        assert_eq!(request["operation"], "CREATE");
        patch(&json!([{"op": "add", "path": format!("/{webhook}"), "value": "seen"}]))
    });
    assert_eq!(asked, ["again", "never", "last", "again"]);
    let object = outcome.unwrap().object.unwrap();
    assert_eq!(object["last"], "seen");
}

#[test]
fn a_webhook_is_not_asked_again_when_nothing_changed_after_it() {
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let mut cluster =
        Cluster::with(&[webhooks("MutatingWebhookConfiguration", "a", &[("first", again.clone()), ("second", again)])]);
    let mut asked = Vec::new();
    let (outcome, _) = cluster.run(Chain::mutating(create(config_map("a"))), |webhook, _| {
        asked.push(webhook.to_owned());
        match webhook {
            "first" => patch(&json!([{"op": "add", "path": "/data", "value": {}}])),
            _ => json!({"allowed": true}),
        }
    });
    assert!(outcome.is_ok());
    assert_eq!(asked, ["first", "second"]);
}

#[test]
fn a_webhook_cannot_break_managed_fields() {
    let entry = |fields_type: &str| json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": fields_type, "fieldsV1": {}}]);
    let mut object = config_map("a");
    object["metadata"]["managedFields"] = entry("FieldsV1");
    for (value, kept) in [(entry("other"), true), (json!([]), false)] {
        let configuration = webhooks("MutatingWebhookConfiguration", "a", &[("edit", json!({}))]);
        let (outcome, warnings) = Cluster::with(&[configuration])
            .run(Chain::mutating(create(object.clone())), |_, _| {
                patch(&json!([{"op": "replace", "path": "/metadata/managedFields", "value": value}]))
            });
        let admitted = outcome.unwrap().object.unwrap();
        assert_eq!(admitted["metadata"]["managedFields"] == entry("FieldsV1"), kept);
        assert_eq!(warnings.len() == 1, kept, "{warnings:?}");
    }
}

#[test]
fn every_validating_webhook_is_asked_and_the_first_refusal_counts() {
    let three = [("one", json!({})), ("two", json!({})), ("three", json!({}))];
    let mut cluster = Cluster::with(&[webhooks("ValidatingWebhookConfiguration", "a", &three)]);
    let mut asked = Vec::new();
    let (outcome, warnings) = cluster.run(Chain::validating(create(config_map("a"))), |webhook, _| {
        asked.push(webhook.to_owned());
        json!({"allowed": webhook == "one", "warnings": [webhook], "status": {"message": webhook}})
    });
    assert_eq!(asked, ["one", "two", "three"]);
    assert_eq!(warnings, ["one", "two", "three"]);
    let error = outcome.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "admission webhook \"two\" denied the request: two"));
}

#[test]
fn rules_and_selectors_choose_the_writes_that_are_reviewed() {
    let rule = |rule: Value| json!({"rules": [rule]});
    let resources = |resources: &str| json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resources]});
    let scoped = |scope: &str| {
        let mut rule = resources("*");
        rule["scope"] = scope.into();
        json!({"rules": [rule]})
    };
    let labels = |labels: Value| json!({"matchLabels": labels});
    let status = Attributes { subresource: "status".to_owned(), ..create(config_map("a")) };
    let mut labelled = config_map("a");
    labelled["metadata"]["labels"] = json!({"x": "y"});
    let namespace = || {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"x": "y"}}});
        Attributes { namespace: "new".to_owned(), ..create(object) }
    };
    let configuration = create(webhooks("ValidatingWebhookConfiguration", "b", &[]));
    let condition = |expression: &str| json!({"matchConditions": [{"name": "x", "expression": expression}]});
    for (webhook, attributes, reviewed) in [
        (json!({}), create(config_map("a")), true),
        (json!({}), status.clone(), false),
        (rule(resources("configmaps/status")), status.clone(), true),
        (rule(resources("configmaps/*")), status.clone(), true),
        (rule(resources("configmaps/*")), create(config_map("a")), true),
        (rule(resources("*/*")), status.clone(), true),
        (rule(resources("*")), status, false),
        (rule(resources("secrets")), create(config_map("a")), false),
        (rule(resources("*")), configuration, false),
        (scoped("Cluster"), create(config_map("a")), false),
        (scoped("Namespaced"), create(config_map("a")), true),
        (scoped("Cluster"), namespace(), true),
        (scoped("Namespaced"), namespace(), false),
        (json!({"namespaceSelector": labels(json!({"team": "db"}))}), create(config_map("a")), true),
        (json!({"namespaceSelector": labels(json!({"team": "x"}))}), create(config_map("a")), false),
        (json!({"objectSelector": labels(json!({"x": "y"}))}), create(config_map("a")), false),
        (json!({"objectSelector": labels(json!({"x": "y"}))}), create(labelled.clone()), true),
        (json!({"objectSelector": labels(json!({"x": "y"}))}), update(labelled, config_map("a")), true),
        (condition("request.name == 'a'"), create(config_map("a")), true),
        (condition("request.name != 'a'"), create(config_map("a")), false),
        (condition("object.metadata.name == 'a' && oldObject == null"), create(config_map("a")), true),
    ] {
        let configuration = webhooks("ValidatingWebhookConfiguration", "a", &[("check", webhook.clone())]);
        let mut asked = 0;
        let (outcome, _) = Cluster::with(&[configuration]).run(Chain::validating(attributes.clone()), |_, _| {
            asked += 1;
            json!({"allowed": true})
        });
        assert!(outcome.is_ok(), "{webhook}");
        assert_eq!(asked == 1, reviewed, "{webhook} {:?}", attributes.object);
    }
}

#[test]
fn an_equivalent_version_matches_and_is_shown() {
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": "ns"}});
    let rule = json!({"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"]});
    for (policy, shown) in [("Equivalent", Some("autoscaling/v1")), ("Exact", None)] {
        let webhook = json!({"rules": [rule], "matchPolicy": policy});
        let configuration = webhooks("ValidatingWebhookConfiguration", "a", &[("check", webhook)]);
        let mut seen = None;
        let chain = Chain::validating(create(scaler.clone()));
        let (outcome, _) = Cluster::with(&[configuration]).run(chain, |_, request| {
            seen = request["object"]["apiVersion"].as_str().map(str::to_owned);
            assert_eq!(request["resource"]["version"], "v1");
            assert_eq!(request["requestResource"]["version"], "v2");
            json!({"allowed": true})
        });
        assert!(outcome.is_ok());
        assert_eq!(seen.as_deref(), shown, "{policy}");
    }
}

#[test]
fn what_goes_wrong_with_a_call_is_up_to_the_failure_policy() {
    let http = |code, body: &str| WebhookAnswer::Http {
        code,
        content_type: "text/plain".to_owned(),
        body: body.to_owned().into(),
    };
    let calling = "Internal error occurred: failed calling webhook \"check\": ";
    let post = "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": ";
    for (answer, sentence) in [
        (WebhookAnswer::TimedOut, format!("{post}context deadline exceeded")),
        (WebhookAnswer::Failed("EOF".to_owned()), format!("{post}EOF")),
        (http(404, "?"), "failed to call webhook: the server could not find the requested resource".to_owned()),
        (
            http(500, "disk full"),
            "failed to call webhook: an error on the server (\"disk full\") has prevented the request from succeeding"
                .to_owned(),
        ),
        (
            http(200, "<html>"),
            "failed to call webhook: couldn't get version/kind; json parse error: invalid character '<' looking for \
             beginning of value"
                .to_owned(),
        ),
        (http(200, "{}"), "received invalid webhook response: webhook response was absent".to_owned()),
    ] {
        for policy in ["Fail", "Ignore"] {
            let more = json!({"failurePolicy": policy});
            let mut cluster = Cluster::with(&[webhooks("ValidatingWebhookConfiguration", "a", &[("check", more)])]);
            let mut context = Context {
                store: &cluster.store,
                interfaces: &Kinds,
                configurations: &cluster.configurations,
                draws: &mut cluster.draws,
            };
            let mut chain = Chain::validating(create(config_map("a")));
            assert!(matches!(chain.begin(&mut context), Ok(Step::Ask(_))));
            match (policy, chain.answer(&answer, &mut context)) {
                ("Fail", Err(error)) => assert_eq!(error.message, format!("{calling}{sentence}")),
                ("Ignore", outcome) => assert!(outcome.is_ok(), "{answer:?}"),
                (_, outcome) => panic!("{answer:?}: {outcome:?}"),
            }
        }
    }
}

#[test]
fn a_policy_denies_warns_or_is_not_bound() {
    let policy = |validation: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "p"}, "spec": {
                "variables": [{"name": "none", "expression": "object.data.none"},
                              {"name": "name", "expression": "object.metadata.name"}],
                "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""],
                    "apiVersions": ["v1"], "resources": ["configmaps"]}]},
                "validations": [validation]}})
    };
    let binding = |actions: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": actions}})
    };
    let denied = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    for (validation, sentence) in [
        (json!({"expression": "object.metadata.name == 'a'"}), ""),
        (json!({"expression": " false "}), "failed expression: false"),
        (json!({"expression": "false", "message": " no "}), "no"),
        (json!({"expression": "false", "message": "no", "messageExpression": "'not ' + variables.name"}), "not a"),
        (json!({"expression": "false", "message": "no", "messageExpression": "'two\\nlines'"}), "no"),
        (
            json!({"expression": "object.data.x == 'y'"}),
            "expression 'object.data.x == 'y'' resulted in error: no such key: data",
        ),
        (
            json!({"expression": "variables.none"}),
            "expression 'variables.none' resulted in error: composited variable \"none\" fails to evaluate: no such key: data",
        ),
    ] {
        let mut cluster = Cluster::with(&[policy(validation.clone()), binding(json!(["Deny"]))]);
        let (error, warnings) = cluster.validate(create(config_map("a")));
        assert!(warnings.is_empty());
        match error {
            None => assert_eq!(sentence, "", "{validation}"),
            Some(error) => {
                assert_eq!(error.message, format!("configmaps \"a\" is forbidden: {denied}{sentence}"));
                assert_eq!((error.code, &*error.reason), (422, "Invalid"));
            }
        }
    }
    let failing = policy(json!({"expression": "false", "message": "m"}));
    let warns = Cluster::with(&[failing.clone(), binding(json!(["Warn"]))]).validate(create(config_map("a")));
    let warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m".to_owned();
    assert_eq!(warns, (None, vec![warning]));
    assert_eq!(Cluster::with(&[failing]).validate(create(config_map("a"))), (None, vec![]));
}

#[test]
fn a_mutating_policy_merges_or_patches() {
    let policy = |mutation: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "p"}, "spec": {
                "variables": [{"name": "name", "expression": "object.metadata.name"}],
                "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""],
                    "apiVersions": ["v1"], "resources": ["pods"]}]},
                "mutations": [mutation]}})
    };
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "b"}, "spec": {"policyName": "p"}});
    let apply =
        |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let spec = || pod(json!({"containers": [{"name": "c"}]}));
    for (mutation, pointer, value) in [
        (
            apply(
                "Object{metadata: Object.metadata{labels: {'of': variables.name}}, spec: Object.spec{containers: \
                 [Object.spec.containers{name: 'side', image: 'i'}]}}",
            ),
            "/spec/containers",
            json!([{"name": "c"}, {"name": "side", "image": "i"}]),
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"),
            "/metadata/labels",
            json!({"a": "b"}),
        ),
    ] {
        let made = Cluster::with(&[policy(mutation.clone()), binding.clone()]).mutate(create(spec())).unwrap();
        assert_eq!(made.pointer(pointer), Some(&value), "{mutation}");
    }
    let failing = policy(patch("[JSONPatch{op: 'remove', path: '/spec/none'}]"));
    let error = Cluster::with(&[failing, binding]).mutate(create(spec())).unwrap_err();
    assert_eq!(error.code, 422);
    assert!(error.message.contains("policy 'p' with binding 'b' denied request: JSON Patch: error in remove"));
}

#[test]
fn nothing_is_created_in_a_namespace_that_is_missing_or_going() {
    let going = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"},
        "status": {"phase": "Terminating"}});
    let error = Cluster::with(&[going]).mutate(create(config_map("a"))).unwrap_err();
    assert_eq!(error.details.unwrap().causes[0].reason, "NamespaceTerminating");
    let elsewhere = Attributes { namespace: "other".to_owned(), ..create(config_map("a")) };
    assert_eq!(Cluster::with(&[]).mutate(elsewhere).unwrap_err().message, "namespaces \"other\" not found");
}

#[test]
fn built_in_plugins_fill_in() {
    let class = |name: &str, made: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name,
            "creationTimestamp": made, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "ns"},
        "spec": {"limits": [{"type": "Container", "default": {"memory": "512Mi"},
                             "defaultRequest": {"memory": "256Mi"}}]}});
    let priority = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    let objects = [class("older", "2026-01-01T00:00:00Z"), class("newer", "2026-02-01T00:00:00Z"), range, priority];
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "ns"}, "spec": {}});
    let made = Cluster::with(&objects).mutate(create(claim)).unwrap();
    assert_eq!(made["spec"]["storageClassName"], "newer");
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let made = Cluster::with(&objects)
        .mutate(create(pod(json!({"priorityClassName": "high", "containers": [{"name": "c"}]}))))
        .unwrap();
    assert_eq!(made["spec"]["priority"], 1000);
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(made["spec"]["containers"][0]["resources"]["requests"]["memory"], "256Mi");
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container c; memory limit for container c"
    );
}

#[test]
fn bounds_and_quotas_refuse() {
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "ns"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}, "min": {"memory": "64Mi"}}]}});
    let hard = json!({"pods": "1", "requests.cpu": "500m"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"hard": hard}, "status": {"hard": hard}});
    let needs = |requests: Value, limits: Value| {
        pod(json!({"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]}))
    };
    let mut other = needs(json!({"cpu": "300m"}), json!({}));
    other["metadata"]["name"] = "other".into();
    let cases: BTreeMap<&str, (Vec<Value>, Value)> = BTreeMap::from([
        (
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
            (vec![range.clone()], needs(json!({"memory": "1Gi"}), json!({"memory": "2Gi"}))),
        ),
        (
            "minimum memory usage per Container is 64Mi, but request is 1Mi",
            (vec![range], needs(json!({"memory": "1Mi"}), json!({"memory": "1Gi"}))),
        ),
        ("failed quota: q: must specify requests.cpu for: c", (vec![quota.clone()], needs(json!({}), json!({})))),
        (
            "exceeded quota: q, requested: pods=1,requests.cpu=300m, used: pods=1,requests.cpu=300m, limited: \
             pods=1,requests.cpu=500m",
            (vec![quota, other], needs(json!({"cpu": "300m"}), json!({}))),
        ),
    ]);
    for (sentence, (objects, pod)) in cases {
        let (error, _) = Cluster::with(&objects).validate(create(pod));
        assert_eq!(error.expect(sentence).message, format!("pods \"db\" is forbidden: {sentence}"));
    }
}
