//! The cluster's pools, as the watch tells them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use orbweaver_api::pool::SpiderIPPool;
use tracing::warn;

use crate::metrics;

type Pools = BTreeMap<String, Arc<SpiderIPPool>>;

/// Pools by name. One that cannot be read is left out: it hands nothing out.
#[derive(Clone, Debug, Default)]
pub struct PoolCache {
    pools: Arc<RwLock<Option<Pools>>>,
}

impl PoolCache {
    /// Every pool; `None` before the first list is complete.
    pub fn all(&self) -> Option<Vec<Arc<SpiderIPPool>>> {
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        pools.as_ref().map(|pools| pools.values().cloned().collect())
    }

    fn change(&self, change: impl FnOnce(&mut Option<Pools>)) {
        change(&mut self.pools.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Keeps the cache right. Ends only if the watch does, which it never does by itself.
pub async fn follow(client: Client, cache: PoolCache) {
    let api: Api<DeserializeGuard<SpiderIPPool>> = Api::all(client);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = Pools::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(guard)) => put(&mut listed, guard),
            Ok(Event::InitDone) => cache.change(|pools| *pools = Some(std::mem::take(&mut listed))),
            Ok(Event::Apply(guard)) => cache.change(|pools| put(pools.get_or_insert_default(), guard)),
            Ok(Event::Delete(guard)) => cache.change(|pools| {
                pools.get_or_insert_default().remove(&guard.name_any());
            }),
            Err(error) => {
                metrics::watch_failed("spiderippools");
                warn!(%error, "admission's watch of pools failed and is tried again");
            }
        }
    }
}

fn put(pools: &mut Pools, guard: DeserializeGuard<SpiderIPPool>) {
    let name = guard.name_any();
    match guard.0 {
        Ok(pool) => pools.insert(name, Arc::new(pool)),
        Err(_) => pools.remove(&name),
    };
}
