//! Which pools a NIC may get its addresses from, and in which order (seed "IP Allocation", seed "Pool
//! candidate class exclusivity", reference §2.2-2.4).
//!
//! Pure: reads what the watches know, decides, and keeps a reason for every pool that dropped out.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_api::address_set::Family;
use orbweaver_api::annotation;
use orbweaver_api::pool::{PoolMode, SpiderIPPool};

use super::filter;
use super::source::{self, Source};
use crate::error::IpamError;
use crate::store::Marks;

/// Everything the decision is made from.
#[derive(Debug)]
pub struct Question<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// CNI interface name.
    pub nic: &'a str,
    /// The pod's node.
    pub node_name: &'a str,
    /// The node's labels.
    pub node: &'a Marks,
    /// The namespace's labels and annotations.
    pub namespace: &'a Marks,
    /// Every pool there is.
    pub pools: &'a [Arc<SpiderIPPool>],
    /// The CNI configuration's pools, IPv4 and IPv6.
    pub configured: (&'a [String], &'a [String]),
    /// Families that are switched on: IPv4, IPv6.
    pub enabled: (bool, bool),
    /// The network that the NIC is attached to, `ns/name`, when it is known.
    pub network: Option<&'a str>,
    /// The namespace that a bare `multusName` means.
    pub agent_namespace: &'a str,
}

impl Question<'_> {
    /// True when a family is switched on.
    pub fn enabled(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.enabled.0,
            Family::V6 => self.enabled.1,
        }
    }

    /// A pool by name.
    pub fn pool(&self, name: &str) -> Option<&Arc<SpiderIPPool>> {
        self.pools
            .iter()
            .find(|pool| pool.metadata.name.as_deref() == Some(name))
    }
}

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

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PairedPrimary => "paired provider pool",
            Self::Marked => "provider pool",
            Self::Plain => "plain pool",
        })
    }
}

/// A pool that dropped out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Name.
    pub pool: String,
    /// Why.
    pub reason: String,
}

/// The candidates of one family, best first.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Family.
    pub family: Family,
    /// Best first.
    pub pools: Vec<Arc<SpiderIPPool>>,
    /// What a filter dropped.
    pub dropped: Vec<Dropped>,
}

/// The decision.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Where the candidates were named.
    pub source: Source,
    /// The class that was kept.
    pub class: Class,
    /// Pools of a lower class, ignored.
    pub ignored: Vec<Dropped>,
    /// One per configured family that is switched on.
    pub families: Vec<Candidates>,
}

/// Decides.
pub fn select(question: &Question<'_>) -> Result<Selection, IpamError> {
    let named = source::candidates(question)?;
    let mut lists = Vec::new();
    for (family, names) in [(Family::V4, &named.ipv4), (Family::V6, &named.ipv6)] {
        if question.enabled(family) && !names.is_empty() {
            lists.push((family, resolve(question, family, names)?));
        }
    }
    if lists.is_empty() {
        let message = format!(
            "the pools named by {} are all of a family that is switched off",
            named.source
        );
        return Err(IpamError::NoPool(message.into()));
    }
    let dual_stack = question.enabled == (true, true);
    let configured = lists.iter().flat_map(|(_, pools)| pools);
    let class = configured
        .map(|pool| class_of(pool, dual_stack))
        .min()
        .unwrap_or(Class::Plain);
    let mut selection = Selection {
        source: named.source,
        class,
        ignored: Vec::new(),
        families: Vec::new(),
    };
    for (family, pools) in lists {
        let candidates = keep_class(question, family, pools, dual_stack, &mut selection);
        if let Some(candidates) = candidates {
            selection.families.push(candidates?);
        }
    }
    Ok(selection)
}

