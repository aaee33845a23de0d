//! Watches pools and keeps a picture of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use kube::Api;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use orbweaver_api::pool::SpiderIPPool;

use super::{PoolEntry, Provider, Signals, keeper, writer};
use crate::envelope;
use crate::pool_view::PoolView;
use crate::truth::Operation;
use crate::watermark::{IdleSince, note_idle};

/// Follows the pools until the provider ends.
pub(super) async fn watch(provider: Arc<Provider>) {
    let api: Api<SpiderIPPool> = Api::all(provider.kube.clone());
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pool)) => {
                listed.insert(pool.name_any());
                provider.see(&pool);
            }
            Ok(watcher::Event::InitDone) => provider.forget_pools(|name| !listed.contains(name)),
            Ok(watcher::Event::Apply(pool)) => provider.see(&pool),
            Ok(watcher::Event::Delete(pool)) => provider.forget_pools(|name| name == pool.name_any()),
            Err(error) => tracing::warn!(%error, "the watch of pools was interrupted"),
        }
    }
}

impl Provider {
    /// A pool, straight from the API server; `None` when there is none.
    pub(super) async fn read_pool(self: &Arc<Self>, name: &str) -> Result<Option<PoolView>, String> {
        let api: Api<SpiderIPPool> = Api::all(self.kube.clone());
        let found = api.get_opt(name).await;
        let Some(pool) = found.map_err(|error| format!("pool {name} cannot be read: {error}"))? else {
            return Ok(None);
        };
        self.see(&pool);
        PoolView::read(&pool).map(Some).map_err(|error| error.to_string())
    }

    /// Takes in a state of a pool; an older one than is known changes nothing.
    pub(super) fn see(self: &Arc<Self>, pool: &SpiderIPPool) {
        if !self.is_ours(pool) {
            return;
        }
        let view = match PoolView::read(pool) {
            Ok(view) => view,
            Err(error) => {
                tracing::warn!(%error, "a pool cannot be used");
                return;
            }
        };
        let now = self.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        match state.pools.get_mut(&view.name) {
            Some(entry) if entry.view.uid == view.uid => {
                if view.is_older_than(&entry.view) {
                    return;
                }
                entry.view = view;
                note_idle(&mut entry.idle, &entry.view, &state.desk.known, now);
                entry.signals.ledger.notify_one();
                entry.signals.keep.notify_one();
            }
            previous => {
                if let Some(previous) = previous {
                    previous.signals.gone.cancel();
                }
                let entry = self.adopt(view);
                state.pools.insert(entry.view.name.clone(), entry);
            }
        }
        // A sibling may have been waited for.
        let sibling = pool.annotations().get(orbweaver_api::annotation::PAIR_POOL);
        if let Some(sibling) = sibling.and_then(|name| state.pools.get(name)) {
            sibling.signals.keep.notify_one();
        }
    }

    /// Several providers may share a cluster, each with its own mark.
    fn is_ours(&self, pool: &SpiderIPPool) -> bool {
        let mark = pool.annotations().get(orbweaver_api::annotation::IAAS_PROVIDER);
        let mark = mark.or_else(|| pool.labels().get(orbweaver_api::annotation::IAAS_PROVIDER));
        match (&self.options.vendor, mark) {
            (Some(vendor), Some(mark)) => vendor == mark,
            _ => true,
        }
    }

    /// A pool that is new to this provider: an earlier one may have left marks in its ledger.
    fn adopt(self: &Arc<Self>, view: PoolView) -> PoolEntry {
        let signals = Arc::new(Signals::default());
        let name = view.name.clone();
        for task in [true, false] {
            let (provider, signals, name) = (self.clone(), signals.clone(), name.clone());
            self.spawn(async move {
                let gone = signals.gone.clone();
                let work = async {
                    if task {
                        writer::run(provider, &name, &signals).await;
                    } else {
                        keeper::run(provider, &name, &signals).await;
                    }
                };
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = work => {}
                }
            });
        }
        signals.ledger.notify_one();
        signals.keep.notify_one();
        PoolEntry {
            marks: envelope::marks(view.ledger.as_ref()),
            view,
            idle: IdleSince::new(),
            signals,
        }
    }

    /// Pools that are gone take their sub-ENIs with them: nobody can hold one any more.
    fn forget_pools(self: &Arc<Self>, is_gone: impl Fn(&str) -> bool) {
        let mut left = Vec::new();
        {
            let mut state = self.state.lock();
            let state = &mut *state;
            let known = &state.desk.known;
            state.pools.retain(|name, entry| {
                let gone = is_gone(name);
                if gone {
                    entry.signals.gone.cancel();
                    left.extend(known.of_pool(name).map(|sub_eni| sub_eni.address));
                }
                !gone
            });
        }
        if !left.is_empty() {
            let provider = self.clone();
            self.spawn(async move { provider.change_idle(left, Operation::Delete).await });
        }
    }
}
