//! Pledges: changes of pools that were admitted and that the cluster may not show yet. Pure.
//!
//! Two overlapping pools that are created at the same moment do not see each other: admission comes before the write.
//! So whoever admits a pool first puts a pledge of its addresses into one object of the cluster by compare-and-swap,
//! after having read that object and then, in this order, all pools. Of two that overlap one is written first; the
//! other one's swap succeeds only after it has read the first one's pledge, or the pool that came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::pool::SpiderIPPool;
use serde::{Deserialize, Serialize};

use super::pool_fields::effective;

/// After so long what was pledged has come to be or never will: an API server gives a request 60 s (`--request-timeout`),
/// and clocks of replicas may differ by the rest.
pub const EXPIRY: Duration = Duration::from_secs(150);
/// Most pledges at once, and most bytes of them: the object stays far below what etcd takes.
const MOST: usize = 512;
const MOST_BYTES: usize = 768 << 10;

/// An admitted change of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pledge {
    /// UID of the pool; the API server chooses it before admission.
    pub uid: String,
    /// Name of the pool: two pools of one name are never there at once.
    pub name: String,
    /// Version of the pool that the change is made to; absent for a creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Family, 4 or 6.
    pub ip_version: u8,
    /// `spec.subnet`.
    pub subnet: String,
    /// `ips - excludeIPs` as it will be.
    pub ips: Vec<String>,
}

/// There is no room for another pledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many pools are being created or grown at once; try again in some seconds")]
pub struct Full;

/// The pledges' text is of another release, or of somebody who should not write it. Nothing can be admitted past it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Pledge {
    /// What admitting `new` promises: all addresses of a creation (`old` is `None`), or of a change that gains some.
    /// `None`: nothing that could meet another pool's.
    pub fn of(old: Option<&SpiderIPPool>, new: &SpiderIPPool, now: Duration) -> Option<Self> {
        let after = effective(new)?;
        if let Some(before) = old.and_then(effective)
            && before.is_superset(&after)
        {
            return None;
        }
        Some(Self {
            uid: new.metadata.uid.clone().unwrap_or_default(),
            name: new.metadata.name.clone().unwrap_or_default(),
            over: old.map(|old| old.metadata.resource_version.clone().unwrap_or_default()),
            at: now.as_secs(),
            ip_version: new.family()?.number(),
            subnet: new.spec.subnet.clone(),
            ips: after.to_ranges(),
        })
    }

    /// The pool as it will be, as far as others are judged by it.
    pub fn pool(&self) -> SpiderIPPool {
        let mut pool = SpiderIPPool::default();
        pool.metadata.name = Some(self.name.clone());
        pool.metadata.uid = Some(self.uid.clone());
        pool.spec.ip_version = Some(i64::from(self.ip_version));
        pool.spec.subnet.clone_from(&self.subnet);
        pool.spec.ips.clone_from(&self.ips);
        pool
    }

    /// Whether it may still come true unseen. `version` is that of the pool of this UID in a list read after the
    /// pledge; `was_there` says that one was there before that list was read.
    fn is_pending(&self, version: Option<&str>, was_there: bool, now: Duration) -> bool {
        let is_old = now.as_secs().saturating_sub(self.at) >= EXPIRY.as_secs();
        let is_settled = match &self.over {
            None => version.is_some() || was_there,
            // The write is bound to that version: over another one it has happened or never will.
            Some(over) => version != Some(over.as_str()),
        };
        !is_old && !is_settled
    }
}

/// The pledges of `text` that are still pending beside `pools`, which were read after it.
pub fn pending(
    text: Option<&str>,
    pools: &[Arc<SpiderIPPool>],
    was_there: impl Fn(&str) -> bool,
    now: Duration,
) -> Result<Vec<Pledge>, Unreadable> {
    let versions: BTreeMap<&str, &str> = pools
        .iter()
        .filter_map(|pool| {
            let metadata = &pool.metadata;
            Some((
                metadata.uid.as_deref()?,
                metadata.resource_version.as_deref().unwrap_or_default(),
            ))
        })
        .collect();
    let all: Vec<Pledge> = match text {
        Some(text) => serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))?,
        None => Vec::new(),
    };
    let is_pending =
        |one: &Pledge| one.is_pending(versions.get(one.uid.as_str()).copied(), was_there(&one.uid), now);
    Ok(all.into_iter().filter(is_pending).collect())
}

/// The text to keep.
pub fn encode(pledges: &[Pledge]) -> Result<String, Full> {
    let text = serde_json::to_string(pledges).unwrap_or_default();
    if pledges.len() > MOST || text.len() > MOST_BYTES {
        return Err(Full);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);

    fn pool(uid: &str, version: &str, ips: &[&str]) -> SpiderIPPool {
        serde_json::from_value(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": { "name": "p", "uid": uid, "resourceVersion": version },
            "spec": { "subnet": "10.0.0.0/24", "ips": ips },
        }))
        .unwrap()
    }

    fn left(pledge: &Pledge, pools: Vec<SpiderIPPool>, gone: bool, now: Duration) -> usize {
        let pools: Vec<_> = pools.into_iter().map(Arc::new).collect();
        let text = encode(std::slice::from_ref(pledge)).unwrap();
        pending(Some(&text), &pools, |_| gone, now).unwrap().len()
    }

    #[test]
    fn a_creation_is_pending_until_its_pool_is_seen_or_gone_or_it_is_too_old() {
        let pledge = Pledge::of(None, &pool("u", "", &["10.0.0.1"]), NOW).unwrap();
        assert_eq!(left(&pledge, vec![], false, NOW), 1);
        assert_eq!(left(&pledge, vec![pool("other", "7", &[])], false, NOW), 1);
        assert_eq!(left(&pledge, vec![pool("u", "7", &[])], false, NOW), 0);
        assert_eq!(left(&pledge, vec![], true, NOW), 0);
        let last = EXPIRY.saturating_sub(Duration::from_secs(1));
        assert_eq!(left(&pledge, vec![], false, NOW + last), 1);
        assert_eq!(left(&pledge, vec![], false, NOW + EXPIRY), 0);
    }

    #[test]
    fn a_change_is_pending_while_its_pool_has_the_version_that_it_changes() {
        let (old, new) = (
            pool("u", "7", &["10.0.0.1"]),
            pool("u", "7", &["10.0.0.1-10.0.0.2"]),
        );
        let pledge = Pledge::of(Some(&old), &new, NOW).unwrap();
        assert_eq!(left(&pledge, vec![old], false, NOW), 1);
        assert_eq!(left(&pledge, vec![pool("u", "8", &[])], false, NOW), 0);
        assert_eq!(left(&pledge, vec![], false, NOW), 0);
    }

    #[test]
    fn a_change_that_gains_no_address_promises_nothing() {
        let (old, new) = (
            pool("u", "7", &["10.0.0.1-10.0.0.9"]),
            pool("u", "7", &["10.0.0.1"]),
        );
        assert_eq!(Pledge::of(Some(&old), &new, NOW), None);
        assert_eq!(Pledge::of(Some(&new), &new, NOW), None);
    }

    #[test]
    fn pledges_stay_within_their_bounds() {
        let one = Pledge::of(None, &pool("u", "", &["10.0.0.1"]), NOW).unwrap();
        assert!(encode(&vec![one.clone(); MOST]).is_ok());
        assert_eq!(encode(&vec![one; MOST + 1]), Err(Full));
        assert!(pending(Some("nonsense"), &[], |_| false, NOW).is_err());
    }
}
