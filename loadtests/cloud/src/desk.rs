//! The provider's desk: who may touch which address now. One place decides to join, wait, refuse or go ahead.
//! No waiting and no clock in here.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::ask::{AllocateAsk, ReleaseAsk};
use crate::bucket::TokenBucket;
use crate::plan::{Plan, plan, plan_release};
use crate::refusal::Refusal;
use crate::sub_eni::{Inventory, SubEni};

/// What a request comes to: the sub-ENIs in the order of its items.
pub(crate) type Answer = Result<Arc<Vec<SubEni>>, Refusal>;

/// Where the answer of a request in flight appears.
pub(crate) type Flight = watch::Receiver<Option<Answer>>;

/// A request of either kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// Bind.
    Allocate(AllocateAsk),
    /// Delete.
    Release(ReleaseAsk),
}

impl Ask {
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Allocate(ask) => ask.addresses().collect(),
            Self::Release(ask) => vec![ask.address],
        }
    }

    pub(crate) fn plan(&self, known: &Inventory) -> Result<Plan, Refusal> {
        match self {
            Self::Allocate(ask) => plan(known, ask),
            Self::Release(ask) => Ok(Plan {
                bind: plan_release(known, &ask.node, ask.address).into_iter().collect(),
                ..Plan::default()
            }),
        }
    }

    /// The sub-ENIs of the answer; none for a release.
    pub(crate) fn result(&self, known: &Inventory) -> Vec<SubEni> {
        match self {
            Self::Allocate(ask) => ask
                .items
                .iter()
                .filter_map(|item| known.get(item.primary).cloned())
                .collect(),
            Self::Release(_) => Vec::new(),
        }
    }
}

/// What to do with a request now.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing: all is as asked.
    Unchanged(Vec<SubEni>),
    /// The same request is in flight.
    Join(Flight),
    /// Another request has one of the addresses; ask again after a change.
    Wait(watch::Receiver<u64>),
    /// The addresses are reserved and a token is taken.
    Go(Job),
}

/// A request that may be carried out.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) ask: Ask,
    pub(crate) plan: Plan,
    /// How long until the token may be used.
    pub(crate) token_in: Duration,
    pub(crate) reserved: BTreeSet<IpAddr>,
    pub(crate) publish: watch::Sender<Option<Answer>>,
}

/// How a token is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pay {
    /// In the queue.
    Queue,
    /// Only when so many are left.
    Spare(u32),
}

/// The desk.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Sub-ENIs as the provider knows them.
    pub(crate) known: Inventory,
    pub(crate) bucket: TokenBucket,
    busy: BTreeSet<IpAddr>,
    flights: HashMap<Ask, Flight>,
    changes: watch::Sender<u64>,
}

impl Desk {
    pub(crate) fn new(known: Inventory, bucket: TokenBucket) -> Self {
        Self {
            known,
            bucket,
            busy: BTreeSet::new(),
            flights: HashMap::new(),
            changes: watch::Sender::new(0),
        }
    }

    /// Decides. A payer of spare tokens is [`Refusal::Throttled`] until some are spare.
    pub(crate) fn turn(&mut self, ask: &Ask, now: Duration, pay: Pay) -> Result<Turn, Refusal> {
        if let Some(flight) = self.flights.get(ask) {
            return Ok(Turn::Join(flight.clone()));
        }
        let reserved = self.touched(&ask.addresses());
        if !self.busy.is_disjoint(&reserved) {
            return Ok(Turn::Wait(self.changes.subscribe()));
        }
        let plan = ask.plan(&self.known)?;
        if plan.is_empty() {
            return Ok(Turn::Unchanged(ask.result(&self.known)));
        }
        let token_in = match pay {
            Pay::Queue => self.bucket.take(now).map_err(|full| Refusal::Throttled {
                retry_after: full.retry_after,
            })?,
            Pay::Spare(spare) => {
                let taken = self.bucket.take_spare(now, spare);
                taken.map_err(|retry_after| Refusal::Throttled { retry_after })?;
                Duration::ZERO
            }
        };
        let (publish, flight) = watch::channel(None);
        self.flights.insert(ask.clone(), flight);
        self.busy.extend(&reserved);
        Ok(Turn::Go(Job {
            ask: ask.clone(),
            plan,
            token_in,
            reserved,
            publish,
        }))
    }

