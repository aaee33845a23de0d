//! Publishes the MAC of this node's parent NICs in `status.parentNic` of its node-level pools, so that the
//! provider and other nodes need not ask (reference §6.4).
//!
//! Level-triggered: what is wrong is computed from the caches and the kernel on every change of a pool and
//! once a minute; nothing is remembered between looks but the back-off.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::store::Links;
use orbweaver_api::annotation;
use orbweaver_api::pool::{ParentNic, PoolMode, SpiderIPPool};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use crate::metrics;
use crate::store::pools::KubePools;
use crate::watch::view::Watched;

/// A MAC changes behind our back when a NIC is replaced; nobody tells.
const PERIOD: Duration = Duration::from_secs(60);
/// First wait of a pool that could not be published; doubles up to [`PERIOD`].
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// Between two looks, however often pools change.
const BREATH: Duration = Duration::from_millis(500);

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

/// Which pools wait before they are tried again, so that one that cannot be published neither spins nor
/// keeps the others waiting.
#[derive(Debug, Default)]
pub struct Retries {
    waiting: HashMap<String, (Instant, Duration)>,
}

impl Retries {
    /// True when `pool` may be tried.
    pub fn due(&self, pool: &str, now: Instant) -> bool {
        self.waiting.get(pool).is_none_or(|(at, _)| *at <= now)
    }

    /// `pool` could not be published.
    pub fn failed(&mut self, pool: &str, now: Instant) {
        let pause = self
            .waiting
            .get(pool)
            .map_or(FIRST_RETRY, |(_, last)| (*last * 2).min(PERIOD));
        self.waiting.insert(pool.to_owned(), (now + pause, pause));
    }

    /// `pool` is as it should be.
    pub fn settled(&mut self, pool: &str) {
        self.waiting.remove(pool);
    }

    /// Forgets pools that are not wanted any more.
    pub fn keep(&mut self, wanted: &[Wanted]) {
        self.waiting
            .retain(|pool, _| wanted.iter().any(|wanted| wanted.pool == *pool));
    }

    /// When to look again: at the first pool that is due, at the latest after a minute from now.
    pub fn next(&self, now: Instant) -> Instant {
        let first = self.waiting.values().map(|(at, _)| *at).min();
        first.map_or(now + PERIOD, |at| at.min(now + PERIOD))
    }
}

/// Publishes until it is aborted.
pub async fn publish(watched: Arc<Watched>, pools: KubePools, links: Arc<dyn Links>, node: Arc<str>) {
    let mut retries = Retries::default();
    loop {
        let all = watched.pools.all();
        let wanted: Vec<Wanted> = all.iter().filter_map(|pool| wanted(pool, &node)).collect();
        drop(all);
        retries.keep(&wanted);
        for wanted in &wanted {
            if !retries.due(&wanted.pool, Instant::now()) {
                continue;
            }
            if settle(wanted, &pools, links.as_ref()).await {
                retries.settled(&wanted.pool);
            } else {
                retries.failed(&wanted.pool, Instant::now());
            }
        }
        // Pools change with every claim: looking at each change would be work for nothing.
        sleep(BREATH).await;
        let _ = timeout_at(retries.next(Instant::now()), watched.pool_changed.notified()).await;
    }
}

/// Makes one pool's status true; false when that failed.
async fn settle(wanted: &Wanted, pools: &KubePools, links: &dyn Links) -> bool {
    let mac = match links.mac_of(&wanted.link).await {
        Ok(mac) => mac.to_string(),
        Err(why) => {
            warn!(
                pool = wanted.pool,
                why, "the pool's parent NIC cannot be resolved"
            );
            metrics::parent_nic_published("unresolved");
            return false;
        }
    };
    let Some(nic) = correction(wanted, &mac) else {
        return true;
    };
    match pools.write_parent_nic(&wanted.pool, &nic).await {
        Ok(()) => {
            info!(pool = wanted.pool, nic = nic.name, mac, "parent NIC published");
            metrics::parent_nic_published("ok");
            true
        }
        Err(error) => {
            warn!(pool = wanted.pool, %error, "the pool's parent NIC could not be published");
            metrics::parent_nic_published("failed");
            false
        }
    }
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

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_fails_waits_longer_each_time_and_alone() {
        let mut retries = Retries::default();
        let start = Instant::now();
        assert_eq!(retries.next(start), start + PERIOD);
        let mut waits = Vec::new();
        let mut now = start;
        for _ in 0..7 {
            retries.failed("bad", now);
            assert!(!retries.due("bad", now) && retries.due("good", now));
            waits.push((retries.next(now) - now).as_secs());
            now = retries.next(now);
            assert!(retries.due("bad", now));
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60]);
        retries.keep(&[]);
        assert_eq!(retries.next(now), now + PERIOD);
        retries.failed("bad", now);
        assert_eq!(
            (retries.next(now) - now).as_secs(),
            2,
            "a pool that came back starts anew"
        );
    }
}
