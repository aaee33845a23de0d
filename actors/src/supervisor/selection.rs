//! Which pools a NIC may get its addresses from, and in which order (seed "IP Allocation", seed "Pool
//! candidate class exclusivity", reference §2.2-2.4).
//!
//! Pure: reads what the watches know, decides, and keeps a reason for every pool that dropped out.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_api::address_set::Family;
use orbweaver_api::pool::{PoolMode, SpiderIPPool};

pub use super::class::Class;
use super::filter;
use super::resolve::{self, name_of};
use super::source::{self, Item, Source};
use crate::error::IpamError;
use crate::store::Marks;

/// Everything the decision is made from.
#[derive(Clone, Copy, Debug)]
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
    /// The pod's further networks, `ns/name`, in their order.
    pub further_networks: &'a [String],
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

    /// The same question for a slot of nameless multi-NIC mode; slot 0 is the NIC in question.
    pub(super) fn of_slot<'b>(&'b self, slot: usize, nic: &'b str) -> Question<'b> {
        match slot.checked_sub(1) {
            None => *self,
            Some(further) => Question {
                nic,
                network: self.further_networks.get(further).map(String::as_str),
                ..*self
            },
        }
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

/// The decision for one NIC.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Where the candidates were named.
    pub source: Source,
    /// The item's place when the annotation `ippools` names no NICs; `None`: the source speaks of this NIC.
    pub slot: Option<usize>,
    /// What the source says about the default route; `None`: nothing, the CNI configuration decides.
    pub clean_gateway: Option<bool>,
    /// The class that was kept.
    pub class: Class,
    /// Pools of a lower class, ignored.
    pub ignored: Vec<Dropped>,
    /// One per configured family that is switched on.
    pub families: Vec<Candidates>,
}

impl Selection {
    /// Why there is nothing to claim from for `nic`, the NIC in question; `None`: there is.
    pub fn refusal(&self, nic: &str) -> Option<IpamError> {
        let empty = self.families.iter().find(|family| family.pools.is_empty())?;
        let of = match self.slot {
            None | Some(0) => nic.to_owned(),
            Some(slot) => slot.to_string(),
        };
        Some(nothing_left(&of, empty, &self.ignored))
    }

    fn or_refusal(self, nic: &str) -> Result<Self, IpamError> {
        self.refusal(nic).map_or(Ok(self), Err)
    }
}

/// Decides for the NIC in question.
pub fn select(question: &Question<'_>) -> Result<Selection, IpamError> {
    let named = source::candidates(question)?;
    let slot = named.nameless.then_some(0);
    decide(question, named.source, slot, &named.items[0])?.or_refusal(question.nic)
}

/// Decides for the NIC in question and, where the pod's annotation `ippools` names no NICs, for every further
/// item of it, in its order (reference §2.2 "nameless multi-NIC").
pub fn select_all(question: &Question<'_>) -> Result<Vec<Selection>, IpamError> {
    let decided = decide_all(question)?.into_iter();
    decided
        .map(|selection| selection.or_refusal(question.nic))
        .collect()
}

/// The same, even where filters left nothing: [`Selection::refusal`] says so.
pub fn decide_all(question: &Question<'_>) -> Result<Vec<Selection>, IpamError> {
    let named = source::candidates(question)?;
    let items = named.items.iter().enumerate().map(|(place, item)| {
        let nic = place.to_string();
        let question = question.of_slot(place, &nic);
        decide(&question, named.source, named.nameless.then_some(place), item)
    });
    items.collect()
}

/// The pools that a source names for one NIC, by family that is switched on; before filters.
pub type Configured = Vec<(Family, Vec<Arc<SpiderIPPool>>)>;

/// What a pod that came back is compared with (reference §2.7).
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The place that names the pools.
    pub source: Source,
    /// The annotation `ippools` names no NICs: one item for each slot, else one for the NIC in question.
    pub nameless: bool,
    /// In their order.
    pub items: Vec<Configured>,
}

/// The pools that are named for the NIC in question, and for every further item where `ippools` names no NICs.
pub fn wanted(question: &Question<'_>) -> Result<Wanted, IpamError> {
    let named = source::candidates(question)?;
    let items = named.items.iter();
    let items: Result<_, IpamError> = items
        .map(|item| Ok(of_top_class(question, lists(question, named.source, item)?)))
        .collect();
    Ok(Wanted {
        source: named.source,
        nameless: named.nameless,
        items: items?,
    })
}

/// The same for a NIC that the pod may not have any more; `None`: the annotation `ippools` leaves it out.
pub fn wanted_if_named(question: &Question<'_>) -> Result<Option<Wanted>, IpamError> {
    if source::leaves_out(question) {
        return Ok(None);
    }
    wanted(question).map(Some)
}

