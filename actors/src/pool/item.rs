//! One claim or unclaim that waits for its answer: what becomes of it on one version of the pool.

use std::sync::Arc;

use orbweaver_api::claims::Claim;
use tokio::time::Instant;

use super::book::Choice;
use super::effect::{Answer, ClaimRequest, Effect, ItemId, UnclaimReason, UnclaimRequest, Unclaimed};
use super::memory::Memory;
use super::version::Snapshot;
use crate::deadline::Deadline;
use crate::error::PoolError;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Claim(ClaimRequest),
    Unclaim(UnclaimRequest),
}

/// What the write in flight does for an item.
#[derive(Clone, Debug)]
enum Planned {
    Claim(Choice),
    Unclaim,
}

/// What becomes of an item on the version at hand.
pub(super) enum Step {
    Answer(Effect),
    Write(Item),
    /// It would be refused, but the version may be old: ask again after a read.
    Verify(Item),
}

/// One claim or unclaim.
#[derive(Clone, Debug)]
pub(super) struct Item {
    id: ItemId,
    ask: Ask,
    /// Writes that carried it.
    attempts: u32,
    /// A read from the API server began after it came: a refusal is no longer a matter of a late watch.
    verified: bool,
    planned: Option<Planned>,
    /// What a write of unknown outcome was to give it: a claim found afterwards was made that way.
    attempted: Option<Choice>,
}

impl Item {
    pub(super) fn new(id: ItemId, ask: Ask) -> Self {
        Self {
            id,
            ask,
            attempts: 0,
            verified: false,
            planned: None,
            attempted: None,
        }
    }

    /// Whose it is.
    pub(super) fn pod_uid(&self) -> &Arc<str> {
        match &self.ask {
            Ask::Claim(request) => &request.pod_uid,
            Ask::Unclaim(request) => &request.pod_uid,
        }
    }

    fn deadline(&self) -> Deadline {
        match &self.ask {
            Ask::Claim(request) => request.deadline,
            Ask::Unclaim(request) => request.deadline,
        }
    }

    /// The refusal of an item that nobody can be helped with any more.
    pub(super) fn expired(&self, now: Instant) -> Option<Effect> {
        let expired = self.deadline().expired(now);
        expired.then(|| {
            self.refuse(PoolError::DeadlineExceeded {
                attempts: self.attempts,
            })
        })
    }

    pub(super) fn refuse(&self, error: PoolError) -> Effect {
        let answer = match &self.ask {
            Ask::Claim(_) => Answer::Claim(Err(error)),
            Ask::Unclaim(_) => Answer::Unclaim(Err(error)),
        };
        Effect::Reply(self.id, answer)
    }

    /// A read begins.
    pub(super) fn verify(&mut self) {
        self.verified = true;
    }

    /// The write that carried it did not succeed, or nobody knows.
    pub(super) fn again(mut self) -> Self {
        self.attempts += 1;
        self.verified = true;
        if let Some(Planned::Claim(choice)) = self.planned.take() {
            self.attempted = Some(choice);
        }
        self
    }

    /// Plans it on a version: what is decided there is already done to `snapshot`.
    pub(super) fn plan(mut self, snapshot: &mut Snapshot, memory: &mut Memory, now: Instant) -> Step {
        if let Some(refusal) = self.expired(now) {
            return Step::Answer(refusal);
        }
        match &self.ask {
            Ask::Claim(request) => match snapshot.choose(request, memory, now) {
                Ok(choice) if choice.held => {
                    let made = self
                        .attempted
                        .take()
                        .filter(|made| made.address == choice.address);
                    let kind = made.map_or(choice.kind, |made| made.kind);
                    let answer = Answer::Claim(snapshot.claimed(&Choice { kind, ..choice }, &request.node));
                    Step::Answer(Effect::Reply(self.id, answer))
                }
                Ok(choice) => {
                    let claim = Claim {
                        pod: request.pod.to_string(),
                        pod_uid: request.pod_uid.to_string(),
                    };
                    snapshot.claim(choice.address, claim, memory);
                    self.planned = Some(Planned::Claim(choice));
                    Step::Write(self)
                }
                Err(_) if !self.verified => Step::Verify(self),
                Err(error) => Step::Answer(self.refuse(error)),
            },
            Ask::Unclaim(request) => match snapshot.unclaim(request, memory) {
                Ok(true) => {
                    self.planned = Some(Planned::Unclaim);
                    Step::Write(self)
                }
                Ok(false) if self.attempts > 0 => {
                    Step::Answer(self.settle_unclaim(Unclaimed::TakenBack, memory, now))
                }
                Ok(false) if !self.verified => Step::Verify(self),
                Ok(false) => Step::Answer(self.settle_unclaim(Unclaimed::NotHeld, memory, now)),
                Err(error) => Step::Answer(self.refuse(error)),
            },
        }
    }

    /// The write that carried it was made.
    pub(super) fn settle(self, snapshot: &Snapshot, memory: &mut Memory, now: Instant) -> Effect {
        match (&self.ask, &self.planned) {
            (Ask::Claim(request), Some(Planned::Claim(choice))) => {
                Effect::Reply(self.id, Answer::Claim(snapshot.claimed(choice, &request.node)))
            }
            _ => self.settle_unclaim(Unclaimed::TakenBack, memory, now),
        }
    }

    fn settle_unclaim(&self, became: Unclaimed, memory: &mut Memory, now: Instant) -> Effect {
        if let Ask::Unclaim(UnclaimRequest {
            address,
            pod_uid,
            reason: UnclaimReason::RollbackInDoubt { for_at_most },
            ..
        }) = &self.ask
        {
            memory.doubt(*address, pod_uid.clone(), now + *for_at_most);
        }
        Effect::Reply(self.id, Answer::Unclaim(Ok(became)))
    }
}
