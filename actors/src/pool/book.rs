//! Who holds what in a pool, and which address the next claim gets (design §5 "Choice").
//!
//! Every index is kept with each claim and unclaim, so a claim costs the same in a pool of 50 and of
//! 5000 addresses, and no range is ever expanded.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use orbweaver_api::address_set::AddressSet;
use orbweaver_api::claims::{Claim, Claims};
use orbweaver_api::ledger::{Binding, Ledger, NotReady};
use orbweaver_api::pool::PoolMode;
use tokio::time::Instant;

use super::effect::{ClaimKind, ClaimRequest};
use super::facts::PoolFacts;
use super::memory::{Memory, ReleasedAt};
use crate::error::PoolError;

/// What a claim gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Bare address.
    pub address: IpAddr,
    /// How it was come by.
    pub kind: ClaimKind,
    /// The pod holds it already: nothing to write.
    pub held: bool,
    /// A sub-ENI must be created or moved.
    pub provider_call: bool,
}

/// One version of a pool.
#[derive(Debug)]
pub struct Book {
    facts: Arc<PoolFacts>,
    ledger: Result<Arc<Ledger>, NotReady>,
    reserved: Arc<AddressSet>,
    claims: Claims,
    held: HashMap<String, BTreeSet<IpAddr>>,
    /// Unclaimed addresses that a claim may take without regard to a sub-ENI: all of a plain pool; those
    /// without a bound, detaching or doubtful entry of a global one.
    fresh: AddressSet,
    /// Unclaimed addresses with a usable sub-ENI, by node, latest released first.
    idle_here: HashMap<Arc<str>, BTreeSet<(Reverse<ReleasedAt>, IpAddr)>>,
    /// The same over all nodes, longest idle first.
    idle: BTreeSet<(ReleasedAt, IpAddr)>,
    max_claims: usize,
}

impl Book {
    /// Indexes one version of a pool. Addresses that `before` held and this version does not were released.
    pub fn new(
        facts: Arc<PoolFacts>,
        ledger: Result<Arc<Ledger>, NotReady>,
        reserved: Arc<AddressSet>,
        claims: Claims,
        max_claims: usize,
        before: Option<&Book>,
        memory: &mut Memory,
    ) -> Self {
        for address in before.iter().flat_map(|before| before.claims.keys()) {
            if !claims.contains_key(address) {
                memory.saw_release(*address);
            }
        }
        let mut book = Self {
            fresh: facts.addresses.difference(&reserved),
            facts,
            ledger,
            reserved,
            claims: Claims::new(),
            held: HashMap::new(),
            idle_here: HashMap::new(),
            idle: BTreeSet::new(),
            max_claims,
        };
        book.index_ledger(memory);
        for (address, claim) in claims {
            book.claim(address, claim, memory);
        }
        book
    }

    fn index_ledger(&mut self, memory: &Memory) {
        match (self.facts.mode, self.ledger.clone()) {
            (PoolMode::Plain, _) => {}
            (PoolMode::NodeLevel | PoolMode::Global, Err(_)) => {
                self.fresh = AddressSet::new(self.facts.family);
            }
            (mode, Ok(ledger)) => {
                let usable = std::mem::replace(&mut self.fresh, AddressSet::new(self.facts.family));
                for address in ledger.entries.keys().filter(|address| usable.contains(**address)) {
                    self.add_idle(*address, memory);
                }
                if mode == PoolMode::Global {
                    self.fresh = usable;
                    let closed = ledger
                        .entries
                        .iter()
                        .filter(|(_, entry)| entry.binding != Binding::Unbound);
                    for address in closed
                        .map(|(address, _)| address)
                        .chain(ledger.inconsistent.keys())
                    {
                        self.fresh.remove(*address);
                    }
                }
            }
        }
    }

    fn binding(&self, address: IpAddr) -> Option<&Binding> {
        self.ledger
            .as_ref()
            .ok()?
            .entries
            .get(&address)
            .map(|entry| &entry.binding)
    }

    fn bound_node(&self, address: IpAddr) -> Option<Arc<str>> {
        match self.binding(address)? {
            Binding::Bound { node, .. } => Some(node.as_str().into()),
            Binding::Unbound | Binding::Detaching => None,
        }
    }

