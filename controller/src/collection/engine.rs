//! Looks, and collects what two looks and a last read agree on. Every step can be the last one of this leader: the
//! next one begins at the beginning and finds what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orbweaver_actors::store::StoreError;
use orbweaver_api::claims::Claim;
use orbweaver_api::endpoint::EndpointStatus;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::collection::Policy;
use crate::collection::backing::{self, Holder};
use crate::collection::facts::{Key, Machines, Snapshot, key};
use crate::collection::looks::{Looks, Verdict};
use crate::collection::rules::{self, Cause, Opinion, Place};
use crate::collection::store::CollectionStore;
use crate::{chain, metrics};

mod endpoints;
mod release;

/// Reads of a pool that others keep writing, before it is left for the next round.
const WRITES: u32 = 8;
/// Longest wait between rounds while something could not be collected.
const STUCK: Duration = Duration::from_secs(60);

/// Why something stays that should go. Closed label set.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The last read did not come.
    #[error("it could not be read once more")]
    Read(#[source] StoreError),
    /// A write did not come about.
    #[error("it could not be written")]
    Write(#[source] StoreError),
    /// Nobody knows on which node the pod was.
    #[error("its node is not known: release the sub-ENI at the provider and remove the claim by hand")]
    NodeUnknown,
    /// There is nothing that a release could be agreed on.
    #[error(
        "the pod has no SpiderEndpoint: release the sub-ENI at the provider and remove the claim by hand"
    )]
    NoEndpoint,
    /// No provider is configured.
    #[error("it has a sub-ENI, but the controller knows no provider: set iaasNetworkProvider in conf.yml")]
    NoProvider,
    /// Somebody's release may still be executing.
    #[error("a release by {0} may still be executing")]
    InFlight(String),
    /// The provider said no.
    #[error("the provider did not release the sub-ENI: {0}")]
    Rejected(String),
    /// The provider may have done it, or may still be doing it.
    #[error("what became of the provider's release is not known: {0}")]
    Unknown(String),
}

impl Failure {
    /// The label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::NodeUnknown => "node_unknown",
            Self::NoEndpoint => "no_endpoint",
            Self::NoProvider => "no_provider",
            Self::InFlight(_) => "release_in_flight",
            Self::Rejected(_) => "provider_rejected",
            Self::Unknown(_) => "provider_unknown",
        }
    }
}

/// One life of one claim.
type ClaimKey = (String, std::net::IpAddr, String);
/// One life of a pod in one endpoint.
type EndpointKey = (Key, String, String);

/// What a round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Claims taken back.
    pub collected: usize,
    /// Claims and endpoints that look abandoned and are watched.
    pub suspects: usize,
    /// Holders and endpoints that should have gone and stay.
    pub stuck: usize,
}

/// The collector of one term.
#[derive(Debug)]
pub struct Collector<S> {
    store: S,
    policy: Policy,
    /// How marks name us.
    by: String,
    has_provider: bool,
    claims: Looks<ClaimKey>,
    endpoints: Looks<EndpointKey>,
}

impl<S: CollectionStore> Collector<S> {
    /// A collector that has seen nothing: a new leader believes no earlier leader's looks.
    pub fn new(store: S, policy: Policy, identity: &str, has_provider: bool) -> Self {
        Self {
            store,
            policy,
            by: format!("controller/{identity}"),
            has_provider,
            claims: Looks::default(),
            endpoints: Looks::default(),
        }
    }

    /// Works until dropped.
    pub async fn run(mut self) {
        loop {
            let wait = match self.round().await {
                Ok(round) => {
                    metrics::gc_round("ok");
                    self.next_look(round)
                }
                Err(error) => {
                    metrics::gc_round("failed");
                    warn!(
                        error = chain(&error),
                        "the cluster could not be listed; nothing is collected from half a look"
                    );
                    self.policy.gap.max(Duration::from_secs(1))
                }
            };
            sleep(wait).await;
        }
    }

    fn next_look(&self, round: Round) -> Duration {
        let policy = &self.policy;
        if round.suspects > 0 {
            policy.grace.max(policy.gap).min(policy.interval)
        } else if round.stuck > 0 {
            policy.interval.min(STUCK)
        } else {
            policy.interval
        }
    }

