//! One CNI DEL (design §5 "DEL", reference "What a real kubelet asks"): late, repeated, without a network
//! namespace, for pods that still live or never were here.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_api::claims;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;

use super::Inner;
use super::identity::is_dead;
use super::owner::{self, Owner};
use super::release::{Release, Target, targets_of};
use super::stages::Stages;
use crate::error::{IpamError, Stage};
use crate::request::{Attachment, DelRequest};
use crate::store::StoreError;

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
    let named = find_endpoint(&inner, &request).await?;
    let comes_back = comes_back(&inner, &request, named.as_deref()).await?;
    let mine = named
        .clone()
        .filter(|endpoint| endpoint.status.current.uid == attachment.uid);
    let mut targets = targets(&inner, mine.as_deref(), &attachment.uid);
    if comes_back {
        let kept = named.iter().flat_map(|endpoint| &endpoint.status.current.ips);
        for target in kept.flat_map(targets_of) {
            targets.remove(&target);
        }
        tracing::info!(%pod, "DEL of a pod that comes back: it keeps its addresses");
    }
    let records = mine
        .iter()
        .flat_map(|endpoint| &endpoint.status.current.ips)
        .cloned();
    let records: Vec<_> = records.collect();
    let mut release = Release {
        inner: &inner,
        attachment,
        uid: &attachment.uid.as_str().into(),
        endpoint: mine,
        deadline: request.deadline,
        request_id: &request.request_id,
    };
    release.all(&records, &targets).await?;
    match release.endpoint.filter(|_| !comes_back) {
        Some(endpoint) => remove(&inner, &request, &endpoint).await,
        None => Ok(()),
    }
}

async fn remove(inner: &Inner, request: &DelRequest, endpoint: &SpiderEndpoint) -> Result<(), IpamError> {
    let removed = inner
        .ports
        .endpoints
        .remove_endpoint(endpoint, request.deadline)
        .await;
    removed.map_err(|error| IpamError::Release {
        what: format!("SpiderEndpoint {}", request.attachment.pod()),
        why: error.to_string(),
    })
}

/// A pod that the watch shows alive may have ended a moment ago: then, and only then, the API server is asked.
/// Dead and gone are for ever, so the watch's word is enough for those.
async fn lives(inner: &Inner, request: &DelRequest) -> Result<bool, IpamError> {
    let attachment = &request.attachment;
    let is_alive = |pod: &Pod| pod.metadata.uid.as_deref() == Some(&attachment.uid) && !is_dead(pod);
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

/// The endpoint of that name: this life's, an earlier one's, or a namesake's.
async fn find_endpoint(
    inner: &Inner,
    request: &DelRequest,
) -> Result<Option<Arc<SpiderEndpoint>>, IpamError> {
    let attachment = &request.attachment;
    let (store, name) = (&inner.ports.endpoints, endpoint_name(inner, attachment));
    if let Some(known) = store.known_endpoint(&attachment.namespace, &name) {
        return Ok(Some(known));
    }
    match store
        .read_endpoint(&attachment.namespace, &name, request.deadline)
        .await
    {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(IpamError::Release {
            what: format!("SpiderEndpoint {}/{name}", attachment.namespace),
            why: error.to_string(),
        }),
    }
}

/// By the pod where it is known, else by its claims, which carry the endpoint's name.
pub(super) fn endpoint_name(inner: &Inner, attachment: &Attachment) -> String {
    let view = &inner.ports.view;
    let pod = view.pod(&attachment.namespace, &attachment.name);
    if let Some(pod) =
        pod.filter(|pod| attachment.uid.is_empty() || pod.metadata.uid.as_deref() == Some(&attachment.uid))
    {
        return owner::endpoint_name(&pod, inner.options.returning);
    }
    let prefix = format!("{}/", attachment.namespace);
    let claimed = view.pools().into_iter().find_map(|pool| {
        let (_, claimant) = claimed_in(&pool, &attachment.uid).into_iter().next()?;
        claimant.strip_prefix(&prefix).map(str::to_owned)
    });
    claimed.unwrap_or_else(|| attachment.name.clone())
}

/// True when the pod's addresses outlive it (reference §2.13 item 5).
async fn comes_back(
    inner: &Inner,
    request: &DelRequest,
    endpoint: Option<&SpiderEndpoint>,
) -> Result<bool, IpamError> {
    let attachment = &request.attachment;
    let returning = inner.options.returning;
    let pod = inner.ports.view.pod(&attachment.namespace, &attachment.name);
    let pod = pod.filter(|pod| pod.metadata.uid.as_deref() == Some(&attachment.uid));
    let by_pod = pod
        .as_deref()
        .and_then(|pod| Some((owner::stateful(pod, returning)?, Owner::of(pod).name)));
    let by_endpoint = || {
        let status = &endpoint?.status;
        let kind = owner::stateful_kind(&status.owner_controller_type, returning)?;
        Some((kind, status.owner_controller_name.clone()))
    };
    let Some((kind, name)) = by_pod.or_else(by_endpoint) else {
        return Ok(false);
    };
    let owner = inner
        .ports
        .owners
        .stateful_owner(kind, &attachment.namespace, &name, request.deadline)
        .await
        .map_err(|error| IpamError::Release {
            what: format!("what pod {} holds", attachment.pod()),
            why: format!("whether {kind:?} {name} wants it back cannot be told: {error}"),
        })?;
    Ok(owner::comes_back(&attachment.name, &name, owner.as_ref()))
}

/// Everything the pod holds: what its endpoint says, and what pools say.
fn targets(inner: &Inner, endpoint: Option<&SpiderEndpoint>, uid: &str) -> BTreeSet<Target> {
    let records = endpoint.iter().flat_map(|endpoint| &endpoint.status.current.ips);
    let mut targets: BTreeSet<Target> = records.flat_map(targets_of).collect();
    for pool in inner.ports.view.pools() {
        targets.extend(claimed_in(&pool, uid).into_iter().map(|(target, _)| target));
    }
    targets
}

/// What a pool says is that UID's, and under which name.
fn claimed_in(pool: &SpiderIPPool, uid: &str) -> Vec<(Target, String)> {
    let text = pool
        .status
        .as_ref()
        .and_then(|status| status.allocated_ips.as_deref());
    // Most pools know nothing of the pod: looking for its UID is much cheaper than reading the text.
    let Some(text) = text.filter(|text| !uid.is_empty() && text.contains(uid)) else {
        return Vec::new();
    };
    let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
    let claims = claims::decode(Some(text)).unwrap_or_default();
    let own = claims.into_iter().filter(|(_, claim)| claim.pod_uid == uid);
    own.map(|(address, claim)| {
        let pool = name.clone();
        (Target { pool, address }, claim.pod)
    })
    .collect()
}
