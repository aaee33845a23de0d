//! The pod's endpoint: what it says, and how it is written.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use orbweaver_api::FINALIZER;
use orbweaver_api::address_set::Family;
use orbweaver_api::annotation::PodRoute;
use orbweaver_api::endpoint::{EndpointStatus, NicAllocation, PodAllocation, SpiderEndpoint};

use super::add::Add;
use super::nics::NicHeld;
use super::owner::Owner;
use super::{identity, routes};
use crate::deadline::Deadline;
use crate::error::IpamError;
use crate::request::{Allocated, AllocatedAddress};
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

/// What a NIC has, or the first slot that no NIC has taken (reference §2.10).
pub(super) fn nic_or_slot<'a>(endpoint: &'a SpiderEndpoint, name: &str) -> Option<&'a NicAllocation> {
    nic(endpoint, name).or_else(|| nic(endpoint, ""))
}

/// Addresses of the endpoint's NICs other than the recorded one; without one, of all.
pub(super) fn addresses_of_others(
    endpoint: &SpiderEndpoint,
    recorded: Option<&NicAllocation>,
) -> Vec<IpAddr> {
    let others = endpoint
        .status
        .current
        .ips
        .iter()
        .filter(|one| recorded != Some(*one));
    others
        .flat_map(|one| [address(one, Family::V4), address(one, Family::V6)])
        .flatten()
        .collect()
}

/// What the endpoint will say of this NIC; of `routes` it takes those that are its own.
pub(super) fn nic_allocation(of: &NicHeld, routes: &mut Vec<PodRoute>) -> NicAllocation {
    let mut nic = NicAllocation {
        interface: of.plan.nic.clone(),
        clean_gateway: Some(of.plan.clean_gateway),
        ..NicAllocation::default()
    };
    for held in &of.held {
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
    let subnets: Vec<IpNet> = of.held.iter().map(|held| held.claimed.facts.subnet).collect();
    nic.routes.extend(routes::take(routes, &subnets));
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

/// Writes what NICs got. An endpoint of an earlier pod of the same name is removed first; its claims are
/// that pod's own affair. One of a later pod stays, and this pod gets nothing.
pub(super) async fn record(
    add: &Add,
    nics: Vec<NicAllocation>,
    owner: &Owner,
    deadline: Deadline,
) -> Result<(), IpamError> {
    let failed = |error| add.endpoint_failed(error);
    let (namespace, name) = (&add.request.attachment.namespace, &add.endpoint_name);
    let store = &add.inner.ports.endpoints;
    let mut known = store.known_endpoint(namespace, name);
    let mut last = StoreError::Conflict;
    for _ in 0..MAX_WRITES {
        let written = match known.as_deref() {
            None => {
                store
                    .create_endpoint(fresh(add, nics.clone(), owner), deadline)
                    .await
            }
            Some(mine)
                if mine.status.current.uid == *add.uid && mine.metadata.deletion_timestamp.is_none() =>
            {
                store.replace_endpoint(with_nics(mine, &nics), deadline).await
            }
            Some(stale) => {
                identity::check_current(&add.inner, &add.request, &add.uid).await?;
                store.remove_endpoint(stale, deadline).await.map_err(failed)?;
                store
                    .create_endpoint(fresh(add, nics.clone(), owner), deadline)
                    .await
            }
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error @ (StoreError::Conflict | StoreError::AlreadyExists | StoreError::NotFound)) => {
                last = error;
                known = match store.read_endpoint(namespace, name, deadline).await {
                    Ok(endpoint) => Some(endpoint),
                    Err(StoreError::NotFound) => None,
                    Err(error) => return Err(failed(error)),
                };
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(last))
}

/// A stateless pod's endpoint goes with the pod; that of one that comes back stays.
fn fresh(add: &Add, nics: Vec<NicAllocation>, owner: &Owner) -> SpiderEndpoint {
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
            name: Some(add.endpoint_name.clone()),
            namespace: Some(attachment.namespace.clone()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            owner_references: add.stateful.is_none().then(|| vec![pod]),
            ..ObjectMeta::default()
        },
        status: EndpointStatus {
            current: PodAllocation {
                uid: add.uid.to_string(),
                node: add.inner.options.node_name.to_string(),
                ips: nics,
            },
            owner_controller_type: owner.kind.clone(),
            owner_controller_name: owner.name.clone(),
        },
    }
}

/// A NIC's new word stands where its old one stood, where the slot was that it takes, or at the end.
fn with_nics(endpoint: &SpiderEndpoint, nics: &[NicAllocation]) -> SpiderEndpoint {
    let mut endpoint = endpoint.clone();
    let ips = &mut endpoint.status.current.ips;
    for nic in nics {
        let named = ips.iter().position(|one| one.interface == nic.interface);
        match named.or_else(|| ips.iter().position(|one| one.interface.is_empty())) {
            Some(place) => ips[place] = nic.clone(),
            None => ips.push(nic.clone()),
        }
    }
    endpoint
}
