//! Endpoints of pods that are gone: with the last claim, or when they hold nothing.

use orbweaver_actors::store::StoreError;
use orbweaver_api::FINALIZER;
use orbweaver_api::claims::Claim;
use orbweaver_api::endpoint::SpiderEndpoint;
use tokio::time::Instant;

use super::{Collector, Failure, Round, report};
use crate::collection::backing::Holder;
use crate::collection::facts::{PoolFact, Snapshot};
use crate::collection::looks::Verdict;
use crate::collection::rules::{self, Cause, Keep, Opinion};
use crate::collection::store::CollectionStore;
use crate::metrics;

impl<S: CollectionStore> Collector<S> {
    /// Tells the API server to delete the dead pod's endpoint, unless something of the pod stays. Our finalizer keeps it
    /// until the claims are gone, and the deletion tells the next leader what to finish. What is to be removed then.
    pub(super) async fn begin_removal(
        &self,
        seen: &Snapshot,
        holder: &Holder,
    ) -> Result<Option<SpiderEndpoint>, Failure> {
        let claim = &holder.claim;
        let stays = |pool: &PoolFact| {
            let held = pool
                .claims
                .iter()
                .filter(|(_, other)| other.pod_uid == claim.pod_uid);
            let mut rest =
                held.filter(|(address, _)| !holder.places.contains(&(pool.name.clone(), **address)));
            rest.next().is_some()
        };
        if !seen.unreadable.is_empty() || seen.pools.values().any(stays) {
            return Ok(None);
        }
        let Some((_, endpoint)) = seen.endpoint_of(&claim.pod, &claim.pod_uid) else {
            return Ok(None);
        };
        let finalizers = endpoint.metadata.finalizers.as_deref().unwrap_or_default();
        let is_held = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        if !is_held || endpoint.metadata.deletion_timestamp.is_some() {
            return Ok(Some(endpoint.clone()));
        }
        match self.store.delete_endpoint(endpoint).await {
            Err(StoreError::NotFound) => Ok(None),
            deleting => deleting.map_err(Failure::Write),
        }
    }

    /// Both steps on one view of the endpoint: whoever has written since is left alone.
    pub(super) async fn remove(&self, endpoint: &SpiderEndpoint) -> Result<(), Failure> {
        let deleting = if endpoint.metadata.deletion_timestamp.is_some() {
            Some(endpoint.clone())
        } else {
            match self.store.delete_endpoint(endpoint).await {
                Err(StoreError::NotFound) => None,
                deleted => deleted.map_err(Failure::Write)?,
            }
        };
        match deleting {
            Some(endpoint) => match self.store.free_endpoint(&endpoint).await {
                Ok(()) | Err(StoreError::NotFound) => Ok(()),
                Err(error) => Err(Failure::Write(error)),
            },
            None => Ok(()),
        }
    }

    /// Endpoints that hold nothing.
    pub(super) async fn sweep_endpoints(&mut self, seen: &Snapshot, round: &mut Round) {
        let now = self.store.now();
        let opinions = seen.endpoints.iter().map(|(name, endpoint)| {
            let outdated = rules::is_outdated(name, endpoint, seen, &self.policy, now);
            let uid = endpoint.metadata.uid.clone().unwrap_or_default();
            let key = (name.clone(), uid, endpoint.status.current.uid.clone());
            let opinion = if outdated {
                Opinion::Abandoned(Cause::PodGone)
            } else {
                Opinion::Keep(Keep::Alive)
            };
            (key, (name, endpoint), opinion)
        });
        let verdicts = self.endpoints.look(opinions, &self.policy, Instant::now());
        for ((name, endpoint), verdict) in verdicts {
            match verdict {
                Verdict::Keep(_) => {}
                Verdict::Suspect(..) => round.suspects += 1,
                Verdict::Collect(_) => match self.sweep(name, endpoint).await {
                    Ok(()) => metrics::gc_endpoint(),
                    Err(failure) => {
                        round.stuck += 1;
                        let claim = Claim {
                            pod: name.clone(),
                            pod_uid: endpoint.status.current.uid.clone(),
                        };
                        report(&claim, Cause::PodGone, &failure);
                    }
                },
            }
        }
    }

    async fn sweep(&self, name: &str, endpoint: &SpiderEndpoint) -> Result<(), Failure> {
        let pod = self.store.read_pod(name).await.map_err(Failure::Read)?;
        let uid = &endpoint.status.current.uid;
        if pod.is_some_and(|pod| pod.uid == *uid && pod.lives(self.store.now())) {
            return Ok(());
        }
        // By its version: it is removed only as it was seen, holding nothing.
        self.remove(endpoint).await
    }
}
