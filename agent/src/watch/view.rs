//! The caches as the actors see them.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::{ClusterView, Marks, StoreError};
use orbweaver_actors::supervisor::SupervisorHandle;
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::multus_config::SpiderMultusConfig;
use orbweaver_api::pool::SpiderIPPool;
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::store::Calls;
use crate::watch::cache::{Cache, Change};
use crate::watch::reserved::{Ranges, Union};

/// Who is told of changes.
pub trait Observer: Send + Sync + 'static {
    /// A pool is new or changed.
    fn pool_observed(&self, pool: Arc<SpiderIPPool>);
    /// A pool is gone.
    fn pool_deleted(&self, name: &str);
    /// The reserved addresses are others.
    fn reserved_changed(&self);
}

impl Observer for SupervisorHandle {
    fn pool_observed(&self, pool: Arc<SpiderIPPool>) {
        Self::pool_observed(self, pool);
    }

    fn pool_deleted(&self, name: &str) {
        Self::pool_deleted(self, name);
    }

    fn reserved_changed(&self) {
        Self::reserved_changed(self);
    }
}

/// Every cache of the agent.
#[derive(Default)]
pub struct Watched {
    /// Pods of this node.
    pub pods: Arc<Cache<Pod>>,
    /// All pools.
    pub pools: Arc<Cache<SpiderIPPool>>,
    /// All SpiderReservedIPs.
    pub reserved_objects: Arc<Cache<Ranges>>,
    /// All namespaces.
    pub namespaces: Arc<Cache<Marks>>,
    /// This node.
    pub nodes: Arc<Cache<Marks>>,
    /// All SpiderMultusConfigs.
    pub multus_configs: Arc<Cache<SpiderMultusConfig>>,
    /// Fires when a pool changed; the parent NIC's publisher listens.
    pub pool_changed: Notify,
    reserved: RwLock<Union>,
    observer: OnceLock<Arc<dyn Observer>>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Watched {
    /// From now on `observer` is told of every change, and first of every pool that is there. Only the
    /// first observer counts.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        // Set first: a change that comes between the two is told twice rather than never.
        let _ = self.observer.set(observer);
        for pool in self.pools.all() {
            self.tell(|observer| observer.pool_observed(pool));
        }
    }

    pub(super) fn tell(&self, what: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = self.observer.get() {
            what(observer.as_ref());
        }
    }

    /// Recomputes the union, once per event however many objects it brought.
    pub(super) fn reserved_changed(&self, changes: &[Change<Ranges>]) {
        if !changes.is_empty() {
            *self.reserved.write() = Union::of(&self.reserved_objects.all());
            self.tell(Observer::reserved_changed);
        }
    }
}

/// The caches, and the API server for what must be asked live.
#[derive(Clone)]
pub struct KubeView {
    watched: Arc<Watched>,
    node: Arc<str>,
    client: Client,
    calls: Calls,
}

impl std::fmt::Debug for KubeView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeView")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl KubeView {
    /// Over caches that [`super::start`] fills.
    pub fn new(watched: Arc<Watched>, node: Arc<str>, client: Client, calls: Calls) -> Self {
        Self {
            watched,
            node,
            client,
            calls,
        }
    }
}

#[async_trait]
impl ClusterView for KubeView {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.watched.pods.get(&format!("{namespace}/{name}"))
    }

    async fn live_pod(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<Arc<Pod>>, StoreError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        self.calls
            .run(deadline, api.get_opt(name))
            .await
            .map(|pod| pod.map(Arc::new))
    }

    fn namespace(&self, name: &str) -> Option<Arc<Marks>> {
        self.watched.namespaces.get(name)
    }

    fn node(&self) -> Option<Arc<Marks>> {
        self.watched.nodes.get(&self.node)
    }

    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        self.watched.pools.get(name)
    }

    fn pools(&self) -> Vec<Arc<SpiderIPPool>> {
        self.watched.pools.all()
    }

    fn reserved(&self, family: Family) -> Arc<AddressSet> {
        let union = self.watched.reserved.read();
        match family {
            Family::V4 => union.v4.clone(),
            Family::V6 => union.v6.clone(),
        }
    }

    fn multus_config(&self, namespace: &str, name: &str) -> Option<Arc<SpiderMultusConfig>> {
        self.watched.multus_configs.get(&format!("{namespace}/{name}"))
    }
}
