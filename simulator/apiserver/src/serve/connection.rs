//! Connections: accept, authenticate each request, answer, finish on stop.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::error::ApiError;
use crate::host::{self, Body, Host};
use crate::http::authenticate::Tokens;
use crate::http::{self as wire, REQUEST_BYTES_MAX};

/// How long open requests may take to end after a stop; watches never end by themselves.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// A pause after `accept` failed for want of descriptors: an immediate retry would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    host: Host,
    tokens: Arc<Tokens>,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let stream = tokio::select! {
            () = &mut stop => break,
            Some(_ended) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        // Small answers must not wait for a full packet.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let (tls, host, tokens, watcher) = (tls.clone(), host.clone(), Arc::clone(&tokens), graceful.watcher());
        connections.spawn(async move {
            match tls {
                None => one(stream, host, tokens, watcher).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => one(stream, host, tokens, watcher).await,
                    Err(error) => tracing::debug!(%error, "TLS handshake failed"),
                },
            }
        });
    }
    drop(listener);
    // Whoever is still there after the grace is cut off: dropping the set aborts its tasks.
    let _cut_off = tokio::time::timeout(STOP_GRACE, graceful.shutdown()).await;
    Ok(())
}

/// Serves one connection to its end.
async fn one<S>(stream: S, host: Host, tokens: Arc<Tokens>, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (host, tokens) = (host.clone(), Arc::clone(&tokens));
        async move { Ok::<_, Infallible>(answer(&host, &tokens, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Many watches share one HTTP/2 connection; upstream allows 250 streams by default and clients
    // with more open a second connection, which plain loopback clients do not.
    builder.http2().max_concurrent_streams(5_000);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(host: &Host, tokens: &Tokens, request: Request<Incoming>) -> http::Response<Body> {
    let (parts, body) = request.into_parts();
    let user = match tokens.authenticate(&parts.headers) {
        Ok(user) => user,
        Err(error) => return wire::refusal(&parts, &error).map(host::full),
    };
    let bytes = match Limited::new(body, REQUEST_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return wire::refusal(&parts, &wire::too_large()).map(host::full);
        }
        // The client broke off in the middle of its body: nobody reads the answer, and half a body is
        // not to be taken for a whole one.
        Err(error) => {
            let error = ApiError::bad_request(format!("unable to read the request body: {error}"));
            return wire::refusal(&parts, &error).map(host::full);
        }
    };
    host::answer(host, &user, Request::from_parts(parts, bytes)).await
}