/// A pool of a lower class is not named, whoever still has an address of it (design §8 item 6).
fn of_top_class(question: &Question<'_>, mut lists: Configured) -> Configured {
    let dual_stack = question.enabled == (true, true);
    let top = top_class(&lists, dual_stack);
    for (_, pools) in &mut lists {
        pools.retain(|pool| Class::of(pool, dual_stack) == top);
    }
    lists.retain(|(_, pools)| !pools.is_empty());
    lists
}

fn top_class(lists: &Configured, dual_stack: bool) -> Class {
    let pools = lists.iter().flat_map(|(_, pools)| pools);
    let classes = pools.map(|pool| Class::of(pool, dual_stack));
    classes.min().unwrap_or(Class::Plain)
}

pub(super) fn lists(question: &Question<'_>, source: Source, item: &Item) -> Result<Configured, IpamError> {
    let families = [(Family::V4, &item.pools.ipv4), (Family::V6, &item.pools.ipv6)];
    let wanted = families
        .into_iter()
        .filter(|(family, names)| question.enabled(*family) && !names.is_empty());
    wanted
        .map(|(family, names)| Ok((family, resolve::pools(question, source, family, names)?)))
        .collect()
}

/// The decision, even where filters left nothing.
pub(super) fn decide(
    question: &Question<'_>,
    source: Source,
    slot: Option<usize>,
    item: &Item,
) -> Result<Selection, IpamError> {
    let lists = lists(question, source, item)?;
    if lists.is_empty() {
        let message = format!("the pools named by {source} are all of a family that is switched off");
        return Err(IpamError::NoPool(message.into()));
    }
    let dual_stack = question.enabled == (true, true);
    let mut selection = Selection {
        source,
        slot,
        clean_gateway: item.clean_gateway,
        class: top_class(&lists, dual_stack),
        ignored: Vec::new(),
        families: Vec::new(),
    };
    for (family, pools) in lists {
        let kept = keep_class(pools, dual_stack, &mut selection);
        if !kept.is_empty() {
            selection.families.push(filtered(question, family, kept));
        }
    }
    Ok(selection)
}

/// Sets pools of a lower class aside.
fn keep_class(
    pools: Vec<Arc<SpiderIPPool>>,
    dual_stack: bool,
    selection: &mut Selection,
) -> Vec<Arc<SpiderIPPool>> {
    let class = selection.class;
    let (kept, lower): (Vec<_>, Vec<_>) = pools
        .into_iter()
        .partition(|pool| Class::of(pool, dual_stack) == class);
    selection.ignored.extend(lower.iter().map(|pool| Dropped {
        pool: name_of(pool).to_owned(),
        reason: format!(
            "a {class} is configured beside it, and a {} never stands in for one",
            Class::of(pool, dual_stack)
        ),
    }));
    kept
}

/// Filters and orders one family.
fn filtered(question: &Question<'_>, family: Family, pools: Vec<Arc<SpiderIPPool>>) -> Candidates {
    let mut candidates = Candidates {
        family,
        pools: Vec::new(),
        dropped: Vec::new(),
    };
    for pool in pools {
        match filter::verdict(question, family, &pool) {
            Ok(()) => candidates.pools.push(pool),
            Err(reason) => candidates.dropped.push(Dropped {
                pool: name_of(&pool).to_owned(),
                reason,
            }),
        }
    }
    candidates.pools.sort_by_cached_key(|pool| order_key(pool));
    candidates
}

/// Each pool with its reason (reference §2.3).
fn nothing_left(nic: &str, candidates: &Candidates, ignored: &[Dropped]) -> IpamError {
    let dropped = &candidates.dropped;
    let names: Vec<&str> = dropped.iter().map(|dropped| dropped.pool.as_str()).collect();
    let mut message = format!(
        "all {} IPPools {names:?} of {nic} filtered out: [{}]",
        candidates.family,
        reasons(dropped)
    );
    if !ignored.is_empty() {
        message = format!("{message}; others do not count: [{}]", reasons(ignored));
    }
    IpamError::NoPool(message.into())
}

/// Each pool with its reason, in a line.
pub(super) fn reasons(dropped: &[Dropped]) -> String {
    let each = dropped
        .iter()
        .map(|dropped| format!("{}: {}", dropped.pool, dropped.reason));
    each.collect::<Vec<_>>().join(", ")
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

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// A pod's labels, empty when it has none.
pub(super) fn labels_of(pod: &Pod) -> &BTreeMap<String, String> {
    pod.metadata.labels.as_ref().unwrap_or(&NONE)
}

/// A pod's annotations, empty when it has none.
pub(super) fn annotations_of(pod: &Pod) -> &BTreeMap<String, String> {
    pod.metadata.annotations.as_ref().unwrap_or(&NONE)
}
