//! What the leader does for pools (reference §5.4): counters and finalizers.
//!
//! - [`plan`] says what is wrong with one pool: pure.
//! - [`agenda`] says which pool is due when: pure.
//! - [`reconcile`] watches and writes.
//!
//! Agents write `allocatedIPs` and `allocatedIPCount` of a busy pool hundreds of times a second. Every write of ours
//! can cost them a conflict, so `totalIPCount` is written only when it differs, and the count of claims only when it
//! still differs some seconds later.

pub mod agenda;
pub mod gauges;
pub mod plan;
pub mod reconcile;

use std::time::Duration;

/// How patient the reconciler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a count of claims may be wrong, and a terminating pool in use, before it is looked at.
    pub settle: Duration,
    /// After how long a pool is looked at even if nothing happens.
    pub resync: Duration,
    /// Wait after the first failure of a pool; doubled by each further one.
    pub first_retry: Duration,
    /// Longest wait after failures.
    pub last_retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(5),
            resync: Duration::from_secs(300),
            first_retry: Duration::from_millis(500),
            last_retry: Duration::from_secs(60),
        }
    }
}
