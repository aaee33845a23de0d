//! One CNI ADD, from the pod to the endpoint (design §3, §5).
//!
//! The work runs in a task of its own: a caller who goes away changes nothing. Whatever it claimed is either
//! in the pod's endpoint at the end or taken back.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_api::annotation::PodRoute;
use orbweaver_api::endpoint::{NicAllocation, SpiderEndpoint};
use orbweaver_api::multus::NetworkRef;
use orbweaver_api::pool::PoolMode;
use tokio::time::Instant;

use super::come_back;
use super::nics::{Attempt, Held, NicHeld, NicPlan};
use super::owner::{self, Owner, to_look_above};
use super::stages::Stages;
use super::{Inner, candidates, endpoint, identity, routes, sub_eni};
use crate::deadline::Deadline;
use crate::error::{IpamError, PoolError, ProviderError, Stage};
use crate::pool::effect::{ClaimRequest, Claimed, UnclaimReason};
use crate::request::{AddRequest, Allocated};
use crate::store::{Stateful, StoreError};

/// One ADD under way.
pub(super) struct Add {
    pub(super) inner: Arc<Inner>,
    pub(super) request: AddRequest,
    pub(super) stages: Stages,
    pub(super) pod: Arc<Pod>,
    /// `namespace/name`.
    pub(super) pod_name: Arc<str>,
    pub(super) uid: Arc<str>,
    /// What makes the pod come back with its addresses.
    pub(super) stateful: Option<Stateful>,
    pub(super) endpoint_name: String,
    /// `namespace/name` of the endpoint: whose claims these are.
    pub(super) claimant: Arc<str>,
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
    let returning = inner.options.returning;
    let endpoint_name = owner::endpoint_name(&pod, returning);
    let add = Add {
        stateful: owner::stateful(&pod, returning),
        claimant: format!("{}/{endpoint_name}", request.attachment.namespace).into(),
        endpoint_name,
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
        let mut routes = routes::of_pod(&self.pod)?;
        let mine = self.endpoint(&routes).await?;
        self.stages.enter(Stage::Selection);
        let plans = candidates::of_add(self, mine.as_deref())?;
        self.stages.enter(Stage::Claim);
        let (nics, owner) = tokio::join!(self.claim_all(plans, mine.as_deref()), self.top_controller());
        let mut nics = nics?;
        if let [nic] = nics.as_slice()
            && let Some(recorded) = nic.plan.recorded.as_ref().filter(|_| nic.is_as_recorded())
        {
            return self.answer_again(nic, recorded, &owner).await;
        }
        if let Err(error) = sub_eni::create(self, &mut nics).await {
            let reason = undo_reason(&error);
            self.give_back(&nics, reason, |held| held.claimed.facts.mode != PoolMode::Plain)
                .await;
            self.leave_trace(&nics, &owner).await;
            return Err(error);
        }
        let written: Vec<NicAllocation> = nics
            .iter()
            .map(|nic| endpoint::nic_allocation(nic, &mut routes))
            .collect();
        self.tell_unplaced(&routes);
        let answer = endpoint::answer(&written[0]).map_err(|why| IpamError::InvalidRequest(why.into()));
        match self.record(written, &owner).await {
            Ok(()) => answer,
            Err(error) => {
                let (on_provider, others): (Vec<NicHeld>, Vec<NicHeld>) = nics
                    .into_iter()
                    .partition(|nic| sub_eni::is_bound_for_plain(self, nic));
                let marked = |held: &Held| held.claimed.facts.mode != PoolMode::Plain;
                self.give_back(&on_provider, UnclaimReason::Rollback, marked)
                    .await;
                self.give_back(&others, UnclaimReason::Rollback, |_| true).await;
                Err(error)
            }
        }
    }

    /// The endpoint of this life of the pod, with no question asked where it is known here. A pod that came
    /// back is asked for, and takes over what its earlier life had.
    async fn endpoint(&self, routes: &[PodRoute]) -> Result<Option<Arc<SpiderEndpoint>>, IpamError> {
        let (store, namespace) = (&self.inner.ports.endpoints, &self.request.attachment.namespace);
        let is_mine = |endpoint: &Arc<SpiderEndpoint>| endpoint.status.current.uid == *self.uid;
        let known = store.known_endpoint(namespace, &self.endpoint_name);
        match (known.filter(is_mine), self.stateful) {
            (Some(mine), Some(_)) => return come_back::judge_again(self, mine).await.map(Some),
            (mine, None) => return Ok(mine),
            (None, Some(_)) => {}
        }
        let deadline = self.request.deadline;
        match store
            .read_endpoint(namespace, &self.endpoint_name, deadline)
            .await
        {
            Ok(mine) if is_mine(&mine) => come_back::judge_again(self, mine).await.map(Some),
            Ok(earlier) => come_back::take_over(self, earlier, routes).await,
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(self.endpoint_failed(error)),
        }
    }

    /// Answers what was answered before; a slot that this NIC takes is given its name first.
    async fn answer_again(
        &self,
        nic: &NicHeld,
        recorded: &NicAllocation,
        owner: &Owner,
    ) -> Result<Allocated, IpamError> {
        let named = NicAllocation {
            interface: nic.plan.nic.clone(),
            ..recorded.clone()
        };
        if named.interface != recorded.interface {
            self.record(vec![named.clone()], owner).await?;
        }
        tracing::debug!(pod = %self.pod_name, nic = %named.interface, "answered before; answering the same");
        endpoint::answer(&named).map_err(|why| IpamError::InvalidRequest(why.into()))
    }

