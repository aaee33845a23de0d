//! The claim protocol of one pool (design §5 "Write"): what to write, read, wait for and answer.
//!
//! Pure: inputs are method calls with the time as a parameter, outputs are [`Effect`]s. At most one write is
//! in flight; whatever arrives meanwhile joins the next one. A failed write never decides an item: the object
//! is read again and the item planned anew, until its deadline.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::address_set::AddressSet;
use orbweaver_api::claims::{self, Claim};
use orbweaver_api::pool::SpiderIPPool;
use tokio::time::Instant;

use super::book::{Choice, Memory};
use super::effect::{
    Answer, ClaimKind, ClaimRequest, Claimed, Effect, ItemId, UnclaimReason, UnclaimRequest, Unclaimed,
};
use super::version::{LedgerCache, Snapshot, newer};
use crate::error::PoolError;
use crate::store::{ClaimsWrite, StoreError};

/// The shortest and the longest wait after a write that failed. The longest bounds how late a lone writer
/// returns; the shortest is about one round trip.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));

#[derive(Clone, Debug)]
enum Ask {
    Claim(ClaimRequest),
    Unclaim(UnclaimRequest),
}

#[derive(Clone, Debug)]
struct Item {
    id: ItemId,
    ask: Ask,
    /// Writes that carried it.
    attempts: u32,
    /// A read from the API server began after it came: a refusal is no longer a matter of a late watch.
    verified: bool,
    /// What the write in flight does for it.
    planned: Option<Planned>,
    /// What a write of unknown outcome was to give it: a claim found afterwards was made that way.
    attempted: Option<Choice>,
}

#[derive(Clone, Debug)]
enum Planned {
    Claim(Choice),
    Unclaim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Writing,
    Reading,
    Waiting,
}

/// What a pool's rules start from.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// The object as a watch saw it.
    pub object: Arc<SpiderIPPool>,
    /// Reserved addresses of its family.
    pub reserved: Arc<AddressSet>,
    /// Claims it may hold.
    pub max_claims: usize,
    /// True after a stop: the object is read from the API server before anything else.
    pub rebuild: bool,
}

/// What a pool knows, and what waits for it.
#[derive(Debug)]
pub struct PoolState {
    name: Arc<str>,
    max_claims: usize,
    reserved: Arc<AddressSet>,
    phase: Phase,
    /// The newest object that a watch or a read brought and that is not indexed yet.
    seen: Option<Arc<SpiderIPPool>>,
    /// The version that plans are made on; `None` after a write that did not succeed.
    snapshot: Option<Snapshot>,
    ledgers: LedgerCache,
    memory: Memory,
    queue: VecDeque<Item>,
    in_flight: Vec<Item>,
    /// Failed writes in a row, halved by each success: an estimate of how many others write this pool.
    contention: u32,
    jitter: u64,
    gone: bool,
}

impl PoolState {
    /// A pool at its beginning. `seed` spreads back-offs; any number will do.
    pub fn new(beginning: Beginning, seed: u64) -> Self {
        Self {
            name: beginning
                .object
                .metadata
                .name
                .as_deref()
                .unwrap_or_default()
                .into(),
            max_claims: beginning.max_claims,
            reserved: beginning.reserved,
            phase: Phase::Idle,
            seen: (!beginning.rebuild).then_some(beginning.object),
            snapshot: None,
            ledgers: LedgerCache::default(),
            memory: Memory::default(),
            queue: VecDeque::new(),
            in_flight: Vec::new(),
            contention: 0,
            jitter: seed | 1,
            gone: false,
        }
    }

    /// Items that wait for the next write.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The ledger entries set aside in the indexed version.
    pub fn skipped_entries(&self) -> usize {
        self.ledgers.skipped()
    }

    /// A claim came.
    pub fn claim(&mut self, id: ItemId, request: ClaimRequest) {
        self.push(id, Ask::Claim(request));
    }

    /// An unclaim came.
    pub fn unclaim(&mut self, id: ItemId, request: UnclaimRequest) {
        self.push(id, Ask::Unclaim(request));
    }

    fn push(&mut self, id: ItemId, ask: Ask) {
        self.queue.push_back(Item {
            id,
            ask,
            attempts: 0,
            verified: false,
            planned: None,
            attempted: None,
        });
    }

    /// The watch brought a version.
    pub fn observe(&mut self, object: Arc<SpiderIPPool>) {
        let known = self.snapshot.as_ref().map(Snapshot::resource_version);
        let seen = self
            .seen
            .as_ref()
            .and_then(|seen| seen.metadata.resource_version.as_deref());
        let version = object.metadata.resource_version.as_deref().unwrap_or_default();
        if known.is_none_or(|known| newer(version, known)) && seen.is_none_or(|seen| newer(version, seen)) {
            self.seen = Some(object);
        }
    }

