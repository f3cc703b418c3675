//! The controller as a program.

mod run;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Looks after KubeDirector's clusters, and brings them through restores of backups.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller, in a cluster or by a kubeconfig
    Run(Box<RunArguments>),
    /// Print what a cluster needs to run the controller: rewake-controller manifests | kubectl apply -f -
    Manifests(ManifestArguments),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    #[command(flatten)]
    options: run::Options,
    /// What is logged: error, warn, info, debug, trace, or a filter like rewake_controller=debug,kube=info
    #[arg(long, env = "RUST_LOG", value_name = "LEVEL", default_value = "info")]
    log: String,
    /// How it is logged, to standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, clap::Args)]
struct ManifestArguments {
    /// Namespace of the controller
    #[arg(long, default_value = "kubedirector")]
    namespace: String,
    /// Its image
    #[arg(long, default_value = concat!("rewake-controller:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// How many replicas: one works, the others stand by and serve the webhook
    #[arg(long, default_value_t = 2)]
    replicas: u32,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => start(*arguments),
        Command::Manifests(arguments) => print(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // What went wrong is worth a line of its own even when nothing is logged.
            let _stderr_closed = writeln!(std::io::stderr(), "rewake-controller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: RunArguments) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&arguments.log)?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run::run(arguments.options))
}

fn print(arguments: &ManifestArguments) -> anyhow::Result<()> {
    let install = rewake_controller::manifests::Install {
        namespace: &arguments.namespace,
        image: &arguments.image,
        replicas: arguments.replicas,
    };
    let text = install.yaml()?;
    match std::io::stdout().write_all(text.as_bytes()) {
        // `| head` has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
