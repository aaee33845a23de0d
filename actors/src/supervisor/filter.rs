//! The filters that a candidate pool must pass, in the order of the seed and reference §2.3.

use orbweaver_api::address_set::Family;
use orbweaver_api::annotation;
use orbweaver_api::pool::{PoolMode, SpiderIPPool};

use super::label_selector;
use super::selection::{Question, labels_of};

/// A filter: `Err` says why the pool drops out.
type Filter = fn(&Question<'_>, Family, &SpiderIPPool) -> Result<(), String>;

/// Every filter with its name, in order. Exhaustion is the pool's own word, at the claim.
pub(super) const FILTERS: [(&str, Filter); 8] = [
    ("pair", |_, _, pool| sibling(pool)),
    ("terminating", |_, _, pool| terminating(pool)),
    ("disable", |_, _, pool| disabled(pool)),
    ("ipVersion", |_, family, pool| version(family, pool)),
    ("node", |question, _, pool| node(question, pool)),
    ("namespace", |question, _, pool| namespace(question, pool)),
    ("podAffinity", |question, _, pool| pod(question, pool)),
    ("multusName", |question, _, pool| network(question, pool)),
];

/// `Err` is what the first filter that drops the pool says.
pub(super) fn verdict(question: &Question<'_>, family: Family, pool: &SpiderIPPool) -> Result<(), String> {
    FILTERS
        .iter()
        .try_for_each(|(_, filter)| filter(question, family, pool))
}

/// The IPv6 side of a pair goes out with its primary only (reference §6.5).
fn sibling(pool: &SpiderIPPool) -> Result<(), String> {
    let partner = pool
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotation::PAIR_POOL));
    match partner {
        Some(partner) if pool.mode() != PoolMode::Plain && pool.family() == Some(Family::V6) => Err(format!(
            "it is the IPv6 side of a pair (annotation {}) and is handed out with {partner:?} only",
            annotation::PAIR_POOL
        )),
        _ => Ok(()),
    }
}

fn terminating(pool: &SpiderIPPool) -> Result<(), String> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Err("it is terminating".to_owned());
    }
    Ok(())
}

fn disabled(pool: &SpiderIPPool) -> Result<(), String> {
    if pool.spec.disable == Some(true) {
        return Err("it is disabled (spec.disable)".to_owned());
    }
    Ok(())
}

fn version(family: Family, pool: &SpiderIPPool) -> Result<(), String> {
    match pool.family() {
        Some(actual) if actual == family => Ok(()),
        Some(actual) => Err(format!("it is {actual}, not {family}")),
        None => Err(format!(
            "its family cannot be told from spec.ipVersion {:?} and spec.subnet {:?}",
            pool.spec.ip_version, pool.spec.subnet
        )),
    }
}

fn pod(question: &Question<'_>, pool: &SpiderIPPool) -> Result<(), String> {
    let Some(selector) = &pool.spec.pod_affinity else {
        return Ok(());
    };
    let matches = label_selector::matches(selector, labels_of(question.pod))
        .map_err(|error| format!("spec.podAffinity: {error}"))?;
    if matches {
        Ok(())
    } else {
        Err("spec.podAffinity does not match the pod's labels".to_owned())
    }
}

fn node(question: &Question<'_>, pool: &SpiderIPPool) -> Result<(), String> {
    let spec = &pool.spec;
    if !spec.node_name.is_empty() {
        return if spec.node_name.iter().any(|name| name == question.node_name) {
            Ok(())
        } else {
            Err(format!(
                "spec.nodeName {:?} does not name node {}",
                spec.node_name, question.node_name
            ))
        };
    }
    match &spec.node_affinity {
        Some(selector)
            if !label_selector::matches(selector, &question.node.labels)
                .map_err(|error| format!("spec.nodeAffinity: {error}"))? =>
        {
            Err(format!(
                "spec.nodeAffinity does not match the labels of node {}",
                question.node_name
            ))
        }
        _ => Ok(()),
    }
}

fn namespace(question: &Question<'_>, pool: &SpiderIPPool) -> Result<(), String> {
    let spec = &pool.spec;
    let name = question.pod.metadata.namespace.as_deref().unwrap_or_default();
    if !spec.namespace_name.is_empty() {
        return if spec.namespace_name.iter().any(|one| one == name) {
            Ok(())
        } else {
            Err(format!(
                "spec.namespaceName {:?} does not name namespace {name}",
                spec.namespace_name
            ))
        };
    }
    match &spec.namespace_affinity {
        Some(selector)
            if !label_selector::matches(selector, &question.namespace.labels)
                .map_err(|error| format!("spec.namespaceAffinity: {error}"))? =>
        {
            Err(format!(
                "spec.namespaceAffinity does not match the labels of namespace {name}"
            ))
        }
        _ => Ok(()),
    }
}

fn network(question: &Question<'_>, pool: &SpiderIPPool) -> Result<(), String> {
    let names = &pool.spec.multus_name;
    if names.is_empty() {
        return Ok(());
    }
    let Some(network) = question.network else {
        return Err(format!(
            "spec.multusName {names:?} is set but the network of {} is not known",
            question.nic
        ));
    };
    let qualified = |name: &String| {
        if name.contains('/') {
            name.clone()
        } else {
            format!("{}/{name}", question.agent_namespace)
        }
    };
    if names.iter().map(qualified).any(|name| name == network) {
        Ok(())
    } else {
        Err(format!(
            "spec.multusName {names:?} does not name network {network} of {}",
            question.nic
        ))
    }
}