    /// Reserved addresses changed.
    pub fn reserve(&mut self, reserved: Arc<AddressSet>) {
        self.reserved = reserved;
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.reserve(self.reserved.clone(), self.max_claims, &mut self.memory);
        }
    }

    /// The pool was deleted: everything that waits ends.
    pub fn remove(&mut self) -> Vec<Effect> {
        self.gone = true;
        self.phase = Phase::Idle;
        let items: Vec<Item> = self.in_flight.drain(..).chain(self.queue.drain(..)).collect();
        items
            .into_iter()
            .map(|item| refuse(&item, PoolError::Gone))
            .collect()
    }

    /// Plans the next write when nothing is under way.
    pub fn advance(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.gone {
            return self.remove();
        }
        if self.phase != Phase::Idle || self.queue.is_empty() {
            return effects;
        }
        self.adopt_seen();
        if self.snapshot.is_none() {
            self.phase = Phase::Reading;
            effects.push(Effect::Read);
            return effects;
        }
        let mut unverified = Vec::new();
        for item in std::mem::take(&mut self.queue) {
            match self.plan(item, now) {
                Step::Answer(effect) => effects.push(effect),
                Step::Write(item) => self.in_flight.push(item),
                Step::Verify(item) => unverified.push(item),
            }
        }
        self.queue.extend(unverified);
        if let (false, Some(snapshot)) = (self.in_flight.is_empty(), &self.snapshot) {
            let claims = snapshot.claims();
            self.phase = Phase::Writing;
            effects.push(Effect::Write {
                items: self.in_flight.len(),
                write: ClaimsWrite {
                    pool: self.name.clone(),
                    resource_version: snapshot.resource_version().to_owned(),
                    allocated_ips: claims::encode(claims),
                    allocated_ip_count: i64::try_from(claims.len()).unwrap_or(i64::MAX),
                },
            });
        } else if !self.queue.is_empty() {
            self.start_reading(&mut effects);
        }
        effects
    }

    fn start_reading(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Reading;
        for item in &mut self.queue {
            item.verified = true;
        }
        effects.push(Effect::Read);
    }

    fn adopt_seen(&mut self) {
        if let Some(object) = self.seen.take() {
            self.snapshot = Some(Snapshot::index(
                &object,
                self.reserved.clone(),
                self.max_claims,
                self.snapshot.take(),
                &mut self.ledgers,
                &mut self.memory,
            ));
        }
    }

    fn plan(&mut self, mut item: Item, now: Instant) -> Step {
        let Some(snapshot) = &mut self.snapshot else {
            return Step::Verify(item);
        };
        match &item.ask {
            Ask::Claim(request) if request.deadline.expired(now) => Step::Answer(refuse(
                &item,
                PoolError::DeadlineExceeded {
                    attempts: item.attempts,
                },
            )),
            Ask::Claim(request) => match snapshot.choose(request, &mut self.memory, now) {
                Ok(choice) if choice.held => {
                    let made = item
                        .attempted
                        .take()
                        .filter(|made| made.address == choice.address);
                    let kind = made.map_or(choice.kind, |made| made.kind);
                    let answer = Answer::Claim(snapshot.claimed(&Choice { kind, ..choice }, &request.node));
                    Step::Answer(Effect::Reply(item.id, answer))
                }
                Ok(choice) => {
                    let claim = Claim {
                        pod: request.pod.to_string(),
                        pod_uid: request.pod_uid.to_string(),
                    };
                    snapshot.claim(choice.address, claim, &self.memory);
                    item.planned = Some(Planned::Claim(choice));
                    Step::Write(item)
                }
                Err(_) if !item.verified => Step::Verify(item),
                Err(error) => Step::Answer(refuse(&item, error)),
            },
            Ask::Unclaim(request) if request.deadline.expired(now) => Step::Answer(refuse(
                &item,
                PoolError::DeadlineExceeded {
                    attempts: item.attempts,
                },
            )),
            Ask::Unclaim(request) => match snapshot.unclaim(request, &mut self.memory) {
                Ok(true) => {
                    item.planned = Some(Planned::Unclaim);
                    Step::Write(item)
                }
                Ok(false) if item.attempts > 0 => {
                    Step::Answer(settle_unclaim(&item, Unclaimed::TakenBack, &mut self.memory, now))
                }
                Ok(false) => Step::Answer(settle_unclaim(&item, Unclaimed::NotHeld, &mut self.memory, now)),
                Err(error) => Step::Answer(refuse(&item, error)),
            },
        }
    }

    /// The write ended: with the pool's new version, or without one.
    pub fn written(&mut self, outcome: Result<String, StoreError>, now: Instant) -> Vec<Effect> {
        if self.phase != Phase::Writing {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        match outcome {
            Ok(version) => {
                self.contention /= 2;
                let mut effects = self.settle(&version, now);
                effects.extend(self.advance(now));
                effects
            }
            Err(StoreError::NotFound) => {
                self.gone = true;
                self.remove()
            }
            Err(error @ (StoreError::Refused(_) | StoreError::AlreadyExists)) => {
                self.snapshot = None;
                let mut effects: Vec<Effect> = std::mem::take(&mut self.in_flight)
                    .iter()
                    .map(|item| refuse(item, PoolError::Store(error.clone())))
                    .collect();
                effects.extend(self.advance(now));
                effects
            }
            Err(StoreError::Conflict | StoreError::Unavailable(_) | StoreError::Unknown(_)) => {
                self.requeue();
                self.back_off(now)
            }
        }
    }

    fn settle(&mut self, version: &str, now: Instant) -> Vec<Effect> {
        let Some(snapshot) = &mut self.snapshot else {
            return Vec::new();
        };
        snapshot.advance_to(version);
        if self.seen.as_ref().is_some_and(|seen| {
            !newer(
                seen.metadata.resource_version.as_deref().unwrap_or_default(),
                version,
            )
        }) {
            self.seen = None;
        }
        let mut effects = Vec::with_capacity(self.in_flight.len());
        for item in std::mem::take(&mut self.in_flight) {
            effects.push(match (&item.ask, &item.planned) {
                (Ask::Claim(request), Some(Planned::Claim(choice))) => {
                    Effect::Reply(item.id, Answer::Claim(snapshot.claimed(choice, &request.node)))
                }
                _ => settle_unclaim(&item, Unclaimed::TakenBack, &mut self.memory, now),
            });
        }
        effects
    }

    /// Puts the items of a write that did not succeed before those that came since.
    fn requeue(&mut self) {
        self.snapshot = None;
        for mut item in std::mem::take(&mut self.in_flight).into_iter().rev() {
            item.attempts += 1;
            item.verified = true;
            if let Some(Planned::Claim(choice)) = item.planned.take() {
                item.attempted = Some(choice);
            }
            self.queue.push_front(item);
        }
    }

    fn back_off(&mut self, now: Instant) -> Vec<Effect> {
        self.contention = (self.contention + 1).min(16);
        self.phase = Phase::Waiting;
        let most = BACKOFF
            .0
            .saturating_mul(1 << self.contention.min(8))
            .min(BACKOFF.1);
        vec![Effect::Wait(now + most.mul_f64(self.next_jitter()))]
    }

    /// In `[0, 1)`; xorshift, as nothing here needs better.
    #[allow(clippy::cast_precision_loss)]
    fn next_jitter(&mut self) -> f64 {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        (self.jitter >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The wait is over.
    pub fn waited(&mut self, now: Instant) -> Vec<Effect> {
        if self.phase != Phase::Waiting {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        let mut effects = self.expire(now);
        if !self.queue.is_empty() {
            self.start_reading(&mut effects);
        }
        effects
    }

    /// The read ended.
    pub fn read(&mut self, outcome: Result<Arc<SpiderIPPool>, StoreError>, now: Instant) -> Vec<Effect> {
        if self.phase != Phase::Reading {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        match outcome {
            Ok(object) => {
                self.observe(object);
                self.advance(now)
            }
            Err(StoreError::NotFound) => {
                self.gone = true;
                self.remove()
            }
            Err(error @ StoreError::Refused(_)) => {
                let items = std::mem::take(&mut self.queue);
                items
                    .iter()
                    .map(|item| refuse(item, PoolError::Store(error.clone())))
                    .collect()
            }
            Err(_) => {
                let mut effects = self.expire(now);
                if !self.queue.is_empty() {
                    effects.extend(self.back_off(now));
                }
                effects
            }
        }
    }

    /// Answers what nobody can be helped with any more.
    fn expire(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.queue.retain(|item| {
            let deadline = match &item.ask {
                Ask::Claim(request) => request.deadline,
                Ask::Unclaim(request) => request.deadline,
            };
            let expired = deadline.expired(now);
            if expired {
                effects.push(refuse(
                    item,
                    PoolError::DeadlineExceeded {
                        attempts: item.attempts,
                    },
                ));
            }
            !expired
        });
        effects
    }
}

enum Step {
    Answer(Effect),
    Write(Item),
    Verify(Item),
}

fn refuse(item: &Item, error: PoolError) -> Effect {
    let answer = match &item.ask {
        Ask::Claim(_) => Answer::Claim(Err(error)),
        Ask::Unclaim(_) => Answer::Unclaim(Err(error)),
    };
    Effect::Reply(item.id, answer)
}

fn settle_unclaim(item: &Item, became: Unclaimed, memory: &mut Memory, now: Instant) -> Effect {
    if let Ask::Unclaim(UnclaimRequest {
        address,
        pod_uid,
        reason: UnclaimReason::RollbackInDoubt { for_at_most },
        ..
    }) = &item.ask
    {
        memory.doubt(*address, pod_uid.clone(), now + *for_at_most);
    }
    Effect::Reply(item.id, Answer::Unclaim(Ok(became)))
}

impl Claimed {
    /// True when the claim was there before this request.
    pub fn found(&self) -> bool {
        self.kind == ClaimKind::Found
    }
}
