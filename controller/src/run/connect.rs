//! Finding the API server.

use std::path::Path;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// An API server, and how it was found.
pub(super) struct Reached {
    pub(super) client: Client,
    /// The pod's namespace, or the context's.
    pub(super) default_namespace: String,
    /// As a pod, by its service account.
    pub(super) in_cluster: bool,
}

/// Reaches the API server as kubectl would: by flags, by $KUBECONFIG or ~/.kube/config, as a pod.
///
/// # Errors
/// There is no such file or context, or nothing to go by.
pub(super) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Reached> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let (config, in_cluster) = match kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file).with_context(|| format!("failed to read {}", file.display()))?;
            let config = Config::from_custom_kubeconfig(read, &options).await;
            (config.with_context(|| format!("failed to use {}", file.display()))?, false)
        }
        None if context.is_some() => {
            (Config::from_kubeconfig(&options).await.context("failed to use the kubeconfig")?, false)
        }
        None if is_pod() => (Config::incluster().context("failed to use the pod's service account")?, true),
        None => (Config::infer().await.context("found neither a kubeconfig nor a service account")?, false),
    };
    tracing::info!(server = %config.cluster_url, in_cluster, "using this API server");
    let default_namespace = config.default_namespace.clone();
    let client = Client::try_from(config).context("failed to set up the client")?;
    Ok(Reached { client, default_namespace, in_cluster })
}

/// Whether the kubelet started us: it says where the API server is, and nobody gave a kubeconfig.
fn is_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && std::env::var_os("KUBECONFIG").is_none()
}
