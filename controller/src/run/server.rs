//! The two servers: the webhook over HTTPS, and health and metrics over plain HTTP.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rewake_controller::Controller;
use rewake_controller::names::WEBHOOK_PATH;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use super::metrics::Metrics;
use super::queue::WorkQueue;

/// Largest AdmissionReview that is read. The API server takes objects of up to 3 MiB, and a review may hold two,
/// but no object of ours comes near that.
const REVIEW_MIB_MAX: usize = 3;
/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 512;
/// A client that needs longer for its handshake, or for the head of a request, is let go.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long open requests may take after a stop: as long as the API server waits for a webhook.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The certificate being served. It may be exchanged at any time; open connections keep theirs.
#[derive(Debug, Default)]
pub(super) struct Served {
    key: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Served {
    pub(super) fn exchange(&self, key: CertifiedKey) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the webhook server answers with.
#[derive(Clone)]
pub(super) struct Webhook {
    pub(super) controller: watch::Receiver<Controller>,
    pub(super) metrics: Arc<Metrics>,
}

/// Serves the webhook until `stop` completes; open requests are then finished.
pub(super) async fn serve_webhook(
    listener: TcpListener,
    served: Arc<Served>,
    provider: Arc<CryptoProvider>,
    webhook: Webhook,
    stop: impl Future<Output = ()>,
) -> Result<(), rustls::Error> {
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(served);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let service = TowerToHyperService::new(Router::new().route(WEBHOOK_PATH, post(review)).with_state(webhook));
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, stream) = tokio::select! {
            () = &mut stop => break,
            (permit, accepted) = accepted => match accepted {
                Ok((stream, _)) => (permit, stream),
                Err(error) => {
                    // For want of descriptors, as a rule: an immediate retry would spin.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (acceptor, service, watcher) = (acceptor.clone(), service.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _permit = permit;
            let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_elapsed) => return tracing::debug!("TLS handshake took too long"),
            };
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(PATIENCE));
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(%error, "a connection to the webhook ended badly");
            }
        });
    }
    drop(listener);
    if timeout(STOP_GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("open webhook requests were cut off");
    }
    Ok(())
}

/// Answers one AdmissionReview.
async fn review(State(webhook): State<Webhook>, request: Request) -> Response {
    let begun = Instant::now();
    let Ok(body) = timeout(PATIENCE, read(request.into_body())).await else {
        return (StatusCode::REQUEST_TIMEOUT, "the AdmissionReview did not arrive in time\n").into_response();
    };
    let review = match body {
        Ok(review) => review,
        Err(refusal) => return refusal,
    };
    let controller = webhook.controller.borrow().clone();
    let answer = controller.admit(&review).await;
    webhook.metrics.judged(&review, &answer, begun.elapsed());
    axum::Json(answer).into_response()
}

async fn read(body: Body) -> Result<Value, Response> {
    let bytes = axum::body::to_bytes(body, REVIEW_MIB_MAX << 20).await.map_err(|error| {
        let reason = format!("the AdmissionReview cannot be read, or is larger than {REVIEW_MIB_MAX} MiB: {error}\n");
        (StatusCode::PAYLOAD_TOO_LARGE, reason).into_response()
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        (StatusCode::BAD_REQUEST, format!("the AdmissionReview is not JSON: {error}\n")).into_response()
    })
}

/// Whether the process is fit for work.
#[derive(Debug, Default)]
pub(super) struct Readiness(AtomicBool);

impl Readiness {
    pub(super) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the plain server tells of.
#[derive(Clone)]
pub(super) struct Health {
    pub(super) ready: Arc<Readiness>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) queue: Arc<WorkQueue>,
}

/// Serves `/healthz`, `/readyz` and `/metrics` until `stop` completes.
pub(super) async fn serve_health(
    listener: TcpListener,
    health: Health,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn ready(State(health): State<Health>) -> Response {
    match health.ready.get() {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

async fn metrics(State(health): State<Health>) -> Response {
    match health.metrics.encode(health.queue.depth()) {
        Ok(text) => {
            let content = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, content)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
