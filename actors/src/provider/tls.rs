//! Whom the provider's connection trusts and what it shows: files read anew, turned into a rustls configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// No bundle of certificates is larger; something else was named then.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {what} {path}: {source}; mount it or correct the path", path = path.display())]
    Unreadable {
        /// `caFile`, ...
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{what} is not usable: {why}; it must be PEM")]
    Malformed {
        /// `caFile`, ...
        what: &'static str,
        /// Why.
        why: String,
    },
    /// One of the two is missing.
    #[error("a client certificate needs both its certificate file and its key file")]
    HalfIdentity,
    /// Nobody is trusted.
    #[error("the system has no root certificates; set tls.caFile to the provider's CA")]
    NoRoots,
    /// rustls refused the combination.
    #[error("TLS cannot be configured: {0}")]
    Rustls(#[from] rustls::Error),
}

/// The files that may change while the process runs.
#[derive(Clone, Debug)]
pub(super) struct TlsFiles {
    pub(super) ca: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// What the files said. No `Debug`: it holds a private key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TlsMaterial {
    ca: Option<Vec<u8>>,
    /// Certificate chain and key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsFiles {
    /// True when there is nothing that could change.
    pub(super) fn none(&self) -> bool {
        self.ca.is_none() && self.certificate.is_none() && self.key.is_none()
    }

    /// Reads all files.
    pub(super) async fn read(&self) -> Result<TlsMaterial, TlsError> {
        let ca = match &self.ca {
            Some(path) => Some(read("tls.caFile", path).await?),
            None => None,
        };
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((
                read("client certificate", certificate).await?,
                read("client key", key).await?,
            )),
            (None, None) => None,
            _ => return Err(TlsError::HalfIdentity),
        };
        Ok(TlsMaterial { ca, identity })
    }
}

async fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    };
    let size = tokio::fs::metadata(path).await.map_err(unreadable)?.len();
    if size > MAX_FILE {
        return Err(TlsError::Malformed {
            what,
            why: format!("{size} bytes are too many"),
        });
    }
    tokio::fs::read(path).await.map_err(unreadable)
}

/// The system's roots. Slow (it reads hundreds of files): once, and not on an arbiter.
pub(super) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be parsed are common in system stores and harm nobody.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// The configuration: `caFile` alone when there is one, else the system's roots.
pub(super) fn client_config(
    material: &TlsMaterial,
    system: &Arc<RootCertStore>,
    verify: bool,
) -> Result<ClientConfig, TlsError> {
    let crypto = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(crypto.clone()).with_safe_default_protocol_versions()?;
    let builder = if verify {
        let roots = match &material.ca {
            Some(pem) => Arc::new(ca_roots(pem)?),
            None if system.is_empty() => return Err(TlsError::NoRoots),
            None => system.clone(),
        };
        builder.with_root_certificates(roots)
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(crypto)))
    };
    let Some((certificate, key)) = &material.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("client certificate", certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| TlsError::Malformed {
        what: "client key",
        why: why.to_string(),
    })?;
    Ok(builder.with_client_auth_cert(chain, key)?)
}

fn ca_roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls.caFile", pem)? {
        roots.add(certificate).map_err(|why| TlsError::Malformed {
            what: "tls.caFile",
            why: why.to_string(),
        })?;
    }
    Ok(roots)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = parsed.map_err(|why| TlsError::Malformed {
        what,
        why: why.to_string(),
    })?;
    if certificates.is_empty() {
        return Err(TlsError::Malformed {
            what,
            why: "it holds no certificate".into(),
        });
    }
    Ok(certificates)
}

/// `insecureSkipVerify`: whoever answers is believed. The handshake's signatures are still checked, so that a broken
/// peer is noticed.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
