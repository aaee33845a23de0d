//! A CA and a server certificate for loopback, made at start.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// The acceptor, and the CA as PEM.
pub(crate) fn acceptor() -> Result<(TlsAcceptor, String), String> {
    let text = |error: rcgen::Error| error.to_string();
    let ca_key = KeyPair::generate().map_err(text)?;
    let mut ca_params = CertificateParams::new(Vec::new()).map_err(text)?;
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let ca = ca_params.self_signed(&ca_key).map_err(text)?;
    let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned).to_vec();
    let key = KeyPair::generate().map_err(text)?;
    let certificate = CertificateParams::new(names)
        .and_then(|params| params.signed_by(&key, &Issuer::new(ca_params, ca_key)))
        .map_err(text)?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
        })
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), ca.pem()))
}
