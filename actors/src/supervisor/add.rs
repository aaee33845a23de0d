//! One CNI ADD, from the pod to the endpoint (design §3, §5).
//!
//! The work runs in a task of its own: a caller who goes away changes nothing. Whatever it claimed is either
//! in the pod's endpoint at the end or taken back.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_api::endpoint::{NicAllocation, SpiderEndpoint};
use orbweaver_api::pool::PoolMode;
use tokio::time::Instant;

use super::Inner;
use super::candidates::{self, Attempt};
use super::endpoint;
use super::identity::{self, Owner};
use super::stages::Stages;
use super::sub_eni;
use crate::error::{IpamError, PoolError, ProviderError, Stage};
use crate::pool::effect::{ClaimRequest, Claimed, UnclaimReason};
use crate::request::{AddRequest, Allocated};

/// An address of this ADD, with what the provider said of it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) claimed: Claimed,
    /// The pod's endpoint names it already: a failed ADD leaves it alone.
    recorded: bool,
    pub(super) mac: Option<String>,
    pub(super) vlan: Option<u16>,
}

impl Held {
    fn new(claimed: Claimed, recorded: Option<IpAddr>) -> Self {
        Self {
            recorded: claimed.found() && recorded == Some(claimed.address),
            mac: claimed.mac.map(|mac| mac.to_string()),
            vlan: claimed.vlan,
            claimed,
        }
    }
}

/// One ADD under way.
pub(super) struct Add {
    pub(super) inner: Arc<Inner>,
    pub(super) request: AddRequest,
    pub(super) stages: Stages,
    pub(super) pod: Arc<Pod>,
    pub(super) pod_name: Arc<str>,
    pub(super) uid: Arc<str>,
}

/// Serves the request; the pod's turn is held by the caller.
pub(super) async fn run(
    inner: Arc<Inner>,
    request: AddRequest,
    stages: Stages,
) -> Result<Allocated, IpamError> {
    stages.enter(Stage::Pod);
    let pod = identity::find_pod(&inner, &request).await?;
    let pod_name: Arc<str> = request.attachment.pod().into();
    identity::check_alive(&pod, &pod_name)?;
    let uid: Arc<str> = pod.metadata.uid.as_deref().unwrap_or_default().into();
    let add = Add {
        inner,
        request,
        stages,
        pod,
        pod_name,
        uid,
    };
    add.allocate().await
}

impl Add {
    async fn allocate(&self) -> Result<Allocated, IpamError> {
        let attachment = &self.request.attachment;
        let known = self
            .inner
            .ports
            .endpoints
            .known_endpoint(&attachment.namespace, &attachment.name);
        let mine = known.filter(|endpoint| endpoint.status.current.uid == *self.uid);
        let recorded = mine
            .as_deref()
            .and_then(|endpoint| endpoint::nic(endpoint, &attachment.nic));
        self.stages.enter(Stage::Selection);
        let attempts = candidates::of_add(self, recorded)?;
        self.stages.enter(Stage::Claim);
        let mut held = self.claim_all(&attempts, mine.as_deref(), recorded).await?;
        if let Some(recorded) = recorded.filter(|nic| endpoint::is_still_held(nic, &held)) {
            tracing::debug!(pod = %self.pod_name, nic = %attachment.nic, "answered before; answering the same");
            return endpoint::answer(recorded).map_err(|why| IpamError::InvalidRequest(why.into()));
        }
        if let Err(error) = sub_eni::create(self, &mut held).await {
            let reason = undo_reason(&error);
            self.give_back(&held, reason, |held| held.claimed.facts.mode != PoolMode::Plain)
                .await;
            return Err(error);
        }
        self.stages.enter(Stage::Endpoint);
        let nic = endpoint::nic_allocation(&self.request, &held);
        match self.record(nic.clone()).await {
            Ok(()) => endpoint::answer(&nic).map_err(|why| IpamError::InvalidRequest(why.into())),
            Err(error) => {
                let on_provider = sub_eni::is_bound_for_plain(self, &held);
                self.give_back(&held, UnclaimReason::Rollback, |held| {
                    held.claimed.facts.mode != PoolMode::Plain || !on_provider
                })
                .await;
                Err(error)
            }
        }
    }

