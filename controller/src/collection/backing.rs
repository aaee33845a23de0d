//! Does a provider stand behind a claim, and what must it be told before the claim goes?
//!
//! Marked pools are only unclaimed: their sub-ENIs stay. A plain pool's address on a provider network is released at
//! the provider first, once for each sub-ENI, with the node named (seed "Release"; design §5 "DEL").

use std::collections::BTreeSet;
use std::net::IpAddr;

use orbweaver_api::claims::Claim;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::PoolMode;
use orbweaver_api::provider::ReleaseRequest;

use crate::collection::facts::{PodFact, PoolFact, Snapshot, bare};
use crate::collection::rules::Place;

/// What one life of a pod still holds of what is to be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who.
    pub claim: Claim,
    /// What.
    pub places: BTreeSet<Place>,
}

/// Why the provider cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Nobody knows on which node the pod was.
    NodeUnknown,
    /// The pod has no endpoint of its own that a release could be agreed on.
    NoEndpoint,
    /// A sub-ENI is recorded, but the controller knows no provider.
    NoProvider,
}

/// What the provider must be told before the holder's claims go.
pub fn releases(
    holder: &Holder,
    seen: &Snapshot,
    has_provider: bool,
) -> Result<Vec<ReleaseRequest>, Obstacle> {
    let claim = &holder.claim;
    let endpoint = seen
        .endpoint_of(&claim.pod, &claim.pod_uid)
        .map(|(_, endpoint)| endpoint);
    let named = sub_enis(holder, endpoint, seen, has_provider);
    if named.is_empty() {
        return Ok(Vec::new());
    }
    if !has_provider {
        return Err(Obstacle::NoProvider);
    }
    let endpoint = endpoint.ok_or(Obstacle::NoEndpoint)?;
    let own = seen.pods.get(&claim.pod).filter(|pod| pod.uid == claim.pod_uid);
    named
        .into_iter()
        .filter_map(|(pool, address)| Some((seen.pools.get(&pool)?, address)))
        .map(|(pool, address)| {
            let node = node_of(endpoint, own, pool).ok_or(Obstacle::NodeUnknown)?;
            Ok(request(claim, pool, address, node))
        })
        .collect()
}

fn request(claim: &Claim, pool: &PoolFact, address: IpAddr, node: &str) -> ReleaseRequest {
    let (namespace, name) = claim.pod.split_once('/').unwrap_or_default();
    ReleaseRequest {
        pod_name: name.to_owned(),
        pod_namespace: namespace.to_owned(),
        pod_uid: claim.pod_uid.clone(),
        node_name: node.to_owned(),
        parent_nic_mac: String::new(),
        subnet: pool.subnet.clone(),
        ip_address: address.to_string(),
        pool_name: pool.name.clone(),
    }
}

fn node_of<'a>(
    endpoint: &'a SpiderEndpoint,
    pod: Option<&'a PodFact>,
    pool: &'a PoolFact,
) -> Option<&'a str> {
    let told = [
        Some(endpoint.status.current.node.as_str()),
        pod.and_then(|pod| pod.node.as_deref()),
        pool.node.as_deref(),
    ];
    told.into_iter().flatten().find(|node| !node.is_empty())
}

/// One address for each sub-ENI: IPv4 where there is one.
fn sub_enis(
    holder: &Holder,
    endpoint: Option<&SpiderEndpoint>,
    seen: &Snapshot,
    has_provider: bool,
) -> Vec<Place> {
    let is_plain = |place: &Place| {
        let pool = seen.pools.get(&place.0);
        pool.is_some_and(|pool| pool.mode == PoolMode::Plain)
    };
    let mut named = Vec::new();
    let mut recorded = BTreeSet::new();
    for nic in endpoint.iter().flat_map(|endpoint| &endpoint.status.current.ips) {
        let place = |address: &Option<String>, pool: &Option<String>| {
            Some((pool.clone()?, bare(address.as_deref()?)?))
        };
        let both = [place(&nic.ipv4, &nic.ipv4_pool), place(&nic.ipv6, &nic.ipv6_pool)];
        let held = || {
            both.iter()
                .flatten()
                .filter(|place| holder.places.contains(*place))
        };
        let by_provider = nic.mac.is_some() || nic.vlan.is_some_and(|vlan| vlan != 0);
        if by_provider {
            // Named by what the allocation was named by, as long as any of it is still claimed.
            let first = held()
                .next()
                .and_then(|_| both.iter().flatten().find(|place| is_plain(place)));
            named.extend(first.cloned());
        }
        recorded.extend(both.into_iter().flatten());
    }
    // Of an ADD that the provider failed: what it did is not known, and releasing nothing is a success.
    if has_provider && seen.provider_networks {
        let unrecorded = holder.places.iter().filter(|place| !recorded.contains(*place));
        named.extend(unrecorded.filter(|place| is_plain(place)).cloned());
    }
    named
}
