//! A pod that came back under another UID, perhaps on another node: it takes over what its endpoint names,
//! NIC by NIC, unless other pools are named for it now (reference §2.6, §2.7).

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use orbweaver_api::address_set::Family;
use orbweaver_api::annotation::PodRoute;
use orbweaver_api::endpoint::{NicAllocation, SpiderEndpoint};

use super::add::Add;
use super::candidates::Asked;
use super::nics::{Held, NicHeld, NicPlan};
use super::owner::Owner;
use super::release::Release;
use super::resolve::name_of;
use super::selection::{self, Configured, Wanted};
use super::source::Source;
use super::{endpoint, identity, sub_eni};
use crate::error::{IpamError, PoolError, Stage};
use crate::pool::effect::UnclaimReason;

/// Gives the endpoint as this life's; `None` when it is not this pod's earlier self's, and the ADD starts
/// from nothing. Whatever step it ends at, the next try goes on from there: claims that are ours already are
/// found, and the endpoint changes last.
pub(super) async fn take_over(
    add: &Add,
    earlier: Arc<SpiderEndpoint>,
    routes: &[PodRoute],
) -> Result<Option<Arc<SpiderEndpoint>>, IpamError> {
    let owner = Owner::of(&add.pod);
    let status = &earlier.status;
    let same_owner = status.owner_controller_type == owner.kind && status.owner_controller_name == owner.name;
    if !same_owner || earlier.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    identity::check_current(&add.inner, &add.request, &add.uid).await?;
    // Whoever announced a release of the earlier life may still be executing it: an address that the provider is
    // taking down is not handed out again before that is over.
    let releases = &add.inner.releases;
    releases
        .may_mark(&earlier, Timestamp::now())
        .map_err(|why| IpamError::Release {
            what: format!("the addresses of the earlier life of pod {}", add.pod_name),
            why,
        })?;
    add.stages.enter(Stage::Selection);
    let (nameless, keep) = kept(add, &status.current.ips)?;
    add.stages.enter(Stage::Claim);
    let mut nics = Vec::with_capacity(keep.len());
    for (place, recorded) in status.current.ips.iter().enumerate() {
        let nic = take_over_nic(add, place, recorded).await?;
        nics.push((keep[place] && nic.is_complete(), nic));
    }
    let all = nics.iter().all(|(stays, _)| *stays);
    let (kept, given_up): (Vec<_>, Vec<_>) = nics
        .into_iter()
        .partition(|(stays, _)| *stays && (all || !nameless));
    let [mut kept, given_up] =
        [kept, given_up].map(|nics| nics.into_iter().map(|(_, nic)| nic).collect::<Vec<_>>());
    sub_eni::create(add, &mut kept).await?;
    let mut endpoint = (*give_up(add, &earlier, &given_up).await?).clone();
    let current = &mut endpoint.status.current;
    current.uid = add.uid.to_string();
    current.node = add.inner.options.node_name.to_string();
    let mut routes = routes.to_vec();
    current.ips = kept.iter().map(|nic| taken_over(nic, &mut routes)).collect();
    // A life that counted as stateless tied it to its pod, which is gone and would take it along.
    endpoint.metadata.owner_references = None;
    add.stages.enter(Stage::Endpoint);
    let written = add
        .inner
        .ports
        .endpoints
        .replace_endpoint(endpoint, add.request.deadline)
        .await
        .map_err(|error| add.endpoint_failed(error))?;
    tracing::info!(
        pod = %add.pod_name, from_uid = %status.current.uid, from_node = %status.current.node,
        kept = kept.len(), given_up = given_up.len(), "the pod came back to its addresses"
    );
    Ok(Some(written))
}

/// The endpoint of this life. The first ADD of a life could not judge NICs whose pools come with their own ADDs
/// ([`is_untold`]): where others are named for such a NIC now, its record is given up first (reference §2.7, A00017).
pub(super) async fn judge_again(
    add: &Add,
    mine: Arc<SpiderEndpoint>,
) -> Result<Arc<SpiderEndpoint>, IpamError> {
    let nic = &add.request.attachment.nic;
    let ips = &mine.status.current.ips;
    let Some(place) = ips.iter().position(|one| one.interface == *nic) else {
        return Ok(mine);
    };
    add.stages.enter(Stage::Selection);
    let wanted = Asked::of(&add.inner, &add.pod, &add.request, nic)?.with(selection::wanted)?;
    if !is_untold(&wanted) || fits_all(&ips[place], &wanted) {
        return Ok(mine);
    }
    add.stages.enter(Stage::Claim);
    let given_up = [take_over_nic(add, place, &ips[place]).await?];
    let mut endpoint = (*give_up(add, &mine, &given_up).await?).clone();
    endpoint.status.current.ips.remove(place);
    add.stages.enter(Stage::Endpoint);
    let (store, deadline) = (&add.inner.ports.endpoints, add.request.deadline);
    let written = store.replace_endpoint(endpoint, deadline).await;
    tracing::info!(pod = %add.pod_name, %nic, "other pools are named now: the address is given up for another");
    written.map_err(|error| add.endpoint_failed(error))
}

