//! `rewake-controller run`: the controller as a process.
//!
//! ```text
//! every replica:  certificates -> webhook server (HTTPS)        health and metrics (HTTP)
//! the leader:     watches -> index -> queue -> workers -> Controller::reconcile
//! ```
//!
//! What to do about a cluster is decided in the library; here is only when, how often, and by whom.

mod certificates;
mod connect;
mod leader;
mod metrics;
mod queue;
mod rotation;
mod server;
mod stop;
mod watches;
mod workers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use std::hash::{BuildHasher, RandomState};

use anyhow::Context as _;
use kube::Client;
use rewake_controller::guest::ExecGuest;
use rewake_controller::{Controller, Safeguards, Settings, names};
use rustls::crypto::CryptoProvider;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use certificates::Keeper;
use leader::Election;
use metrics::Metrics;
use queue::WorkQueue;
use rotation::Rotation;
use server::{Health, Readiness, Webhook};
use stop::Stop;
use workers::Work;

/// What `run` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Kubeconfig file. Default: $KUBECONFIG or ~/.kube/config; in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The controller's own namespace: KubeDirectorConfig, `system` apps, lease and certificate live there.
    /// Default: the pod's, or the context's
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Unique name among the replicas. Default: a random one
    #[arg(long, env = "POD_NAME", value_name = "NAME", hide_env_values = true)]
    identity: Option<String>,
    /// Look at every cluster again after this many seconds, whether or not a watch told of a change
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    resync: u64,
    /// Where /healthz, /readyz and /metrics are served, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    metrics_addr: SocketAddr,
    /// Where the admission webhook is served, over HTTPS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
    webhook_addr: SocketAddr,
    /// How the API server reaches the webhook, when not by the Service: https://HOST:PORT/validate. Outside of
    /// a pod no webhook is served without it
    #[arg(long, value_name = "URL", value_parser = https_url)]
    webhook_url: Option<http::Uri>,
    /// Reconcile without holding a lease. Two controllers at a time do no good
    #[arg(long)]
    no_leader_election: bool,
    /// Switch a safeguard off, to show the harm it prevents
    #[arg(long, value_name = "SAFEGUARD", hide = true)]
    without: Vec<String>,
}

fn https_url(text: &str) -> Result<http::Uri, String> {
    let url: http::Uri = text.parse().map_err(|error| format!("{error}"))?;
    if url.scheme_str() != Some("https") || url.host().is_none() {
        return Err("the API server calls webhooks by https://HOST[:PORT]/PATH only".to_owned());
    }
    if url.path() != names::WEBHOOK_PATH || url.query().is_some() {
        return Err(format!("the webhook is served at the path {}", names::WEBHOOK_PATH));
    }
    Ok(url)
}

