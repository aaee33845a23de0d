//! Why a pod gets, or does not get, its addresses from which pools: every step of the selection with its
//! reason, and nothing claimed.

use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::NicAllocation;
use orbweaver_api::pool::SpiderIPPool;
use serde::{Deserialize, Serialize};

use super::class::Class;
use super::filter::{self, FILTERS};
use super::resolve::name_of;
use super::selection::{self, Question, Selection};
use super::source::{self, Item, Source};

/// Every step of one decision. Serialises to the JSON of the admin port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The NIC that is asked about.
    pub nic: String,
    /// The node.
    pub node: String,
    /// The network that the NIC is attached to, `ns/name`, when it is known.
    pub network: Option<String>,
    /// What the pod's endpoint says of the NIC: then nothing is selected, the same is answered again.
    pub recorded: Option<NicAllocation>,
    /// The endpoint of an earlier life, `namespace/name`, where the pod is one that comes back: addresses that it
    /// names in pools that are still named are taken over before anything is selected.
    #[serde(default)]
    pub comes_back_to: Option<String>,
    /// Every place that may name pools, highest first.
    pub sources: Vec<SourceWord>,
    /// One for the NIC, or one for each slot where `ippools` names no NICs.
    pub nics: Vec<NicExplanation>,
    /// Why an ADD would be refused at this point; `None`: it would go on and claim.
    pub refusal: Option<String>,
}

/// What one place says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceWord {
    /// The place.
    pub source: String,
    /// What it says, as written; `None`: nothing.
    pub says: Option<String>,
    /// True for the place that decides.
    pub decides: bool,
}

/// The decision for one NIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NicExplanation {
    /// The NIC, or `slot 1`.
    pub nic: String,
    /// The class that counts.
    pub class: Option<String>,
    /// Every pool that is named.
    pub pools: Vec<PoolExplanation>,
    /// Candidates by family, in the order in which they are tried.
    pub order: Vec<FamilyOrder>,
    /// Why nothing is left.
    pub refusal: Option<String>,
}

/// The candidates of one family.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyOrder {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Names, first tried first.
    pub pools: Vec<String>,
}

/// What becomes of one pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolExplanation {
    /// Name.
    pub pool: String,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Its class.
    pub class: String,
    /// Claims there are and addresses it has, by its status.
    pub used: Option<i64>,
    /// `status.totalIPCount`.
    pub total: Option<i64>,
    /// Every filter in order, up to the first that drops it; empty when its class does not count.
    pub filters: Vec<Verdict>,
    /// Why it dropped out; `None`: it is a candidate.
    pub dropped: Option<String>,
}

/// What one filter says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The filter.
    pub filter: String,
    /// Why it drops the pool; `None`: it passes.
    pub drops: Option<String>,
}

/// Explains the selection that `question` leads to.
pub fn explain(question: &Question<'_>) -> Explanation {
    let meta = &question.pod.metadata;
    let named = source::candidates(question);
    let decides = named.as_ref().ok().map(|named| named.source);
    let sources = Source::ALL.map(|source| SourceWord {
        source: source.to_string(),
        says: source::says(question, source),
        decides: decides == Some(source),
    });
    let mut explanation = Explanation {
        pod: format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        ),
        uid: meta.uid.clone().unwrap_or_default(),
        nic: question.nic.to_owned(),
        node: question.node_name.to_owned(),
        network: question.network.map(str::to_owned),
        recorded: None,
        comes_back_to: None,
        sources: sources.into(),
        nics: Vec::new(),
        refusal: None,
    };
    match named {
        Err(error) => explanation.refusal = Some(error.to_string()),
        Ok(named) => {
            for (place, item) in named.items.iter().enumerate() {
                let slot = named.nameless.then_some(place);
                explanation.nics.push(of_item(question, named.source, slot, item));
            }
            let refused = explanation.nics.iter().find_map(|nic| nic.refusal.clone());
            explanation.refusal = refused;
        }
    }
    explanation
}

fn of_item(question: &Question<'_>, source: Source, slot: Option<usize>, item: &Item) -> NicExplanation {
    let name = match slot {
        None | Some(0) => question.nic.to_owned(),
        Some(slot) => format!("slot {slot}"),
    };
    let number = slot.unwrap_or(0).to_string();
    let question = question.of_slot(slot.unwrap_or(0), &number);
    let mut explanation = NicExplanation {
        nic: name,
        class: None,
        pools: Vec::new(),
        order: Vec::new(),
        refusal: None,
    };
    let lists = selection::lists(&question, source, item);
    let selection = selection::decide(&question, source, slot, item);
    match (lists, selection) {
        (Ok(lists), Ok(selection)) => {
            explanation.class = Some(selection.class.to_string());
            for (family, pools) in lists {
                let of_pool = |pool| of_pool(&question, &selection, family, pool);
                explanation
                    .pools
                    .extend(pools.iter().map(|pool| of_pool(pool.as_ref())));
            }
            explanation.order = selection.families.iter().map(order).collect();
            explanation.refusal = selection.refusal(question.nic).map(|error| error.to_string());
        }
        (Err(error), _) | (_, Err(error)) => explanation.refusal = Some(error.to_string()),
    }
    explanation
}

fn order(candidates: &selection::Candidates) -> FamilyOrder {
    let names = candidates.pools.iter().map(|pool| name_of(pool).to_owned());
    FamilyOrder {
        family: candidates.family.to_string(),
        pools: names.collect(),
    }
}

fn of_pool(
    question: &Question<'_>,
    selection: &Selection,
    family: Family,
    pool: &SpiderIPPool,
) -> PoolExplanation {
    let class = Class::of(pool, question.enabled == (true, true));
    let mut filters = Vec::new();
    let mut dropped = selection
        .ignored
        .iter()
        .find(|ignored| class != selection.class && ignored.pool == name_of(pool))
        .map(|ignored| ignored.reason.clone());
    if dropped.is_none() {
        dropped = filter::verdict(question, family, pool).err();
        for (name, filter) in FILTERS {
            let drops = filter(question, family, pool).err();
            let last = drops.is_some();
            filters.push(Verdict {
                filter: name.to_owned(),
                drops,
            });
            if last {
                break;
            }
        }
    }
    let status = pool.status.as_ref();
    PoolExplanation {
        pool: name_of(pool).to_owned(),
        family: family.to_string(),
        class: class.to_string(),
        used: status.and_then(|status| status.allocated_ip_count),
        total: status.and_then(|status| status.total_ip_count),
        filters,
        dropped,
    }
}
