//! A control plane as the tower service that a [`kube::Client`] sends its requests to.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::UPGRADE;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body as ClientBody;
use tower::BoxError;

use crate::host::{self, Body, Host};
use crate::request::User;

/// Bytes that an upgraded connection holds on its way.
const PIPE_BYTES: usize = 64 * 1024;

/// Whatever answers HTTP requests of authenticated users: a [`Host`], or a simulator with its own time.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Answers a request.
    fn send(&self, request: http::Request<Bytes>, user: User) -> BoxFuture<'static, http::Response<Body>>;
}

impl Backend for Host {
    fn send(&self, request: http::Request<Bytes>, user: User) -> BoxFuture<'static, http::Response<Body>> {
        let host = self.clone();
        async move { host::answer(&host, &user, request).await }.boxed()
    }
}

/// A client of `user`, whose default namespace is `default`.
///
/// # Panics
/// Outside of a tokio runtime.
#[must_use]
pub fn client<B: Backend>(backend: B, user: User) -> kube::Client {
    kube::Client::new(ApiService { backend, user }, "default")
}

/// The service.
#[derive(Clone)]
pub struct ApiService<B> {
    /// Who answers.
    pub backend: B,
    /// Who asks.
    pub user: User,
}

/// The body of an answer, as the client reads it.
pub type ServiceBody = UnsyncBoxBody<Bytes, BoxError>;

impl<B: Backend> tower::Service<http::Request<ClientBody>> for ApiService<B> {
    type Response = http::Response<ServiceBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<ClientBody>) -> Self::Future {
        let Self { backend, user } = self.clone();
        async move {
            if request.headers().contains_key(UPGRADE) {
                return upgrade(backend, user, request).await;
            }
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let response = backend.send(http::Request::from_parts(parts, bytes), user).await;
            Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        }
        .boxed()
    }
}

/// A request that goes on as a conversation (`exec`) needs a connection to take over: a pipe in memory
/// with HTTP on both ends.
async fn upgrade<B: Backend>(
    backend: B,
    user: User,
    request: http::Request<ClientBody>,
) -> Result<http::Response<ServiceBody>, BoxError> {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (backend, user) = (backend.clone(), user.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok::<_, Infallible>(backend.send(http::Request::from_parts(parts, bytes), user).await)
        }
    });
    let server = hyper::server::conn::http1::Builder::new();
    tokio::spawn(server.serve_connection(TokioIo::new(far), service).with_upgrades());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}
