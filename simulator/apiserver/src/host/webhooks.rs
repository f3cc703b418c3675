//! Calling webhooks: by function in the same process, or over HTTPS.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::control_plane::{WebhookAnswer, WebhookCall};

/// Bytes of a webhook's answer that are read (`maxReviewBytes` upstream follows the request limit).
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whoever calls webhooks.
pub trait CallWebhook: Send + Sync {
    /// Makes the call; ends within the time that the call allows.
    fn call(&self, call: WebhookCall) -> BoxFuture<'static, WebhookAnswer>;
}

/// A webhook in this process: an `AdmissionReview` (or `ConversionReview`) in, the same kind out.
pub type Handler = Arc<dyn Fn(Bytes) -> BoxFuture<'static, WebhookAnswer> + Send + Sync>;

/// Webhooks in this process by address, and HTTPS for all others.
#[derive(Default)]
pub struct InProcess {
    /// By `NAMESPACE/NAME` of a service, or by URL without query.
    handlers: BTreeMap<String, Handler>,
    others: Https,
}

impl InProcess {
    /// Lets `handler` answer what is sent to a service (`NAMESPACE/NAME`) or to a URL.
    pub fn insert(&mut self, address: &str, handler: Handler) {
        self.handlers.insert(address.to_owned(), handler);
    }

    fn find(&self, call: &WebhookCall) -> Option<&Handler> {
        let config = &call.client_config;
        if let Some(url) = config["url"].as_str() {
            return self.handlers.get(url);
        }
        let (namespace, name) = (config["service"]["namespace"].as_str()?, config["service"]["name"].as_str()?);
        self.handlers.get(&format!("{namespace}/{name}"))
    }
}

impl CallWebhook for InProcess {
    fn call(&self, call: WebhookCall) -> BoxFuture<'static, WebhookAnswer> {
        let Some(handler) = self.find(&call) else { return self.others.call(call) };
        let timeout = timeout(&call);
        let answer = handler(call.body);
        async move { tokio::time::timeout(timeout, answer).await.unwrap_or(WebhookAnswer::TimedOut) }.boxed()
    }
}

/// Webhooks over HTTPS. Services are not resolved: there is no network in which they could be reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Https;

impl CallWebhook for Https {
    fn call(&self, call: WebhookCall) -> BoxFuture<'static, WebhookAnswer> {
        let timeout = timeout(&call);
        async move {
            match tokio::time::timeout(timeout, post(&call)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(sentence)) => WebhookAnswer::Failed(sentence),
                Err(_) => WebhookAnswer::TimedOut,
            }
        }
        .boxed()
    }
}

fn timeout(call: &WebhookCall) -> Duration {
    Duration::from_secs(u64::from(call.timeout_seconds.clamp(1, 30)))
}

/// Sends the review. Errors are sentences as Go's HTTP client words them.
async fn post(call: &WebhookCall) -> Result<WebhookAnswer, String> {
    let url = url::Url::parse(&call.url).map_err(|error| error.to_string())?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    if call.client_config["url"].is_null() {
        return Err(format!("dial tcp: lookup {host}: no such host"));
    }
    let stream =
        TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(|error| dial(&host, port, &error))?;
    // A review is one small request: waiting to fill a packet only costs time.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(client_config(&call.client_config)?));
    let stream = connector.connect(name, stream).await.map_err(|error| tls(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| closed(&error))?;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let request = http::Request::post(target)
        .header(HOST, format!("{host}:{port}"))
        .header(CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json, */*")
        .header(http::header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(call.body.clone()))
        .map_err(|error| error.to_string())?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|error| closed(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| "unexpected EOF".to_owned())?;
        let content_type =
            parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        Ok(WebhookAnswer::Http { code: parts.status.as_u16(), content_type, body: body.to_bytes() })
    };
    // The connection moves bytes only while it is polled; it ends with the exchange.
    let connection = async move {
        let _closed = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        answer = exchange => answer,
        () = connection => Err("EOF".to_owned()),
    }
}

fn client_config(client_config: &serde_json::Value) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let mut trusted = Vec::new();
    let bundle = client_config["caBundle"].as_str().unwrap_or_default();
    let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
    for certificate in CertificateDer::pem_slice_iter(&pem).flatten() {
        // Certificates that cannot be used as roots trust nobody, as in Go.
        let _unusable = roots.add(certificate.clone());
        trusted.push(certificate);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if roots.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let verifier = BundleVerifier { chains, trusted };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Trusts what chains up to the bundle and, as Go does, a certificate of the bundle itself: a
/// self-signed one that calls itself an authority is what most webhooks come with.
#[derive(Debug)]
struct BundleVerifier {
    chains: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chained = self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match chained {
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.trusted.iter().any(|trusted| trusted == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

fn dial(host: &str, port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
        io::ErrorKind::HostUnreachable => format!("dial tcp {host}:{port}: connect: no route to host"),
        io::ErrorKind::TimedOut => format!("dial tcp {host}:{port}: i/o timeout"),
        _ if host.parse::<std::net::IpAddr>().is_err() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {host}:{port}: connect: {error}"),
    }
}

fn tls(error: &io::Error) -> String {
    use rustls::Error;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        // Go's client names nothing else for what does not chain up to the bundle.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_))) => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::Expired)) => {
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid".to_owned()
        }
        Some(other) => format!("tls: failed to verify certificate: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

fn closed(error: &hyper::Error) -> String {
    use std::error::Error;
    // Closing a connection without TLS's own goodbye is an error to rustls, not to Go.
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let cut_off = source.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
    if cut_off || error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "EOF".to_owned()
    } else {
        error.to_string()
    }
}
