//! From a checked request to its answer: budget, turn, token, cloud, undo.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Provider;
use crate::ask::AllocateAsk;
use crate::budget;
use crate::calls::Outcome;
use crate::desk::{Answer, Ask, Flight, Job, Pay, Turn};
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::sub_eni::SubEni;
use crate::truth::CloudError;

/// How often a plan is made anew when the cloud turns out to differ from what was known.
const ROUNDS: usize = 3;

/// How long the API server may take to say what a pool is.
const POOL_READ: Duration = Duration::from_secs(5);

impl Provider {
    /// Carries out a request of a caller with a budget.
    pub(crate) async fn request(
        self: &Arc<Self>,
        ask: Ask,
        budget: Duration,
    ) -> Result<(Arc<Vec<SubEni>>, Outcome), Refusal> {
        let arrived = Instant::now();
        let least = self.options.least_budget();
        budget::check(budget, Duration::ZERO, least)?;
        if let Ask::Allocate(ask) = &ask {
            self.check_pools(ask).await?;
        }
        loop {
            let turn = self.turn(&ask, Pay::Queue)?;
            match turn {
                Turn::Unchanged(found) if matches!(ask, Ask::Release(_)) => {
                    return Ok((Arc::new(found), Outcome::Absent));
                }
                Turn::Unchanged(found) => return Ok((Arc::new(found), Outcome::Unchanged)),
                Turn::Join(flight) => return Ok((landed(flight).await?, Outcome::Joined)),
                Turn::Go(job) => {
                    let outcome = match ask {
                        Ask::Allocate(_) => Outcome::Allocated,
                        Ask::Release(_) => Outcome::Released,
                    };
                    return Ok((landed(self.launch(job)).await?, outcome));
                }
                Turn::Wait(mut changes) => {
                    let until = arrived + budget.saturating_sub(least);
                    // An error means the time is over or the provider ends; the check below tells.
                    let _ = tokio::time::timeout_at(until, changes.changed()).await;
                    let spent = arrived.elapsed().max(Duration::from_millis(1));
                    budget::check(budget, spent, least)?;
                }
            }
        }
    }

    /// Prewarms when tokens are left and nobody is at these addresses; else says how long to wait.
    pub(super) async fn in_background(self: &Arc<Self>, ask: AllocateAsk, spare: u32) -> Result<(), Refusal> {
        match self.turn(&Ask::Allocate(ask), Pay::Spare(spare))? {
            Turn::Unchanged(_) => Ok(()),
            Turn::Join(flight) => landed(flight).await.map(drop),
            Turn::Go(job) => landed(self.launch(job)).await.map(drop),
            Turn::Wait(mut changes) => {
                // The desk lives as long as this provider.
                let _ = changes.changed().await;
                Ok(())
            }
        }
    }

    fn turn(&self, ask: &Ask, pay: Pay) -> Result<Turn, Refusal> {
        let mut state = self.state.lock();
        let turn = state.desk.turn(ask, self.now(), pay)?;
        drop(state);
        if matches!(turn, Turn::Go(_)) {
            self.calls.count(|counters| counters.tokens += 1);
        }
        Ok(turn)
    }

    fn launch(self: &Arc<Self>, job: Job) -> Flight {
        let flight = job.publish.subscribe();
        let provider = self.clone();
        self.spawn(async move { provider.carry_out(job).await });
        flight
    }

