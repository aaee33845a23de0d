//! Publishes the MAC of this node's parent NICs in `status.parentNic` of its node-level pools, so that the
//! provider and other nodes need not ask (reference §6.4).
//!
//! Level-triggered: what is wrong is computed from the caches and the kernel on every change of a pool and
//! once a minute; nothing is remembered between rounds but the back-off.

use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::store::Links;
use orbweaver_api::annotation;
use orbweaver_api::pool::{ParentNic, PoolMode, SpiderIPPool};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::metrics;
use crate::store::pools::KubePools;
use crate::watch::view::Watched;

/// A MAC changes behind our back when a NIC is replaced; nobody tells.
const PERIOD: Duration = Duration::from_secs(60);
/// First wait after a round with errors; doubles up to [`PERIOD`].
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// A pool of this node that names a parent NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Pool name.
    pub pool: String,
    /// Link name.
    pub link: String,
    /// What the status says now.
    pub published: Option<ParentNic>,
}

/// What `pool` wants published by `node`; `None` when that is not this node's business. The IPv6 sibling of
/// a pair has none: its IPv4 primary speaks for both (reference §6.5).
pub fn wanted(pool: &SpiderIPPool, node: &str) -> Option<Wanted> {
    let annotations = pool.metadata.annotations.as_ref()?;
    let link = annotations.get(annotation::PARENT_NIC)?.trim();
    let mine = pool.mode() == PoolMode::NodeLevel
        && matches!(pool.spec.node_name.as_slice(), [only] if only == node);
    let sibling = annotations.contains_key(annotation::PAIR_POOL)
        && pool.family() == Some(orbweaver_api::address_set::Family::V6);
    let leaving = pool.metadata.deletion_timestamp.is_some();
    (mine && !sibling && !leaving && !link.is_empty()).then(|| Wanted {
        pool: pool.metadata.name.clone().unwrap_or_default(),
        link: link.to_owned(),
        published: pool.status.as_ref().and_then(|status| status.parent_nic.clone()),
    })
}

/// The write that makes the status true, if it is not.
pub fn correction(wanted: &Wanted, mac: &str) -> Option<ParentNic> {
    let truth = ParentNic {
        name: wanted.link.clone(),
        mac: Some(mac.to_owned()),
    };
    (wanted.published.as_ref() != Some(&truth)).then_some(truth)
}

/// Publishes until it is aborted.
pub async fn publish(watched: Arc<Watched>, pools: KubePools, links: Arc<dyn Links>, node: Arc<str>) {
    let mut retry = FIRST_RETRY;
    loop {
        let failed = round(&watched, &pools, links.as_ref(), &node).await;
        let pause = if failed { retry } else { PERIOD };
        retry = if failed {
            (retry * 2).min(PERIOD)
        } else {
            FIRST_RETRY
        };
        if failed {
            // A change does not cut the back-off short: a pool that changes all the time would defeat it.
            tokio::time::sleep(pause).await;
        } else {
            let _ = timeout(pause, watched.pool_changed.notified()).await;
        }
    }
}

/// True when something could not be published.
async fn round(watched: &Watched, pools: &KubePools, links: &dyn Links, node: &str) -> bool {
    let mut failed = false;
    for wanted in watched.pools.all().iter().filter_map(|pool| wanted(pool, node)) {
        let mac = match links.mac_of(&wanted.link).await {
            Ok(mac) => mac.to_string(),
            Err(why) => {
                warn!(
                    pool = wanted.pool,
                    why, "the pool's parent NIC cannot be resolved"
                );
                metrics::parent_nic_published("unresolved");
                failed = true;
                continue;
            }
        };
        let Some(nic) = correction(&wanted, &mac) else {
            continue;
        };
        match pools.write_parent_nic(&wanted.pool, &nic).await {
            Ok(()) => {
                info!(pool = wanted.pool, nic = nic.name, mac, "parent NIC published");
                metrics::parent_nic_published("ok");
            }
            Err(error) => {
                warn!(pool = wanted.pool, %error, "the pool's parent NIC could not be published");
                metrics::parent_nic_published("failed");
                failed = true;
            }
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pool(change: impl FnOnce(&mut serde_json::Value)) -> SpiderIPPool {
        let mut pool = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderIPPool",
            "metadata": {
                "name": "p",
                "labels": { "ipam.spidernet.io/iaas-provider": "any" },
                "annotations": { "ipam.spidernet.io/parent-nic": "eth1" },
            },
            "spec": { "subnet": "10.0.0.0/24", "nodeName": ["me"] },
        });
        change(&mut pool);
        serde_json::from_value(pool).unwrap()
    }

    #[test]
    fn only_the_pools_own_node_publishes() {
        assert!(wanted(&pool(|_| {}), "me").is_some());
        assert_eq!(wanted(&pool(|_| {}), "other"), None);
        let two_nodes = pool(|pool| pool["spec"]["nodeName"] = json!(["me", "other"]));
        assert_eq!(wanted(&two_nodes, "me"), None);
        let global = pool(|pool| pool["spec"]["nodeName"] = json!([]));
        assert_eq!(wanted(&global, "me"), None);
        let plain = pool(|pool| pool["metadata"]["labels"] = json!({}));
        assert_eq!(wanted(&plain, "me"), None);
    }

    #[test]
    fn the_ipv6_sibling_of_a_pair_publishes_nothing() {
        let pair = |subnet: &str| {
            pool(|pool| {
                pool["spec"]["subnet"] = json!(subnet);
                pool["metadata"]["annotations"]["ipam.spidernet.io/pair-pool"] = json!("q");
            })
        };
        assert!(wanted(&pair("10.0.0.0/24"), "me").is_some());
        assert_eq!(wanted(&pair("fd00::/64"), "me"), None);
    }

    #[test]
    fn nothing_is_written_when_the_status_is_true() {
        let published = |mac: &str, name: &str| {
            let pool = pool(|pool| pool["status"] = json!({ "parentNic": { "name": name, "mac": mac } }));
            wanted(&pool, "me").unwrap()
        };
        let mac = "fa:16:3e:00:00:01";
        assert_eq!(correction(&published(mac, "eth1"), mac), None);
        assert!(correction(&published("fa:16:3e:00:00:02", "eth1"), mac).is_some());
        assert!(correction(&published(mac, "eth0"), mac).is_some());
        assert!(correction(&wanted(&pool(|_| {}), "me").unwrap(), mac).is_some());
    }
}
