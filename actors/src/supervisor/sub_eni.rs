//! The provider's part of an ADD: one call for everything that needs a sub-ENI.

use orbweaver_api::address_set::Family;
use orbweaver_api::mac::Mac;
use orbweaver_api::pool::PoolMode;
use orbweaver_api::provider::{AllocateRequest, SubEniRequest};
use tokio::time::Instant;

use super::add::{Add, Held};
use super::candidates;
use crate::error::{IpamError, ProviderError, Stage};
use crate::pool::facts::PoolFacts;
use crate::provider::CallClass;

/// Creates or moves the sub-ENIs that the addresses need and notes their MAC and VLAN.
pub(super) async fn create(add: &Add, held: &mut [Held]) -> Result<(), IpamError> {
    let on_provider = is_bound_for_plain(add, held);
    let wanted: Vec<usize> = (0..held.len())
        .filter(|index| {
            let claimed = &held[*index].claimed;
            claimed.provider_call || (on_provider && claimed.facts.mode == PoolMode::Plain)
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    add.stages.enter(Stage::ParentNic);
    let parent = parent_mac(add, &held[wanted[0]].claimed.facts).await?;
    let Some(provider) = &add.inner.ports.provider else {
        let message = "no network provider is configured; set iaasNetworkProvider in conf.yml";
        return Err(IpamError::Provider(ProviderError::NotSent(message.into())));
    };
    let request = allocate_request(add, held, &wanted, parent);
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
    let Some(sub_eni) = bound.first() else {
        return Err(IpamError::Provider(ProviderError::Rejected(
            "the provider answered without a sub-ENI".into(),
        )));
    };
    for index in wanted {
        held[index].mac = sub_eni
            .mac
            .map(|mac| mac.to_string())
            .or_else(|| held[index].mac.take());
        held[index].vlan = sub_eni.vlan.or(held[index].vlan);
    }
    Ok(())
}

/// All families of one NIC share one sub-ENI: one item.
fn allocate_request(add: &Add, held: &[Held], wanted: &[usize], parent: Mac) -> AllocateRequest {
    let attachment = &add.request.attachment;
    let mut item = SubEniRequest {
        parent_nic_mac: parent.to_string(),
        ..SubEniRequest::default()
    };
    for claimed in wanted.iter().map(|index| &held[*index].claimed) {
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
    AllocateRequest {
        pod_name: attachment.name.clone(),
        pod_namespace: attachment.namespace.clone(),
        pod_uid: add.uid.to_string(),
        node_name: add.inner.options.node_name.to_string(),
        sub_eni_requests: vec![item],
    }
}

/// True when the NIC of a plain pool's address is on a provider network: its SpiderMultusConfig makes VLAN
/// interfaces whose VLAN the provider chooses (reference §6.1 "Eligibility per NIC").
pub(super) fn is_bound_for_plain(add: &Add, held: &[Held]) -> bool {
    add.inner.ports.provider.is_some()
        && held.iter().any(|held| held.claimed.facts.mode == PoolMode::Plain)
        && multus_config(add).is_some_and(|config| config.spec.is_provider_network())
}

fn multus_config(add: &Add) -> Option<std::sync::Arc<orbweaver_api::multus_config::SpiderMultusConfig>> {
    let (namespace, name) = candidates::network_of(&add.inner, add).ok().flatten()?;
    add.inner.ports.view.multus_config(&namespace, &name)
}

/// `status.parentNic.mac`, else the pool's annotation, else the master of the NIC's SpiderMultusConfig.
async fn parent_mac(add: &Add, facts: &PoolFacts) -> Result<Mac, IpamError> {
    if let Some(mac) = facts.parent_nic_mac {
        return Ok(mac);
    }
    let mut tried = vec!["status.parentNic.mac is not set".to_owned()];
    let master = multus_config(add).and_then(|config| config.spec.parent_link());
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
