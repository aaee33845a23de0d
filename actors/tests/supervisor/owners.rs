//! Controllers, Events and networks of a world.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::{Events, Owners, Stateful, StatefulOwner, StoreError};
use orbweaver_api::multus_config::SpiderMultusConfig;
use serde_json::json;

use super::World;

#[async_trait]
impl Owners for World {
    async fn controller_of(
        &self,
        _: &str,
        controller: &OwnerReference,
        _: Deadline,
    ) -> Result<Option<OwnerReference>, StoreError> {
        Ok(self.state.lock().above.get(&controller.name).cloned())
    }

    async fn stateful_owner(
        &self,
        _: Stateful,
        namespace: &str,
        name: &str,
        _: Deadline,
    ) -> Result<Option<StatefulOwner>, StoreError> {
        Ok(self
            .state
            .lock()
            .stateful
            .get(&format!("{namespace}/{name}"))
            .copied())
    }
}

impl Events for World {
    fn warn_pod(&self, _: &Pod, reason: &'static str, subject: &str, note: String) {
        self.state
            .lock()
            .warnings
            .push((reason, subject.to_owned(), note));
    }
}

/// A network whose VLANs the provider chooses.
pub(super) fn provider_network() -> Arc<SpiderMultusConfig> {
    let config = json!({
        "metadata": { "name": "cloud", "namespace": "kube-system" },
        "spec": { "cniType": "vlan", "vlan": { "master": ["eth1"], "vlanMode": "auto" } },
    });
    Arc::new(serde_json::from_value(config).unwrap())
}