    /// Ends a request: its addresses are free for others.
    pub(crate) fn finish(&mut self, ask: &Ask, reserved: &BTreeSet<IpAddr>) {
        self.flights.remove(ask);
        self.free(reserved);
    }

    /// Whether no request is at the address.
    pub(crate) fn is_free(&self, address: IpAddr) -> bool {
        self.busy.is_disjoint(&self.touched(&[address]))
    }

    /// Reserves those of the addresses that nobody has.
    pub(crate) fn reserve_free(&mut self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let mut got = Vec::new();
        for address in addresses {
            let touched = self.touched(&[*address]);
            if self.busy.is_disjoint(&touched) {
                self.busy.extend(&touched);
                got.push(*address);
            }
        }
        got
    }

    /// Frees what [`Self::reserve_free`] reserved.
    pub(crate) fn free_reserved(&mut self, addresses: &[IpAddr]) {
        let touched = self.touched(addresses);
        self.free(&touched);
    }

    fn free(&mut self, addresses: &BTreeSet<IpAddr>) {
        self.busy.retain(|address| !addresses.contains(address));
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The addresses, and those of the sub-ENIs that have them.
    fn touched(&self, addresses: &[IpAddr]) -> BTreeSet<IpAddr> {
        let mut touched = BTreeSet::new();
        for address in addresses {
            touched.insert(*address);
            if let Some(holder) = self.known.holder(*address) {
                touched.insert(holder.address);
                touched.extend(holder.ipv6.map(IpAddr::V6));
            }
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(node: &str, last: &[u8]) -> Ask {
        let items: Vec<_> = last
            .iter()
            .map(|last| {
                json!({ "parentNicMac": "fa:16:3e:00:00:01", "subnet": "10.0.0.0/24", "ipv4Address": format!("10.0.0.{last}") })
            })
            .collect();
        let body = json!({ "nodeName": node, "subEniRequests": items });
        Ask::Allocate(AllocateAsk::read(&serde_json::from_value(body).unwrap()).unwrap())
    }

    fn desk(burst: u32) -> Desk {
        Desk::new(Inventory::default(), TokenBucket::new(1.0, burst, Duration::ZERO))
    }

    fn turn(desk: &mut Desk, ask: &Ask) -> Turn {
        desk.turn(ask, Duration::ZERO, Pay::Queue).unwrap()
    }

    #[test]
    fn the_same_ask_joins_and_another_one_for_the_address_waits() {
        let mut desk = desk(9);
        let Turn::Go(job) = turn(&mut desk, &ask("n1", &[1, 2])) else {
            panic!("the first goes");
        };
        assert!(matches!(turn(&mut desk, &ask("n1", &[1, 2])), Turn::Join(_)));
        let Turn::Wait(changes) = turn(&mut desk, &ask("n2", &[2])) else {
            panic!("another node waits");
        };
        assert!(matches!(turn(&mut desk, &ask("n2", &[3])), Turn::Go(_)));
        assert!(!changes.has_changed().unwrap());
        desk.finish(&job.ask, &job.reserved);
        assert!(changes.has_changed().unwrap());
        assert!(matches!(turn(&mut desk, &ask("n2", &[2])), Turn::Go(_)));
        assert_eq!(desk.bucket.spent(), 3);
    }

    #[test]
    fn a_refused_token_reserves_nothing() {
        let mut desk = desk(1);
        assert!(matches!(turn(&mut desk, &ask("n1", &[1])), Turn::Go(_)));
        let refused = desk.turn(&ask("n1", &[2]), Duration::ZERO, Pay::Queue);
        assert_eq!(refused.unwrap_err().status(), 429);
        assert!(desk.is_free(IpAddr::from([10, 0, 0, 2])));
    }
}
