//! The shells with a real client: in process, and over HTTPS.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, AttachParams, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rewake_apiserver::Cluster;
use rewake_apiserver::http::connect::{ExecRequest, ExecResult, Exit, PodExec};
use rewake_apiserver::object::Object;
use rewake_apiserver::serve::{Options, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v"}})).expect("a ConfigMap")
}

/// What every shell must let a client do: write, be refused, and see its writes in a watch.
async fn write_and_watch(client: Client) {
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let start = api.list(&Default::default()).await.expect("a list").metadata.resource_version.expect("a version");
    let watch = api.watch(&WatchParams::default(), &start).await.expect("a watch");
    let mut watch = std::pin::pin!(watch);
    let created = api.create(&PostParams::default(), &config_map("a")).await.expect("a create");
    assert!(created.metadata.uid.is_some());
    let twice = api.create(&PostParams::default(), &config_map("a")).await.expect_err("a second create");
    assert!(matches!(twice, kube::Error::Api(status) if status.code == 409));
    api.delete("a", &DeleteParams::default()).await.expect("a delete");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match watch.try_next().await.expect("an event").expect("an open watch") {
            WatchEvent::Added(object) => seen.push(format!("added {}", object.metadata.name.unwrap_or_default())),
            WatchEvent::Deleted(object) => seen.push(format!("deleted {}", object.metadata.name.unwrap_or_default())),
            _ => {}
        }
    }
    assert_eq!(seen, ["added a", "deleted a"]);
}

#[tokio::test]
async fn a_client_in_process_writes_and_watches() {
    write_and_watch(Cluster::start().client()).await;
}

#[tokio::test]
async fn a_client_over_https_writes_and_watches() {
    let cluster = Cluster::start();
    let server = Server::start(cluster.host().clone(), Options::default()).await.expect("a server");
    let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    write_and_watch(Client::try_from(config).expect("a client")).await;
    server.stop().await;
}

#[tokio::test]
async fn a_webhook_in_process_is_asked() {
    let cluster = Cluster::builder()
        .webhook("default/check", |review: Bytes| async move {
            let review: Value = serde_json::from_slice(&review).unwrap_or_default();
            let answer = json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": "not today"}},
            });
            answer.to_string().into()
        })
        .start();
    let client = cluster.client();
    let service = json!({"metadata": {"name": "check"}, "spec": {"ports": [{"port": 443}]}});
    let services: Api<k8s_openapi::api::core::v1::Service> = Api::namespaced(client.clone(), "default");
    services
        .create(&PostParams::default(), &serde_json::from_value(service).expect("a Service"))
        .await
        .expect("a create");
    let configuration = json!({
        "metadata": {"name": "check"},
        "webhooks": [{
            "name": "check.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "default", "name": "check"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    });
    let configurations: Api<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration> =
        Api::all(client.clone());
    let configuration = serde_json::from_value(configuration).expect("a configuration");
    configurations.create(&PostParams::default(), &configuration).await.expect("a create");
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let refused = api.create(&PostParams::default(), &config_map("a")).await.expect_err("a denied create");
    assert!(refused.to_string().contains("admission webhook \"check.example.com\" denied the request: not today"));
}

/// A container that repeats its input and fails with what its last argument says.
struct Echo;

impl PodExec for Echo {
    fn exec(&self, command: ExecRequest) -> BoxFuture<'static, ExecResult> {
        let code = command.argv.last().and_then(|last| last.parse().ok()).unwrap_or_default();
        let result = ExecResult { stdout: command.stdin, stderr: command.container.into(), exit: Exit::Code(code) };
        async move { result }.boxed()
    }

    fn log(&self, _pod: &Object, _container: &str) -> String {
        String::new()
    }
}

#[tokio::test]
async fn a_command_in_a_pod_has_input_output_and_an_exit_status() {
    let cluster = Cluster::builder().node(false).pods(Arc::new(Echo)).start();
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]},
    });
    api.create(&PostParams::default(), &serde_json::from_value(pod).expect("a Pod")).await.expect("a create");
    let attach = AttachParams::default().stdin(true);
    let mut process = api.exec("a", ["sh", "-c", "exit", "3"], &attach).await.expect("an exec");
    let mut stdin = process.stdin().expect("standard input");
    stdin.write_all(b"hello").await.expect("a write");
    stdin.shutdown().await.expect("the end of the input");
    drop(stdin);
    let (mut stdout, mut stderr) = (process.stdout().expect("output"), process.stderr().expect("errors"));
    let status = process.take_status().expect("a status");
    let (mut out, mut err) = (String::new(), String::new());
    let (read_out, read_err, status) =
        futures::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err), status);
    read_out.expect("output");
    read_err.expect("errors");
    assert_eq!((out.as_str(), err.as_str()), ("hello", "main"));
    assert_eq!(status.and_then(|status| status.reason).as_deref(), Some("NonZeroExitCode"));
}
