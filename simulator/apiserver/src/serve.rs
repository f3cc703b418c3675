//! The shell for every other client: HTTP/1.1 and HTTP/2 on a loopback address, with or without TLS.

mod connection;

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::host::Host;
use crate::http::authenticate::Tokens;

/// Serves a host over plain HTTP until `stop` completes; open requests are then finished, watches ended.
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