    /// One look, and what follows from it.
    pub async fn round(&mut self) -> Result<Round, StoreError> {
        let mut seen = self.store.look().await?;
        let (holders, mut round) = self.judge_claims(&seen);
        for (count, (cause, holder)) in holders.into_iter().enumerate() {
            if count >= self.policy.per_round {
                round.suspects += 1;
                break;
            }
            match self.collect(&mut seen, cause, holder).await {
                Ok(collected) => round.collected += collected,
                Err((claim, failure)) => {
                    round.stuck += 1;
                    report(&claim, cause, &failure);
                }
            }
            sleep(self.policy.pause).await;
        }
        self.sweep_endpoints(&seen, &mut round).await;
        for pool in &seen.unreadable {
            metrics::gc_failed("unreadable");
            warn!(
                pool,
                "its claims cannot be read, so none of them is collected; correct the pool"
            );
        }
        metrics::gc_suspects(round.suspects);
        Ok(round)
    }

    fn judge_claims(&mut self, seen: &Snapshot) -> (Vec<(Cause, Holder)>, Round) {
        let opinions = rules::judge_all(seen, &self.policy, self.store.now());
        let keyed = opinions.into_iter().filter_map(|(place, (claim, opinion))| {
            let pool = seen.pools.get(&place.0)?;
            let key = (pool.uid.clone(), place.1, claim.pod_uid.clone());
            Some((key, (place, claim), opinion))
        });
        let mut holders: BTreeMap<(Key, String), (Cause, Holder)> = BTreeMap::new();
        let mut round = Round::default();
        for ((place, claim), verdict) in self.claims.look(keyed, &self.policy, Instant::now()) {
            match verdict {
                Verdict::Keep(_) => {}
                Verdict::Suspect(..) => round.suspects += 1,
                Verdict::Collect(cause) => {
                    let fresh = || {
                        let places = BTreeSet::new();
                        (
                            cause,
                            Holder {
                                claim: claim.clone(),
                                places,
                            },
                        )
                    };
                    let id = (claim.pod.clone(), claim.pod_uid.clone());
                    holders.entry(id).or_insert_with(fresh).1.places.insert(place);
                }
            }
        }
        (holders.into_values().collect(), round)
    }

    /// Takes one pod's claims back; how many.
    async fn collect(
        &mut self,
        seen: &mut Snapshot,
        cause: Cause,
        mut holder: Holder,
    ) -> Result<usize, (Claim, Failure)> {
        let claim = holder.claim.clone();
        let failed = |failure| (claim.clone(), failure);
        let reread = self.reread(seen, &holder).await;
        reread.map_err(|error| failed(Failure::Read(error)))?;
        let opinion = rules::judge(&claim, seen, &self.policy, self.store.now());
        if let Opinion::Keep(keep) = opinion {
            self.claims.clear(|(_, _, uid)| *uid == claim.pod_uid);
            let (pod, uid) = (&claim.pod, &claim.pod_uid);
            info!(pod, uid, keep = keep.label(), "looked abandoned, but is not");
            return Ok(0);
        }
        // A pod that came back under the name may have taken its predecessor's address over, its endpoint first.
        let used = seen.used_by(&claim.pod, self.store.now());
        holder.places.retain(|(pool, address)| {
            let user = used.get(&(pool.as_str(), *address));
            let pool = seen.pools.get(pool);
            user.is_none_or(|uid| *uid == claim.pod_uid)
                && pool.is_some_and(|pool| pool.claims.get(address) == Some(&claim))
        });
        self.release(seen, &holder).await.map_err(failed)?;
        let removing = self.begin_removal(seen, &holder).await.map_err(failed)?;
        let mut collected = 0;
        // The IPv4 pool is a pair's primary: while its claim stands, nobody takes the other half.
        for place in primaries_last(&holder.places) {
            if self.unclaim(seen, place, &claim).await.map_err(failed)? {
                collected += 1;
                metrics::gc_collected(cause.label());
                info!(pod = claim.pod, uid = claim.pod_uid, pool = place.0, address = %place.1, cause = cause.label(), "collected");
            }
        }
        if let Some(endpoint) = removing {
            self.remove(&endpoint).await.map_err(failed)?;
        }
        Ok(collected)
    }

