//! How often the server was asked for what.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What a request asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    /// API group; empty for core.
    pub group: String,
    /// `spiderippools`, or `spiderippools/status`.
    pub resource: String,
    /// Empty for cluster-wide resources, and for lists and watches of all namespaces.
    pub namespace: String,
    /// First word of the user agent.
    pub client: String,
}

/// Counts of one cluster; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Counters(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<Asked, u64>,
    refused: BTreeMap<(Asked, u16), u64>,
    watched_bytes: u64,
}

impl Counters {
    /// Starts again from nothing.
    pub fn reset(&self) {
        *self.0.lock() = State::default();
    }

    /// Requests by what they asked, watches included.
    pub fn requests(&self) -> BTreeMap<Asked, u64> {
        self.0.lock().requests.clone()
    }

    /// Requests for which `which` holds.
    pub fn count(&self, which: impl Fn(&Asked) -> bool) -> u64 {
        self.0
            .lock()
            .requests
            .iter()
            .filter(|(asked, _)| which(asked))
            .map(|(_, count)| count)
            .sum()
    }

    /// Refusals by what was asked and HTTP status.
    pub fn refused(&self) -> BTreeMap<(Asked, u16), u64> {
        self.0.lock().refused.clone()
    }

    /// Bytes sent to watchers.
    pub fn watched_bytes(&self) -> u64 {
        self.0.lock().watched_bytes
    }

    pub(crate) fn asked(&self, asked: Asked) {
        *self.0.lock().requests.entry(asked).or_default() += 1;
    }

    pub(crate) fn refuse(&self, asked: Asked, code: u16) {
        *self.0.lock().refused.entry((asked, code)).or_default() += 1;
    }

    pub(crate) fn watched(&self, bytes: usize) {
        self.0.lock().watched_bytes += bytes as u64;
    }
}
