//! The shell for every other client: HTTPS on a loopback address, HTTP/1.1 and HTTP/2, with a kubeconfig.
//!
//! The authority, the certificate and the token are made at start and live as long as the server.

mod certificate;
mod connection;
mod kubeconfig;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::host::Host;
use crate::http::authenticate::Tokens;
use crate::request::User;

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had, or the connection to it fails.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
    /// The kubeconfig cannot be written.
    #[error("cannot write {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Settings of a [`Server`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Tokens beside the one in the kubeconfig.
    pub tokens: Tokens,
}

/// A running server; dropping it stops it at once.
pub struct Server {
    address: SocketAddr,
    kubeconfig: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Starts a server for a host.
    ///
    /// # Errors
    /// When the port is taken or no certificate can be made.
    pub async fn start(host: Host, options: Options) -> Result<Self, ServeError> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listen = |source| ServeError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let identity = certificate::Identity::make()?;
        let token = certificate::token()?;
        let mut tokens = options.tokens;
        tokens.insert(&token, User::admin("kubernetes-admin"));
        let kubeconfig = kubeconfig::text(address, &identity.authority_pem, &token);
        let (stop, stopped) = oneshot::channel();
        let tls = TlsAcceptor::from(Arc::new(identity.server_config));
        let task = tokio::spawn(connection::serve(listener, Some(tls), host, Arc::new(tokens), async {
            // A sender that was dropped stops the server too.
            let _dropped = stopped.await;
        }));
        Ok(Self { address, kubeconfig, stop: Some(stop), task })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig of a user in `system:masters`.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Writes the kubeconfig so that only its owner can read it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), ServeError> {
        kubeconfig::write(path, &self.kubeconfig)
            .map_err(|source| ServeError::Kubeconfig { path: path.to_owned(), source })
    }

    /// Stops: open requests are finished, watches are cut off.
    pub async fn stop(mut self) {
        self.stop.take();
        // What went wrong with a listener that is being closed is of no use to anybody.
        let _ended = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves a host over plain HTTP until `stop` completes; open requests are then finished, watches cut off.
///
/// # Errors
/// When the listener fails.
pub async fn serve_http(
    listener: TcpListener,
    host: Host,
    tokens: Tokens,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    connection::serve(listener, None, host, Arc::new(tokens), stop).await
}