fn resolve(
    question: &Question<'_>,
    family: Family,
    names: &[String],
) -> Result<Vec<Arc<SpiderIPPool>>, IpamError> {
    let mut pools: Vec<Arc<SpiderIPPool>> = Vec::with_capacity(names.len());
    for name in names {
        let invalid = |problem: String| IpamError::InvalidRequest(problem.into());
        let pool = question.pool(name).ok_or_else(|| {
            let hint = if name.contains(['*', '?', '[']) {
                "; patterns are not supported, name each pool"
            } else {
                ""
            };
            IpamError::NoPool(format!("IPPool {name:?} does not exist{hint}").into())
        })?;
        if pools
            .iter()
            .any(|known| known.metadata.name == pool.metadata.name)
        {
            return Err(invalid(format!(
                "IPPool {name:?} is named twice for {family}; name it once"
            )));
        }
        match pool.family() {
            Some(actual) if actual != family => {
                return Err(invalid(format!(
                    "IPPool {name:?} is {actual} but is named as {family}; move it to the other list"
                )));
            }
            _ => pools.push(pool.clone()),
        }
    }
    Ok(pools)
}

fn class_of(pool: &SpiderIPPool, dual_stack: bool) -> Class {
    let annotated = |key: &str| {
        pool.metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(key))
    };
    match pool.mode() {
        PoolMode::Plain => Class::Plain,
        PoolMode::NodeLevel | PoolMode::Global => {
            let primary = annotated(annotation::PAIR_POOL) && pool.family() == Some(Family::V4);
            if dual_stack && primary {
                Class::PairedPrimary
            } else {
                Class::Marked
            }
        }
    }
}

/// Keeps the class, filters and orders one family; `None` when the class left nothing of it.
fn keep_class(
    question: &Question<'_>,
    family: Family,
    pools: Vec<Arc<SpiderIPPool>>,
    dual_stack: bool,
    selection: &mut Selection,
) -> Option<Result<Candidates, IpamError>> {
    let (kept, lower): (Vec<_>, Vec<_>) = pools
        .into_iter()
        .partition(|pool| class_of(pool, dual_stack) == selection.class);
    for pool in &lower {
        selection.ignored.push(Dropped {
            pool: pool.metadata.name.clone().unwrap_or_default(),
            reason: format!(
                "a {} is configured beside it, and a {} never stands in for one",
                selection.class,
                class_of(pool, dual_stack)
            ),
        });
    }
    if kept.is_empty() {
        return None;
    }
    let mut candidates = Candidates {
        family,
        pools: Vec::new(),
        dropped: Vec::new(),
    };
    let names: Vec<&str> = kept
        .iter()
        .filter_map(|pool| pool.metadata.name.as_deref())
        .collect();
    for pool in &kept {
        match filter::verdict(question, family, pool) {
            Ok(()) => candidates.pools.push(pool.clone()),
            Err(reason) => {
                candidates.dropped.push(Dropped {
                    pool: pool.metadata.name.clone().unwrap_or_default(),
                    reason,
                });
            }
        }
    }
    if candidates.pools.is_empty() {
        let reasons: Vec<String> = candidates
            .dropped
            .iter()
            .map(|dropped| format!("{}: {}", dropped.pool, dropped.reason))
            .collect();
        let message = format!(
            "all {family} IPPools {names:?} of {} filtered out: [{}]",
            question.nic,
            reasons.join(", ")
        );
        return Some(Err(IpamError::NoPool(message.into())));
    }
    candidates.pools.sort_by_key(|pool| order_key(pool));
    Some(Ok(candidates))
}

/// The more a pool says about who may use it, the earlier it is tried; the sort is stable, so equals stay in
/// the user's order (reference §2.4). Node-level pools come before global ones (seed).
fn order_key(pool: &SpiderIPPool) -> (bool, [bool; 6]) {
    let spec = &pool.spec;
    (
        pool.mode() == PoolMode::Global,
        [
            spec.pod_affinity.is_none(),
            spec.node_name.is_empty(),
            spec.node_affinity.is_none(),
            spec.namespace_name.is_empty(),
            spec.namespace_affinity.is_none(),
            spec.multus_name.is_empty(),
        ],
    )
}

/// An object's labels, empty when it has none.
pub(super) fn labels_of(pod: &Pod) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    pod.metadata.labels.as_ref().unwrap_or(&NONE)
}