    /// The last read of everything that the holder's fate hangs on; the pod last.
    async fn reread(&self, seen: &mut Snapshot, holder: &Holder) -> Result<(), StoreError> {
        let claim = &holder.claim;
        for (name, _) in &holder.places {
            set(&mut seen.pools, name, self.store.read_pool(name).await?);
        }
        let endpoint = seen.endpoint_of(&claim.pod, &claim.pod_uid);
        let name = endpoint.map_or_else(|| claim.pod.clone(), |(name, _)| name.clone());
        if !name.contains('/') {
            return Ok(());
        }
        let endpoint = self.store.read_endpoint(&name).await?;
        if let Some(endpoint) = &endpoint {
            self.reread_owner(seen, &name, &endpoint.status).await?;
        }
        set(&mut seen.endpoints, &name, endpoint);
        let pod = self.store.read_pod(&claim.pod).await?;
        if let Some(node) = pod.as_ref().and_then(|pod| pod.node.as_deref()) {
            set(&mut seen.nodes, node, self.store.read_node(node).await?);
        }
        set(&mut seen.pods, &claim.pod, pod);
        Ok(())
    }

    async fn reread_owner(
        &self,
        seen: &mut Snapshot,
        endpoint: &str,
        status: &EndpointStatus,
    ) -> Result<(), StoreError> {
        let (namespace, _) = endpoint.split_once('/').unwrap_or_default();
        let owner = key(namespace, &status.owner_controller_name);
        match status.owner_controller_type.as_str() {
            "StatefulSet" => {
                let fact = self.store.read_stateful_set(&owner).await?;
                set(&mut seen.stateful_sets, &owner, fact);
            }
            "VirtualMachine" | "VirtualMachineInstance" => {
                let exists = self.store.read_machine(&owner).await?;
                match &mut seen.machines {
                    Machines::Known(names) if exists => drop(names.insert(owner)),
                    machines if exists => *machines = Machines::Known([owner].into()),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes one claim out of its pool, if it still is the dead pod's.
    async fn unclaim(&self, seen: &mut Snapshot, place: &Place, claim: &Claim) -> Result<bool, Failure> {
        let mut last = StoreError::Conflict;
        for _ in 0..WRITES {
            let Some(pool) = seen.pools.get(&place.0) else {
                return Ok(false);
            };
            if pool.claims.get(&place.1) != Some(claim) {
                return Ok(false);
            }
            let mut claims = pool.claims.clone();
            claims.remove(&place.1);
            let written = self.store.write_claims(pool, &claims).await;
            let done = written.is_ok();
            if let Err(error) = written {
                if !matches!(error, StoreError::Conflict | StoreError::NotFound) {
                    return Err(Failure::Write(error));
                }
                last = error;
            }
            // Also after a success: another claim in this pool may follow.
            let fresh = self.store.read_pool(&place.0).await.map_err(Failure::Read)?;
            set(&mut seen.pools, &place.0, fresh);
            if done {
                return Ok(true);
            }
        }
        Err(Failure::Write(last))
    }
}

/// IPv6 before IPv4.
fn primaries_last(places: &BTreeSet<Place>) -> Vec<&Place> {
    let mut places: Vec<&Place> = places.iter().collect();
    places.sort_by_key(|(_, address)| address.is_ipv4());
    places
}

fn set<T>(map: &mut BTreeMap<String, T>, name: &str, fact: Option<T>) {
    match fact {
        Some(fact) => map.insert(name.to_owned(), fact),
        None => map.remove(name),
    };
}

fn report(claim: &Claim, cause: Cause, failure: &Failure) {
    metrics::gc_failed(failure.label());
    warn!(
        pod = claim.pod,
        uid = claim.pod_uid,
        cause = cause.label(),
        why = chain(failure),
        "could not be collected; tried again later"
    );
}

impl From<backing::Obstacle> for Failure {
    fn from(obstacle: backing::Obstacle) -> Self {
        match obstacle {
            backing::Obstacle::NodeUnknown => Self::NodeUnknown,
            backing::Obstacle::NoEndpoint => Self::NoEndpoint,
            backing::Obstacle::NoProvider => Self::NoProvider,
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
