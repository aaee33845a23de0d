//! The acting part of leader election: reads, writes, and runs the leader's work while it leads.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, info, info_span, warn};

use crate::chain;
use crate::lease::election::{Election, Step};
use crate::lease::store::{LeaseError, LeaseStore};
use crate::metrics;

/// What work gets to end by itself when somebody else leads already.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How long before the lease can expire work that ignores its token is cut off.
const CUT_OFF: Duration = Duration::from_secs(1);
/// What giving the lease back may take.
const RELEASE_WITHIN: Duration = Duration::from_secs(3);

/// The campaign cannot go on; the process should end, so that another candidate leads.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// Work must go on until it is told to end.
    #[error("the leader's work ended by itself")]
    Ended,
    /// Work failed.
    #[error("the leader's work failed: {0}")]
    Failed(String),
    /// Work panicked.
    #[error("the leader's work panicked")]
    Panicked(#[source] JoinError),
}

/// Why a leader stops.
enum Reason {
    Shutdown,
    Deadline,
    Lost,
    Ended(Result<Result<(), String>, JoinError>),
}

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Leads,
    Waits,
    Lost,
    Failed,
}

/// One candidate.
#[derive(Debug)]
pub struct Campaign<S> {
    store: S,
    election: Election,
}

impl<S: LeaseStore> Campaign<S> {
    /// A candidate over `store`.
    pub fn new(store: S, election: Election) -> Self {
        Self { store, election }
    }

    /// Runs until `shutdown`, or until the work fails. Each time that this candidate leads, `work` gets a token; it
    /// must end soon after the token is cancelled, and is cut off before the lease can expire.
    pub async fn run<W, F>(mut self, shutdown: &CancellationToken, mut work: W) -> Result<(), CampaignError>
    where
        W: FnMut(CancellationToken) -> F + Send,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        loop {
            let led = tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    // An attempt may have been cut off after it was carried out.
                    self.release().await;
                    return Ok(());
                }
                outcome = self.attempt() => outcome == Outcome::Leads,
            };
            if led {
                self.lead(shutdown, &mut work).await?;
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = sleep(self.election.timing().retry) => {}
            }
        }
    }

    async fn lead<W, F>(&mut self, shutdown: &CancellationToken, work: &mut W) -> Result<(), CampaignError>
    where
        W: FnMut(CancellationToken) -> F + Send,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        info!(identity = self.election.identity(), "leads");
        metrics::leads(true);
        // Not a child of `shutdown`: the work ends here and nowhere else.
        let token = CancellationToken::new();
        // A campaign that is dropped takes its work along.
        let mut task =
            AbortOnDropHandle::new(tokio::spawn(work(token.clone()).instrument(info_span!("leader"))));
        let reason = self.renew_until_over(shutdown, &mut task).await;
        let cut_off = match &reason {
            Reason::Lost => Instant::now() + AT_ONCE,
            _ => self
                .election
                .expires()
                .map_or_else(Instant::now, |expires| expires - CUT_OFF),
        };
        let ended = matches!(reason, Reason::Ended(_));
        if !ended {
            stop(&token, task, cut_off).await;
        }
        metrics::leads(false);
        self.election.step_down();
        match reason {
            Reason::Lost => warn!("somebody else holds the lease; stopped"),
            Reason::Deadline => warn!("the lease could not be renewed in time; stopped"),
            Reason::Shutdown => self.release().await,
            Reason::Ended(result) => {
                self.release().await;
                return Err(match result {
                    Ok(Ok(())) => CampaignError::Ended,
                    Ok(Err(why)) => CampaignError::Failed(why),
                    Err(error) => CampaignError::Panicked(error),
                });
            }
        }
        Ok(())
    }

    async fn renew_until_over(
        &mut self,
        shutdown: &CancellationToken,
        task: &mut AbortOnDropHandle<Result<(), String>>,
    ) -> Reason {
        loop {
            let until = self.election.leads_until().unwrap_or_else(Instant::now);
            let retry = self.election.timing().retry;
            let renewal = async {
                sleep(retry).await;
                self.attempt().await
            };
            let outcome = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Reason::Shutdown,
                result = &mut *task => return Reason::Ended(result),
                () = sleep_until(until) => return Reason::Deadline,
                outcome = renewal => outcome,
            };
            if outcome == Outcome::Lost {
                return Reason::Lost;
            }
        }
    }

    /// Reads, decides, writes; within half the renew deadline, so that a leader has a second attempt.
    async fn attempt(&mut self) -> Outcome {
        let limit = self.election.timing().renew_deadline / 2;
        match timeout(limit, self.try_once()).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(LeaseError::Conflict)) => {
                self.election.refused();
                Outcome::Failed
            }
            Ok(Err(error)) => {
                metrics::lease_failed();
                warn!(error = chain(&error), "the lease could not be read or written");
                Outcome::Failed
            }
            Err(_) => {
                metrics::lease_failed();
                warn!(?limit, "the API server did not answer about the lease in time");
                Outcome::Failed
            }
        }
    }

    async fn try_once(&mut self) -> Result<Outcome, LeaseError> {
        let lease = self.store.read().await?;
        let spec = match self.election.decide(lease.as_ref(), Instant::now(), &wall()) {
            Step::Wait(_) => return Ok(Outcome::Waits),
            Step::Lost => return Ok(Outcome::Lost),
            Step::Acquire(spec) | Step::Renew(spec) => spec,
        };
        self.election.sending(&spec);
        let sent = Instant::now();
        let written = self.store.write(lease.as_ref(), spec).await?;
        self.election.written(&written, sent, Instant::now());
        Ok(Outcome::Leads)
    }

    /// So that another candidate need not wait. Failing to is harmless.
    async fn release(&self) {
        let release = async {
            let Some(lease) = self.store.read().await? else {
                return Ok(());
            };
            match self.election.release(&lease, &wall()) {
                Some(spec) => self
                    .store
                    .write(Some(&lease), spec)
                    .await
                    .map(|_| info!("lease released")),
                None => Ok(()),
            }
        };
        match timeout(RELEASE_WITHIN, release).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(
                error = chain(&error),
                "the lease was not released; others wait for its end"
            ),
            Err(_) => warn!("the lease was not released in time; others wait for its end"),
        }
    }
}

/// Ends the work, by force at `cut_off`.
async fn stop(token: &CancellationToken, mut task: AbortOnDropHandle<Result<(), String>>, cut_off: Instant) {
    token.cancel();
    if timeout_at(cut_off, &mut task).await.is_err() {
        warn!("the leader's work did not end when told to and is cut off");
        task.abort();
        let _ = task.await;
    }
}

fn wall() -> MicroTime {
    MicroTime(Timestamp::now())
}
