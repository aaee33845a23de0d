//! What this process remembers of a pool beyond any version of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

/// When an address was seen released: larger is later, 0 is "before anybody looked".
pub(super) type ReleasedAt = u64;

/// The pod that an unfinished provider call was for, and how long the call may go on.
#[derive(Clone, Debug)]
struct Doubt {
    pod_uid: Arc<str>,
    until: Instant,
}

/// What this process remembers of a pool beyond the object: it survives every new version of it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    released: HashMap<IpAddr, ReleasedAt>,
    clock: ReleasedAt,
    doubts: HashMap<IpAddr, Doubt>,
}

impl Memory {
    pub(super) fn saw_release(&mut self, address: IpAddr) {
        self.clock += 1;
        self.released.insert(address, self.clock);
    }

    pub(super) fn released_at(&self, address: IpAddr) -> ReleasedAt {
        self.released.get(&address).copied().unwrap_or(0)
    }

    /// The provider may still work on `address` for that pod.
    pub fn doubt(&mut self, address: IpAddr, pod_uid: Arc<str>, until: Instant) {
        self.doubts.insert(address, Doubt { pod_uid, until });
    }

    pub(super) fn forget_settled(&mut self, now: Instant) {
        self.doubts.retain(|_, doubt| doubt.until > now);
    }

    pub(super) fn avoided(&self, address: IpAddr, pod_uid: &str) -> bool {
        self.doubts
            .get(&address)
            .is_some_and(|doubt| *doubt.pod_uid != *pod_uid)
    }

    pub(super) fn preferred(&self, pod_uid: &str) -> Option<IpAddr> {
        self.doubts
            .iter()
            .find(|(_, doubt)| *doubt.pod_uid == *pod_uid)
            .map(|(address, _)| *address)
    }
}
