//! The controller as a process of its own: installed by its manifests, with the rights they give and no others,
//! against the embedded control plane over HTTPS. The webhook is called over HTTPS, members' guests by `exec`
//! over WebSocket.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, Config, ResourceExt};
use rewake_apiserver::access::Authorization;
use rewake_apiserver::control_plane;
use rewake_apiserver::guest::Guests;
use rewake_apiserver::host::webhooks::Https;
use rewake_apiserver::host::{Core, Host, Parts};
use rewake_apiserver::http::authenticate::Tokens;
use rewake_apiserver::http::connect::{ExecRequest, ExecResult, Exit, PodExec};
use rewake_apiserver::loops;
use rewake_apiserver::object::{Object, ObjectExt};
use rewake_apiserver::request::User;
use rewake_apiserver::serve::{Options, Server};
use rewake_controller::api::{ClusterState, KubeDirectorCluster};
use rewake_controller::manifests::{Install, NAME};
use rewake_controller::names::{WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

const NAMESPACE: &str = "kd";
const TOKEN: &str = "token-of-the-service-account";
/// Nothing here takes a second on an idle machine; a busy one is waited for.
const DEADLINE: Duration = Duration::from_secs(120);

const APP: &str = include_str!("../../scenarios/manifests/app.yaml");
const CLUSTER: &str = include_str!("../../scenarios/manifests/cluster.yaml");

/// The guest model behind the `exec` of a served control plane.
#[derive(Default)]
struct Containers {
    host: OnceLock<Host>,
    guests: Arc<Mutex<Guests>>,
}

impl PodExec for Containers {
    fn exec(&self, command: ExecRequest) -> BoxFuture<'static, ExecResult> {
        let (host, guests) = (self.host.get().cloned(), Arc::clone(&self.guests));
        async move {
            let host = host.expect("the host is known before anybody asks");
            let ran = host.with(|plane, _| {
                let mut guests = guests.lock().expect("no panic in a guest");
                let (namespace, pod) = (command.pod.namespace().to_owned(), command.pod.name().to_owned());
                guests.exec(&plane.view(), &namespace, &pod, &command.container, &command.argv, &command.stdin)
            });
            match ran {
                Ok(ran) => {
                    ExecResult { stdout: ran.stdout.into(), stderr: ran.stderr.into(), exit: Exit::Code(ran.exit) }
                }
                Err(reason) => ExecResult { exit: Exit::Failed(reason), ..ExecResult::default() },
            }
        }
        .boxed()
    }

    fn log(&self, _pod: &Object, _container: &str) -> String {
        String::new()
    }
}

/// A control plane with control loops, a node and access rules, and a kubeconfig of its administrator.
async fn control_plane() -> (Server, Client) {
    let containers = Arc::new(Containers::default());
    let mut control_loops = loops::standard();
    control_loops.push(loops::node());
    let host = Host::start(Parts {
        config: control_plane::Config { authorization: Authorization::Rbac, ..control_plane::Config::default() },
        loops: control_loops,
        webhooks: Arc::new(Https),
        pods: Some(Arc::clone(&containers) as Arc<dyn PodExec>),
    });
    assert!(containers.host.set(host.clone()).is_ok());
    let mut tokens = Tokens::default();
    tokens.insert(TOKEN, User::service_account(NAMESPACE, NAME));
    let server = Server::start(host, Options { port: 0, tokens }).await.expect("a server");
    let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    (server, Client::try_from(config).expect("a client"))
}

/// The kubeconfig of the controller's service account.
fn write_kubeconfig(server: &Server, path: &Path) {
    let mut kubeconfig: Value = serde_yaml::from_str(server.kubeconfig()).expect("a kubeconfig");
    kubeconfig["users"][0]["user"] = json!({"token": TOKEN});
    std::fs::write(path, serde_yaml::to_string(&kubeconfig).expect("YAML")).expect("a file");
}