    /// Lowest first on a node-level pool: its node is its only user.
    fn idle_order(&self, address: IpAddr, memory: &Memory) -> ReleasedAt {
        if self.facts.mode == PoolMode::NodeLevel {
            0
        } else {
            memory.released_at(address)
        }
    }

    fn add_idle(&mut self, address: IpAddr, memory: &Memory) {
        let Some(node) = self.bound_node(address) else {
            return;
        };
        let at = self.idle_order(address, memory);
        self.idle_here
            .entry(node)
            .or_default()
            .insert((Reverse(at), address));
        self.idle.insert((at, address));
    }

    pub(super) fn usable(&self, address: IpAddr) -> bool {
        self.facts.addresses.contains(address) && !self.reserved.contains(address)
    }

    /// May be taken without regard to a sub-ENI.
    fn is_fresh_kind(&self, address: IpAddr) -> bool {
        match (self.facts.mode, &self.ledger) {
            (PoolMode::Plain, _) => true,
            (PoolMode::Global, Ok(ledger)) => {
                !ledger.inconsistent.contains_key(&address)
                    && matches!(self.binding(address), None | Some(Binding::Unbound))
            }
            _ => false,
        }
    }

    /// Records a claim.
    pub fn claim(&mut self, address: IpAddr, claim: Claim, memory: &Memory) {
        self.forget_holder(address);
        self.fresh.remove(address);
        if let Some(node) = self.bound_node(address) {
            let at = self.idle_order(address, memory);
            self.idle.remove(&(at, address));
            if let Some(idle) = self.idle_here.get_mut(&node) {
                idle.remove(&(Reverse(at), address));
            }
        }
        self.held
            .entry(claim.pod_uid.clone())
            .or_default()
            .insert(address);
        self.claims.insert(address, claim);
    }

    fn forget_holder(&mut self, address: IpAddr) {
        let Some(claim) = self.claims.get(&address) else {
            return;
        };
        if let Some(held) = self.held.get_mut(&claim.pod_uid) {
            held.remove(&address);
            if held.is_empty() {
                self.held.remove(&claim.pod_uid);
            }
        }
    }

    /// Takes a claim back; false when that pod does not hold the address.
    pub fn unclaim(&mut self, address: IpAddr, pod_uid: &str, memory: &mut Memory) -> bool {
        if self
            .claims
            .get(&address)
            .is_none_or(|claim| claim.pod_uid != pod_uid)
        {
            return false;
        }
        self.forget_holder(address);
        self.claims.remove(&address);
        memory.saw_release(address);
        if self.usable(address) {
            if self.is_fresh_kind(address) {
                self.fresh.insert(address);
            } else {
                self.add_idle(address, memory);
            }
        }
        true
    }

    /// Indexes the same version with other reserved addresses.
    pub fn reserve(&mut self, reserved: Arc<AddressSet>, max_claims: usize, memory: &mut Memory) {
        let claims = std::mem::take(&mut self.claims);
        let (facts, ledger) = (self.facts.clone(), self.ledger.clone());
        *self = Self::new(facts, ledger, reserved, claims, max_claims, None, memory);
    }

    /// All claims.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The pool.
    pub fn facts(&self) -> &Arc<PoolFacts> {
        &self.facts
    }

    /// MAC and VLAN of an address whose sub-ENI is on `node`.
    pub fn sub_eni(&self, address: IpAddr, on: &str) -> Option<(orbweaver_api::mac::Mac, u16)> {
        match self.binding(address)? {
            Binding::Bound { node, mac, vlan } if node == on => Some((*mac, *vlan)),
            _ => None,
        }
    }

