//! What was asked and what came of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::truth::Work;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Sub-ENIs were made, attached or moved.
    Allocated,
    /// Everything was bound as asked; the cloud was not called and no token was spent.
    Unchanged,
    /// The answer of the same ask, which was in flight.
    Joined,
    /// A sub-ENI was deleted.
    Released,
    /// Nothing to release: it is gone, or has moved to another node since.
    Absent,
    /// 400.
    RejectedInvalid,
    /// 503: the budget is too small; no token was spent.
    RejectedBudget,
    /// 429: the queue is full.
    RejectedThrottled,
    /// 409.
    RejectedConflict,
    /// 502: the cloud failed.
    CloudFailed,
    /// 503: the provider could not judge or finish.
    Unavailable,
    /// An injected fault was the answer, or took its place; the work was not done.
    Faulted,
    /// The work was done; an injected fault spoiled or lost the answer.
    Spoiled,
}

/// One request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Since the provider's cloud started.
    #[serde(serialize_with = "as_milliseconds", rename = "atMs")]
    pub at: Duration,
    /// Until the answer was ready.
    #[serde(serialize_with = "as_milliseconds", rename = "tookMs")]
    pub took: Duration,
    /// Path.
    pub path: String,
    /// Header `X-Request-Timeout-Ms` as it came.
    pub budget: Option<String>,
    /// The JSON body, or the text that is not JSON.
    pub body: Value,
    /// What came of it.
    pub outcome: Outcome,
    /// The status answered; 0 when the connection was closed instead.
    pub status: u16,
    /// The error text answered.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Counts since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Requests by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Tokens spent by requests, prewarming and reclaim.
    pub tokens: u64,
    /// Addresses moved from one node to another.
    pub steals: u64,
    /// Ledgers written.
    pub ledger_writes: u64,
    /// Ledger writes that the API server refused.
    pub ledger_failures: u64,
    /// Idle sub-ENIs marked for detachment.
    pub marked: u64,
    /// Marks taken back because a claim was there.
    pub unmarked: u64,
    /// What the cloud did since its start.
    pub cloud: Work,
}

impl Counters {
    /// Requests with this outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(&outcome).copied().unwrap_or(0)
    }
}

fn as_milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1000.0)
}

/// The record of requests; clones share it.
#[derive(Clone, Debug)]
pub struct Calls {
    state: Arc<Mutex<State>>,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    calls: VecDeque<Call>,
    counters: Counters,
}

impl Calls {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            state: Arc::default(),
            most,
        }
    }

    /// The last requests, oldest first.
    pub fn recorded(&self) -> Vec<Call> {
        self.state.lock().calls.iter().cloned().collect()
    }

    /// How many requests are kept.
    pub fn len(&self) -> usize {
        self.state.lock().calls.len()
    }

    /// Whether no request came since the start or the last reset.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts, without those that the cloud itself keeps.
    pub(crate) fn counters(&self) -> Counters {
        self.state.lock().counters.clone()
    }

    /// Forgets requests and counts.
    pub fn reset(&self) {
        *self.state.lock() = State::default();
    }

    pub(crate) fn record(&self, call: Call) {
        let mut state = self.state.lock();
        *state.counters.outcomes.entry(call.outcome).or_default() += 1;
        state.calls.push_back(call);
        while state.calls.len() > self.most {
            state.calls.pop_front();
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.state.lock().counters);
    }
}
