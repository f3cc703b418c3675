//! Renewal of the webhook certificate while it is being served.

use std::sync::Arc;
use std::time::Duration;

use rewake_controller::{Target, WebhookAddress};
use rustls::crypto::CryptoProvider;
use tokio::time::{Instant, sleep};

use super::certificates::{Keeper, Material};
use super::metrics::Metrics;
use super::queue::WorkQueue;
use super::server::Served;

/// Between two looks at the stored certificate.
const CHECK: Duration = Duration::from_secs(30);
/// Between two tries to get the first.
const RETRY: Duration = Duration::from_secs(2);
/// A new certificate is served this long after it was first seen: until then, every replica has seen it, and
/// the leader has told the API server of its authority. Both authorities are trusted meanwhile.
const DELAY: Duration = Duration::from_secs(90);

/// Keeps the served certificate and the published authorities up to date.
pub(super) struct Rotation {
    keeper: Keeper,
    url: Option<String>,
    provider: Arc<CryptoProvider>,
    served: Arc<Served>,
    metrics: Arc<Metrics>,
    queue: Arc<WorkQueue>,
}

impl Rotation {
    /// A rotation of the certificate `keeper` keeps, for a webhook reached at `url`, or by its Service.
    pub(super) fn new(
        keeper: Keeper,
        url: Option<String>,
        provider: Arc<CryptoProvider>,
        metrics: Arc<Metrics>,
        queue: Arc<WorkQueue>,
    ) -> Self {
        Self { keeper, url, provider, served: Arc::default(), metrics, queue }
    }

    /// What the TLS server serves.
    pub(super) fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served)
    }

    /// How the API server reaches a webhook that serves this certificate.
    pub(super) fn address(&self, material: &Material) -> Option<WebhookAddress> {
        Some(WebhookAddress { ca_bundle: Some(material.authorities.clone()), url: self.url.clone() })
    }

    /// Waits for a first certificate and serves it.
    pub(super) async fn first(&mut self) -> Material {
        loop {
            match self.keeper.ensure().await {
                Ok(material) => {
                    self.serve(&material);
                    return material;
                }
                Err(error) => tracing::warn!(%error, "no webhook certificate yet; trying again"),
            }
            sleep(RETRY).await;
        }
    }

    /// Looks for a new certificate from time to time; `publish` learns of its authorities before it is served.
    pub(super) async fn run(&mut self, first: Material, publish: impl Fn(Option<WebhookAddress>)) {
        let mut published = first;
        let mut waiting: Option<Instant> = None;
        loop {
            sleep(CHECK).await;
            match self.keeper.ensure().await {
                Ok(material) if material == published => {}
                Ok(material) => {
                    publish(self.address(&material));
                    // Only the leader has workers; for the others this is a note that nobody reads.
                    self.queue.add(Target::Installation, Duration::ZERO);
                    published = material;
                    waiting = Some(Instant::now() + DELAY);
                }
                Err(error) => tracing::warn!(%error, "failed to check the webhook certificate"),
            }
            if waiting.is_some_and(|due| due <= Instant::now()) {
                self.serve(&published);
                waiting = None;
            }
        }
    }

    fn serve(&self, material: &Material) {
        match material.certified_key(&self.provider) {
            Ok(key) => {
                self.served.exchange(key);
                self.metrics.certificate_loaded();
                tracing::info!("serving a webhook certificate");
            }
            // It was judged before; there is nothing better to serve.
            Err(error) => tracing::error!(%error, "the webhook certificate cannot be served"),
        }
    }
}
