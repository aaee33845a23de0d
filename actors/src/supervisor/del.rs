//! One CNI DEL (design §5 "DEL", reference "What a real kubelet asks"): late, repeated, without a network
//! namespace, for pods that still live or never were here.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use orbweaver_api::address_set::Family;
use orbweaver_api::claims;
use orbweaver_api::endpoint::{NicAllocation, SpiderEndpoint};
use orbweaver_api::pool::{PoolMode, SpiderIPPool};
use orbweaver_api::provider::ReleaseRequest;

use super::Inner;
use super::endpoint::address;
use super::identity::is_dead;
use super::stages::Stages;
use crate::error::{IpamError, PoolError, ProviderError, Stage};
use crate::pool::effect::UnclaimReason;
use crate::provider::CallClass;
use crate::request::DelRequest;
use crate::store::StoreError;

/// A claim to take back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    pool: Arc<str>,
    address: IpAddr,
}

/// Serves the request; the pod's turn is held by the caller.
pub(super) async fn run(inner: Arc<Inner>, request: DelRequest, stages: Stages) -> Result<(), IpamError> {
    let attachment = &request.attachment;
    let pod = attachment.pod();
    if attachment.uid.is_empty() {
        tracing::info!(%pod, "DEL without a pod UID: nothing can be told to be this pod's; garbage collection will");
        return Ok(());
    }
    stages.enter(Stage::Pod);
    if lives(&inner, &request).await? {
        tracing::info!(%pod, uid = %attachment.uid, "DEL of a pod that still lives: its addresses stay");
        return Ok(());
    }
    stages.enter(Stage::Release);
    let endpoint = own_endpoint(&inner, &request).await?;
    let targets = targets(&inner, endpoint.as_deref(), &attachment.uid);
    release_sub_enis(&inner, &request, endpoint.as_deref(), &targets).await?;
    let mut failed = None;
    for target in &targets {
        match inner
            .unclaim(
                &target.pool,
                target.address,
                &attachment.uid.as_str().into(),
                UnclaimReason::Release,
            )
            .await
        {
            Ok(_) | Err(PoolError::Gone) => {
                tracing::info!(%pod, pool = %target.pool, address = %target.address, "released");
            }
            Err(error) => failed = failed.or(Some((target, error.to_string()))),
        }
    }
    if let Some((target, why)) = failed {
        return Err(IpamError::Release {
            what: format!("{} of pool {}", target.address, target.pool),
            why,
        });
    }
    if let Some(endpoint) = endpoint {
        inner
            .ports
            .endpoints
            .remove_endpoint(&endpoint, request.deadline)
            .await
            .map_err(|error| IpamError::Release {
                what: format!("SpiderEndpoint {pod}"),
                why: error.to_string(),
            })?;
    }
    Ok(())
}

/// A pod that the watch shows alive may have ended a moment ago: then, and only then, the API server is asked.
/// Dead and gone are for ever, so the watch's word is enough for those.
async fn lives(inner: &Inner, request: &DelRequest) -> Result<bool, IpamError> {
    let attachment = &request.attachment;
    let is_alive = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.metadata.uid.as_deref() == Some(&attachment.uid) && !is_dead(pod)
    };
    if !inner
        .ports
        .view
        .pod(&attachment.namespace, &attachment.name)
        .is_some_and(|pod| is_alive(&pod))
    {
        return Ok(false);
    }
    let live = inner
        .ports
        .view
        .live_pod(&attachment.namespace, &attachment.name, request.deadline)
        .await;
    live.map(|pod| pod.is_some_and(|pod| is_alive(&pod)))
        .map_err(|error| IpamError::Release {
            what: format!("what pod {} holds", attachment.pod()),
            why: format!("whether it still lives cannot be told: {error}"),
        })
}

/// The endpoint, if it is this pod's and not a namesake's.
async fn own_endpoint(inner: &Inner, request: &DelRequest) -> Result<Option<Arc<SpiderEndpoint>>, IpamError> {
    let attachment = &request.attachment;
    let store = &inner.ports.endpoints;
    let endpoint = match store.known_endpoint(&attachment.namespace, &attachment.name) {
        Some(endpoint) => Some(endpoint),
        None => match store
            .read_endpoint(&attachment.namespace, &attachment.name, request.deadline)
            .await
        {
            Ok(endpoint) => Some(endpoint),
            Err(StoreError::NotFound) => None,
            Err(error) => {
                let what = format!("SpiderEndpoint {}", attachment.pod());
                return Err(IpamError::Release {
                    what,
                    why: error.to_string(),
                });
            }
        },
    };
    Ok(endpoint.filter(|endpoint| endpoint.status.current.uid == attachment.uid))
}

