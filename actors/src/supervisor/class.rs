//! What a pool is worth (seed "Pool candidate class exclusivity").

use std::fmt;

use orbweaver_api::address_set::Family;
use orbweaver_api::annotation;
use orbweaver_api::pool::{PoolMode, SpiderIPPool};

/// What a pool is worth; a lower class is never used once a higher one is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Paired primary pool in a dual-stack cluster: pair or nothing.
    PairedPrimary,
    /// Marked pool, node-level or global.
    Marked,
    /// Everything else.
    Plain,
}

impl Class {
    /// The class of a pool.
    pub(super) fn of(pool: &SpiderIPPool, dual_stack: bool) -> Self {
        let paired = || {
            let annotations = pool.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(annotation::PAIR_POOL))
        };
        match pool.mode() {
            PoolMode::Plain => Self::Plain,
            _ if dual_stack && pool.family() == Some(Family::V4) && paired() => Self::PairedPrimary,
            PoolMode::NodeLevel | PoolMode::Global => Self::Marked,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PairedPrimary => "paired provider pool",
            Self::Marked => "provider pool",
            Self::Plain => "plain pool",
        })
    }
}