    /// One address per family, all or none.
    async fn claim_all(
        &self,
        attempts: &[Attempt],
        endpoint: Option<&SpiderEndpoint>,
        recorded: Option<&NicAllocation>,
    ) -> Result<Vec<Held>, IpamError> {
        let others =
            endpoint.map(|endpoint| endpoint::addresses_of_others(endpoint, &self.request.attachment.nic));
        let others = others.unwrap_or_default();
        let mut held: Vec<Held> = Vec::with_capacity(attempts.len());
        for attempt in attempts {
            let recorded = recorded.and_then(|nic| endpoint::address(nic, attempt.family));
            match self.claim_one(attempt, recorded, &others).await {
                Ok(claimed) => held.push(Held::new(claimed, recorded)),
                Err(error) => {
                    self.give_back(&held, UnclaimReason::Rollback, |_| true).await;
                    return Err(error);
                }
            }
        }
        Ok(held)
    }

    /// The first candidate that gives an address.
    async fn claim_one(
        &self,
        attempt: &Attempt,
        recorded: Option<IpAddr>,
        others: &[IpAddr],
    ) -> Result<Claimed, IpamError> {
        let mut reasons = Vec::new();
        let mut last = PoolError::Exhausted;
        for pool in &attempt.pools {
            let request = ClaimRequest {
                pod: self.pod_name.clone(),
                pod_uid: self.uid.clone(),
                nic: self.request.attachment.nic.as_str().into(),
                node: self.inner.options.node_name.clone(),
                recorded,
                held_by_other_nics: others.to_vec(),
                deadline: self.request.deadline,
            };
            let result = match self.inner.pool(pool).await {
                Ok(handle) => handle.claim(request).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(claimed) => return Ok(claimed),
                Err(PoolError::DeadlineExceeded { .. }) => {
                    return Err(IpamError::DeadlineExceeded { stage: Stage::Claim });
                }
                Err(error) => {
                    reasons.push(format!("{pool}: {error}"));
                    let stop = !error.next_candidate();
                    last = error;
                    if stop {
                        break;
                    }
                }
            }
        }
        Err(IpamError::NoAddress {
            family: attempt.family,
            nic: self.request.attachment.nic.clone(),
            pools: attempt.pools.iter().map(ToString::to_string).collect(),
            reasons: reasons.join("; "),
            cause: Box::new(last),
        })
    }

    /// Takes claims back on a budget of its own. A claim that an earlier, failed ADD of the pod left is no
    /// different; one that the pod's endpoint names is.
    async fn give_back(&self, held: &[Held], reason: UnclaimReason, which: impl Fn(&Held) -> bool) {
        let label = match reason {
            UnclaimReason::RollbackInDoubt { .. } => "unknown",
            UnclaimReason::Rollback => "failed",
            UnclaimReason::Release | UnclaimReason::Abandoned => "other",
        };
        for held in held.iter().filter(|held| !held.recorded && which(held)) {
            let facts = &held.claimed.facts;
            let address = held.claimed.address;
            match self.inner.unclaim(&facts.name, address, &self.uid, reason).await {
                Ok(_) => {
                    crate::metrics::rolled_back(label, "ok");
                    tracing::info!(pod = %self.pod_name, pool = %facts.name, %address, reason = label, "rolled a claim back");
                }
                Err(error) => {
                    crate::metrics::rolled_back(label, "failed");
                    tracing::error!(pod = %self.pod_name, pool = %facts.name, %address, %error, "a claim could not be rolled back; the pod's DEL or garbage collection will");
                }
            }
        }
    }

    async fn record(&self, nic: NicAllocation) -> Result<(), IpamError> {
        let owner = Owner::of(&self.pod);
        let node = &self.inner.options.node_name;
        endpoint::record(self, nic, &owner, node).await.map_err(|source| {
            if self.request.deadline.expired(Instant::now()) {
                IpamError::DeadlineExceeded {
                    stage: Stage::Endpoint,
                }
            } else {
                IpamError::Endpoint {
                    pod: self.pod_name.to_string(),
                    source,
                }
            }
        })
    }
}

fn undo_reason(error: &IpamError) -> UnclaimReason {
    match error {
        IpamError::Provider(ProviderError::Unknown { may_run_for, .. }) => UnclaimReason::RollbackInDoubt {
            for_at_most: *may_run_for,
        },
        _ => UnclaimReason::Rollback,
    }
}
