//! What the engine needs of the outside: the cluster, the provider, and the time.

use std::future::Future;

use k8s_openapi::jiff::Timestamp;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::store::StoreError;
use orbweaver_api::claims::Claims;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::provider::ReleaseRequest;
use orbweaver_api::release_mark::ReleaseMark;
use tokio::time::Instant;

use crate::collection::facts::{NodeFact, PodFact, PoolFact, Snapshot, StatefulSetFact};

/// Reads are uncached; every call is bounded by the implementation. `None` is "does not exist", never "not known".
pub trait CollectionStore: Send + Sync {
    /// The wall clock, as the API server's objects use it.
    fn now(&self) -> Timestamp;
    /// Everything, by complete lists: pools first, pods last. Half a list is an error.
    fn look(&self) -> impl Future<Output = Result<Snapshot, StoreError>> + Send;
    /// One pool; a pool whose claims cannot be read is [`StoreError::Refused`].
    fn read_pool(&self, name: &str) -> impl Future<Output = Result<Option<PoolFact>, StoreError>> + Send;
    /// One pod, by `namespace/name`.
    fn read_pod(&self, pod: &str) -> impl Future<Output = Result<Option<PodFact>, StoreError>> + Send;
    /// One node.
    fn read_node(&self, name: &str) -> impl Future<Output = Result<Option<NodeFact>, StoreError>> + Send;
    /// One StatefulSet, by `namespace/name`.
    fn read_stateful_set(
        &self,
        set: &str,
    ) -> impl Future<Output = Result<Option<StatefulSetFact>, StoreError>> + Send;
    /// True when a VirtualMachine or a VirtualMachineInstance of that `namespace/name` exists.
    fn read_machine(&self, machine: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;
    /// One endpoint, by `namespace/name`.
    fn read_endpoint(
        &self,
        endpoint: &str,
    ) -> impl Future<Output = Result<Option<SpiderEndpoint>, StoreError>> + Send;
    /// Puts the mark on the endpoint, or takes it off, if the endpoint is still exactly this one.
    fn write_mark(
        &self,
        endpoint: &SpiderEndpoint,
        mark: Option<&ReleaseMark>,
    ) -> impl Future<Output = Result<SpiderEndpoint, StoreError>> + Send;
    /// One release at the provider; over, one way or the other, at the deadline.
    fn release(
        &self,
        request: &ReleaseRequest,
        deadline: Instant,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;
    /// Writes the pool's claims if it still is of the version that `pool` was read at.
    fn write_claims(
        &self,
        pool: &PoolFact,
        claims: &Claims,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Deletes exactly this endpoint; what is left of it waits for finalizers.
    fn delete_endpoint(
        &self,
        endpoint: &SpiderEndpoint,
    ) -> impl Future<Output = Result<Option<SpiderEndpoint>, StoreError>> + Send;
    /// Takes our finalizer off exactly this endpoint.
    fn free_endpoint(&self, endpoint: &SpiderEndpoint)
    -> impl Future<Output = Result<(), StoreError>> + Send;
}