    fn tell_unplaced(&self, routes: &[PodRoute]) {
        for route in routes {
            tracing::info!(
                pod = %self.pod_name, nic = %self.request.attachment.nic, dst = %route.dst, gateway = %route.gw,
                "a route of the annotation ipam.spidernet.io/routes is for no subnet of this NIC"
            );
        }
    }

    /// Never fails an ADD: without an answer the pod's own controller is named.
    async fn top_controller(&self) -> Owner {
        let owner = Owner::of(&self.pod);
        let Some(controller) = to_look_above(&self.pod) else {
            return owner;
        };
        let (owners, namespace) = (&self.inner.ports.owners, &self.request.attachment.namespace);
        match owners
            .controller_of(namespace, controller, self.request.deadline)
            .await
        {
            Ok(above) => owner.above(above.as_ref()),
            Err(error) => {
                tracing::info!(pod = %self.pod_name, kind = %owner.kind, name = %owner.name, %error, "who controls the pod's controller cannot be told");
                owner
            }
        }
    }

    /// The network that a NIC is attached to.
    pub(super) fn network_of(&self, nic: &str) -> Result<Option<NetworkRef>, IpamError> {
        candidates::network_of(&self.inner, &self.pod, &self.request.attachment.namespace, nic)
    }

    /// For every NIC one address per family, all or none.
    async fn claim_all(
        &self,
        plans: Vec<NicPlan>,
        endpoint: Option<&SpiderEndpoint>,
    ) -> Result<Vec<NicHeld>, IpamError> {
        let mut done: Vec<NicHeld> = Vec::with_capacity(plans.len());
        for plan in plans {
            let mut others = endpoint
                .map(|endpoint| endpoint::addresses_of_others(endpoint, plan.recorded.as_ref()))
                .unwrap_or_default();
            others.extend(done.iter().flat_map(NicHeld::addresses));
            let mut nic = NicHeld {
                plan,
                held: Vec::new(),
            };
            let claimed = self.claim_nic(&mut nic, &others).await;
            done.push(nic);
            if let Err(error) = claimed {
                self.give_back(&done, UnclaimReason::Rollback, |_| true).await;
                return Err(error);
            }
        }
        Ok(done)
    }

    /// One address per family for one NIC; what was claimed before an error is in `nic`.
    async fn claim_nic(&self, nic: &mut NicHeld, others: &[IpAddr]) -> Result<(), IpamError> {
        let attempts = nic.plan.attempts.clone();
        for attempt in &attempts {
            let claimed = self.claim_one(&nic.plan, attempt, others).await?;
            nic.held.push(Held::new(claimed, &nic.plan));
        }
        Ok(())
    }

    /// The first candidate that gives an address.
    pub(super) async fn claim_one(
        &self,
        plan: &NicPlan,
        attempt: &Attempt,
        others: &[IpAddr],
    ) -> Result<Claimed, IpamError> {
        let mut reasons = Vec::new();
        let mut last = PoolError::Exhausted;
        for pool in &attempt.pools {
            let request = ClaimRequest {
                pod: self.claimant.clone(),
                pod_uid: self.uid.clone(),
                nic: plan.nic.as_str().into(),
                node: self.inner.options.node_name.clone(),
                recorded: plan.recorded(attempt.family),
                held_by_other_nics: others.to_vec(),
                takes_over: plan.takes_over,
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
            nic: plan.nic.clone(),
            pools: attempt.pools.iter().map(ToString::to_string).collect(),
            reasons: reasons.join("; "),
            cause: Box::new(last),
        })
    }

    /// Takes claims back on a budget of its own. A claim that an earlier, failed ADD of the pod left is no
    /// different; one that the pod's endpoint names is.
    async fn give_back(&self, nics: &[NicHeld], reason: UnclaimReason, which: impl Fn(&Held) -> bool) {
        let label = match reason {
            UnclaimReason::RollbackInDoubt { .. } => "unknown",
            UnclaimReason::Rollback => "failed",
            UnclaimReason::Release | UnclaimReason::Abandoned => "other",
        };
        let held = nics.iter().flat_map(|nic| &nic.held);
        for held in held.filter(|held| !held.recorded && which(held)) {
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

    /// A claim that stays for the pod's retry while the provider may have done its part must be found by whoever
    /// cleans up when there is no retry, with the node where a sub-ENI may be: the pod's endpoint says so, without
    /// NICs. When it cannot be written now, the pod's DEL still finds the claim.
    async fn leave_trace(&self, nics: &[NicHeld], owner: &Owner) {
        if !nics.iter().any(|nic| sub_eni::is_bound_for_plain(self, nic)) {
            return;
        }
        let deadline = Deadline::after(Deadline::UNDO_BUDGET);
        if let Err(error) = endpoint::record(self, Vec::new(), owner, deadline).await {
            tracing::warn!(pod = %self.pod_name, %error, "the endpoint that leads to a kept claim could not be written");
        }
    }

    async fn record(&self, nics: Vec<NicAllocation>, owner: &Owner) -> Result<(), IpamError> {
        self.stages.enter(Stage::Endpoint);
        endpoint::record(self, nics, owner, self.request.deadline).await
    }

    /// What a failed request for the endpoint means to the caller.
    pub(super) fn endpoint_failed(&self, source: StoreError) -> IpamError {
        if self.request.deadline.expired(Instant::now()) {
            return IpamError::DeadlineExceeded {
                stage: Stage::Endpoint,
            };
        }
        IpamError::Endpoint {
            pod: self.pod_name.to_string(),
            source,
        }
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
