//! What is wrong with one pool, and what would put it right.

use orbweaver_api::FINALIZER;
use orbweaver_api::address_set::{AddressSet, RangeError};
use orbweaver_api::claims::{self, MalformedClaims};
use orbweaver_api::pool::SpiderIPPool;

/// One thing to do for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolAction {
    /// Write `status.totalIPCount`.
    SetTotal(i64),
    /// Write `status.allocatedIPCount`; agents keep it right, so this can wait.
    SetAllocated(i64),
    /// Nobody holds an address of a pool that is to go: let it go.
    RemoveFinalizer,
    /// So many claims hold a pool that is to go.
    AwaitClaims(usize),
}

/// The pool cannot be used; nothing is written to it before somebody corrects it.
#[derive(Debug, thiserror::Error)]
pub enum PoolProblem {
    /// No family.
    #[error(
        "neither spec.ipVersion nor spec.subnet {subnet:?} gives a family; write a CIDR, as 10.0.0.0/24 or fd00::/64"
    )]
    Family {
        /// `spec.subnet`.
        subnet: String,
    },
    /// `spec.ips`.
    #[error("spec.ips: {0}")]
    Ips(#[source] RangeError),
    /// `spec.excludeIPs`.
    #[error("spec.excludeIPs: {0}")]
    ExcludeIps(#[source] RangeError),
    /// `status.allocatedIPs`.
    #[error(transparent)]
    Claims(#[from] MalformedClaims),
}

impl PoolProblem {
    /// Closed label set for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Family { .. } => "family",
            Self::Ips(_) => "ips",
            Self::ExcludeIps(_) => "exclude_ips",
            Self::Claims(_) => "claims",
        }
    }
}

/// `|ips - excludeIPs|`, at most `i64::MAX` (a /64 has more).
pub fn total(pool: &SpiderIPPool) -> Result<i64, PoolProblem> {
    let spec = &pool.spec;
    let family = pool.family().ok_or_else(|| PoolProblem::Family {
        subnet: spec.subnet.clone(),
    })?;
    let ips = AddressSet::parse(family, &spec.ips).map_err(PoolProblem::Ips)?;
    let excluded = AddressSet::parse(family, &spec.exclude_ips).map_err(PoolProblem::ExcludeIps)?;
    Ok(i64::try_from(ips.difference(&excluded).count()).unwrap_or(i64::MAX))
}

/// True when the API server has been told to delete the pool.
pub fn is_terminating(pool: &SpiderIPPool) -> bool {
    pool.metadata.deletion_timestamp.is_some()
}

/// True when the pool has our finalizer.
pub fn has_finalizer(pool: &SpiderIPPool) -> bool {
    pool.metadata
        .finalizers
        .as_ref()
        .is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER))
}

/// All that is to be done. Counters are computed from spec and claims, never from what they were.
pub fn plan(pool: &SpiderIPPool) -> Result<Vec<PoolAction>, PoolProblem> {
    let status = pool.status.as_ref();
    let claims = claims::decode(status.and_then(|status| status.allocated_ips.as_deref()))?.len();
    if is_terminating(pool) {
        // Its spec may be what is wrong with it: only claims can hold it.
        return Ok(match (has_finalizer(pool), claims) {
            (false, _) => Vec::new(),
            (true, 0) => vec![PoolAction::RemoveFinalizer],
            (true, claims) => vec![PoolAction::AwaitClaims(claims)],
        });
    }
    let mut actions = Vec::new();
    let total = total(pool)?;
    if status.and_then(|status| status.total_ip_count) != Some(total) {
        actions.push(PoolAction::SetTotal(total));
    }
    let allocated = i64::try_from(claims).unwrap_or(i64::MAX);
    if status.and_then(|status| status.allocated_ip_count) != Some(allocated) {
        actions.push(PoolAction::SetAllocated(allocated));
    }
    Ok(actions)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
