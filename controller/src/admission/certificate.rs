//! The certificate of the webhook port: from files, read again when they change, or self-made and renewed in time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// For how long a self-made certificate is valid.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// Age at which a self-made certificate is replaced.
const RENEW_AFTER: Duration = Duration::from_secs(60 * 24 * 3600);
/// Clocks of API servers may be behind by so much.
const SKEW: Duration = Duration::from_secs(3600);

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// PEM files: the chain, the server's own first, and its key.
    Files {
        /// `--tls-cert`.
        chain: PathBuf,
        /// `--tls-key`.
        key: PathBuf,
    },
    /// Made here, for these DNS names.
    SelfMade(Vec<String>),
}

/// There is no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}; correct --tls-cert and --tls-key or mount the secret")]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is not PEM of the right kind.
    #[error("{path} is not PEM of a certificate chain (--tls-cert) or of its key (--tls-key)")]
    Malformed {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The key is of no use, or another certificate's.
    #[error("the webhook's key and certificate do not work together; give the pair that belongs together")]
    Pair(#[source] rustls::Error),
    /// None could be made.
    #[error("no certificate for the webhook can be made")]
    Make(#[from] rcgen::Error),
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    /// What was read, or when it was made: tells whether to renew.
    read: Option<(Vec<u8>, Vec<u8>)>,
    made: SystemTime,
}

/// The certificate in use; connections that stand keep the one they began with.
#[derive(Debug)]
pub struct Identity {
    source: Source,
    current: RwLock<Current>,
}

impl Identity {
    /// Reads or makes the first one.
    pub fn new(source: Source) -> Result<Self, CertificateError> {
        let current = RwLock::new(obtain(&source)?);
        Ok(Self { source, current })
    }

    /// Takes what changed; true when the certificate is another now. After an error the old one stays in use.
    pub fn refresh(&self, now: SystemTime) -> Result<bool, CertificateError> {
        let due = match &self.source {
            Source::SelfMade(_) => {
                let made = self.current.read().unwrap_or_else(PoisonError::into_inner).made;
                now.duration_since(made).is_ok_and(|age| age >= RENEW_AFTER)
            }
            Source::Files { chain, key } => {
                let read = Some((bytes(chain)?, bytes(key)?));
                self.current.read().unwrap_or_else(PoisonError::into_inner).read != read
            }
        };
        if due {
            let next = obtain(&self.source)?;
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        }
        Ok(due)
    }

    /// The chain in use: what a self-made certificate is to be trusted by.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.key.cert.clone()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(current.key.clone())
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn obtain(source: &Source) -> Result<Current, CertificateError> {
    let made = SystemTime::now();
    let (chain, key, read) = match source {
        Source::Files { chain, key } => {
            let read = (bytes(chain)?, bytes(key)?);
            let malformed = |path: &PathBuf| {
                let path = path.clone();
                move |source| CertificateError::Malformed { path, source }
            };
            let certificates = CertificateDer::pem_slice_iter(&read.0)
                .collect::<Result<Vec<_>, _>>()
                .map_err(malformed(chain))?;
            let private = PrivateKeyDer::from_pem_slice(&read.1).map_err(malformed(key))?;
            (certificates, private, Some(read))
        }
        Source::SelfMade(names) => {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(names.clone())?;
            params.not_before = (made - SKEW).into();
            params.not_after = (made + LIFETIME).into();
            let certificate = params.self_signed(&key)?;
            let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
            (vec![certificate.der().clone()], private, None)
        }
    };
    let provider = rustls::crypto::ring::default_provider();
    let key = CertifiedKey::from_der(chain, key, &provider).map_err(CertificateError::Pair)?;
    Ok(Current {
        key: Arc::new(key),
        read,
        made,
    })
}
