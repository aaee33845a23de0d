//! The filters that a candidate pool must pass, in the order of the seed and reference §2.3.

use orbweaver_api::address_set::Family;
use orbweaver_api::pool::SpiderIPPool;

use super::label_selector;
use super::selection::{Question, labels_of};

/// `Err` says why the pool drops out.
pub(super) fn verdict(question: &Question<'_>, family: Family, pool: &SpiderIPPool) -> Result<(), String> {
    let spec = &pool.spec;
    if pool.metadata.deletion_timestamp.is_some() {
        return Err("it is terminating".to_owned());
    }
    if spec.disable == Some(true) {
        return Err("it is disabled (spec.disable)".to_owned());
    }
    match pool.family() {
        Some(actual) if actual == family => {}
        Some(actual) => return Err(format!("it is {actual}, not {family}")),
        None => {
            return Err(format!(
                "its family cannot be told from spec.ipVersion {:?} and spec.subnet {:?}",
                spec.ip_version, spec.subnet
            ));
        }
    }
    node(question, pool)?;
    namespace(question, pool)?;
    if let Some(selector) = &spec.pod_affinity
        && !label_selector::matches(selector, labels_of(question.pod))
            .map_err(|error| format!("spec.podAffinity: {error}"))?
    {
        return Err("spec.podAffinity does not match the pod's labels".to_owned());
    }
    network(question, pool)
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