async fn apply(client: &Client, namespace: &str, object: &Value) {
    let kind = object["kind"].as_str().expect("a kind");
    let (group, version) = object["apiVersion"].as_str().and_then(|v| v.split_once('/')).unwrap_or(("", "v1"));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let name = object["metadata"]["name"].as_str().expect("a name");
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str().unwrap_or(namespace) {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let applied = api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await;
    applied.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
}

/// A port that was free a moment ago: the webhook's URL must be known before its server is started.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}

/// A controller that runs; killed when dropped.
struct Process {
    child: Child,
    stderr: tokio::io::Lines<BufReader<ChildStderr>>,
    health: SocketAddr,
    webhook: SocketAddr,
    /// What it has logged so far.
    log: Vec<String>,
}

impl Process {
    /// Starts the controller and waits until it says that it is ready.
    async fn start(kubeconfig: &Path, identity: &str) -> Self {
        let (health, webhook) = (free_port(), free_port());
        let mut child = Command::new(env!("CARGO_BIN_EXE_rewake-controller"))
            .args(["run", "--namespace", NAMESPACE, "--identity", identity])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--metrics-addr", &health.to_string(), "--webhook-addr", &webhook.to_string()])
            .args(["--webhook-url", &format!("https://{webhook}/validate")])
            .args(["--log-format", "json"])
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the controller starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut process = Self { child, stderr, health, webhook, log: Vec::new() };
        process.says("ready").await;
        process
    }

    /// Waits for a message in the log.
    async fn says(&mut self, message: &str) {
        let found = tokio::time::timeout(DEADLINE, async {
            while let Some(line) = self.stderr.next_line().await.expect("text") {
                let said = serde_json::from_str::<Value>(&line).is_ok_and(|l| l["fields"]["message"] == message);
                self.log.push(line);
                if said {
                    return true;
                }
            }
            false
        });
        if found.await != Ok(true) {
            panic!("the controller does not say {message:?}:\n{}", self.log.join("\n"));
        }
    }

    async fn get(&self, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(self.health).await.expect("a connection");
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    /// Asks it to end, and waits until it has.
    async fn stop(mut self) -> bool {
        let id = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().await.expect("kill");
        assert!(sent.success());
        let drained = async { while let Ok(Some(_)) = self.stderr.next_line().await {} };
        let (ended, ()) =
            tokio::time::timeout(DEADLINE, futures::future::join(self.child.wait(), drained)).await.expect("it ends");
        ended.expect("a status").success()
    }

    /// Waits until an object meets a condition, and shows the log if it does not.
    async fn sees<K>(&mut self, api: Api<K>, name: &str, what: &str, condition: impl Condition<K>) -> K
    where
        K: kube::Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
    {
        let log = &mut self.log;
        let stderr = &mut self.stderr;
        let reading = async {
            while let Ok(Some(line)) = stderr.next_line().await {
                log.push(line);
            }
            std::future::pending::<()>().await;
        };
        let met = tokio::select! {
            met = tokio::time::timeout(DEADLINE, await_condition(api, name, condition)) => met,
            () = reading => unreachable!("it waits for ever"),
        };
        match met {
            Ok(Ok(Some(object))) => object,
            other => panic!("{name} never was {what}: {other:?}\n{}", self.log.join("\n")),
        }
    }
}

fn configured(cluster: Option<&KubeDirectorCluster>) -> bool {
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    status.is_some_and(|status| status.state == ClusterState::Configured)
}

/// The API server calls the webhook server at this address.
fn calls(address: SocketAddr) -> impl Fn(Option<&MutatingWebhookConfiguration>) -> bool {
    let url = format!("https://{address}/validate");
    move |found| {
        let webhooks = found.and_then(|found| found.webhooks.as_ref());
        webhooks.is_some_and(|all| all.iter().all(|webhook| webhook.client_config.url.as_ref() == Some(&url)))
    }
}

/// Covers: KD-71, B41
#[tokio::test]
async fn the_installed_controller_brings_a_cluster_up_judges_requests_and_hands_over() {
    let (server, client) = control_plane().await;
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    write_kubeconfig(&server, &kubeconfig);

    let install = Install { namespace: NAMESPACE, image: "example.org/rewake-controller:1", replicas: 2 };
    for object in install.objects() {
        apply(&client, "", &object).await;
    }
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard"}, "provisioner": "provisioner.rewake.dev",
    });
    apply(&client, "", &class).await;
    apply(&client, "", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).await;
    // The certificate of another installation, as a restore brings it.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": WEBHOOK_SECRET},
        "stringData": {"ca.crt": "old", "tls.crt": "old", "tls.key": "old"},
    });
    apply(&client, "", &secret).await;

    let mut first = Process::start(&kubeconfig, "first").await;
    assert!(first.get("/readyz").await.starts_with("HTTP/1.0 200"));
    assert!(first.get("/healthz").await.starts_with("HTTP/1.0 200"));
    let secret = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(WEBHOOK_SECRET).await.expect("the Secret");
    assert!(secret.data.is_some_and(|data| data["tls.crt"].0.starts_with(b"-----BEGIN")), "it was renewed");
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let at_first = calls(first.webhook);
    first.sees(webhooks.clone(), WEBHOOK_CONFIGURATION, "there", at_first).await;

    let app: Value = serde_yaml::from_str(APP).expect("YAML");
    let cluster: Value = serde_yaml::from_str(CLUSTER).expect("YAML");
    let clusters: Api<KubeDirectorCluster> = Api::namespaced(client.clone(), "shop");
    let parsed: KubeDirectorCluster = serde_json::from_value(cluster.clone()).expect("a cluster");
    let refused = clusters.create(&PostParams::default(), &parsed).await.expect_err("there is no app yet");
    let refusal = refused.to_string();
    assert!(refusal.contains("admission webhook") && refusal.contains("grid"), "{refusal}");

    apply(&client, "shop", &app).await;
    apply(&client, "shop", &cluster).await;
    first.sees(clusters.clone(), "blue", "configured", configured).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "shop");
    let claims = claims.list(&ListParams::default()).await.expect("claims").items;
    assert_eq!(claims.len(), 3);
    for claim in claims {
        assert_eq!(claim.owner_references().len(), 1, "the webhook gave {} its owner", claim.name_any());
    }
    let metrics = first.get("/metrics").await;
    for line in [
        r#"rewake_controller_webhook_verdicts_total{resource="kubedirectorclusters",verdict="refused"} 1"#,
        "rewake_controller_leader 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }

    // A second replica stands by, and leads as soon as the first has ended.
    let mut second = Process::start(&kubeconfig, "second").await;
    assert!(second.get("/metrics").await.contains("rewake_controller_leader 0"));
    assert!(first.stop().await, "a stop is not a failure");
    second.says("leading").await;
    let at_second = calls(second.webhook);
    second.sees(webhooks, WEBHOOK_CONFIGURATION, "taken over", at_second).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = leases.get(NAME).await.expect("the lease").spec.expect("a spec");
    assert_eq!(lease.holder_identity.as_deref(), Some("second"));

    clusters.delete("blue", &kube::api::DeleteParams::default()).await.expect("a delete");
    let gone = |found: Option<&KubeDirectorCluster>| found.is_none();
    let ended = tokio::time::timeout(DEADLINE, await_condition(clusters, "blue", gone)).await;
    assert!(ended.is_ok_and(|ended| ended.is_ok()), "the new leader lets the cluster go");
    assert!(second.stop().await);
    let namespaces: Api<Namespace> = Api::all(client);
    assert!(namespaces.get("shop").await.is_ok());
    server.stop().await;
}
