//! The certificate that the webhook port shows, and where it comes from.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// PEM files, read again when they change.
    Files {
        /// `--tls-cert`: the chain, the server's own certificate first.
        chain: PathBuf,
        /// `--tls-key`.
        key: PathBuf,
        /// `--tls-ca`: what API servers are to trust; `None`: somebody else tells them.
        trust: Option<PathBuf>,
    },
    /// A secret that replicas share, made and renewed here unless it is somebody else's (see
    /// [`authority`](super::authority)).
    Secret {
        /// Its name, in the controller's namespace.
        name: String,
        /// DNS names and addresses under which API servers call.
        names: Vec<String>,
    },
}

/// There is no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}; correct --tls-cert, --tls-key and --tls-ca or mount the secret")]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The secret lacks a part.
    #[error("secret {name} has no {key}; complete it, or delete it and a new one is made")]
    Incomplete {
        /// Its name.
        name: String,
        /// The key that is missing.
        key: &'static str,
    },
    /// The secret cannot be read or written.
    #[error("secret {name} of the webhook's certificate cannot be read or written")]
    Secret {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Not PEM of the right kind.
    #[error("{what} is not PEM of the right kind; give a certificate chain and its key")]
    Malformed {
        /// Which part.
        what: &'static str,
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

/// A certificate as read, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// Chain, the server's own first.
    pub chain: Vec<u8>,
    /// Key.
    pub key: Vec<u8>,
    /// What API servers are to trust; `None`: not ours to say.
    pub trust: Option<Vec<u8>>,
}

impl Material {
    /// Reads files.
    pub fn from_files(chain: &Path, key: &Path, trust: Option<&Path>) -> Result<Self, CertificateError> {
        Ok(Self {
            chain: bytes(chain)?,
            key: bytes(key)?,
            trust: trust.map(bytes).transpose()?,
        })
    }

    fn certified(&self) -> Result<CertifiedKey, CertificateError> {
        let malformed = |what| move |source| CertificateError::Malformed { what, source };
        let chain = CertificateDer::pem_slice_iter(&self.chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(malformed("the webhook's certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(malformed("the webhook's key"))?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(chain, key, &provider).map_err(CertificateError::Pair)
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The certificate in use; connections that stand keep the one they began with.
#[derive(Debug)]
pub struct Identity {
    current: RwLock<(Material, Arc<CertifiedKey>)>,
}

impl Identity {
    /// The first one.
    pub fn new(material: Material) -> Result<Self, CertificateError> {
        let key = Arc::new(material.certified()?);
        Ok(Self {
            current: RwLock::new((material, key)),
        })
    }

    /// Takes another one. After an error the old one stays in use.
    pub fn replace(&self, material: Material) -> Result<(), CertificateError> {
        let key = Arc::new(material.certified()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (material, key);
        Ok(())
    }

    /// What is in use.
    pub fn material(&self) -> Material {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.0.clone()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(current.1.clone())
    }
}