    /// `Err`: a marked pool whose ledger cannot be used now.
    pub(super) fn ready(&self) -> Result<(), PoolError> {
        match (self.facts.mode, &self.ledger) {
            (PoolMode::NodeLevel | PoolMode::Global, Err(not_ready)) => {
                Err(PoolError::MetadataNotReady(not_ready.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Decides what a claim gets.
    pub fn choose(
        &self,
        request: &ClaimRequest,
        memory: &mut Memory,
        now: Instant,
    ) -> Result<Choice, PoolError> {
        memory.forget_settled(now);
        if let (true, Some(address)) = (request.takes_over, request.recorded) {
            return self.taken_over(address, request, memory);
        }
        if let Some(choice) = self.already_held(request)? {
            return Ok(choice);
        }
        self.ready()?;
        if self.claims.len() >= self.max_claims {
            return Err(PoolError::Full {
                limit: self.max_claims,
            });
        }
        let take = |address, kind, provider_call| Choice {
            address,
            kind,
            held: false,
            provider_call,
        };
        let again = [request.recorded, memory.preferred(&request.pod_uid)]
            .into_iter()
            .flatten();
        let free = |address: &IpAddr| {
            self.usable(*address)
                && !self.claims.contains_key(address)
                && !memory.avoided(*address, &request.pod_uid)
        };
        for address in again.filter(free) {
            if let Some((kind, provider_call)) = self.kind_of(address, &request.node) {
                return Ok(take(address, kind, provider_call));
            }
        }
        let hit = self.idle_here.get(&request.node).and_then(|idle| {
            idle.iter()
                .map(|(_, address)| *address)
                .find(|address| !memory.avoided(*address, &request.pod_uid))
        });
        let first_fresh = || self.first_fresh(memory, &request.pod_uid);
        match self.facts.mode {
            PoolMode::Plain => first_fresh().map(|address| take(address, ClaimKind::Plain, false)),
            PoolMode::NodeLevel => hit.map(|address| take(address, ClaimKind::Prewarmed, false)),
            PoolMode::Global => hit
                .map(|address| take(address, ClaimKind::Hit, false))
                .or_else(|| first_fresh().map(|address| take(address, ClaimKind::Cold, true)))
                .or_else(|| {
                    self.longest_idle(memory, request)
                        .map(|address| take(address, ClaimKind::Steal, true))
                }),
        }
        .ok_or(PoolError::Exhausted)
    }

    /// The pod's own claim for this NIC: a record in its endpoint is a finished allocation; a claim alone is
    /// one that was cut short, and is taken up again as what it would be now.
    fn already_held(&self, request: &ClaimRequest) -> Result<Option<Choice>, PoolError> {
        let Some(held) = self.held.get(&*request.pod_uid) else {
            return Ok(None);
        };
        if let Some(address) = request.recorded.filter(|address| held.contains(address)) {
            return Ok(Some(Choice {
                address,
                kind: ClaimKind::Found,
                held: true,
                provider_call: false,
            }));
        }
        for address in held
            .iter()
            .filter(|address| !request.held_by_other_nics.contains(address))
        {
            self.ready()?;
            if let Some((_, provider_call)) = self.kind_of(*address, &request.node) {
                return Ok(Some(Choice {
                    address: *address,
                    kind: ClaimKind::Found,
                    held: true,
                    provider_call,
                }));
            }
        }
        Ok(None)
    }

    /// What taking this address on this node would be; `None` when it must not be handed out here.
    pub(super) fn kind_of(&self, address: IpAddr, node: &str) -> Option<(ClaimKind, bool)> {
        if self.is_fresh_kind(address) {
            return Some(if self.facts.mode == PoolMode::Plain {
                (ClaimKind::Plain, false)
            } else {
                (ClaimKind::Cold, true)
            });
        }
        match (self.facts.mode, self.binding(address)?) {
            (PoolMode::NodeLevel, Binding::Bound { node: on, .. }) if on == node => {
                Some((ClaimKind::Prewarmed, false))
            }
            (PoolMode::Global, Binding::Bound { node: on, .. }) if on == node => {
                Some((ClaimKind::Hit, false))
            }
            (PoolMode::Global, Binding::Bound { .. }) => Some((ClaimKind::Steal, true)),
            _ => None,
        }
    }

    fn first_fresh(&self, memory: &Memory, pod_uid: &str) -> Option<IpAddr> {
        self.fresh
            .iter()
            .find(|address| !memory.avoided(*address, pod_uid))
    }

    fn longest_idle(&self, memory: &Memory, request: &ClaimRequest) -> Option<IpAddr> {
        self.idle.iter().map(|(_, address)| *address).find(|address| {
            !memory.avoided(*address, &request.pod_uid)
                && self.bound_node(*address).is_some_and(|node| node != request.node)
        })
    }
}
