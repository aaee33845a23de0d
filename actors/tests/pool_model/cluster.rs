//! An API server of one pool, its other writers, and the laws that are checked at every commit and answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::pool::effect::{Answer, ClaimRequest, Effect, UnclaimReason, UnclaimRequest};
use orbweaver_actors::pool::state::{Beginning, PoolState};
use orbweaver_actors::store::{ClaimsWrite, StoreError};
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::pool::SpiderIPPool;
use tokio::time::Instant;

use crate::object::{GIVEN, Object, address};

/// How a write or read ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered,
    LostButMade,
    LostAndNotMade,
    Unreachable,
    Refused,
}

/// What can happen.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Claim { pod: u8, node: u8, budget: u64 },
    Unclaim { pod: u8, host: u8, in_doubt: bool },
    ForeignClaim(u8),
    ForeignUnclaim(u8),
    Bind { host: u8, node: u8 },
    Mark(u8),
    Forget(u8),
    BumpGeneration,
    Flush,
    Reserve(u8),
    Finish(Outcome),
    Watch(usize),
    Pass(u64),
    Rebuild { made: bool },
}

#[derive(Debug)]
enum Asked {
    Claim { uid: String },
    Unclaim { uid: String, address: IpAddr },
}

enum Pending {
    Write(ClaimsWrite, BTreeSet<IpAddr>),
    Read,
    Wait(Instant),
}

/// The pool's rules and all that surrounds them.
pub(crate) struct Cluster {
    marked: bool,
    history: Vec<Object>,
    state: PoolState,
    now: Instant,
    reserved: BTreeSet<IpAddr>,
    pending: Option<Pending>,
    open: BTreeMap<u64, (Asked, Instant)>,
    asked: u64,
}

impl Cluster {
    pub(crate) fn new(marked: bool) -> Self {
        let object = Object {
            version: 1,
            generation: 1,
            observed: 1,
            claims: BTreeMap::new(),
            ledger: BTreeMap::new(),
        };
        Self {
            marked,
            state: PoolState::new(beginning(object.render(marked), false), 7),
            history: vec![object],
            now: Instant::now(),
            reserved: BTreeSet::new(),
            pending: None,
            open: BTreeMap::new(),
            asked: 0,
        }
    }

