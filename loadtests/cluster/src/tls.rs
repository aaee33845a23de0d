//! Certificates made at start, and the kubeconfig that trusts them.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// A server identity for loopback and the CA that signed it, as PEM.
pub(crate) fn acceptor() -> Result<(TlsAcceptor, String), String> {
    let text = |error: rcgen::Error| error.to_string();
    let ca_key = KeyPair::generate().map_err(text)?;
    let mut ca_params = CertificateParams::new(Vec::new()).map_err(text)?;
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = ca_params.self_signed(&ca_key).map_err(text)?;
    let issuer = Issuer::new(ca_params, ca_key);
    let key = KeyPair::generate().map_err(text)?;
    let params =
        CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).map_err(text)?;
    let certificate = params.signed_by(&key, &issuer).map_err(text)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), ca.pem()))
}

pub(crate) fn kubeconfig(url: &str, ca_pem: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: simulated\n  cluster:\n    server: {url}\n    \
         certificate-authority-data: {}\nusers:\n- name: admin\n  user:\n    token: {token}\ncontexts:\n- name: simulated\n  \
         context: {{cluster: simulated, user: admin}}\ncurrent-context: simulated\n",
        STANDARD.encode(ca_pem)
    )
}
