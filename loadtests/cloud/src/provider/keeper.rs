//! Keeps a pool warm, and takes idle sub-ENIs back: mark, look again, detach, clear (reference §6.7).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::writer::Draft;
use super::{Provider, Signals};
use crate::ask::AllocateAsk;
use crate::envelope::Marks;
use crate::prewarm;
use crate::refusal::Refusal;
use crate::truth::Operation;
use crate::watermark::{note_idle, to_delete, to_detach};

/// Pause after something failed, before scaling.
const PAUSE: Duration = Duration::from_secs(1);

/// Cares for one pool until it is gone.
pub(super) async fn run(provider: Arc<Provider>, name: &str, signals: &Signals) {
    let tick = provider.options.reclaim.as_ref().map(|reclaim| {
        let half = provider.options.scaled(reclaim.idle_for) / 2;
        half.max(Duration::from_millis(20))
    });
    loop {
        match tick {
            None => signals.keep.notified().await,
            // Time makes sub-ENIs reclaimable without any event.
            Some(tick) => {
                let _ = tokio::time::timeout(tick, signals.keep.notified()).await;
            }
        }
        while let Some(ask) = provider.next_batch(name) {
            provider.prewarm(name, ask).await;
        }
        if provider.options.reclaim.is_some() || provider.has_marks(name) {
            provider.reclaim(name, signals).await;
        }
    }
}

impl Provider {
    fn next_batch(&self, name: &str) -> Option<AllocateAsk> {
        let state = self.state.lock();
        let pool = &state.pools.get(name)?.view;
        let sibling = pool.pair.as_ref().and_then(|pair| state.pools.get(pair));
        prewarm::next(
            pool,
            sibling.map(|entry| &entry.view),
            &state.desk.known,
            &self.options.prewarm,
            self.options.sub_enis_per_nic,
        )
    }

    async fn prewarm(self: &Arc<Self>, name: &str, ask: AllocateAsk) {
        match self.in_background(ask, self.options.prewarm.spare_tokens).await {
            Ok(()) => {}
            Err(Refusal::Throttled { retry_after }) => tokio::time::sleep(retry_after).await,
            Err(refusal) => {
                tracing::warn!(pool = name, %refusal, "prewarming failed");
                tokio::time::sleep(self.options.scaled(PAUSE)).await;
            }
        }
    }

    fn has_marks(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.pools.get(name).is_some_and(|entry| !entry.marks.is_empty())
    }

    /// One round of reclaim: finishes marks that are there, makes new ones, finishes those, deletes.
    async fn reclaim(self: &Arc<Self>, name: &str, signals: &Signals) {
        self.finish_marks(name).await;
        if self.mark(name, signals).await {
            self.finish_marks(name).await;
        }
        let surplus = {
            let state = self.state.lock();
            let (entry, reclaim) = (state.pools.get(name), self.options.reclaim.as_ref());
            match (entry, reclaim) {
                (Some(entry), Some(reclaim)) => to_delete(&entry.view, &state.desk.known, reclaim),
                _ => Vec::new(),
            }
        };
        self.change_idle(surplus, Operation::Delete).await;
    }

    /// Writes marks for idle sub-ENIs over the watermark; a claim that came first makes the write fail.
    async fn mark(self: &Arc<Self>, name: &str, signals: &Signals) -> bool {
        let _turn = signals.write.lock().await;
        let Some((marked, draft)) = self.choose(name) else {
            return false;
        };
        if let Err(error) = self.write(name, draft).await {
            // The write may have been carried out: the ledger writer puts it right either way.
            tracing::debug!(pool = name, %error, "marks were not written");
            self.unmark(name, &marked);
            return false;
        }
        let count = u64::try_from(marked.len()).unwrap_or(u64::MAX);
        self.calls.count(|counters| counters.marked += count);
        true
    }

    /// Chooses and drafts on one picture of the pool: its version is what the write is checked against.
    fn choose(&self, name: &str) -> Option<(Vec<IpAddr>, Draft)> {
        let reclaim = self.options.reclaim.as_ref()?;
        let now = self.now();
        let idle_for = self.options.scaled(reclaim.idle_for);
        let mut state = self.state.lock();
        let state = &mut *state;
        let entry = state.pools.get_mut(name)?;
        let known = &state.desk.known;
        note_idle(&mut entry.idle, &entry.view, known, now);
        let mut marked = to_detach(
            &entry.view,
            known,
            &entry.marks,
            &entry.idle,
            now,
            reclaim,
            idle_for,
        );
        marked.retain(|address| state.desk.is_free(*address));
        if marked.is_empty() {
            return None;
        }
        let since = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        entry
            .marks
            .extend(marked.iter().map(|address| (*address, since.clone())));
        Some((marked, Draft::guarded(entry, known)))
    }

    /// For every mark: a claim that is there after all wins, else the sub-ENI is detached.
    async fn finish_marks(self: &Arc<Self>, name: &str) {
        let marks: Marks = {
            let state = self.state.lock();
            state
                .pools
                .get(name)
                .map(|entry| entry.marks.clone())
                .unwrap_or_default()
        };
        if marks.is_empty() {
            return;
        }
        let view = match self.read_pool(name).await {
            Ok(Some(view)) => view,
            Ok(None) => return,
            Err(why) => {
                tracing::warn!(pool = name, %why, "marked sub-ENIs wait");
                tokio::time::sleep(self.options.scaled(PAUSE)).await;
                return;
            }
        };
        let (idle, claimed): (Vec<IpAddr>, Vec<IpAddr>) =
            marks.into_keys().partition(|address| view.is_idle(*address));
        let count = u64::try_from(claimed.len()).unwrap_or(u64::MAX);
        self.calls.count(|counters| counters.unmarked += count);
        self.change_idle(idle.clone(), Operation::Detach).await;
        self.unmark(name, &claimed);
        self.unmark(name, &idle);
    }

    fn unmark(&self, name: &str, addresses: &[IpAddr]) {
        let mut state = self.state.lock();
        if let Some(entry) = state.pools.get_mut(name) {
            entry.marks.retain(|address, _| !addresses.contains(address));
            entry.signals.ledger.notify_one();
        }
    }

    /// One cloud call for idle sub-ENIs; those that a request is at are left alone. It goes on when the pool, and
    /// with it the caller, goes away.
    pub(super) async fn change_idle(
        self: &Arc<Self>,
        addresses: Vec<IpAddr>,
        change: fn(IpAddr) -> Operation,
    ) {
        let reserved = self.state.lock().desk.reserve_free(&addresses);
        if reserved.is_empty() {
            return;
        }
        let provider = self.clone();
        let work = self.spawn(async move {
            while let Err(wait) = provider.spare_token() {
                tokio::time::sleep(wait).await;
            }
            let operations = reserved.iter().map(|address| change(*address)).collect();
            let done = provider.cloud.call(operations, provider.cloud.next_time()).await;
            if let Some(error) = done.error {
                tracing::warn!(%error, "idle sub-ENIs were not all taken back");
            }
            let mut state = provider.state.lock();
            state.desk.free_reserved(&reserved);
            provider.learn(&mut state, reserved);
        });
        // It ends early only with the provider.
        let _ = work.await;
    }

    fn spare_token(&self) -> Result<(), Duration> {
        let now = self.now();
        let spare = self.options.prewarm.spare_tokens;
        self.state.lock().desk.bucket.take_spare(now, spare)?;
        self.calls.count(|counters| counters.tokens += 1);
        Ok(())
    }
}
