//! The pools that an ADD tries, by family.

use std::sync::Arc;

use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::NicAllocation;
use orbweaver_api::multus;

use super::Inner;
use super::add::Add;
use super::selection::{self, Class, Question, Selection};
use crate::error::IpamError;
use crate::store::Marks;

/// The candidates of one family, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) family: Family,
    pub(super) pools: Vec<Arc<str>>,
}

/// A NIC that has its addresses already is asked for again in the pools it has them from; everything else is
/// selected.
pub(super) fn of_add(add: &Add, recorded: Option<&NicAllocation>) -> Result<Vec<Attempt>, IpamError> {
    if let Some(nic) = recorded {
        return Ok(of_record(nic));
    }
    let selection = select(add)?;
    if !selection.ignored.is_empty() {
        tracing::warn!(
            pod = %add.pod_name, nic = %add.request.attachment.nic, kept = %selection.class, ignored = ?selection.ignored,
            "pools of a lower class are ignored"
        );
    }
    if selection.class == Class::PairedPrimary {
        let message = "paired pools (annotation ipam.spidernet.io/pair-pool) are not supported in a dual-stack cluster yet; \
                       remove the annotation or switch one family off";
        return Err(IpamError::NoPool(message.into()));
    }
    let names = |pools: &[Arc<orbweaver_api::pool::SpiderIPPool>]| {
        pools
            .iter()
            .map(|pool| pool.metadata.name.as_deref().unwrap_or_default().into())
            .collect()
    };
    Ok(selection
        .families
        .iter()
        .map(|candidates| Attempt {
            family: candidates.family,
            pools: names(&candidates.pools),
        })
        .collect())
}

fn of_record(nic: &NicAllocation) -> Vec<Attempt> {
    [
        (Family::V4, &nic.ipv4, &nic.ipv4_pool),
        (Family::V6, &nic.ipv6, &nic.ipv6_pool),
    ]
    .into_iter()
    .filter_map(|(family, address, pool)| {
        address.as_ref()?;
        Some(Attempt {
            family,
            pools: vec![pool.as_deref()?.into()],
        })
    })
    .collect()
}

fn select(add: &Add) -> Result<Selection, IpamError> {
    let inner = &add.inner;
    let request = &add.request;
    let network = network_of(inner, add)?;
    let nothing = Arc::new(Marks::default());
    let namespace = inner
        .ports
        .view
        .namespace(&request.attachment.namespace)
        .unwrap_or_else(|| nothing.clone());
    let node = inner.ports.view.node().unwrap_or(nothing);
    let pools = inner.ports.view.pools();
    selection::select(&Question {
        pod: &add.pod,
        nic: &request.attachment.nic,
        node_name: &inner.options.node_name,
        node: &node,
        namespace: &namespace,
        pools: &pools,
        configured: (&request.default_ipv4_pools, &request.default_ipv6_pools),
        enabled: (inner.options.enable_ipv4, inner.options.enable_ipv6),
        network: network
            .as_ref()
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .as_deref(),
        agent_namespace: &inner.options.namespace,
    })
}

/// Namespace and name of the network that the NIC is attached to, as Multus's annotations say.
pub(super) fn network_of(inner: &Inner, add: &Add) -> Result<Option<(String, String)>, IpamError> {
    let none = std::collections::BTreeMap::new();
    let annotations = add.pod.metadata.annotations.as_ref().unwrap_or(&none);
    let attachment = &add.request.attachment;
    let network = multus::network_of(
        &attachment.nic,
        annotations,
        &attachment.namespace,
        inner.options.default_network.as_deref(),
    )?;
    Ok(network.map(|network| (network.namespace, network.name)))
}