    async fn carry_out(self: Arc<Self>, job: Job) {
        tokio::time::sleep(job.token_in).await;
        let mut plan = job.plan;
        let mut time = self.cloud.next_time();
        let mut steals = plan.steals;
        let mut result = self.execute(plan, time).await;
        for _ in 1..ROUNDS {
            if !matches!(result, Err(CloudError::Outdated(_) | CloudError::Taken { .. })) {
                break;
            }
            let replanned = {
                let mut state = self.state.lock();
                self.learn(&mut state, job.reserved.iter().copied());
                job.ask.plan(&state.desk.known)
            };
            // The cloud's time was spent by the first round.
            time = Duration::ZERO;
            plan = match replanned {
                Ok(plan) => plan,
                Err(refusal) => return self.land(&job.ask, &job.reserved, &job.publish, Err(refusal)),
            };
            steals = plan.steals;
            result = self.execute(plan, time).await;
        }
        if result.is_ok() {
            self.calls.count(|counters| counters.steals += steals);
        }
        let result = result.map_err(|error| match error {
            CloudError::NicFull { .. } | CloudError::Taken { .. } => Refusal::Conflict(error.to_string()),
            CloudError::Outdated(_) | CloudError::Broken => Refusal::Cloud(error.to_string()),
        });
        self.land(&job.ask, &job.reserved, &job.publish, result);
    }

    fn land(
        &self,
        ask: &Ask,
        reserved: &BTreeSet<IpAddr>,
        publish: &tokio::sync::watch::Sender<Option<Answer>>,
        result: Result<(), Refusal>,
    ) {
        let mut state = self.state.lock();
        self.learn(&mut state, reserved.iter().copied());
        let answer = result.map(|()| Arc::new(ask.result(&state.desk.known)));
        state.desk.finish(ask, reserved);
        drop(state);
        publish.send_replace(Some(answer));
    }

    /// Does a plan in the cloud, all or nothing. `time` is for all of it.
    async fn execute(&self, plan: Plan, time: Duration) -> Result<(), CloudError> {
        let phases: Vec<_> = [plan.detach, plan.bind]
            .into_iter()
            .filter(|phase| !phase.is_empty())
            .collect();
        let share = time / u32::try_from(phases.len().max(1)).unwrap_or(1);
        let mut undo = Vec::new();
        for phase in phases {
            let mut done = self.cloud.call(phase, share).await;
            done.undo.append(&mut undo);
            undo = done.undo;
            if let Some(error) = done.error {
                if !undo.is_empty() {
                    let undone = self.cloud.call(undo, Duration::ZERO).await;
                    if let Some(failure) = undone.error {
                        tracing::warn!(%error, %failure, "a failed request could not be undone completely");
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Refuses addresses that their pools do not have. A pool that is not known yet, or may have grown since, is
    /// read from the API server first.
    async fn check_pools(self: &Arc<Self>, ask: &AllocateAsk) -> Result<(), Refusal> {
        if !self.options.pools {
            return Ok(());
        }
        for (index, item) in ask.items.iter().enumerate() {
            let sides = [
                (&item.pool, Some(item.primary), Some(item.subnet)),
                (&item.paired_pool, item.paired.map(IpAddr::V6), None),
            ];
            for (pool, address, subnet) in sides {
                let Some(address) = address.filter(|_| !pool.is_empty()) else {
                    continue;
                };
                let known = self.state.lock().pools.get(pool).map(|entry| entry.view.clone());
                if known.is_some_and(|view| view.admit(index, address, subnet, &ask.node).is_ok()) {
                    continue;
                }
                let family = orbweaver_api::address_set::Family::of(address).number();
                let field = format!("subEniRequests[{index}].ipv{family}PoolName");
                let view = match tokio::time::timeout(POOL_READ, self.read_pool(pool)).await {
                    Ok(Ok(Some(view))) => view,
                    Ok(Ok(None)) => return Err(Refusal::invalid(field, pool, "there is no such pool")),
                    Ok(Err(why)) => return Err(Refusal::Unavailable(why)),
                    Err(_) => {
                        return Err(Refusal::Unavailable(format!(
                            "pool {pool} could not be read in time"
                        )));
                    }
                };
                view.admit(index, address, subnet, &ask.node)?;
            }
        }
        Ok(())
    }
}

async fn landed(mut flight: Flight) -> Answer {
    let answer = flight.wait_for(Option::is_some).await;
    match answer.ok().and_then(|answer| answer.clone()) {
        Some(answer) => answer,
        // The task was dropped with its provider.
        None => Err(Refusal::Unavailable("the provider is stopping".to_owned())),
    }
}
