//! The pod's endpoint: what it says, and how it is written.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use orbweaver_api::FINALIZER;
use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::{EndpointStatus, NicAllocation, PodAllocation, SpiderEndpoint};

use super::add::{Add, Held};
use super::identity::Owner;
use crate::request::{AddRequest, Allocated, AllocatedAddress};
use crate::store::StoreError;

/// Writes tried when other writers of the same endpoint are met. There is one agent per pod and one request
/// per pod at a time, so a second try is rare and a fifth means that something fights.
const MAX_WRITES: usize = 5;

/// What a NIC has.
pub(super) fn nic<'a>(endpoint: &'a SpiderEndpoint, nic: &str) -> Option<&'a NicAllocation> {
    endpoint
        .status
        .current
        .ips
        .iter()
        .find(|one| one.interface == nic)
}

/// The bare address of a family.
pub(super) fn address(nic: &NicAllocation, family: Family) -> Option<IpAddr> {
    let text = match family {
        Family::V4 => nic.ipv4.as_deref(),
        Family::V6 => nic.ipv6.as_deref(),
    };
    text?.parse::<IpNet>().ok().map(|net| net.addr())
}

/// Addresses of the endpoint's other NICs.
pub(super) fn addresses_of_others(endpoint: &SpiderEndpoint, nic: &str) -> Vec<IpAddr> {
    let others = endpoint
        .status
        .current
        .ips
        .iter()
        .filter(|one| one.interface != nic);
    others
        .flat_map(|one| [address(one, Family::V4), address(one, Family::V6)])
        .flatten()
        .collect()
}

/// True when every address of the record was found claimed by the pod.
pub(super) fn is_still_held(nic: &NicAllocation, held: &[Held]) -> bool {
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(|family| address(nic, family))
        .all(|address| {
            held.iter().any(|held| {
                held.claimed.address == address && held.claimed.found() && !held.claimed.provider_call
            })
        })
}

/// What the endpoint will say of this NIC.
pub(super) fn nic_allocation(request: &AddRequest, held: &[Held]) -> NicAllocation {
    let mut nic = NicAllocation {
        interface: request.attachment.nic.clone(),
        clean_gateway: Some(request.clean_gateway),
        ..NicAllocation::default()
    };
    for held in held {
        let facts = &held.claimed.facts;
        let with_prefix = Some(facts.with_prefix(held.claimed.address).to_string());
        let (pool, gateway) = (
            Some(facts.name.to_string()),
            facts.gateway.map(|gateway| gateway.to_string()),
        );
        match facts.family {
            Family::V4 => (nic.ipv4, nic.ipv4_pool, nic.ipv4_gateway) = (with_prefix, pool, gateway),
            Family::V6 => (nic.ipv6, nic.ipv6_pool, nic.ipv6_gateway) = (with_prefix, pool, gateway),
        }
        nic.routes.extend(facts.routes.iter().cloned());
        nic.vlan = nic.vlan.or(held.vlan.map(i64::from));
        nic.mac = nic.mac.take().or_else(|| held.mac.clone());
    }
    nic
}

/// The answer that the record of a NIC gives; the first one and every repeated one.
pub(super) fn answer(nic: &NicAllocation) -> Result<Allocated, String> {
    let clean = nic.clean_gateway == Some(true);
    let mut addresses = Vec::new();
    let families = [
        (&nic.ipv4, &nic.ipv4_pool, &nic.ipv4_gateway),
        (&nic.ipv6, &nic.ipv6_pool, &nic.ipv6_gateway),
    ];
    for (text, pool, gateway) in families {
        let Some(text) = text.as_deref().filter(|text| !text.is_empty()) else {
            continue;
        };
        let gateway = gateway
            .as_deref()
            .filter(|_| !clean)
            .filter(|text| !text.is_empty());
        addresses.push(AllocatedAddress {
            address: text.parse().map_err(|_| {
                format!(
                    "the endpoint's address {text:?} of {} is not a CIDR",
                    nic.interface
                )
            })?,
            nic: nic.interface.clone(),
            pool: pool.clone().unwrap_or_default(),
            gateway: gateway.map(str::to_owned),
            vlan: nic
                .vlan
                .and_then(|vlan| u16::try_from(vlan).ok())
                .filter(|vlan| *vlan != 0),
            mac: nic.mac.clone().filter(|mac| !mac.is_empty()),
        });
    }
    Ok(Allocated {
        addresses,
        routes: nic.routes.clone(),
    })
}

/// Writes what a NIC got. An endpoint of an earlier pod of the same name is removed first; its claims are
/// that pod's own affair.
pub(super) async fn record(
    add: &Add,
    nic: NicAllocation,
    owner: &Owner,
    node: &str,
) -> Result<(), StoreError> {
    let attachment = &add.request.attachment;
    let (store, deadline) = (&add.inner.ports.endpoints, add.request.deadline);
    let mut known = store.known_endpoint(&attachment.namespace, &attachment.name);
    let mut last = StoreError::Conflict;
    for _ in 0..MAX_WRITES {
        let written = match known.as_deref() {
            None => {
                store
                    .create_endpoint(fresh(add, nic.clone(), owner, node), deadline)
                    .await
            }
            Some(mine)
                if mine.status.current.uid == *add.uid && mine.metadata.deletion_timestamp.is_none() =>
            {
                store
                    .replace_endpoint(with_nic(mine, nic.clone()), deadline)
                    .await
            }
            Some(stale) => {
                store.remove_endpoint(stale, deadline).await?;
                store
                    .create_endpoint(fresh(add, nic.clone(), owner, node), deadline)
                    .await
            }
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error @ (StoreError::Conflict | StoreError::AlreadyExists | StoreError::NotFound)) => {
                last = error;
                known = match store
                    .read_endpoint(&attachment.namespace, &attachment.name, deadline)
                    .await
                {
                    Ok(endpoint) => Some(endpoint),
                    Err(StoreError::NotFound) => None,
                    Err(error) => return Err(error),
                };
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn fresh(add: &Add, nic: NicAllocation, owner: &Owner, node: &str) -> SpiderEndpoint {
    let attachment = &add.request.attachment;
    let pod = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: attachment.name.clone(),
        uid: add.uid.to_string(),
        block_owner_deletion: Some(true),
        controller: Some(true),
    };
    SpiderEndpoint {
        metadata: ObjectMeta {
            name: Some(attachment.name.clone()),
            namespace: Some(attachment.namespace.clone()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            owner_references: owner.stateless.then(|| vec![pod]),
            ..ObjectMeta::default()
        },
        status: EndpointStatus {
            current: PodAllocation {
                uid: add.uid.to_string(),
                node: node.to_owned(),
                ips: vec![nic],
            },
            owner_controller_type: owner.kind.clone(),
            owner_controller_name: owner.name.clone(),
        },
    }
}

fn with_nic(endpoint: &SpiderEndpoint, nic: NicAllocation) -> SpiderEndpoint {
    let mut endpoint = endpoint.clone();
    let ips = &mut endpoint.status.current.ips;
    match ips.iter_mut().find(|one| one.interface == nic.interface) {
        Some(place) => *place = nic,
        None => ips.push(nic),
    }
    endpoint
}
