//! Which pool is to be looked at when. Time comes in as an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::pool::SpiderIPPool;
use tokio::time::Instant;

use crate::pool::Pace;
use crate::pool::plan;

/// How looking at a pool went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is wrong any more, or nothing can be done before the pool changes.
    Settled,
    /// Somebody wrote first, or the API server failed: again, later and later.
    Again,
}

/// A pool whose turn it is.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its newest version.
    pub pool: Arc<SpiderIPPool>,
    /// Failures in a row.
    pub failures: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    pool: Arc<SpiderIPPool>,
    /// `totalIPCount` as it should be; computed once per generation.
    total: Option<i64>,
    due: Instant,
    failures: u32,
    /// Its turn is going on.
    busy: bool,
    /// What was last said about it in the log.
    said: Option<String>,
}

/// All pools and their times.
#[derive(Clone, Debug)]
pub struct Agenda {
    pace: Pace,
    entries: BTreeMap<String, Entry>,
}

impl Agenda {
    /// Nothing to do.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            entries: BTreeMap::new(),
        }
    }

    /// Number of pools.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there is no pool.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The pool is now like this. It becomes due at once when something is wrong that agents do not put right
    /// themselves, else after a while.
    pub fn apply(&mut self, name: &str, pool: Arc<SpiderIPPool>, now: Instant) {
        let before = self.entries.remove(name);
        let same = before
            .as_ref()
            .filter(|before| before.pool.metadata.uid == pool.metadata.uid)
            .filter(|before| before.pool.metadata.generation == pool.metadata.generation)
            // An API server that counts no generations tells nothing by one that stays.
            .filter(|_| pool.metadata.generation.is_some());
        let total = match same {
            Some(before) => before.total,
            None => plan::total(&pool).ok(),
        };
        let settled = now + self.pace.settle;
        let due = match (same, is_urgent(&pool, total, same.is_some())) {
            // A failing pool waits for its time, whatever happens.
            (Some(before), _) if before.failures > 0 => before.due,
            (_, true) => now,
            (Some(before), false) => before.due.min(settled),
            (None, false) => settled,
        };
        let entry = Entry {
            total,
            due,
            failures: same.map_or(0, |before| before.failures),
            busy: before.as_ref().is_some_and(|before| before.busy),
            said: before.and_then(|before| before.said),
            pool,
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// The pool is gone.
    pub fn remove(&mut self, name: &str) {
        self.entries.remove(name);
    }

    /// True when there is such a pool.
    pub fn knows(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Only these exist.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.entries.retain(|name, _| exists(name));
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Instant> {
        let waiting = self.entries.values().filter(|entry| !entry.busy);
        waiting.map(|entry| entry.due).min()
    }

    /// A pool that is due; [`Agenda::done`] must follow.
    pub fn take_due(&mut self, now: Instant) -> Option<(String, Turn)> {
        let due = self
            .entries
            .iter_mut()
            .find(|(_, entry)| !entry.busy && entry.due <= now);
        let (name, entry) = due?;
        entry.busy = true;
        entry.due = now + self.pace.resync;
        let turn = Turn {
            pool: entry.pool.clone(),
            failures: entry.failures,
        };
        Some((name.clone(), turn))
    }

    /// The turn is over.
    pub fn done(&mut self, name: &str, outcome: Outcome, now: Instant) {
        let pace = self.pace;
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.busy = false;
        match outcome {
            Outcome::Settled => entry.failures = 0,
            Outcome::Again => {
                entry.failures = entry.failures.saturating_add(1);
                entry.due = now + pause(pace, entry.failures);
            }
        }
    }

    /// True when this was not the last thing said about the pool; then it is now. Keeps logs quiet.
    pub fn says(&mut self, name: &str, text: Option<&str>) -> bool {
        let Some(entry) = self.entries.get_mut(name) else {
            return text.is_some();
        };
        if entry.said.as_deref() == text {
            return false;
        }
        entry.said = text.map(str::to_owned);
        text.is_some()
    }
}

/// Something that only the controller puts right.
fn is_urgent(pool: &SpiderIPPool, total: Option<i64>, known: bool) -> bool {
    let status = pool.status.as_ref();
    if plan::is_terminating(pool) {
        let claims = status.and_then(|status| status.allocated_ips.as_deref());
        return plan::has_finalizer(pool) && claims.is_none_or(|text| text.trim().is_empty());
    }
    match total {
        Some(total) => status.and_then(|status| status.total_ip_count) != Some(total),
        // A wrong spec is reported once, and again when it is changed.
        None => !known,
    }
}

/// Doubled each time.
fn pause(pace: Pace, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    pace.first_retry
        .saturating_mul(1 << doublings)
        .min(pace.last_retry)
}

#[cfg(test)]
#[path = "agenda_tests.rs"]
mod tests;
