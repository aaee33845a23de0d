//! The claim protocol of one pool (design §5 "Write"): what to write, read, wait for and answer.
//!
//! Pure: inputs are method calls with the time as a parameter, outputs are [`Effect`]s. At most one write is
//! in flight; whatever arrives meanwhile joins the next one. A failed write never decides an item: the object
//! is read again and the item planned anew, until its deadline.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use orbweaver_api::address_set::AddressSet;
use orbweaver_api::claims;
use orbweaver_api::pool::SpiderIPPool;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::effect::{ClaimRequest, Effect, ItemId, UnclaimRequest};
use super::item::{Ask, Item, Step};
use super::memory::Memory;
use super::version::{LedgerCache, Snapshot, newer};
use crate::error::PoolError;
use crate::store::{ClaimsWrite, StoreError};

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
    /// Nothing is planned before a read: a watch may bring a version older than what this pool, or its life
    /// before, has written.
    must_read: bool,
    ledgers: LedgerCache,
    memory: Memory,
    queue: VecDeque<Item>,
    in_flight: Vec<Item>,
    backoff: Backoff,
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
            must_read: beginning.rebuild,
            ledgers: LedgerCache::default(),
            memory: Memory::default(),
            queue: VecDeque::new(),
            in_flight: Vec::new(),
            backoff: Backoff::new(seed),
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
        self.queue.push_back(Item::new(id, ask));
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
            .map(|item| item.refuse(PoolError::Gone))
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
        if !self.must_read {
            self.adopt_seen();
        }
        let Some(snapshot) = &mut self.snapshot else {
            self.start_reading(&mut effects);
            return effects;
        };
        let mut later = Vec::new();
        // What a write does for a pod is not so before it is made: the pod's other items wait for that.
        let mut undecided = HashSet::new();
        for item in std::mem::take(&mut self.queue) {
            if undecided.contains(item.pod_uid()) && item.expired(now).is_none() {
                later.push(item);
                continue;
            }
            match item.plan(snapshot, &mut self.memory, now) {
                Step::Answer(effect) => effects.push(effect),
                Step::Write(item) => {
                    undecided.insert(item.pod_uid().clone());
                    self.in_flight.push(item);
                }
                Step::Verify(item) => later.push(item),
            }
        }
        self.queue.extend(later);
        if let (false, Some(snapshot)) = (self.in_flight.is_empty(), &self.snapshot) {
            let claims = snapshot.claims();
            self.phase = Phase::Writing;
            // A write that succeeds proves the version it was planned on, as a read would.
            self.queue.iter_mut().for_each(Item::verify);
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
            item.verify();
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

    /// The write ended: with the pool's new version, or without one.
    pub fn written(&mut self, outcome: Result<String, StoreError>, now: Instant) -> Vec<Effect> {
        if self.phase != Phase::Writing {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        match outcome {
            Ok(version) => {
                self.backoff.succeeded();
                let mut effects = self.settle(&version, now);
                effects.extend(self.advance(now));
                effects
            }
            Err(StoreError::NotFound) => {
                self.gone = true;
                self.remove()
            }
            Err(error @ (StoreError::Refused(_) | StoreError::AlreadyExists)) => {
                self.distrust();
                let mut effects: Vec<Effect> = std::mem::take(&mut self.in_flight)
                    .iter()
                    .map(|item| item.refuse(PoolError::Store(error.clone())))
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
        let items = std::mem::take(&mut self.in_flight);
        items
            .into_iter()
            .map(|item| item.settle(snapshot, &mut self.memory, now))
            .collect()
    }

    /// What is known may be older than what is there.
    fn distrust(&mut self) {
        self.snapshot = None;
        self.must_read = true;
    }

    /// Puts the items of a write that did not succeed before those that came since.
    fn requeue(&mut self) {
        self.distrust();
        for item in std::mem::take(&mut self.in_flight).into_iter().rev() {
            self.queue.push_front(item.again());
        }
    }

    fn back_off(&mut self, now: Instant) -> Vec<Effect> {
        self.phase = Phase::Waiting;
        vec![Effect::Wait(now + self.backoff.failed())]
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
                self.must_read = false;
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
                    .map(|item| item.refuse(PoolError::Store(error.clone())))
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
        self.queue.retain(|item| match item.expired(now) {
            Some(refusal) => {
                effects.push(refusal);
                false
            }
            None => true,
        });
        effects
    }
}
