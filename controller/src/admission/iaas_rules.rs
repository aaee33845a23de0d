//! Rules of pools that a network provider serves, and of pairs (reference §6.4-6.6).

use std::collections::BTreeSet;

use orbweaver_api::address_set::Family;
use orbweaver_api::annotation::{IAAS_PROVIDER, PAIR_POOL, PARENT_NIC};
use orbweaver_api::pool::{PoolMode, SpiderIPPool};

use super::finding::Finding;
use super::pool_fields::effective;
use super::selector;

fn path(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

fn annotation<'a>(pool: &'a SpiderIPPool, key: &str) -> Option<&'a str> {
    let all = pool.metadata.annotations.as_ref()?;
    all.get(key).map(String::as_str)
}

/// What holds for a pool at any time; among `others` are its partner and whoever says to be it.
pub fn check<'a>(
    pool: &SpiderIPPool,
    others: impl Iterator<Item = &'a SpiderIPPool>,
    findings: &mut Vec<Finding>,
) {
    if let Some(mark) = annotation(pool, IAAS_PROVIDER).filter(|mark| !selector::is_value(mark)) {
        let detail = format!("{mark:?} cannot be mirrored to the label of this key; write a label value");
        findings.push(Finding::invalid(path(IAAS_PROVIDER), detail));
    }
    if pool.mode() == PoolMode::NodeLevel {
        node_level(pool, findings);
    }
    if let Some(nic) = annotation(pool, PARENT_NIC) {
        parent_nic(nic, findings);
    }
    let own = pool.metadata.name.as_deref();
    let wanted = annotation(pool, PAIR_POOL);
    if wanted == Some("") {
        let detail = "it is empty; name a pool or remove it";
        findings.push(Finding::invalid(path(PAIR_POOL), detail));
    } else if wanted.is_some() && wanted == own {
        let detail = "cannot reference itself as a pair pool";
        findings.push(Finding::invalid(path(PAIR_POOL), detail));
    }
    // A partner that is not there yet comes later: its own admission judges the pair then.
    for other in others {
        let name = other.metadata.name.as_deref();
        let pairs = name == wanted || own.is_some() && annotation(other, PAIR_POOL) == own;
        if let Some(name) = name.filter(|_| pairs) {
            pair(pool, other, name, findings);
        }
    }
}

fn node_level(pool: &SpiderIPPool, findings: &mut Vec<Finding>) {
    let nodes = pool.spec.node_name.len();
    if nodes > 1 {
        let detail = format!(
            "an IaaS node-level pool must be pinned to exactly one node: it names {nodes}; make a pool for each"
        );
        findings.push(Finding::forbidden("spec.nodeName", detail));
    }
    if annotation(pool, PARENT_NIC).is_none() {
        let detail = "an IaaS node-level pool must say which NIC of its node carries its addresses";
        findings.push(Finding::required(path(PARENT_NIC), detail));
    }
}

fn parent_nic(nic: &str, findings: &mut Vec<Finding>) {
    let stranger = |c: char| c == ',' || c == '/' || c.is_whitespace() || c.is_control();
    if nic.is_empty() || nic.contains(stranger) {
        let detail = format!("{nic:?} is not the name of one NIC; write one name without comma or space");
        findings.push(Finding::invalid(path(PARENT_NIC), detail));
    }
}

fn pair(pool: &SpiderIPPool, partner: &SpiderIPPool, name: &str, findings: &mut Vec<Finding>) {
    let (v4, v6) = match (pool.family(), partner.family()) {
        (Some(Family::V4), Some(Family::V6)) => (pool, partner),
        (Some(Family::V6), Some(Family::V4)) => (partner, pool),
        (None, _) | (_, None) => return,
        _ => {
            let detail = format!("must reference a pool of the opposite IP version; {name:?} is not");
            findings.push(Finding::invalid(path(PAIR_POOL), detail));
            return;
        }
    };
    capacity(v4, v6, findings);
    let nodes = |pool: &SpiderIPPool| pool.spec.node_name.iter().cloned().collect::<BTreeSet<_>>();
    let detail = format!("must equal that of pair pool {name:?}");
    if nodes(pool) != nodes(partner) {
        findings.push(Finding::invalid("spec.nodeName", &detail));
    }
    if pool.spec.pod_affinity != partner.spec.pod_affinity {
        findings.push(Finding::invalid("spec.podAffinity", &detail));
    }
}

fn capacity(v4: &SpiderIPPool, v6: &SpiderIPPool, findings: &mut Vec<Finding>) {
    let (Some(few), Some(many)) = (effective(v4), effective(v6)) else {
        return;
    };
    let (few, many) = (few.count(), many.count());
    if few > many {
        let name = |pool: &SpiderIPPool| pool.metadata.name.clone().unwrap_or_default();
        let (a, b) = (name(v4), name(v6));
        let detail =
            format!("v4 pool {a} static capacity ({few}) must be <= v6 pool {b} static capacity ({many})");
        findings.push(Finding::invalid(path(PAIR_POOL), detail));
    }
}

/// What a change may not do; `in_use` says that claims exist.
pub fn check_change(old: &SpiderIPPool, new: &SpiderIPPool, in_use: bool, findings: &mut Vec<Finding>) {
    let pinned = |pool: &SpiderIPPool| !pool.spec.node_name.is_empty();
    if old.mode() != PoolMode::Plain && pinned(old) != pinned(new) {
        let detail = "cannot add or remove 'spec.nodeName' on an IaaS pool: \
                      a pool stays node-level or global; make another pool";
        findings.push(Finding::forbidden("spec.nodeName", detail));
    }
    for key in [IAAS_PROVIDER, PARENT_NIC] {
        let before = annotation(old, key);
        if in_use && before.is_some() && annotation(new, key) != before {
            let detail = format!("cannot modify annotation {key} while the IPPool has allocated IPs");
            findings.push(Finding::forbidden(path(key), detail));
        }
    }
}
