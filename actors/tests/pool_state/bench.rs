//! A pool on the bench: its rules, and an API server of one object.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::PoolError;
use orbweaver_actors::pool::effect::{
    Answer, ClaimRequest, Claimed, Effect, UnclaimReason, UnclaimRequest, Unclaimed,
};
use orbweaver_actors::pool::state::{Beginning, PoolState};
use orbweaver_actors::store::{ClaimsWrite, StoreError};
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::pool::SpiderIPPool;
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) fn pool(value: Value) -> Arc<SpiderIPPool> {
    Arc::new(serde_json::from_value(value).unwrap())
}

pub(crate) fn plain(ips: &[&str]) -> Value {
    json!({
        "metadata": { "name": "p", "uid": "u", "resourceVersion": "1", "generation": 1 },
        "spec": { "subnet": "10.7.0.0/24", "ips": ips, "gateway": "10.7.0.1" },
    })
}

pub(crate) fn marked(ips: &[&str], ledger: &Value) -> Value {
    let mut pool = plain(ips);
    pool["metadata"]["labels"] = json!({ "ipam.spidernet.io/iaas-provider": "c" });
    pool["status"] = json!({ "ipMetaData": { "metadata": ledger.to_string(), "observedGeneration": 1 } });
    pool
}

pub(crate) fn entry(node: &str, vlan: i64) -> Value {
    json!({ "mac": "fa:16:3e:00:00:01", "vlan": vlan, "node": node })
}

/// One object in an API server, and the rules that write it.
pub(crate) struct Bench {
    pub(crate) object: Value,
    pub(crate) version: u64,
    pub(crate) state: PoolState,
    pub(crate) now: Instant,
    pub(crate) writes: Vec<ClaimsWrite>,
    pub(crate) reads: usize,
    pub(crate) answers: Vec<(u64, Answer)>,
    next: u64,
    todo: Vec<Effect>,
}

impl Bench {
    pub(crate) fn new(object: Value) -> Self {
        Self::reserving(object, &[])
    }

    pub(crate) fn reserving(object: Value, reserved: &[&str]) -> Self {
        Self::of(object, reserved, 5000)
    }

    pub(crate) fn limited(object: Value, max_claims: usize) -> Self {
        Self::of(object, &[], max_claims)
    }

    fn of(object: Value, reserved: &[&str], max_claims: usize) -> Self {
        let beginning = Beginning {
            object: pool(object.clone()),
            reserved: Arc::new(AddressSet::parse(Family::V4, reserved).unwrap()),
            max_claims,
            rebuild: false,
        };
        Self {
            object,
            version: 1,
            state: PoolState::new(beginning, 7),
            now: Instant::now(),
            writes: Vec::new(),
            reads: 0,
            answers: Vec::new(),
            next: 0,
            todo: Vec::new(),
        }
    }

    pub(crate) fn request(&self, uid: &str, node: &str) -> ClaimRequest {
        ClaimRequest {
            pod: format!("ns/{uid}").into(),
            pod_uid: uid.into(),
            nic: "eth0".into(),
            node: node.into(),
            recorded: None,
            held_by_other_nics: Vec::new(),
            takes_over: false,
            deadline: Deadline::at(self.now + Duration::from_secs(100)),
        }
    }

    pub(crate) fn submit(&mut self, request: ClaimRequest) -> u64 {
        self.next += 1;
        self.state.claim(self.next, request);
        let effects = self.state.advance(self.now);
        self.todo.extend(effects);
        self.next
    }

    pub(crate) fn submit_unclaim(&mut self, address: &str, uid: &str, reason: UnclaimReason) -> u64 {
        self.next += 1;
        let request = UnclaimRequest {
            address: address.parse().unwrap(),
            pod_uid: uid.into(),
            reason,
            deadline: Deadline::at(self.now + Duration::from_secs(10)),
        };
        self.state.unclaim(self.next, request);
        let effects = self.state.advance(self.now);
        self.todo.extend(effects);
        self.next
    }

    /// Performs effects until none is left; `on_write` may fail a write before or after it happened.
    pub(crate) fn run_with(
        &mut self,
        mut on_write: impl FnMut(&mut Self, &ClaimsWrite) -> Result<(), StoreError>,
    ) {
        while !self.todo.is_empty() {
            let effects = match self.todo.remove(0) {
                Effect::Reply(id, answer) => {
                    self.answers.push((id, answer));
                    Vec::new()
                }
                Effect::Wait(until) => {
                    self.now = self.now.max(until);
                    self.state.waited(self.now)
                }
                Effect::Read => {
                    self.reads += 1;
                    let object = pool(self.object.clone());
                    self.state.read(Ok(object), self.now)
                }
                Effect::Write { write, .. } => {
                    self.writes.push(write.clone());
                    let outcome = on_write(self, &write).and_then(|()| self.commit(&write));
                    self.state.written(outcome, self.now)
                }
            };
            self.todo.extend(effects);
        }
    }

    pub(crate) fn run(&mut self) {
        self.run_with(|_, _| Ok(()));
    }

    /// What the API server does with a write.
    pub(crate) fn commit(&mut self, write: &ClaimsWrite) -> Result<String, StoreError> {
        if write.resource_version != self.version.to_string() {
            return Err(StoreError::Conflict);
        }
        self.change(|object| {
            object["status"]["allocatedIPs"] = json!(write.allocated_ips);
            object["status"]["allocatedIPCount"] = json!(write.allocated_ip_count);
        });
        Ok(self.version.to_string())
    }

    /// Somebody else writes.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.object);
        self.version += 1;
        self.object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    /// The watch catches up.
    pub(crate) fn watch(&mut self) {
        self.state.observe(pool(self.object.clone()));
    }

    pub(crate) fn claims(&self) -> Vec<(IpAddr, String)> {
        let claims = orbweaver_api::claims::decode(self.object["status"]["allocatedIPs"].as_str()).unwrap();
        claims
            .into_iter()
            .map(|(address, claim)| (address, claim.pod_uid))
            .collect()
    }

    pub(crate) fn claimed(&self, id: u64) -> Result<Claimed, PoolError> {
        match self.answers.iter().find(|(answered, _)| *answered == id) {
            Some((_, Answer::Claim(result))) => result.clone(),
            other => panic!("claim {id} was answered with {other:?}"),
        }
    }

    pub(crate) fn unclaimed(&self, id: u64) -> Result<Unclaimed, PoolError> {
        match self.answers.iter().find(|(answered, _)| *answered == id) {
            Some((_, Answer::Unclaim(result))) => result.clone(),
            other => panic!("unclaim {id} was answered with {other:?}"),
        }
    }

    /// Claims and runs to the end.
    pub(crate) fn claim(&mut self, uid: &str, node: &str) -> Result<Claimed, PoolError> {
        let id = self.submit(self.request(uid, node));
        self.run();
        self.claimed(id)
    }

    pub(crate) fn unclaim(&mut self, address: &str, uid: &str) -> Unclaimed {
        let id = self.submit_unclaim(address, uid, UnclaimReason::Release);
        self.run();
        self.unclaimed(id).unwrap()
    }
}
