//! Configurations of networks, and namespaces, as their watches tell them. Followed only when pods are looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{WatchStreamExt, reflector as reflect};
use kube::{Api, Client, ResourceExt};
use orbweaver_api::multus_config::{MultusConfigSpec, SpiderMultusConfig};
use serde::Deserialize;
use tokio::task::JoinSet;
use tracing::warn;

use super::finding::Finding;
use super::pod_mutation::{self, Surroundings};
use crate::metrics;

/// Names the network that is made of a configuration.
const NETWORK_NAME: &str = "multus.spidernet.io/cr-name";

type Meta = PartialObjectMeta<Namespace>;

/// The stores.
#[derive(Clone, Debug)]
pub struct Networks {
    configs: Store<DynamicObject>,
    namespaces: Store<Meta>,
}

impl Networks {
    /// Follows both in tasks of `tasks`.
    pub fn follow(client: &Client, tasks: &mut JoinSet<()>) -> Self {
        let resource = ApiResource::erase::<SpiderMultusConfig>(&());
        let writer = reflector::store::Writer::new(resource.clone());
        let configs = writer.as_reader();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        tasks.spawn(drain(reflect(writer, events), "spidermultusconfigs"));
        let (namespaces, writer) = reflector::store::<Meta>();
        let api: Api<Meta> = Api::all(client.clone());
        let events = watcher(api, watcher::Config::default()).default_backoff();
        tasks.spawn(drain(reflect(writer, events), "namespaces"));
        Self { configs, namespaces }
    }

    /// True once both lists are complete.
    pub fn is_ready(&self) -> bool {
        let is = |ready: Option<Result<(), _>>| matches!(ready, Some(Ok(())));
        is(self.configs.wait_until_ready().now_or_never())
            && is(self.namespaces.wait_until_ready().now_or_never())
    }

    /// Resolves once both lists are complete.
    pub async fn ready(&self) {
        // Only a task that is gone breaks it, and then the port ends anyway.
        let _ = self.configs.wait_until_ready().await;
        let _ = self.namespaces.wait_until_ready().await;
    }

    /// What a new pod of a namespace gets.
    pub fn patch(&self, pod: &serde_json::Value, namespace: &str) -> Result<Vec<serde_json::Value>, Finding> {
        let configs: Vec<_> = self.configs.state().iter().filter_map(config).collect();
        let found = self.namespaces.get(&ObjectRef::new(namespace));
        let annotations = found.map(|found| found.annotations().clone()).unwrap_or_default();
        let around = Surroundings {
            namespace,
            annotations: &annotations,
            configs: &configs,
        };
        pod_mutation::patch(pod, around)
    }
}

/// One that cannot be read makes no network either.
fn config(object: &Arc<DynamicObject>) -> Option<pod_mutation::NetworkConfig> {
    let marks: [&BTreeMap<_, _>; 2] = [object.labels(), object.annotations()];
    Some(pod_mutation::NetworkConfig {
        namespace: object.namespace()?,
        network: object
            .annotations()
            .get(NETWORK_NAME)
            .filter(|name| !name.is_empty())
            .cloned()
            .unwrap_or_else(|| object.name_any()),
        marks: marks.map(Clone::clone).to_vec(),
        spec: MultusConfigSpec::deserialize(object.data.get("spec")?).ok()?,
    })
}

async fn drain<T>(events: impl futures::Stream<Item = Result<T, watcher::Error>>, resource: &'static str) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        if let Err(error) = event {
            metrics::watch_failed(resource);
            warn!(%error, resource, "admission's watch failed and is tried again");
        }
    }
}
