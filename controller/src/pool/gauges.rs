//! What the metrics say of each pool: computed in full from its spec and claims whenever it is looked at, never by
//! adding to what was said before.

use std::collections::BTreeSet;

use orbweaver_api::claims;
use orbweaver_api::pool::SpiderIPPool;

use crate::metrics;
use crate::pool::plan;

/// Pools that the metrics speak of. A pool that goes, and every pool when the lead ends, is said to have nothing: a
/// replica that does not lead must not repeat what it once knew.
#[derive(Debug, Default)]
pub struct Gauges {
    shown: BTreeSet<String>,
}

impl Gauges {
    /// The pool as it is now; one that cannot be read keeps what was said of it.
    pub fn show(&mut self, name: &str, pool: &SpiderIPPool) {
        let status = pool.status.as_ref();
        let claims = claims::decode(status.and_then(|status| status.allocated_ips.as_deref()));
        if let (Ok(total), Ok(claims)) = (plan::total(pool), claims) {
            metrics::pool_counted(name, total, claims.len());
            self.shown.insert(name.to_owned());
        }
    }

    /// Only so many pools are there; `exists` knows which. Cheap as long as none has gone.
    pub fn retain(&mut self, pools: usize, exists: impl Fn(&str) -> bool) {
        if self.shown.len() > pools {
            let (stay, gone) = std::mem::take(&mut self.shown)
                .into_iter()
                .partition(|name| exists(name));
            self.shown = stay;
            zero(&gone);
        }
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        zero(&self.shown);
    }
}

fn zero(names: &BTreeSet<String>) {
    for name in names {
        metrics::pool_counted(name, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
    use serde_json::json;

    use super::*;

    fn said(snapshotter: &Snapshotter) -> Vec<(String, f64)> {
        let mut said: Vec<(String, f64)> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, _, _, value)| {
                let DebugValue::Gauge(value) = value else {
                    panic!("{key:?}")
                };
                let pool = key.key().labels().next().unwrap().value().to_owned();
                (format!("{} {pool}", key.key().name()), value.into_inner())
            })
            .collect();
        said.sort_by(|a, b| a.0.cmp(&b.0));
        said
    }

    fn pool(claims: usize) -> SpiderIPPool {
        let claims: serde_json::Map<String, serde_json::Value> = (0..claims)
            .map(|at| (format!("fd00::{at:x}"), json!({ "pod": "ns/p", "podUid": "u" })))
            .collect();
        serde_json::from_value(json!({
            "metadata": { "name": "p" },
            "spec": { "subnet": "fd00::/64", "ips": ["fd00::-fd00::ffff:ffff"] },
            "status": { "allocatedIPs": json!(claims).to_string(), "allocatedIPCount": 77 },
        }))
        .unwrap()
    }

    #[test]
    fn what_is_said_of_a_pool_is_what_it_is_and_nothing_once_it_or_the_lead_is_gone() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        ::metrics::with_local_recorder(&recorder, || {
            let mut gauges = Gauges::default();
            gauges.show("p", &pool(3));
            gauges.show("p", &pool(2));
            gauges.show("q", &pool(1));
            gauges.retain(1, |name| name == "p");
            let of = |total: f64, p: f64| {
                [
                    ("orbweaver_controller_pool_addresses p", total),
                    ("orbweaver_controller_pool_addresses q", 0.0),
                    ("orbweaver_controller_pool_claims p", p),
                    ("orbweaver_controller_pool_claims q", 0.0),
                ]
                .map(|(name, value)| (name.to_owned(), value))
            };
            assert_eq!(said(&snapshotter), of(4_294_967_296.0, 2.0));
            drop(gauges);
            assert_eq!(said(&snapshotter), of(0.0, 0.0));
        });
    }
}
