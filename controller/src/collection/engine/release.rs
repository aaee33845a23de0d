//! Provider first, pool second; and nobody sends while somebody else's release may still be executing.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use orbweaver_actors::error::ProviderError;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::provider::ReleaseRequest;
use orbweaver_api::release_mark::ReleaseMark;
use tokio::time::Instant;
use tracing::debug;

use super::{Collector, Failure};
use crate::collection::backing::{self, Holder};
use crate::collection::facts::Snapshot;
use crate::collection::store::CollectionStore;

/// What clocks of the cluster may differ by.
const CLOCKS_DIFFER: Duration = Duration::from_secs(5);

impl<S: CollectionStore> Collector<S> {
    /// Releases every sub-ENI that must be released before the holder's claims may go.
    pub(super) async fn release(&self, seen: &mut Snapshot, holder: &Holder) -> Result<(), Failure> {
        let requests = backing::releases(holder, seen, self.has_provider)?;
        if requests.is_empty() {
            return Ok(());
        }
        let claim = &holder.claim;
        let found = seen.endpoint_of(&claim.pod, &claim.pod_uid);
        let Some((name, endpoint)) = found.map(|(name, endpoint)| (name.clone(), endpoint.clone())) else {
            return Err(Failure::NoEndpoint);
        };
        self.check_mark(&endpoint)?;
        let (endpoint, result) = self.send_all(endpoint, &requests).await;
        seen.endpoints.insert(name, endpoint);
        result
    }

    fn check_mark(&self, endpoint: &SpiderEndpoint) -> Result<(), Failure> {
        match ReleaseMark::on(endpoint) {
            Ok(None) => Ok(()),
            Ok(Some(mark)) if mark.is_over(self.store.now()) => Ok(()),
            Ok(Some(mark)) => Err(Failure::InFlight(mark.by)),
            Err(error) => Err(Failure::InFlight(format!("an unreadable mark ({error})"))),
        }
    }

    /// One after the other; gives back the endpoint as it is now.
    async fn send_all(
        &self,
        mut endpoint: SpiderEndpoint,
        requests: &[ReleaseRequest],
    ) -> (SpiderEndpoint, Result<(), Failure>) {
        for request in requests {
            // Taken before the mark is written: the call is over before the mark is.
            let deadline = Instant::now() + self.policy.release_budget;
            let lasts = self.policy.release_budget + CLOCKS_DIFFER;
            let until = self.store.now() + SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
            let mark = ReleaseMark {
                pod_uid: request.pod_uid.clone(),
                by: self.by.clone(),
                until: until.to_string(),
            };
            match self.store.write_mark(&endpoint, Some(&mark)).await {
                Ok(marked) => endpoint = marked,
                Err(error) => return (endpoint, Err(Failure::Write(error))),
            }
            let failure = match self.store.release(request, deadline).await {
                Ok(()) => continue,
                Err(ProviderError::Unknown { message, .. }) => {
                    return (endpoint, Err(Failure::Unknown(message.to_string())));
                }
                Err(ProviderError::Rejected(why) | ProviderError::NotSent(why)) => {
                    Failure::Rejected(why.to_string())
                }
            };
            // Certainly nothing is executing. If the mark stays it ends by itself.
            match self.store.write_mark(&endpoint, None).await {
                Ok(bare) => endpoint = bare,
                Err(error) => debug!(%error, "the mark stays until its time"),
            }
            return (endpoint, Err(failure));
        }
        (endpoint, Ok(()))
    }
}
