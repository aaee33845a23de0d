//! The provider's part of an ADD: one call for everything that needs a sub-ENI.

use std::sync::Arc;

use orbweaver_api::address_set::Family;
use orbweaver_api::mac::Mac;
use orbweaver_api::multus_config::SpiderMultusConfig;
use orbweaver_api::pool::PoolMode;
use orbweaver_api::provider::{AllocateRequest, SubEniRequest};
use tokio::time::Instant;

use super::add::Add;
use super::nics::{Held, NicHeld};
use crate::error::{IpamError, ProviderError, Stage};
use crate::pool::facts::PoolFacts;
use crate::provider::{BoundSubEni, CallClass};

/// Creates or moves the sub-ENIs that the addresses need and notes their MAC and VLAN.
pub(super) async fn create(add: &Add, nics: &mut [NicHeld]) -> Result<(), IpamError> {
    let wanted: Vec<(usize, Vec<usize>)> = nics
        .iter()
        .enumerate()
        .map(|(place, nic)| (place, wanted_of(add, nic)))
        .filter(|(_, wanted)| !wanted.is_empty())
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    add.stages.enter(Stage::ParentNic);
    let mut items = Vec::with_capacity(wanted.len());
    for (place, indexes) in &wanted {
        let nic = &nics[*place];
        let parent = parent_mac(add, nic, &nic.held[indexes[0]].claimed.facts).await?;
        items.push(item(indexes.iter().map(|index| &nic.held[*index]), parent));
    }
    let bound = call(add, items).await?;
    for ((place, indexes), sub_eni) in wanted.into_iter().zip(bound) {
        for index in indexes {
            let held = &mut nics[place].held[index];
            let mac = sub_eni.mac.map(|mac| mac.to_string());
            held.mac = mac.or_else(|| held.mac.take());
            held.vlan = sub_eni.vlan.or(held.vlan);
        }
    }
    Ok(())
}

/// One call for all NICs: one item each, answered in their order.
async fn call(add: &Add, items: Vec<SubEniRequest>) -> Result<Vec<BoundSubEni>, IpamError> {
    let Some(provider) = &add.inner.ports.provider else {
        let message = "no network provider is configured; set iaasNetworkProvider in conf.yml";
        return Err(IpamError::Provider(ProviderError::NotSent(message.into())));
    };
    let attachment = &add.request.attachment;
    let asked = items.len();
    let request = AllocateRequest {
        pod_name: attachment.name.clone(),
        pod_namespace: attachment.namespace.clone(),
        pod_uid: add.uid.to_string(),
        node_name: add.inner.options.node_name.to_string(),
        sub_eni_requests: items,
    };
    add.stages.enter(Stage::Provider);
    let deadline = add.request.deadline;
    if deadline.expired(Instant::now()) {
        return Err(IpamError::DeadlineExceeded { stage: Stage::Claim });
    }
    let bound = provider
        .allocate(
            request,
            CallClass::PodStart,
            deadline,
            add.request.request_id.clone(),
        )
        .await
        .map_err(IpamError::Provider)?;
    if bound.len() != asked {
        let message = format!("the provider answered {} of {asked} sub-ENIs", bound.len());
        return Err(IpamError::Provider(ProviderError::Rejected(message.into())));
    }
    Ok(bound)
}

/// The addresses of a NIC that need the provider.
fn wanted_of(add: &Add, nic: &NicHeld) -> Vec<usize> {
    let on_provider = is_bound_for_plain(add, nic);
    let needs = |held: &Held| {
        held.claimed.provider_call || (on_provider && held.claimed.facts.mode == PoolMode::Plain)
    };
    (0..nic.held.len())
        .filter(|index| needs(&nic.held[*index]))
        .collect()
}

/// All families of one NIC share one sub-ENI: one item.
fn item<'a>(held: impl Iterator<Item = &'a Held>, parent: Mac) -> SubEniRequest {
    let mut item = SubEniRequest {
        parent_nic_mac: parent.to_string(),
        ..SubEniRequest::default()
    };
    for claimed in held.map(|held| &held.claimed) {
        let facts = &claimed.facts;
        let (address, pool) = (claimed.address.to_string(), facts.name.to_string());
        match facts.family {
            Family::V4 => {
                item.subnet = facts.subnet.trunc().to_string();
                (item.ipv4_address, item.ipv4_pool_name) = (address, pool);
            }
            Family::V6 => {
                if item.subnet.is_empty() {
                    item.subnet = facts.subnet.trunc().to_string();
                }
                (item.ipv6_address, item.ipv6_pool_name) = (address, pool);
            }
        }
    }
    item
}

/// True when the NIC of a plain pool's address is on a provider network: its SpiderMultusConfig makes VLAN
/// interfaces whose VLAN the provider chooses (reference §6.1 "Eligibility per NIC").
pub(super) fn is_bound_for_plain(add: &Add, nic: &NicHeld) -> bool {
    let plain = |held: &Held| held.claimed.facts.mode == PoolMode::Plain;
    add.inner.ports.provider.is_some()
        && nic.held.iter().any(plain)
        && multus_config(add, nic).is_some_and(|config| config.spec.is_provider_network())
}

fn multus_config(add: &Add, nic: &NicHeld) -> Option<Arc<SpiderMultusConfig>> {
    let network = nic.plan.network.as_ref()?;
    add.inner
        .ports
        .view
        .multus_config(&network.namespace, &network.name)
}

/// `status.parentNic.mac`, else the pool's annotation, else the master of the NIC's SpiderMultusConfig.
async fn parent_mac(add: &Add, nic: &NicHeld, facts: &PoolFacts) -> Result<Mac, IpamError> {
    if let Some(mac) = facts.parent_nic_mac {
        return Ok(mac);
    }
    let mut tried = vec!["status.parentNic.mac is not set".to_owned()];
    let master = multus_config(add, nic).and_then(|config| config.spec.parent_link());
    let links = [
        (
            "annotation ipam.spidernet.io/parent-nic",
            facts.parent_nic.clone(),
        ),
        ("the master of the SpiderMultusConfig", master),
    ];
    for (what, link) in links {
        let Some(link) = link else {
            tried.push(format!("{what} is not set"));
            continue;
        };
        match add.inner.ports.links.mac_of(&link).await {
            Ok(mac) => return Ok(mac),
            Err(error) => tried.push(format!("{what} names {link:?}: {error}")),
        }
    }
    Err(IpamError::ParentNic {
        pool: facts.name.to_string(),
        why: tried.join("; "),
    })
}
