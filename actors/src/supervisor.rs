//! The Supervisor: routes requests to pools, gives each pod its turn, and rebuilds pools that stopped.

use std::sync::Arc;

use orbweaver_api::pool::SpiderIPPool;

use crate::deadline::Deadline;
use crate::error::IpamError;
use crate::provider::ProviderHandle;
use crate::request::{AddRequest, Allocated, CheckRequest, DelRequest};
use crate::store::{ClusterView, EndpointStore, Links, PoolStore};

/// What the Supervisor is told once.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    /// This node.
    pub node_name: Arc<str>,
    /// `enableIPv4` of conf.yml.
    pub enable_ipv4: bool,
    /// `enableIPv6` of conf.yml.
    pub enable_ipv6: bool,
    /// Multus default network `ns/name` or `name` (key `clusterNetwork`, variable `MULTUS_CLUSTER_NETWORK`).
    pub default_network: Option<String>,
    /// Namespace that a bare network name means.
    pub namespace: Arc<str>,
    /// Claims that a pool may hold (reference §1.1: 5000).
    pub max_claims_per_pool: usize,
    /// Requests served at once; further ones are refused as busy, kubelet retries.
    pub max_requests: usize,
}

/// What the Supervisor works with.
#[derive(Clone)]
pub struct Ports {
    /// Pools.
    pub pools: Arc<dyn PoolStore>,
    /// Endpoints.
    pub endpoints: Arc<dyn EndpointStore>,
    /// The watches.
    pub view: Arc<dyn ClusterView>,
    /// The node's links.
    pub links: Arc<dyn Links>,
    /// `None`: no network provider is configured.
    pub provider: Option<ProviderHandle>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports")
            .field("provider", &self.provider.is_some())
            .finish_non_exhaustive()
    }
}

/// The way to the Supervisor. Clones are cheap.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {}

impl SupervisorHandle {
    /// Starts the Supervisor; pools are spread over `arbiters` by name, and it lives on the first. Must be
    /// called inside an actix System. The receiver fires when the process should end: a pool kept stopping,
    /// or the Supervisor itself did.
    pub fn start(
        options: SupervisorOptions,
        ports: Ports,
        arbiters: Vec<actix_rt::ArbiterHandle>,
    ) -> (Self, tokio::sync::oneshot::Receiver<String>) {
        let _ = (options, ports, arbiters);
        let (_fatal, receiver) = tokio::sync::oneshot::channel();
        (Self {}, receiver)
    }

    /// Serves a CNI ADD. The work goes on when the caller goes away.
    pub async fn add(&self, request: AddRequest) -> Result<Allocated, IpamError> {
        let _ = request;
        Err(IpamError::Unavailable("starting".into()))
    }

    /// Serves a CNI DEL.
    pub async fn del(&self, request: DelRequest) -> Result<(), IpamError> {
        let _ = request;
        Err(IpamError::Unavailable("starting".into()))
    }

    /// Serves a CNI CHECK.
    pub async fn check(&self, request: CheckRequest) -> Result<(), IpamError> {
        let _ = request;
        Err(IpamError::Unavailable("starting".into()))
    }

    /// The watch saw a pool.
    pub fn pool_observed(&self, pool: Arc<SpiderIPPool>) {
        let _ = pool;
    }

    /// The watch saw a pool go.
    pub fn pool_deleted(&self, name: &str) {
        let _ = name;
    }

    /// Reserved addresses changed.
    pub fn reserved_changed(&self) {}

    /// `Err` says why nothing can be served now.
    pub async fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// Refuses new requests, waits for those in flight, then stops every pool.
    pub async fn drain(&self, deadline: Deadline) {
        let _ = deadline;
    }
}
