//! What the actors need of the cluster, as traits: the agent and the controller bring Kubernetes, tests
//! bring fakes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::mac::Mac;
use orbweaver_api::multus_config::SpiderMultusConfig;
use orbweaver_api::pool::SpiderIPPool;

use crate::deadline::Deadline;

/// Why a request to the API server brought nothing. A lost answer is never a failed request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The object changed since it was read (HTTP 409 on a write with a resourceVersion).
    #[error("the object changed since it was read")]
    Conflict,
    /// HTTP 409 on a create.
    #[error("the object exists already")]
    AlreadyExists,
    /// HTTP 404.
    #[error("the object does not exist")]
    NotFound,
    /// Certainly not executed, and will not be on another try (HTTP 4xx).
    #[error("the API server refused: {0}")]
    Refused(String),
    /// Certainly not executed; another try may succeed (no connection, HTTP 429).
    #[error("the API server cannot be reached: {0}")]
    Unavailable(String),
    /// Perhaps executed: timeout, broken connection, HTTP 5xx. Read before anything else.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
}

/// A write of a pool's claims: a merge patch of `status` with only `allocatedIPs` and
/// `allocatedIPCount`, carrying `metadata.resourceVersion` (design §5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimsWrite {
    /// The pool's name.
    pub pool: Arc<str>,
    /// The version that the write was planned on.
    pub resource_version: String,
    /// The whole new map; `None` clears the field.
    pub allocated_ips: Option<String>,
    /// Number of claims in the map.
    pub allocated_ip_count: i64,
}

/// Pools, as a Pool actor reads and writes its own.
#[async_trait]
pub trait PoolStore: Send + Sync + 'static {
    /// Reads the pool from the API server, not from a cache. Bounded by the implementation (10 s).
    async fn read_pool(&self, name: &str) -> Result<Arc<SpiderIPPool>, StoreError>;
    /// Writes the claims and gives the pool's new resourceVersion. Bounded by the implementation (10 s).
    async fn write_claims(&self, write: ClaimsWrite) -> Result<String, StoreError>;
}

/// Endpoints of this node's pods.
#[async_trait]
pub trait EndpointStore: Send + Sync + 'static {
    /// What this agent knows without asking: endpoints that it wrote, or that named this node when it started.
    fn known_endpoint(&self, namespace: &str, name: &str) -> Option<Arc<SpiderEndpoint>>;
    /// Reads from the API server.
    async fn read_endpoint(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError>;
    /// Creates; [`StoreError::AlreadyExists`] when there is one of that name.
    async fn create_endpoint(
        &self,
        endpoint: SpiderEndpoint,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError>;
    /// Replaces the object at its resourceVersion.
    async fn replace_endpoint(
        &self,
        endpoint: SpiderEndpoint,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError>;
    /// Deletes the endpoint of that UID and takes our finalizer off, so that it is gone. Absent is success.
    async fn remove_endpoint(&self, endpoint: &SpiderEndpoint, deadline: Deadline) -> Result<(), StoreError>;
}

/// What the agent's watches know. Reads are synchronous and never leave the process.
#[async_trait]
pub trait ClusterView: Send + Sync + 'static {
    /// A pod of this node.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>>;
    /// Asks the API server for the pod; `Ok(None)` when it does not exist.
    async fn live_pod(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<Arc<Pod>>, StoreError>;
    /// Labels and annotations of a namespace.
    fn namespace(&self, name: &str) -> Option<Arc<Marks>>;
    /// Labels and annotations of this node.
    fn node(&self) -> Option<Arc<Marks>>;
    /// One pool.
    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>>;
    /// Every pool.
    fn pools(&self) -> Vec<Arc<SpiderIPPool>>;
    /// The union of all reserved addresses of a family.
    fn reserved(&self, family: Family) -> Arc<AddressSet>;
    /// The SpiderMultusConfig behind a network of the same namespace and name.
    fn multus_config(&self, namespace: &str, name: &str) -> Option<Arc<SpiderMultusConfig>>;
}

/// A kind of controller whose pods come back under their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stateful {
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `kubevirt.io/v1` VirtualMachineInstance, and the VirtualMachine of the same name.
    VirtualMachine,
}

/// What such a controller says of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatefulOwner {
    /// It wants pods with the ordinals `first..first + replicas`.
    StatefulSet {
        /// `spec.ordinals.start`.
        first: i64,
        /// `spec.replicas`.
        replicas: i64,
    },
    /// The machine or its instance exists.
    VirtualMachine,
}

/// The controllers of pods. Every method asks the API server; answers may be remembered where they cannot
/// change.
#[async_trait]
pub trait Owners: Send + Sync + 'static {
    /// The controller of a controller (ReplicaSet or Job) of this namespace; `Ok(None)` when it has none, or
    /// is gone.
    async fn controller_of(
        &self,
        namespace: &str,
        controller: &OwnerReference,
        deadline: Deadline,
    ) -> Result<Option<OwnerReference>, StoreError>;
    /// `Ok(None)`: it does not exist, or is being deleted.
    async fn stateful_owner(
        &self,
        kind: Stateful,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<StatefulOwner>, StoreError>;
}

/// Where a pod's user looks first: the pod's Events.
pub trait Events: Send + Sync + 'static {
    /// Puts one Warning on the pod for `reason` and `subject` (such as the NIC), however often it is told. Never
    /// waits, and may be lost when the API server is away: the log says the same.
    fn warn_pod(&self, pod: &Pod, reason: &'static str, subject: &str, note: String);
}

/// Labels and annotations of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

/// The node's links.
#[async_trait]
pub trait Links: Send + Sync + 'static {
    /// MAC of a link in the host's network namespace; the error says what was looked for.
    async fn mac_of(&self, link: &str) -> Result<Mac, String>;
}

/// An address with the pool it comes from; how logs and errors name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolAddress {
    /// Pool name.
    pub pool: Arc<str>,
    /// Bare address.
    pub address: IpAddr,
}

impl std::fmt::Display for PoolAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of pool {}", self.address, self.pool)
    }
}