    /// Everything happens; then nothing fails any more, and everybody must have been answered.
    pub(crate) fn live(mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
        }
        for _ in 0..1_000 {
            if self.pending.is_none() {
                break;
            }
            self.finish(Outcome::Answered);
        }
        assert!(self.pending.is_none(), "the pool never comes to rest");
        assert!(self.open.is_empty(), "never answered: {:?}", self.open);
        assert_eq!(self.state.waiting(), 0);
    }

    fn object(&self) -> &Object {
        self.history.last().unwrap()
    }

    fn change(&mut self, change: impl FnOnce(&mut Object)) {
        let mut object = self.object().clone();
        change(&mut object);
        object.version += 1;
        self.history.push(object);
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Claim { pod, node, budget } => self.claim(pod, node, budget),
            Op::Unclaim { pod, host, in_doubt } => self.unclaim(pod, host, in_doubt),
            Op::ForeignClaim(host) => {
                if !self.object().claims.contains_key(&address(host)) {
                    self.change(|object| drop(object.claims.insert(address(host), format!("foreign{host}"))));
                }
            }
            Op::ForeignUnclaim(host) => {
                let holder = self.object().claims.get(&address(host));
                if holder.is_some_and(|uid| uid.starts_with("foreign")) {
                    self.change(|object| drop(object.claims.remove(&address(host))));
                }
            }
            Op::Bind { host, node } => {
                let entry = (format!("n{node}"), i64::from(host) + 1);
                self.change(|object| drop(object.ledger.insert(address(host), entry)));
            }
            Op::Mark(host) => {
                // The provider's own precondition: it reclaims nothing that is claimed.
                if !self.object().claims.contains_key(&address(host)) {
                    self.change(|object| {
                        if let Some((_, vlan)) = object.ledger.get_mut(&address(host)) {
                            *vlan = -1;
                        }
                    });
                }
            }
            Op::Forget(host) => self.change(|object| drop(object.ledger.remove(&address(host)))),
            Op::BumpGeneration => self.change(|object| object.generation += 1),
            Op::Flush => self.change(|object| object.observed = object.generation),
            Op::Reserve(host) => {
                self.reserved = BTreeSet::from([address(host)]);
                let set = AddressSet::parse(Family::V4, [address(host).to_string()]).unwrap();
                self.state.reserve(Arc::new(set));
            }
            Op::Finish(outcome) => self.finish(outcome),
            Op::Watch(back) => {
                let seen = self.history.len().saturating_sub(back + 1);
                let object = self.history[seen].render(self.marked);
                self.state.observe(object);
            }
            Op::Pass(millis) => self.now += Duration::from_millis(millis),
            Op::Rebuild { made } => self.rebuild(made),
        }
    }

    fn claim(&mut self, pod: u8, node: u8, budget: u64) {
        let uid = format!("pod{pod}");
        let deadline = self.now + Duration::from_millis(budget);
        let request = ClaimRequest {
            pod: "ns/p".into(),
            pod_uid: uid.as_str().into(),
            nic: "eth0".into(),
            node: format!("n{node}").into(),
            recorded: None,
            held_by_other_nics: Vec::new(),
            takes_over: false,
            deadline: Deadline::at(deadline),
        };
        self.asked += 1;
        self.open.insert(self.asked, (Asked::Claim { uid }, deadline));
        self.state.claim(self.asked, request);
        let effects = self.state.advance(self.now);
        self.take(effects);
    }

    fn unclaim(&mut self, pod: u8, host: u8, in_doubt: bool) {
        let (uid, address) = (format!("pod{pod}"), address(host));
        let deadline = self.now + Duration::from_secs(10);
        let reason = if in_doubt {
            UnclaimReason::RollbackInDoubt {
                for_at_most: Duration::from_secs(3),
            }
        } else {
            UnclaimReason::Release
        };
        let request = UnclaimRequest {
            address,
            pod_uid: uid.as_str().into(),
            reason,
            deadline: Deadline::at(deadline),
        };
        self.asked += 1;
        self.open
            .insert(self.asked, (Asked::Unclaim { uid, address }, deadline));
        self.state.unclaim(self.asked, request);
        let effects = self.state.advance(self.now);
        self.take(effects);
    }

    fn rebuild(&mut self, made: bool) {
        if let Some(Pending::Write(write, reserved)) = self.pending.take()
            && made
        {
            drop(self.commit(&write, &reserved));
        }
        self.pending = None;
        self.open.clear();
        self.state = PoolState::new(beginning(self.history[0].render(self.marked), true), 7);
        self.reserved.clear();
    }

    fn finish(&mut self, outcome: Outcome) {
        let lost = || StoreError::Unknown("cut off".to_owned());
        let failed = match outcome {
            Outcome::Answered => None,
            Outcome::LostButMade | Outcome::LostAndNotMade => Some(lost()),
            Outcome::Unreachable => Some(StoreError::Unavailable("no route".to_owned())),
            Outcome::Refused => Some(StoreError::Refused("no".to_owned())),
        };
        let mut expires = true;
        let effects = match self.pending.take() {
            None => return,
            Some(Pending::Wait(until)) => {
                self.now = self.now.max(until);
                self.state.waited(self.now)
            }
            Some(Pending::Read) => {
                let object = self.object().render(self.marked);
                self.state.read(failed.map_or(Ok(object), Err), self.now)
            }
            Some(Pending::Write(write, reserved)) => {
                let made = match outcome {
                    Outcome::Answered | Outcome::LostButMade => self.commit(&write, &reserved),
                    _ => Err(StoreError::Conflict),
                };
                let result = failed.map_or(made, Err);
                expires = result.is_ok();
                self.state.written(result, self.now)
            }
        };
        self.take(effects);
        let late = self.open.values().find(|(_, deadline)| *deadline <= self.now);
        assert!(
            !expires || late.is_none(),
            "not answered by its deadline: {late:?}"
        );
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let pending = match effect {
                Effect::Reply(id, answer) => {
                    self.check_answer(id, &answer);
                    continue;
                }
                Effect::Write { write, .. } => Pending::Write(write, self.reserved.clone()),
                Effect::Read => Pending::Read,
                Effect::Wait(until) => Pending::Wait(until),
            };
            assert!(
                self.pending.replace(pending).is_none(),
                "two things under way at once"
            );
        }
    }

    fn check_answer(&mut self, id: u64, answer: &Answer) {
        let (asked, _) = self
            .open
            .remove(&id)
            .unwrap_or_else(|| panic!("{id} answered twice"));
        let claims = &self.object().claims;
        match (asked, answer) {
            (Asked::Claim { uid }, Answer::Claim(Ok(claimed))) => {
                let holder = claims.get(&claimed.address);
                assert_eq!(
                    holder,
                    Some(&uid),
                    "{} was answered without a claim",
                    claimed.address
                );
            }
            (Asked::Unclaim { uid, address }, Answer::Unclaim(Ok(_))) => {
                assert_ne!(claims.get(&address), Some(&uid), "{address} is still claimed");
            }
            (Asked::Claim { .. }, Answer::Claim(Err(_)))
            | (Asked::Unclaim { .. }, Answer::Unclaim(Err(_))) => {}
            (asked, answer) => panic!("{asked:?} was answered with {answer:?}"),
        }
    }

    /// What the API server does with a write, and what no write may do.
    fn commit(&mut self, write: &ClaimsWrite, reserved: &BTreeSet<IpAddr>) -> Result<String, StoreError> {
        if write.resource_version != self.object().version.to_string() {
            return Err(StoreError::Conflict);
        }
        let after: BTreeMap<IpAddr, String> = orbweaver_api::claims::decode(write.allocated_ips.as_deref())
            .unwrap()
            .into_iter()
            .map(|(address, claim)| (address, claim.pod_uid))
            .collect();
        assert_eq!(i64::try_from(after.len()).unwrap(), write.allocated_ip_count);
        let before = self.object();
        for (address, uid) in &before.claims {
            let released = || {
                self.open.values().any(|(asked, _)| {
                    matches!(asked, Asked::Unclaim { uid: whose, address: what } if whose == uid && what == address)
                })
            };
            assert!(
                after.get(address) == Some(uid) || released(),
                "{address} was taken from {uid}"
            );
        }
        for (address, uid) in &after {
            if before.claims.get(address) != Some(uid) {
                self.check_new(*address, reserved);
            }
        }
        self.change(|object| object.claims = after);
        Ok(self.object().version.to_string())
    }

    fn check_new(&self, new: IpAddr, reserved: &BTreeSet<IpAddr>) {
        assert!(
            (0..GIVEN).any(|host| address(host) == new),
            "{new} is not the pool's to give"
        );
        assert!(!reserved.contains(&new), "{new} is reserved");
        if self.marked {
            let object = self.object();
            assert_eq!(
                object.generation, object.observed,
                "{new} comes from a stale ledger"
            );
            let entry = object.ledger.get(&new);
            assert!(
                entry.is_none_or(|(_, vlan)| *vlan != -1),
                "{new} is being detached"
            );
        }
    }
}

fn beginning(object: Arc<SpiderIPPool>, rebuild: bool) -> Beginning {
    Beginning {
        object,
        reserved: Arc::new(AddressSet::new(Family::V4)),
        max_claims: 5000,
        rebuild,
    }
}
