//! The shell for Rust tests: a control plane behind a [`kube::Client`], without ports.
//!
//! ```no_run
//! # async fn example() -> Result<(), kube::Error> {
//! use kube::Api;
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! let cluster = rewake_apiserver::Cluster::start();
//! let namespaces: Api<Namespace> = Api::all(cluster.client());
//! assert!(namespaces.get_opt("default").await?.is_some());
//! # Ok(())
//! # }
//! ```

pub mod service;

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;

use crate::control_plane::{Config, WebhookAnswer};
use crate::host::webhooks::InProcess;
use crate::host::{Host, Parts};
use crate::http::connect::PodExec;
use crate::loops::{self, ControlLoop};
use crate::request::User;

/// A running control plane. Clones share it; it ends with the last clone and the last client.
#[derive(Clone)]
pub struct Cluster {
    host: Host,
}

/// Settings of a [`Cluster`].
pub struct Builder {
    config: Config,
    loops: Vec<Box<dyn ControlLoop>>,
    node: bool,
    webhooks: InProcess,
    pods: Option<Arc<dyn PodExec>>,
}

impl Cluster {
    /// A cluster with every standard control loop and the node stand-in.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A cluster to be set up.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            config: Config::default(),
            loops: loops::standard(),
            node: true,
            webhooks: InProcess::default(),
            pods: None,
        }
    }

    /// A client of a user in `system:masters`.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin("kubernetes-admin"))
    }

    /// A client of any user. Access rules are asked only where the settings say so.
    #[must_use]
    pub fn client_as(&self, user: User) -> kube::Client {
        service::client(self.host.clone(), user)
    }

    /// The control plane in real time.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }
}

impl Builder {
    /// Settings of the control plane.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The control loops to run instead of the standard ones.
    #[must_use]
    pub fn loops(mut self, loops: Vec<Box<dyn ControlLoop>>) -> Self {
        self.loops = loops;
        self
    }

    /// With or without the node stand-in, which runs pods.
    #[must_use]
    pub fn node(mut self, node: bool) -> Self {
        self.node = node;
        self
    }

    /// Lets a function answer the reviews that are sent to a service (`NAMESPACE/NAME`) or to a URL. It
    /// gets and gives JSON bytes.
    #[must_use]
    pub fn webhook<F, A>(mut self, address: &str, handler: F) -> Self
    where
        F: Fn(Bytes) -> A + Send + Sync + 'static,
        A: Future<Output = Bytes> + Send + 'static,
    {
        let handler = move |review: Bytes| {
            handler(review)
                .map(|body| WebhookAnswer::Http { code: 200, content_type: "application/json".to_owned(), body })
                .boxed()
        };
        self.webhooks.insert(address, Arc::new(handler));
        self
    }

    /// Who runs commands in containers.
    #[must_use]
    pub fn pods(mut self, pods: Arc<dyn PodExec>) -> Self {
        self.pods = Some(pods);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(self) -> Cluster {
        let mut loops = self.loops;
        if self.node {
            loops.push(loops::node());
        }
        let parts = Parts { config: self.config, loops, webhooks: Arc::new(self.webhooks), pods: self.pods };
        Cluster { host: Host::start(parts) }
    }
}
