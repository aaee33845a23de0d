//! The provider process: what is lost when it is restarted. The cloud behind it is not.

mod keeper;
mod pools;
mod requests;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bucket::TokenBucket;
use crate::calls::Calls;
use crate::cloud_api::CloudApi;
use crate::desk::Desk;
use crate::envelope::Marks;
use crate::options::CloudOptions;
use crate::pool_view::PoolView;
use crate::watermark::IdleSince;

/// A running provider.
pub(crate) struct Provider {
    cloud: Arc<CloudApi>,
    options: Arc<CloudOptions>,
    calls: Calls,
    kube: Client,
    state: Mutex<State>,
    started: Instant,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct State {
    desk: Desk,
    pools: BTreeMap<String, PoolEntry>,
}

/// A pool and the tasks that care for it.
#[derive(Debug)]
struct PoolEntry {
    view: PoolView,
    /// Idle sub-ENIs on their way off their nodes.
    marks: Marks,
    idle: IdleSince,
    signals: Arc<Signals>,
}

/// How a pool's tasks are told to look again.
#[derive(Debug, Default)]
struct Signals {
    /// The ledger may differ.
    ledger: Notify,
    /// There may be something to prewarm or to reclaim.
    keep: Notify,
    /// At most one write of the pool in flight.
    write: tokio::sync::Mutex<()>,
    /// The pool is gone.
    gone: CancellationToken,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}

impl Provider {
    /// Starts on the cloud's list; the pools' ledgers come with the watch.
    pub(crate) fn start(
        cloud: Arc<CloudApi>,
        options: Arc<CloudOptions>,
        calls: Calls,
        kube: Client,
    ) -> Arc<Self> {
        let bucket = TokenBucket::new(
            options.scaled_rate(),
            options.burst,
            options.scaled(options.queue_wait),
        );
        let state = State {
            desk: Desk::new(cloud.list(), bucket),
            pools: BTreeMap::new(),
        };
        let provider = Arc::new(Self {
            cloud,
            options,
            calls,
            kube,
            state: Mutex::new(state),
            started: Instant::now(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        if provider.options.pools {
            provider.spawn(pools::watch(provider.clone()));
        }
        provider
    }

    /// Ends as a killed process does: nothing is finished, but what the cloud was told goes on there.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Cancelled when the provider ends.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// A task that ends with the provider, and then gives `None`.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => None,
                result = task => Some(result),
            }
        })
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Reads addresses of the cloud again, after it was told to change them.
    fn learn(&self, state: &mut State, addresses: impl IntoIterator<Item = std::net::IpAddr>) {
        let mut touched = std::collections::BTreeSet::new();
        for address in addresses {
            let before = state.desk.known.holder(address).cloned();
            let after = self.cloud.describe(address);
            if before == after {
                continue;
            }
            for sub_eni in [&before, &after].into_iter().flatten() {
                touched.insert(sub_eni.pool.clone());
            }
            if let Some(before) = before {
                state.desk.known.remove(before.address);
            }
            if let Some(after) = after {
                state.desk.known.put(after);
            }
        }
        for pool in touched.iter().filter_map(|name| state.pools.get(name)) {
            pool.signals.ledger.notify_one();
            pool.signals.keep.notify_one();
        }
    }
}
