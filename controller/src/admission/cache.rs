//! The cluster's pools, as the watch tells them.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use orbweaver_api::pool::SpiderIPPool;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::pledge::EXPIRY;
use crate::metrics;

#[derive(Debug, Default)]
struct State {
    /// `None` before the first list is complete.
    pools: Option<BTreeMap<String, Arc<SpiderIPPool>>>,
    /// UIDs of pools that were there, be they deleted or not, and since when that is known; as long as a pledge may
    /// speak of them.
    known: BTreeMap<String, Instant>,
}

/// Pools by name. One that cannot be read is left out: it hands nothing out.
#[derive(Clone, Debug, Default)]
pub struct PoolCache {
    state: Arc<watch::Sender<State>>,
}

/// Tells of changes of a [`PoolCache`].
#[derive(Debug)]
pub struct Changes(watch::Receiver<State>);

impl Changes {
    /// Resolves when something has changed since the last time.
    pub async fn changed(&mut self) {
        // Without a cache there is nothing to wait for.
        let _ = self.0.changed().await;
    }
}

impl PoolCache {
    /// Every pool; `None` before the first list is complete.
    pub fn all(&self) -> Option<Vec<Arc<SpiderIPPool>>> {
        let state = self.state.borrow();
        state
            .pools
            .as_ref()
            .map(|pools| pools.values().cloned().collect())
    }

    /// UIDs of pools that were there: a list read from now on shows them, unless they are deleted.
    pub fn known(&self) -> BTreeSet<String> {
        self.state.borrow().known.keys().cloned().collect()
    }

    /// An API server asked about a pool of this UID that is there. A watch may be late, or miss a short life.
    pub fn is_there(&self, uid: &str) {
        self.state
            .send_modify(|state| state.remember(Some(uid.to_owned())));
    }

    /// Changes from now on.
    pub fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    fn list(&self, listed: BTreeMap<String, Arc<SpiderIPPool>>) {
        self.state.send_modify(|state| {
            let uids: BTreeSet<_> = listed.values().filter_map(|pool| pool.uid()).collect();
            let before = state.pools.replace(listed).unwrap_or_default();
            for pool in before.values() {
                state.remember(pool.uid().filter(|uid| !uids.contains(uid)));
            }
        });
    }

    fn apply(&self, name: String, pool: Option<SpiderIPPool>) {
        self.state.send_modify(|state| {
            let uid = pool.as_ref().and_then(ResourceExt::uid);
            let pools = state.pools.get_or_insert_default();
            let before = match pool {
                Some(pool) => pools.insert(name, Arc::new(pool)),
                None => pools.remove(&name),
            };
            // A pool of the same name came so fast that the watch never told of the deletion.
            state.remember(
                before
                    .and_then(|before| before.uid())
                    .filter(|before| uid.is_some() && uid.as_ref() != Some(before)),
            );
        });
    }

    fn delete(&self, name: &str, uid: Option<String>) {
        self.state.send_modify(|state| {
            state.pools.get_or_insert_default().remove(name);
            state.remember(uid);
        });
    }
}

impl State {
    fn remember(&mut self, uid: Option<String>) {
        let Some(uid) = uid else { return };
        let now = Instant::now();
        self.known
            .retain(|_, since| now.duration_since(*since) < 2 * EXPIRY);
        self.known.insert(uid, now);
    }
}

/// Keeps the cache right. Ends only if the watch does, which it never does by itself.
pub async fn follow(client: Client, cache: PoolCache) {
    let api: Api<DeserializeGuard<SpiderIPPool>> = Api::all(client);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(guard)) => {
                let name = guard.name_any();
                if let Ok(pool) = guard.0 {
                    listed.insert(name, Arc::new(pool));
                }
            }
            Ok(Event::InitDone) => cache.list(std::mem::take(&mut listed)),
            Ok(Event::Apply(guard)) => cache.apply(guard.name_any(), guard.0.ok()),
            Ok(Event::Delete(guard)) => cache.delete(&guard.name_any(), guard.uid()),
            Err(error) => {
                metrics::watch_failed("spiderippools");
                warn!(%error, "admission's watch of pools failed and is tried again");
            }
        }
    }
}