/// Everything the pod holds: what its endpoint says, and what pools say.
fn targets(inner: &Inner, endpoint: Option<&SpiderEndpoint>, uid: &str) -> BTreeSet<Target> {
    let mut targets = BTreeSet::new();
    for nic in endpoint.iter().flat_map(|endpoint| &endpoint.status.current.ips) {
        for (family, pool) in [(Family::V4, &nic.ipv4_pool), (Family::V6, &nic.ipv6_pool)] {
            if let (Some(address), Some(pool)) = (address(nic, family), pool) {
                targets.insert(Target {
                    pool: pool.as_str().into(),
                    address,
                });
            }
        }
    }
    for pool in inner.ports.view.pools() {
        targets.extend(claimed_in(&pool, uid));
    }
    targets
}

fn claimed_in(pool: &SpiderIPPool, uid: &str) -> Vec<Target> {
    let text = pool
        .status
        .as_ref()
        .and_then(|status| status.allocated_ips.as_deref());
    // Most pools know nothing of the pod: looking for its UID is much cheaper than reading the text.
    let Some(text) = text.filter(|text| text.contains(uid)) else {
        return Vec::new();
    };
    let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
    let claims = claims::decode(Some(text)).unwrap_or_default();
    let own = claims.into_iter().filter(|(_, claim)| claim.pod_uid == uid);
    own.map(|(address, _)| Target {
        pool: name.clone(),
        address,
    })
    .collect()
}

/// Provider first, pool second (seed): plain pools on a provider network only, once for each sub-ENI.
async fn release_sub_enis(
    inner: &Inner,
    request: &DelRequest,
    endpoint: Option<&SpiderEndpoint>,
    targets: &BTreeSet<Target>,
) -> Result<(), IpamError> {
    let Some(provider) = &inner.ports.provider else {
        return Ok(());
    };
    let attachment = &request.attachment;
    for target in sub_enis(inner, endpoint, targets) {
        let Some(pool) = inner.ports.view.pool(&target.pool) else {
            continue;
        };
        let what = || format!("the sub-ENI of {} of pool {}", target.address, target.pool);
        if !inner.releases.may_send(&target.pool, target.address) {
            let why = "an earlier release may still be executing".to_owned();
            return Err(IpamError::Release { what: what(), why });
        }
        let node = endpoint.map_or(&*inner.options.node_name, |endpoint| {
            endpoint.status.current.node.as_str()
        });
        let body = ReleaseRequest {
            pod_name: attachment.name.clone(),
            pod_namespace: attachment.namespace.clone(),
            pod_uid: attachment.uid.clone(),
            node_name: node.to_owned(),
            parent_nic_mac: String::new(),
            subnet: pool.spec.subnet.clone(),
            ip_address: target.address.to_string(),
            pool_name: target.pool.to_string(),
        };
        let released = provider
            .release(
                body,
                CallClass::Release,
                request.deadline,
                request.request_id.clone(),
            )
            .await;
        if let Err(error) = released {
            if let ProviderError::Unknown { may_run_for, .. } = &error {
                inner
                    .releases
                    .unsettled(&target.pool, target.address, *may_run_for);
            }
            return Err(IpamError::Release {
                what: what(),
                why: error.to_string(),
            });
        }
    }
    Ok(())
}

/// One address for each sub-ENI that a release must name: IPv4 where there is one.
fn sub_enis(inner: &Inner, endpoint: Option<&SpiderEndpoint>, targets: &BTreeSet<Target>) -> Vec<Target> {
    let is_plain = |pool: &str| {
        inner
            .ports
            .view
            .pool(pool)
            .is_some_and(|pool| pool.mode() == PoolMode::Plain)
    };
    let nics: &[NicAllocation] = endpoint.map_or(&[], |endpoint| &endpoint.status.current.ips);
    let mut named = Vec::new();
    let mut covered = BTreeSet::new();
    for nic in nics {
        let of = |family, pool: &Option<String>| {
            Some(Target {
                pool: pool.as_deref()?.into(),
                address: address(nic, family)?,
            })
        };
        let both = [of(Family::V4, &nic.ipv4_pool), of(Family::V6, &nic.ipv6_pool)];
        let by_provider = nic.mac.is_some() || nic.vlan.is_some_and(|vlan| vlan != 0);
        let first = both
            .iter()
            .flatten()
            .find(|target| is_plain(&target.pool))
            .cloned();
        named.extend(first.filter(|_| by_provider));
        covered.extend(both.into_iter().flatten());
    }
    // Claims without a record are of an ADD that the provider failed: whether it did anything is not known,
    // and releasing what is not there is a success.
    named.extend(
        targets
            .iter()
            .filter(|target| !covered.contains(target) && is_plain(&target.pool))
            .cloned(),
    );
    named
}
