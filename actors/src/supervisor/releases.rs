//! Provider releases whose outcome is not known: nothing is sent again while they may still execute, neither by
//! this process ([`Releases`]) nor by another (the mark on the endpoint, [`mark`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use k8s_openapi::jiff::Timestamp;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::release_mark::{RELEASE_MARK, ReleaseMark};
use tokio::time::Instant;

/// What clocks of nodes may differ by.
const CLOCKS: Duration = Duration::from_secs(10);
/// Own marks remembered as settled; forgetting one makes a retry wait for the mark's end.
const REMEMBERED: usize = 4096;

/// What this process knows of its own releases.
#[derive(Debug, Default)]
pub(super) struct Releases {
    /// Addresses with a release that may still execute, and until when.
    unsettled: DashMap<(Arc<str>, IpAddr), Instant>,
    /// Marks of ours, by their text, whose releases have all been answered.
    settled: DashMap<String, ()>,
}

impl Releases {
    /// A release of this address ended without an answer.
    pub(super) fn unsettled(&self, pool: &Arc<str>, address: IpAddr, may_run_for: Duration) {
        self.unsettled
            .insert((pool.clone(), address), Instant::now() + may_run_for);
    }

    /// True when no earlier release of this address can still execute.
    pub(super) fn may_send(&self, pool: &Arc<str>, address: IpAddr) -> bool {
        let now = Instant::now();
        self.unsettled.retain(|_, until| *until > now);
        !self.unsettled.contains_key(&(pool.clone(), address))
    }

    /// Every release under this mark has been answered.
    pub(super) fn settled(&self, mark: &ReleaseMark) {
        if self.settled.len() >= REMEMBERED {
            self.settled.clear();
        }
        self.settled.insert(text(mark), ());
    }

    /// `Err`: a release that another process, or this one before it was restarted, announced may still execute.
    pub(super) fn may_mark(&self, endpoint: &SpiderEndpoint, now: Timestamp) -> Result<(), String> {
        match ReleaseMark::on(endpoint) {
            Ok(None) => Ok(()),
            Ok(Some(mark)) if mark.is_over(now) || self.settled.contains_key(&text(&mark)) => Ok(()),
            Ok(Some(mark)) => Err(format!(
                "a release by {} may still be executing until {}",
                mark.by, mark.until
            )),
            Err(error) => Err(format!(
                "annotation {RELEASE_MARK} of its SpiderEndpoint cannot be read ({error}); remove it once no release is executing"
            )),
        }
    }
}

fn text(mark: &ReleaseMark) -> String {
    // Strings always print.
    serde_json::to_string(mark).unwrap_or_default()
}

/// The mark of a release that is over after `budget`, and the endpoint with it.
pub(super) fn mark(
    endpoint: &SpiderEndpoint,
    node: &str,
    budget: Duration,
    now: Timestamp,
) -> (ReleaseMark, SpiderEndpoint) {
    let mark = ReleaseMark {
        pod_uid: endpoint.status.current.uid.clone(),
        by: format!("agent/{node}"),
        until: (now + budget + CLOCKS).to_string(),
    };
    let mut endpoint = endpoint.clone();
    let annotations = endpoint.metadata.annotations.get_or_insert_default();
    annotations.insert(RELEASE_MARK.to_owned(), text(&mark));
    (mark, endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_mark_of_anybody_holds_until_its_time_unless_its_releases_were_answered_here() {
        let now = at("2026-01-01T00:00:00Z");
        let releases = Releases::default();
        let mut endpoint = SpiderEndpoint::default();
        endpoint.status.current.uid = "u".to_owned();
        assert_eq!(releases.may_mark(&endpoint, now), Ok(()));
        let (own, marked) = mark(&endpoint, "n1", Duration::from_secs(50), now);
        let refusal = releases
            .may_mark(&marked, at("2026-01-01T00:00:59Z"))
            .unwrap_err();
        assert!(
            refusal.contains("agent/n1") && refusal.contains("00:01:00"),
            "{refusal}"
        );
        assert_eq!(releases.may_mark(&marked, at("2026-01-01T00:01:00Z")), Ok(()));
        releases.settled(&own);
        assert_eq!(releases.may_mark(&marked, now), Ok(()));
        let (_, others) = mark(&endpoint, "n2", Duration::from_secs(50), now);
        assert!(releases.may_mark(&others, now).is_err());
    }
}
