//! The watches of a world.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::{ClusterView, Marks, StoreError};
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::multus_config::SpiderMultusConfig;
use orbweaver_api::pool::SpiderIPPool;

use super::World;
use super::owners::provider_network;

#[async_trait]
impl ClusterView for World {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.state
            .lock()
            .pods
            .get(&format!("{namespace}/{name}"))
            .cloned()
    }

    async fn live_pod(
        &self,
        namespace: &str,
        name: &str,
        _: Deadline,
    ) -> Result<Option<Arc<Pod>>, StoreError> {
        let mut state = self.state.lock();
        state.pod_reads += 1;
        let key = format!("{namespace}/{name}");
        Ok(state.later_pods.get(&key).or(state.pods.get(&key)).cloned())
    }

    fn namespace(&self, name: &str) -> Option<Arc<Marks>> {
        (name == "shop").then(Arc::default)
    }

    fn node(&self) -> Option<Arc<Marks>> {
        Some(Arc::default())
    }

    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        self.state.lock().pools.get(name).cloned()
    }

    fn pools(&self) -> Vec<Arc<SpiderIPPool>> {
        self.state.lock().pools.values().cloned().collect()
    }

    fn reserved(&self, family: Family) -> Arc<AddressSet> {
        Arc::new(AddressSet::new(family))
    }

    fn multus_config(&self, namespace: &str, name: &str) -> Option<Arc<SpiderMultusConfig>> {
        let wanted = format!("{namespace}/{name}");
        let is_one = self.state.lock().provider_networks.contains(&wanted);
        is_one.then(provider_network)
    }
}