/// What could not be had is left out of `held`; a claim of it that the earlier life still has ends.
async fn take_over_nic(add: &Add, place: usize, recorded: &NicAllocation) -> Result<NicHeld, IpamError> {
    let name = match recorded.interface.as_str() {
        "" => format!("net{place}"),
        name => name.to_owned(),
    };
    let mut plan = NicPlan::of_record(recorded, add.network_of(&name)?);
    plan.takes_over = true;
    let mut held = Vec::new();
    for attempt in &plan.attempts {
        match add.claim_one(&plan, attempt, &[]).await {
            Ok(claimed) => held.push(Held::new(claimed, &plan)),
            Err(IpamError::NoAddress { cause, reasons, .. }) if is_lost(&cause) => {
                tracing::warn!(pod = %add.pod_name, nic = %name, why = %reasons, "the pod came back, but not to this address: it gets another");
                if let PoolError::Lost {
                    address,
                    claimed_by: Some(uid),
                    ..
                } = *cause
                {
                    end_claim(add, &attempt.pools[0], address, &uid).await?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(NicHeld { plan, held })
}

async fn end_claim(add: &Add, pool: &Arc<str>, address: IpAddr, uid: &Arc<str>) -> Result<(), IpamError> {
    match add
        .inner
        .unclaim(pool, address, uid, UnclaimReason::Release)
        .await
    {
        Ok(_) | Err(PoolError::Gone) => Ok(()),
        Err(error) => Err(IpamError::Release {
            what: format!("{address} of pool {pool}"),
            why: error.to_string(),
        }),
    }
}

/// A pool that cannot be read now may be corrected: its address is not lost.
fn is_lost(error: &PoolError) -> bool {
    matches!(error, PoolError::Lost { .. } | PoolError::Gone)
}

/// Gives the endpoint as it is then.
async fn give_up(
    add: &Add,
    earlier: &Arc<SpiderEndpoint>,
    nics: &[NicHeld],
) -> Result<Arc<SpiderEndpoint>, IpamError> {
    let mut release = Release {
        inner: &add.inner,
        attachment: &add.request.attachment,
        uid: &add.uid,
        endpoint: Some(earlier.clone()),
        deadline: add.request.deadline,
        request_id: &add.request.request_id,
    };
    let held = nics.iter().flat_map(|nic| &nic.held);
    let targets = held
        .map(|held| super::release::Target {
            pool: held.claimed.facts.name.clone(),
            address: held.claimed.address,
        })
        .collect();
    let records: Vec<NicAllocation> = nics.iter().filter_map(|nic| nic.plan.recorded.clone()).collect();
    release.all(&records, &targets).await?;
    Ok(release.endpoint.unwrap_or_else(|| earlier.clone()))
}

/// The record as this life's: its sub-ENI may be another now, and gateway and routes are those of today, as for
/// every pod that is made today (D00002).
fn taken_over(nic: &NicHeld, routes: &mut Vec<PodRoute>) -> NicAllocation {
    let before = nic.plan.recorded.clone().unwrap_or_default();
    let mut record = endpoint::nic_allocation(nic, routes);
    record.mac = record.mac.or(before.mac);
    record.vlan = record.vlan.or(before.vlan);
    record
}

/// Which recorded NICs stay. Without NICs in `ippools` all stand or fall together; else each is judged by the
/// pools that are named for it now, as far as this ADD can know them. The first value: NICs are not named.
fn kept(add: &Add, recorded: &[NicAllocation]) -> Result<(bool, Vec<bool>), IpamError> {
    let nic = &add.request.attachment.nic;
    let asked =
        |nic: &str| Asked::of(&add.inner, &add.pod, &add.request, nic)?.with(selection::wanted_if_named);
    let own = Asked::of(&add.inner, &add.pod, &add.request, nic)?.with(selection::wanted)?;
    if own.nameless {
        let same = recorded.len() == own.items.len()
            && recorded
                .iter()
                .zip(&own.items)
                .all(|(record, item)| fits(record, item));
        return Ok((true, vec![same; recorded.len()]));
    }
    let judge = |record: &NicAllocation| match record.interface.as_str() {
        "" => Ok(false),
        name if name == nic => Ok(fits_all(record, &own)),
        other => Ok(asked(other)?.is_some_and(|wanted| is_untold(&wanted) || fits_all(record, &wanted))),
    };
    let judged: Result<_, IpamError> = recorded.iter().map(judge).collect();
    Ok((false, judged?))
}

/// The CNI configuration of this ADD says nothing of other NICs' pools.
fn is_untold(wanted: &Wanted) -> bool {
    matches!(wanted.source, Source::Configuration | Source::ClusterDefault)
}

fn fits_all(record: &NicAllocation, wanted: &Wanted) -> bool {
    wanted.items.iter().all(|item| fits(record, item))
}

/// True when every recorded pool is still named for its family, and no further family is.
fn fits(record: &NicAllocation, item: &Configured) -> bool {
    let named = |family: Family| {
        item.iter()
            .find(|(one, _)| *one == family)
            .map(|(_, pools)| pools)
    };
    [(Family::V4, &record.ipv4_pool), (Family::V6, &record.ipv6_pool)]
        .into_iter()
        .all(|(family, pool)| match (pool, named(family)) {
            (Some(pool), Some(pools)) => pools.iter().any(|one| name_of(one) == pool),
            (None, None) => true,
            _ => false,
        })
}
