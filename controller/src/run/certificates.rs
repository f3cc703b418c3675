//! The webhook server's certificate: made here, shared by the replicas through a Secret, renewed in time.
//!
//! Each renewal makes a new certificate authority for one certificate and throws the authority's key away:
//! nobody can mint another. `ca.crt` holds the new authority and the one before, so that replicas that still
//! serve the old certificate are trusted meanwhile. Whatever the Secret holds is judged as the API server will
//! judge it (chain, names, time), never by where it came from: a restored Secret of another namespace or
//! another year is replaced (B41).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rewake_controller::names::WEBHOOK_SECRET;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;

/// How long a certificate is valid.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// It is renewed when less than this is left.
const RENEW_BEFORE: Duration = Duration::from_secs(120 * 24 * 3600);
/// It is valid from this long ago: clocks differ.
const BACKDATED: Duration = Duration::from_secs(3600);

const CA: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    /// The Secret could not be read or written.
    #[error("failed to {what} the Secret {WEBHOOK_SECRET}: {source}")]
    Secret {
        /// What was attempted.
        what: &'static str,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// A certificate could not be made.
    #[error("failed to make a certificate for {names}: {source}")]
    Make {
        /// For whom.
        names: String,
        /// Why.
        source: rcgen::Error,
    },
    /// What was made is not good for what it was made for.
    #[error("the certificate just made does not pass: {0}")]
    Unusable(#[from] Unfit),
    /// Somebody else writes the Secret all the time.
    #[error("the Secret {WEBHOOK_SECRET} keeps changing under our hands")]
    Contended,
}

/// Why a stored certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// The Secret lacks a field, or has one that is not text.
    #[error("{0} is missing or is not PEM")]
    Field(&'static str),
    /// It does not pass.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The authority cannot vouch for anything.
    #[error("unusable authority: {0}")]
    Authority(#[from] rustls::client::VerifierBuilderError),
    /// A name that no certificate can have.
    #[error("{0:?} is not a name of a server")]
    Name(String),
}

/// Certificate, key and authorities, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The authority that signed the certificate, then the one before, if it still counts.
    pub(super) authorities: String,
    certificate: String,
    key: String,
}

impl Material {
    /// Makes an authority and a certificate for `names`. The authorities of `previous` stay trusted.
    fn make(names: &[String], now: UnixTime, previous: Option<&Material>) -> Result<Self, rcgen::Error> {
        let time = |since_epoch: Duration| rcgen::date_time_ymd(1970, 1, 1) + since_epoch;
        let now = Duration::from_secs(now.as_secs());
        let dated = |mut params: CertificateParams, common_name: &str| {
            params.not_before = time(now.saturating_sub(BACKDATED));
            params.not_after = time(now + LIFETIME);
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, common_name);
            params
        };
        // The name carries the time: authorities that follow each other must not have the same name.
        let mut authority = dated(CertificateParams::default(), &format!("rewake-controller {}", now.as_secs()));
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut server = dated(CertificateParams::new(names.to_vec())?, "rewake-controller webhook");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;
        let mut authorities = authority_certificate.pem();
        authorities.extend(previous.and_then(Material::first_authority));
        Ok(Self { authorities, certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// PEM of the authority that signed the certificate.
    fn first_authority(&self) -> Option<String> {
        let end = "-----END CERTIFICATE-----";
        let length = self.authorities.find(end)? + end.len();
        Some(format!("{}\n", &self.authorities[..length]))
    }

    /// Reads what a Secret holds.
    fn of(secret: &Secret) -> Result<Self, Unfit> {
        let field = |name: &'static str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(name)).ok_or(Unfit::Field(name))?;
            String::from_utf8(bytes.0.clone()).map_err(|_| Unfit::Field(name))
        };
        Ok(Self { authorities: field(CA)?, certificate: field(CERTIFICATE)?, key: field(KEY)? })
    }

    fn fill(&self, secret: &mut Secret) {
        let fields = [(CA, &self.authorities), (CERTIFICATE, &self.certificate), (KEY, &self.key)];
        let fields = fields.map(|(name, text)| (name.to_owned(), ByteString(text.clone().into_bytes())));
        secret.data = Some(fields.into());
        secret.string_data = None;
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Unfit> {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        parsed.ok().filter(|chain| !chain.is_empty()).ok_or(Unfit::Field(CERTIFICATE))
    }

    /// Whether a client that trusts the authorities accepts the certificate under each of `names` at `time`.
    fn check(&self, names: &[String], time: UnixTime, provider: &Arc<CryptoProvider>) -> Result<(), Unfit> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(self.authorities.as_bytes()) {
            roots.add(authority.map_err(|_| Unfit::Field(CA))?)?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()?;
        let chain = self.chain()?;
        let Some((leaf, intermediates)) = chain.split_first() else { return Err(Unfit::Field(CERTIFICATE)) };
        for name in names {
            let server = ServerName::try_from(name.as_str()).map_err(|_| Unfit::Name(name.clone()))?;
            verifier.verify_server_cert(leaf, intermediates, &server, &[], time)?;
        }
        Ok(())
    }

    /// What a TLS server needs. Fails if key and certificate do not belong together.
    pub(super) fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Unfit> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| Unfit::Field(KEY))?;
        Ok(CertifiedKey::from_der(self.chain()?, key, provider)?)
    }
}

/// Keeps the Secret as it should be.
pub(super) struct Keeper {
    secrets: Api<Secret>,
    names: Vec<String>,
    provider: Arc<CryptoProvider>,
}

impl Keeper {
    /// Certificates for servers called `names`, in the Secret of this namespace.
    pub(super) fn new(client: Client, namespace: &str, names: Vec<String>, provider: Arc<CryptoProvider>) -> Self {
        Self { secrets: Api::namespaced(client, namespace), names, provider }
    }

    /// A certificate that will be good for a while: the stored one, or a new one, which is then stored.
    ///
    /// # Errors
    /// The Secret cannot be read or written, or no certificate can be made for these names.
    pub(super) async fn ensure(&self) -> Result<Material, CertificateError> {
        // Another replica may do the same at the same time: whoever writes first has made the certificate.
        for _ in 0..5 {
            let found = self.secrets.get_opt(WEBHOOK_SECRET).await.map_err(secret_error("read"))?;
            let now = UnixTime::now();
            let (stored, wanted) = self.wanted(found.as_ref(), now)?;
            let disowned = found.as_ref().is_some_and(|secret| secret.metadata.owner_references.is_some());
            if stored.as_ref() == Some(&wanted) && !disowned {
                return Ok(wanted);
            }
            let written = match found {
                Some(mut secret) => {
                    // An owner that a restore did not bring back takes the Secret with it.
                    secret.metadata.owner_references = None;
                    wanted.fill(&mut secret);
                    self.secrets.replace(WEBHOOK_SECRET, &PostParams::default(), &secret).await
                }
                None => {
                    let mut secret = Secret {
                        metadata: ObjectMeta { name: Some(WEBHOOK_SECRET.to_owned()), ..ObjectMeta::default() },
                        ..Secret::default()
                    };
                    wanted.fill(&mut secret);
                    self.secrets.create(&PostParams::default(), &secret).await
                }
            };
            match written {
                Ok(_) => {
                    tracing::info!(names = self.names.join(", "), "stored a webhook certificate");
                    return Ok(wanted);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(secret_error("write")(error)),
            }
        }
        Err(CertificateError::Contended)
    }

    /// What is stored, if it can be read, and what should be.
    fn wanted(&self, found: Option<&Secret>, now: UnixTime) -> Result<(Option<Material>, Material), CertificateError> {
        let stored = found.and_then(|secret| match Material::of(secret) {
            Ok(stored) => Some(stored),
            Err(reason) => {
                tracing::warn!(%reason, "the stored webhook certificate is replaced");
                None
            }
        });
        let soon = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + RENEW_BEFORE);
        let fit = |material: &Material, time| {
            material.certified_key(&self.provider)?;
            material.check(&self.names, time, &self.provider)
        };
        let mut previous = None;
        if let Some(stored) = &stored {
            match fit(stored, soon) {
                // The verifier does not look at the age of authorities, but ours age with their certificate.
                Ok(()) if fit(stored, now).is_ok() => return Ok((Some(stored.clone()), stored.clone())),
                Ok(()) => tracing::warn!("the stored webhook certificate is of the future: it is replaced"),
                Err(reason) => {
                    tracing::info!(%reason, "the stored webhook certificate is no longer good for long: it is replaced");
                    previous = fit(stored, now).is_ok().then_some(stored);
                }
            }
        }
        let made = Material::make(&self.names, now, previous)
            .map_err(|source| CertificateError::Make { names: self.names.join(", "), source })?;
        fit(&made, now)?;
        Ok((stored, made))
    }
}

fn secret_error(what: &'static str) -> impl FnOnce(kube::Error) -> CertificateError {
    move |source| CertificateError::Secret { what, source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn provider() -> Arc<CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    fn at(after: Duration) -> UnixTime {
        UnixTime::since_unix_epoch(NOW + after)
    }

    fn keeper(names: &[&str]) -> Keeper {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Keeper::new(Client::new(service, "kd"), "kd", names, provider())
    }

    fn stored(material: &Material) -> Secret {
        let mut secret = Secret::default();
        material.fill(&mut secret);
        secret
    }

    /// Covers: B41
    #[tokio::test]
    async fn a_stored_certificate_is_kept_only_if_the_api_server_will_accept_it_for_a_while() {
        let keeper_of = |names: &[&str]| keeper(names);
        let kept = keeper_of(&["v.kd.svc", "127.0.0.1"]);
        let (_, first) = kept.wanted(None, at(Duration::ZERO)).expect("makes one");
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        for (after, keeper, expected) in [
            (days(0), &kept, true),
            (days(200), &kept, true),
            (days(250), &kept, false),
            (days(500), &kept, false),
            (days(0), &keeper_of(&["v.elsewhere.svc"]), false),
        ] {
            let (_, wanted) = keeper.wanted(Some(&stored(&first)), at(after)).expect("an answer");
            assert_eq!(wanted == first, expected, "after {after:?} for {:?}", keeper.names);
        }
        let mut mixed = first.clone();
        mixed.key = kept.wanted(None, at(Duration::ZERO)).expect("makes one").1.key;
        for broken in [mixed, Material { certificate: "rubbish".to_owned(), ..first.clone() }] {
            let (_, wanted) = kept.wanted(Some(&stored(&broken)), at(Duration::ZERO)).expect("an answer");
            assert!(wanted != broken, "what cannot be served is replaced");
        }
        assert!(kept.wanted(Some(&Secret::default()), at(Duration::ZERO)).is_ok(), "an empty Secret is filled");
    }

    #[tokio::test]
    async fn a_renewed_certificate_keeps_the_authority_of_the_one_still_being_served() {
        let keeper = keeper(&["v.kd.svc"]);
        let (_, first) = keeper.wanted(None, at(Duration::ZERO)).expect("makes one");
        let renewal = Duration::from_secs(300 * 24 * 3600);
        let (_, second) = keeper.wanted(Some(&stored(&first)), at(renewal)).expect("renews");
        let during = Material { authorities: second.authorities.clone(), ..first.clone() };
        during.check(&keeper.names, at(renewal), &keeper.provider).expect("the old one is still trusted");
        let (_, third) = keeper.wanted(Some(&stored(&second)), at(2 * renewal)).expect("renews");
        assert_eq!(third.authorities.matches("BEGIN CERTIFICATE").count(), 2, "authorities do not pile up");
    }
}
