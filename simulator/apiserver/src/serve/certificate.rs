//! The server's identity: an authority and a certificate for loopback, fresh at each start.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use super::ServeError;

/// Names under which the server is reached.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// What the server shows, and what clients need to trust it.
pub(super) struct Identity {
    pub(super) authority_pem: String,
    pub(super) server_config: ServerConfig,
}

impl Identity {
    pub(super) fn make() -> Result<Self, ServeError> {
        Self::try_make().map_err(|error| ServeError::Certificate(error.to_string()))
    }

    fn try_make() -> Result<Self, Box<dyn std::error::Error>> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "rewake");
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut server = CertificateParams::new(NAMES.map(str::to_owned).to_vec())?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server_certificate = server.signed_by(&server_key, &issuer)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![server_certificate.der().clone()],
                PrivateKeyDer::try_from(server_key.serialize_der())?,
            )?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { authority_pem: authority_certificate.pem(), server_config: config })
    }
}

/// A token that nobody can guess.
pub(super) fn token() -> Result<String, ServeError> {
    let mut bytes = [0; TOKEN_BYTES];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| ServeError::Certificate("the system has no randomness to give".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
