//! `rewake serve`, and `--hold` of scenarios: a control plane over HTTPS.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use rewake_apiserver::Cluster;
use rewake_apiserver::control_plane::{Config, WebhookAnswer};
use rewake_apiserver::guest::Guests;
use rewake_apiserver::host::{Core, Host, InProcess};
use rewake_apiserver::http::authenticate::Tokens;
use rewake_apiserver::http::connect::{ExecRequest, ExecResult, Exit, PodExec};
use rewake_apiserver::object::{Object, ObjectExt};
use rewake_apiserver::serve::{Options as ServeOptions, Server};

use super::BadInput;
use crate::scenario::Scenario;
use crate::scenario::run::{Options, run as run_scenario};
use crate::suite::{Case, Plan, safeguard_off};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Writes the kubeconfig here, readable by its owner only; otherwise it is printed.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Tokens beside the one in the kubeconfig: lines of `token,user,uid,"group,group"`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Which control loops run: `*`, `none`, or names with a `-` before those left out.
    #[arg(long, default_value = "*", value_name = "NAMES")]
    controllers: String,
    /// Runs pods on a node stand-in.
    #[arg(long, default_value = "on", value_parser = ["on", "off"])]
    node: String,
    /// Seed of uids and generated names.
    #[arg(long, default_value_t = crate::suite::SEED_DEFAULT)]
    seed: u64,
}

/// Containers of the node stand-in, as `exec` reaches them.
struct Containers {
    guests: Arc<Mutex<Guests>>,
    host: Arc<OnceLock<Host>>,
}

impl PodExec for Containers {
    fn exec(&self, command: ExecRequest) -> BoxFuture<'static, ExecResult> {
        let (guests, host) = (Arc::clone(&self.guests), Arc::clone(&self.host));
        async move {
            let Some(host) = host.get() else { return ExecResult::default() };
            let (namespace, name) = (command.pod.namespace(), command.pod.name());
            let outcome = host.with(|plane, _now| {
                let mut guests = guests.lock().unwrap_or_else(PoisonError::into_inner);
                guests.exec(&plane.view(), namespace, name, &command.container, &command.argv, &command.stdin)
            });
            match outcome {
                Ok(result) => ExecResult {
                    stdout: result.stdout.into(),
                    stderr: result.stderr.into(),
                    exit: Exit::Code(result.exit),
                },
                Err(why) => ExecResult { exit: Exit::Failed(why), ..ExecResult::default() },
            }
        }
        .boxed()
    }

    fn log(&self, _pod: &Object, _container: &str) -> String {
        // Nothing is executed, so nothing is printed.
        String::new()
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let tokens = match &arguments.token_file {
        None => Tokens::default(),
        Some(path) => {
            let text =
                std::fs::read_to_string(path).map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
            Tokens::parse(&text).map_err(|error| BadInput(format!("{}: {error}", path.display())))?
        }
    };
    let loops = rewake_apiserver::loops::select(&arguments.controllers).map_err(|error| BadInput(error.to_string()))?;
    crate::suite::runtime().block_on(async {
        let host_cell = Arc::new(OnceLock::new());
        let containers = Containers { guests: Arc::default(), host: Arc::clone(&host_cell) };
        let cluster = Cluster::builder()
            .config(Config { seed: arguments.seed, ..Config::default() })
            .loops(loops)
            .node(arguments.node == "on")
            .pods(Arc::new(containers))
            .start();
        let _ = host_cell.set(cluster.host().clone());
        serve(cluster.host().clone(), arguments.port, tokens, arguments.kubeconfig.as_ref()).await
    })
}

/// Runs a scenario up to a step (or to its end) and keeps its cluster up.
pub(super) fn hold(scenario: &Scenario, case: &Case, plan: &Plan, step: Option<usize>) -> anyhow::Result<bool> {
    if let Some(step) = step.filter(|step| *step >= scenario.steps.len()) {
        let message = format!("{} has {} steps; there is no step {}", scenario.name, scenario.steps.len(), step + 1);
        return Err(BadInput(message).into());
    }
    crate::suite::runtime().block_on(async {
        let world = crate::cluster::with_controller(plan.seed, safeguard_off(scenario, case)).await;
        let options = Options { profile: plan.profile, variant: case.variant, hold_before: step, only_steps: true };
        let outcome = run_scenario(scenario, world, &options).await;
        for failure in &outcome.failures {
            println!("{failure}");
        }
        let (plane, now, guests) = {
            let kernel = outcome.world.api().kernel();
            (kernel.plane.clone(), kernel.now, kernel.guests.clone())
        };
        let host_cell: Arc<OnceLock<Host>> = Arc::default();
        let containers = Containers { guests: Arc::new(Mutex::new(guests)), host: Arc::clone(&host_cell) };
        let webhooks = webhooks(&outcome.world);
        let host = Host::resume(plane, now, Arc::new(webhooks), Some(Arc::new(containers)));
        let _ = host_cell.set(host.clone());
        match step {
            Some(step) => println!("{} stands before step {}; its clock says {now:.0}", scenario.name, step + 1),
            None => println!("{} has ended; its clock says {now:.0}", scenario.name),
        }
        println!("control loops and the controller's webhook run on; the controller itself is stopped");
        serve(host, 0, Tokens::default(), None).await
    })
}

/// The controller's webhook goes on answering, from what it reads in the scenario's own cluster.
fn webhooks(world: &crate::World) -> InProcess {
    let mut webhooks = InProcess::default();
    for (service, handler) in world.webhook_endpoints() {
        let address = format!("{}/{}", service.0, service.1);
        let answer = move |review: bytes::Bytes| -> BoxFuture<'static, WebhookAnswer> {
            let handler = Arc::clone(&handler);
            async move {
                let body = handler.review(review).await;
                WebhookAnswer::Http { code: 200, content_type: "application/json".to_owned(), body }
            }
            .boxed()
        };
        webhooks.insert(&address, Arc::new(answer));
    }
    webhooks
}

/// Serves until Ctrl-C.
async fn serve(host: Host, port: u16, tokens: Tokens, kubeconfig: Option<&PathBuf>) -> anyhow::Result<bool> {
    let server = Server::start(host, ServeOptions { port, tokens }).await?;
    // A held cluster is looked at with kubectl, which wants a file.
    let scratch = tempfile::Builder::new().prefix("rewake-").suffix(".kubeconfig").tempfile()?;
    let path = kubeconfig.cloned().unwrap_or_else(|| scratch.path().to_owned());
    server.write_kubeconfig(&path)?;
    println!("serving https://{}", server.address());
    println!("export KUBECONFIG={}", path.display());
    println!("kubectl get all -A   # Ctrl-C ends it");
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(true)
}
