//! Garbage collection: addresses whose pod will not come back for them (reference §5.3, peer rule L3).
//!
//! - [`facts`] is what was seen of the cluster, and [`rules`] what follows for one claim or endpoint: pure.
//! - [`looks`] lets nothing be collected that was not seen twice, a grace period apart: pure.
//! - [`backing`] says whether the provider must be asked first, and what: pure.
//! - [`store`] is what the engine needs of the outside, [`cluster`] the cluster as such a store.
//! - [`engine`] looks and collects; [`report`] only tells.
//!
//! Nothing is believed that was seen once. Pools are listed before pods, so that a pod made between the two lists
//! protects its claim; what two looks agree on is read once more, uncached, and judged by the same rules; and the claim
//! goes by a compare-and-swap that names the pool's version and finds the dead pod's UID still there.

pub mod backing;
pub mod cluster;
pub mod engine;
pub mod facts;
pub mod looks;
pub mod report;
pub mod rules;
pub mod store;

use std::time::Duration;

/// How the collector behaves (reference §5.1, the variables `GC_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own in the reference"
)]
pub struct Policy {
    /// False: nothing is collected (`GC_IP_ENABLED`).
    pub enabled: bool,
    /// Time between rounds (`GC_DEFAULT_INTERVAL_DURATION`).
    pub interval: Duration,
    /// Least time between two looks at a suspect (`GC_TRACE_POD_GAP_DURATION`).
    pub gap: Duration,
    /// For how long a claim must look abandoned (`GC_ADDITIONAL_GRACE_DELAY`). A force-deleted pod's containers go on
    /// for a while after its object is gone.
    pub grace: Duration,
    /// Collect from pods that do not end, on ready nodes (`GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED`).
    pub terminating_on_ready: bool,
    /// The same on nodes that are not ready (`GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED`).
    pub terminating_on_not_ready: bool,
    /// Pods of a StatefulSet keep their addresses (`enableStatefulSet`).
    pub stateful_sets: bool,
    /// Virtual machines keep their addresses (`enableKubevirtStaticIP`).
    pub virtual_machines: bool,
    /// Endpoints that hold nothing, without pod or owner, are removed (`enableCleanOutdatedEndpoint`). Those that
    /// are being deleted are let go in any case.
    pub outdated_endpoints: bool,
    /// Pods collected from in one round.
    pub per_round: usize,
    /// Least time between two pods collected from.
    pub pause: Duration,
    /// What one provider release may take.
    pub release_budget: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(600),
            gap: Duration::from_secs(5),
            grace: Duration::from_secs(30),
            terminating_on_ready: true,
            terminating_on_not_ready: true,
            stateful_sets: true,
            virtual_machines: true,
            outdated_endpoints: false,
            per_round: 1000,
            pause: Duration::from_millis(20),
            release_budget: Duration::from_secs(50),
        }
    }
}
