//! Provider releases whose outcome is not known: nothing is sent again while they may still execute.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

/// Addresses with a release that may still execute, and until when.
#[derive(Debug, Default)]
pub(super) struct Releases(DashMap<(Arc<str>, IpAddr), Instant>);

impl Releases {
    /// A release of this address ended without an answer.
    pub(super) fn unsettled(&self, pool: &Arc<str>, address: IpAddr, may_run_for: Duration) {
        self.0
            .insert((pool.clone(), address), Instant::now() + may_run_for);
    }

    /// True when no earlier release of this address can still execute.
    pub(super) fn may_send(&self, pool: &Arc<str>, address: IpAddr) -> bool {
        let now = Instant::now();
        self.0.retain(|_, until| *until > now);
        !self.0.contains_key(&(pool.clone(), address))
    }
}