/// Runs until a signal, or until the lease is lost.
///
/// # Errors
/// The API server cannot be reached, an address is taken, the certificate cannot be kept, the lease was lost.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Should somebody have been faster, then with the same one: there is no other in this program.
    let _already = CryptoProvider::install_default((*provider).clone());
    let stop = stop::on_signal().context("failed to listen for signals")?;
    let reached = connect::connect(options.kubeconfig.as_deref(), options.context.as_deref()).await?;
    let client = reached.client;
    let namespace = options.namespace.clone().unwrap_or(reached.default_namespace);
    let settings = settings(&options, &namespace)?;

    let metrics = Arc::new(Metrics::new());
    let queue = Arc::new(WorkQueue::new());
    let ready = Arc::new(Readiness::default());
    let (close, closing) = stop::channel();
    let mut servers: JoinSet<anyhow::Result<()>> = JoinSet::new();

    let listener = bind(options.metrics_addr).await?;
    let health = Health { ready: Arc::clone(&ready), metrics: Arc::clone(&metrics), queue: Arc::clone(&queue) };
    let closed = closing.clone().requested();
    servers.spawn(async move { Ok(server::serve_health(listener, health, closed).await?) });

    let controllers = if reached.in_cluster || options.webhook_url.is_some() {
        let listener = bind(options.webhook_addr).await?;
        let names = server_names(&namespace, options.webhook_url.as_ref());
        let keeper = Keeper::new(client.clone(), &namespace, names, Arc::clone(&provider));
        let url = options.webhook_url.as_ref().map(ToString::to_string);
        let mut rotation = Rotation::new(keeper, url, Arc::clone(&provider), Arc::clone(&metrics), Arc::clone(&queue));
        let Some(material) = stop.unless(rotation.first()).await else { return Ok(()) };
        let controller = new_controller(&client, Settings { webhook: rotation.address(&material), ..settings });
        let (sender, controllers) = watch::channel(controller);
        let webhook = Webhook { controller: controllers.clone(), metrics: Arc::clone(&metrics) };
        let (served, closed) = (rotation.served(), closing.clone().requested());
        servers.spawn(async move { Ok(server::serve_webhook(listener, served, provider, webhook, closed).await?) });
        let client = client.clone();
        servers.spawn(async move {
            let publish = |webhook| {
                let settings = Settings { webhook, ..sender.borrow().settings().clone() };
                sender.send_replace(new_controller(&client, settings));
            };
            closing.unless(rotation.run(material, publish)).await;
            Ok(())
        });
        controllers
    } else {
        tracing::warn!("no webhook is served: outside of a pod, --webhook-url says how the API server reaches it");
        watch::channel(new_controller(&client, settings)).1
    };
    ready.set(true);
    tracing::info!(namespace, metrics = %options.metrics_addr, "ready");

    let work = Work { client: client.clone(), controllers, queue, metrics: Arc::clone(&metrics), stop: stop.clone() };
    let identity = options.identity.unwrap_or_else(random_identity);
    let election = (!options.no_leader_election).then(|| Election::new(client, &namespace, identity));
    let ended = tokio::select! {
        ended = lead(work, election, &metrics, &stop) => ended,
        Some(server) = servers.join_next() => Err(match server {
            Ok(Ok(())) => anyhow::anyhow!("a server ended by itself"),
            Ok(Err(error)) => error.context("a server broke down"),
            Err(error) => anyhow::Error::new(error).context("a server broke down"),
        }),
    };
    ready.set(false);
    close.now();
    while servers.join_next().await.is_some() {}
    ended
}

/// Works, as soon as and for as long as this replica leads.
async fn lead(work: Work, election: Option<Election>, metrics: &Metrics, stop: &Stop) -> anyhow::Result<()> {
    let Some(mut election) = election else {
        metrics.leads(true);
        work.run().await;
        return Ok(());
    };
    if stop.unless(election.win()).await.is_none() {
        return Ok(());
    }
    tracing::info!(identity = election.identity(), "leading");
    metrics.leads(true);
    tokio::select! {
        () = work.run() => {}
        // The work is dropped where it stands: every write has its preconditions.
        lost = election.hold() => return Err(lost.into()),
    }
    metrics.leads(false);
    election.release().await;
    Ok(())
}

fn settings(options: &Options, namespace: &str) -> anyhow::Result<Settings> {
    let mut safeguards = Safeguards::default();
    for name in &options.without {
        safeguards.remove(name)?;
        tracing::warn!(safeguard = name, "a safeguard is off");
    }
    Ok(Settings { resync: Duration::from_secs(options.resync), safeguards, ..Settings::new(namespace) })
}

fn new_controller(client: &Client, settings: Settings) -> Controller {
    Controller::new(client.clone(), ExecGuest::new(client.clone()), settings)
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("failed to listen on {address}"))
}

/// What the API server may call the webhook server.
fn server_names(namespace: &str, url: Option<&http::Uri>) -> Vec<String> {
    let mut names = vec![format!("{}.{namespace}.svc", names::WEBHOOK_SERVICE)];
    if let Some(host) = url.and_then(http::Uri::host) {
        names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        // An IPv6 address stands in brackets in a URL, and nowhere else.
        let host = host.trim_matches(['[', ']']).to_owned();
        if !names.contains(&host) {
            names.push(host);
        }
    }
    names
}

fn random_identity() -> String {
    format!("rewake-controller-{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_url_that_no_api_server_would_call_is_refused() {
        for (url, good) in [
            ("https://127.0.0.1:8443/validate", true),
            ("https://[::1]:8443/validate", true),
            ("http://127.0.0.1:8443/validate", false),
            ("https://example.org/", false),
            ("/validate", false),
            ("https://example.org/validate?x=1", false),
        ] {
            assert_eq!(https_url(url).is_ok(), good, "{url}");
        }
        let url = https_url("https://[::1]:8443/validate").expect("good");
        assert_eq!(server_names("kd", Some(&url)), ["kubedirector-validator.kd.svc", "localhost", "127.0.0.1", "::1"]);
        assert_eq!(server_names("kd", None), ["kubedirector-validator.kd.svc"]);
    }
}
