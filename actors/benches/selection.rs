//! What one decision costs with many pools in the cluster: `cargo bench -p orbweaver-actors --bench selection`.
//!
//! The selection takes what the watches know and returns: it has no way to ask anybody. It runs once per ADD.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark may stop"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use divan::{Bencher, black_box};
use k8s_openapi::api::core::v1::Pod;
use orbweaver_actors::store::Marks;
use orbweaver_actors::supervisor::explain::explain;
use orbweaver_actors::supervisor::selection::{Question, select_all};
use orbweaver_api::pool::SpiderIPPool;
use serde_json::{Value, json};

/// A cluster with pools for many teams, a tenth of them the cluster's default.
struct Cluster {
    pools: Vec<Arc<SpiderIPPool>>,
    node: Marks,
    namespace: Marks,
}

impl Cluster {
    fn of(pools: usize) -> Self {
        let pool = |index: usize| {
            let pool = json!({
                "metadata": { "name": format!("pool-{index:04}") },
                "spec": {
                    "subnet": "10.0.0.0/16", "default": index.is_multiple_of(10),
                    "nodeAffinity": { "matchExpressions": [{ "key": "zone", "operator": "In", "values": [format!("z{}", index % 7), "a"] }] },
                    "namespaceAffinity": { "matchLabels": { "team": format!("t{}", index % 5) } },
                    "podAffinity": { "matchLabels": { "app": format!("a{}", index % 3) } },
                },
            });
            Arc::new(serde_json::from_value(pool).unwrap())
        };
        let marks = |key: &str, value: &str| Marks {
            labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            annotations: BTreeMap::new(),
        };
        Self {
            pools: (0..pools).map(pool).collect(),
            node: marks("zone", "a"),
            namespace: marks("team", "t0"),
        }
    }

    fn ask<T>(&self, pod: &Pod, ask: impl FnOnce(&Question<'_>) -> T) -> T {
        ask(&Question {
            pod,
            nic: "eth0",
            node_name: "n1",
            node: &self.node,
            namespace: &self.namespace,
            pools: &self.pools,
            configured: (&[], &[]),
            enabled: (true, true),
            network: None,
            further_networks: &[],
            agent_namespace: "kube-system",
        })
    }
}

fn pod(pools: &Value) -> Pod {
    let mut annotations = json!({});
    if !pools.is_null() {
        annotations["ipam.spidernet.io/ippool"] = json!(json!({ "ipv4": pools }).to_string());
    }
    let metadata =
        json!({ "name": "p", "namespace": "shop", "labels": { "app": "a0" }, "annotations": annotations });
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

const POOLS: [usize; 3] = [10, 100, 1000];

#[divan::bench(args = POOLS)]
fn one_pool_by_name(bencher: Bencher<'_, '_>, pools: usize) {
    let (cluster, pod) = (Cluster::of(pools), pod(&json!(["pool-0000"])));
    bencher.bench_local(|| cluster.ask(black_box(&pod), select_all).unwrap().len());
}

#[divan::bench(args = POOLS)]
fn the_clusters_default_pools(bencher: Bencher<'_, '_>, pools: usize) {
    let (cluster, pod) = (Cluster::of(pools), pod(&Value::Null));
    bencher.bench_local(|| cluster.ask(black_box(&pod), select_all).unwrap().len());
}

#[divan::bench(args = POOLS)]
fn a_pattern_over_every_pool(bencher: Bencher<'_, '_>, pools: usize) {
    let (cluster, pod) = (Cluster::of(pools), pod(&json!(["pool-*"])));
    bencher.bench_local(|| cluster.ask(black_box(&pod), select_all).unwrap().len());
}

#[divan::bench(args = POOLS)]
fn an_explanation_of_every_pool(bencher: Bencher<'_, '_>, pools: usize) {
    let (cluster, pod) = (Cluster::of(pools), pod(&json!(["pool-*"])));
    bencher.bench_local(|| cluster.ask(black_box(&pod), explain).nics.len());
}

fn main() {
    divan::main();
}
