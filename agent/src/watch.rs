//! What the cluster looks like, kept by watches: lists first, then every change. Nothing is served before
//! every list is complete (peer lesson L2).

pub mod cache;
pub mod follow;
pub mod reserved;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, PodSpec, PodStatus};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use orbweaver_api::multus_config::SpiderMultusConfig;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::watch::cache::Change;
use crate::watch::follow::{Feed, follow, guarded, marks};
use crate::watch::view::Watched;

/// kubectl's copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why a watch's end is the agent's end: without it the agent would serve from what it once knew.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A list did not complete.
    #[error(
        "the initial lists are not complete after {waited:?}, missing: {missing}; check the API server, the CRDs and the agent's permissions"
    )]
    Incomplete {
        /// How long it was tried.
        waited: Duration,
        /// Which resources.
        missing: String,
    },
}

/// Starts every watch. The tasks run until they are aborted; one that ends should end the agent.
pub fn start(client: &Client, node: &str, watched: &Arc<Watched>) -> JoinSet<&'static str> {
    let mut tasks = JoinSet::new();
    let everything = watcher::Config::default();

    let pods = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let feed = Feed::new("pods", watched.pods.clone());
    let source = guarded(watcher(Api::all(client.clone()), pods), |pod| Some(lean(pod)));
    spawn(&mut tasks, feed.name, follow(source, feed, |_| {}));

    let feed = Feed::new("spiderippools", watched.pools.clone());
    let source = guarded(
        watcher(Api::all(client.clone()), everything.clone()),
        |mut pool: SpiderIPPool| {
            pool.metadata.managed_fields = None;
            Some(pool)
        },
    );
    let told = watched.clone();
    spawn(
        &mut tasks,
        feed.name,
        follow(source, feed, move |changes| told.pools_changed(changes)),
    );

    let feed = Feed::new("spiderreservedips", watched.reserved_objects.clone());
    let source = guarded(
        watcher(Api::all(client.clone()), everything.clone()),
        |object: SpiderReservedIP| reserved::ranges_of(&object),
    );
    let told = watched.clone();
    spawn(
        &mut tasks,
        feed.name,
        follow(source, feed, move |changes| told.reserved_changed(&changes)),
    );

    let feed = Feed::new("namespaces", watched.namespaces.clone());
    let api = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    let source = marks(watcher(api, everything.clone()));
    spawn(&mut tasks, feed.name, follow(source, feed, |_| {}));

    let this_node = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let feed = Feed::new("nodes", watched.nodes.clone());
    let api = Api::<PartialObjectMeta<Node>>::all(client.clone());
    let source = marks(watcher(api, this_node));
    spawn(&mut tasks, feed.name, follow(source, feed, |_| {}));

    let feed = Feed::optional("spidermultusconfigs", watched.multus_configs.clone());
    let source = guarded(
        watcher(Api::all(client.clone()), everything),
        |mut config: SpiderMultusConfig| {
            config.metadata.managed_fields = None;
            Some(config)
        },
    );
    spawn(&mut tasks, feed.name, follow(source, feed, |_| {}));
    tasks
}

/// What decides about a pod's addresses: all of its metadata but its history, where it runs, and its phase.
/// Containers, volumes and conditions are most of a pod and nobody here reads them.
fn lean(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    pod.spec = pod.spec.map(|spec| PodSpec {
        node_name: spec.node_name,
        host_network: spec.host_network,
        restart_policy: spec.restart_policy,
        ..PodSpec::default()
    });
    pod.status = pod.status.map(|status| PodStatus {
        phase: status.phase,
        reason: status.reason,
        ..PodStatus::default()
    });
    pod
}

fn spawn(
    tasks: &mut JoinSet<&'static str>,
    name: &'static str,
    watch: impl Future<Output = ()> + Send + 'static,
) {
    let span = tracing::info_span!("watch", resource = name);
    tasks.spawn(async move {
        watch.instrument(span).await;
        name
    });
}

impl Watched {
    /// Waits until every list is complete.
    pub async fn complete(&self, within: Duration) -> Result<(), WatchError> {
        let all = async {
            self.pods.completed().await;
            self.pools.completed().await;
            self.reserved_objects.completed().await;
            self.namespaces.completed().await;
            self.nodes.completed().await;
            self.multus_configs.completed().await;
        };
        tokio::time::timeout(within, all)
            .await
            .map_err(|_| WatchError::Incomplete {
                waited: within,
                missing: self.missing().join(", "),
            })
    }

    /// Resources whose first list is not complete.
    pub fn missing(&self) -> Vec<&'static str> {
        [
            ("pods", self.pods.is_complete()),
            ("spiderippools", self.pools.is_complete()),
            ("spiderreservedips", self.reserved_objects.is_complete()),
            ("namespaces", self.namespaces.is_complete()),
            ("nodes", self.nodes.is_complete()),
            ("spidermultusconfigs", self.multus_configs.is_complete()),
        ]
        .into_iter()
        .filter_map(|(name, complete)| (!complete).then_some(name))
        .collect()
    }

    fn pools_changed(&self, changes: Vec<Change<SpiderIPPool>>) {
        for change in changes {
            self.tell(|observer| match change {
                Change::Seen(pool) => observer.pool_observed(pool),
                Change::Gone(key) => observer.pool_deleted(&key),
            });
        }
        self.pool_changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cached_pod_keeps_what_decides_about_its_addresses() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "namespace": "ns", "uid": "u", "labels": { "app": "x" },
                "annotations": { "ipam.spidernet.io/ippool": "{}", LAST_APPLIED: "{}" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "r" }],
                "managedFields": [{ "manager": "kubectl" }],
            },
            "spec": { "nodeName": "n", "restartPolicy": "Never", "containers": [{ "name": "c" }] },
            "status": { "phase": "Running", "reason": "Evicted", "podIP": "10.0.0.1" },
        }))
        .unwrap();
        assert_eq!(
            serde_json::to_value(lean(pod)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "a", "namespace": "ns", "uid": "u", "labels": { "app": "x" },
                    "annotations": { "ipam.spidernet.io/ippool": "{}" },
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "r" }],
                },
                "spec": { "nodeName": "n", "restartPolicy": "Never", "containers": [] },
                "status": { "phase": "Running", "reason": "Evicted" },
            })
        );
    }
}
