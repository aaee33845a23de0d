//! Where the lease lives.

use std::future::Future;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, PostParams};

/// Why a lease could not be read or written. What the caller can do is in the variant.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else wrote first: read again.
    #[error("the lease changed meanwhile")]
    Conflict,
    /// Nothing is known about what happened: read again.
    #[error("the API server did not take the request")]
    Failed(#[source] Box<kube::Error>),
}

/// Reads and writes one lease, by compare-and-swap.
pub trait LeaseStore: Send + Sync {
    /// The lease as it is; `None`: there is none.
    fn read(&self) -> impl Future<Output = Result<Option<Lease>, LeaseError>> + Send;

    /// Writes `spec` over `before` if that is still the newest version, or creates the lease if there is none.
    fn write(
        &self,
        before: Option<&Lease>,
        spec: LeaseSpec,
    ) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
}

/// A lease of the cluster.
#[derive(Clone, Debug)]
pub struct ClusterLease {
    api: Api<Lease>,
    name: String,
}

impl ClusterLease {
    /// The lease `namespace`/`name`.
    pub fn new(client: kube::Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
        }
    }
}

fn classify(error: kube::Error) -> LeaseError {
    match error {
        kube::Error::Api(status) if status.code == 409 => LeaseError::Conflict,
        error => LeaseError::Failed(Box::new(error)),
    }
}

impl LeaseStore for ClusterLease {
    async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.api.get_opt(&self.name).await.map_err(classify)
    }

    async fn write(&self, before: Option<&Lease>, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let params = PostParams::default();
        let written = if let Some(before) = before {
            let lease = Lease {
                metadata: before.metadata.clone(),
                spec: Some(spec),
            };
            self.api.replace(&self.name, &params, &lease).await
        } else {
            let mut lease = Lease {
                spec: Some(spec),
                ..Lease::default()
            };
            lease.metadata.name = Some(self.name.clone());
            self.api.create(&params, &lease).await
        };
        written.map_err(classify)
    }
}
