//! One version of a pool object, read and indexed.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use orbweaver_api::address_set::AddressSet;
use orbweaver_api::claims::{self, Claim, Claims};
use orbweaver_api::ledger::{Expectation, Ledger, NotReady};
use orbweaver_api::pool::{PoolMode, SpiderIPPool};
use tokio::time::Instant;

use super::book::{Book, Choice};
use super::effect::{ClaimRequest, Claimed, UnclaimRequest};
use super::facts::PoolFacts;
use super::memory::Memory;
use crate::error::PoolError;

/// True when resourceVersion `version` is later than `than`. Versions are numbers of any length in every
/// API server there is; one that is not is taken as later when it differs.
pub fn newer(version: &str, than: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(version) || !digits(than) {
        return version != than;
    }
    let (version, than) = (version.trim_start_matches('0'), than.trim_start_matches('0'));
    version.len().cmp(&than.len()).then_with(|| version.cmp(than)) == Ordering::Greater
}

/// The ledger that was decoded last: decoded once per (pool UID, observed generation, content).
#[derive(Debug, Default)]
pub struct LedgerCache {
    key: Option<LedgerKey>,
    ledger: Option<Result<Arc<Ledger>, NotReady>>,
}

#[derive(Debug, PartialEq, Eq)]
struct LedgerKey {
    pool_uid: Option<String>,
    generation: i64,
    observed: Option<i64>,
    node_name: Option<Arc<str>>,
    text: Option<String>,
}

impl LedgerCache {
    fn decode(&mut self, pool: &SpiderIPPool, facts: &PoolFacts) -> Result<Arc<Ledger>, NotReady> {
        let meta = pool
            .status
            .as_ref()
            .and_then(|status| status.ip_meta_data.as_ref());
        let key = LedgerKey {
            pool_uid: pool.metadata.uid.clone(),
            generation: pool.metadata.generation.unwrap_or(0),
            observed: meta.and_then(|meta| meta.observed_generation),
            node_name: facts.node_name.clone(),
            text: meta.and_then(|meta| meta.metadata.clone()),
        };
        if let (true, Some(ledger)) = (self.key.as_ref() == Some(&key), &self.ledger) {
            return ledger.clone();
        }
        let expect = Expectation {
            generation: key.generation,
            node_name: key.node_name.as_deref(),
        };
        let ledger = Ledger::decode(key.text.as_deref(), key.observed, expect).map(Arc::new);
        self.key = Some(key);
        self.ledger.insert(ledger).clone()
    }

    /// Entries set aside in the ledger decoded last.
    pub fn skipped(&self) -> usize {
        match &self.ledger {
            Some(Ok(ledger)) => ledger.skipped().count(),
            _ => 0,
        }
    }
}

/// A version that can be planned on, or the reason why it cannot.
#[derive(Debug)]
pub struct Snapshot {
    resource_version: String,
    content: Result<Book, Arc<str>>,
}

impl Snapshot {
    /// Indexes an object.
    pub fn index(
        pool: &SpiderIPPool,
        reserved: Arc<AddressSet>,
        max_claims: usize,
        before: Option<Self>,
        ledgers: &mut LedgerCache,
        memory: &mut Memory,
    ) -> Self {
        let before = before.and_then(|before| before.content.ok());
        let read = || -> Result<(PoolFacts, Claims), Arc<str>> {
            let facts = PoolFacts::read(pool)?;
            let text = pool
                .status
                .as_ref()
                .and_then(|status| status.allocated_ips.as_deref());
            Ok((facts, claims::decode(text).map_err(|error| error.to_string())?))
        };
        let content = read().map(|(facts, claims)| {
            let ledger = match facts.mode {
                PoolMode::Plain => Err(NotReady::Missing),
                PoolMode::NodeLevel | PoolMode::Global => ledgers.decode(pool, &facts),
            };
            Book::new(
                Arc::new(facts),
                ledger,
                reserved,
                claims,
                max_claims,
                before.as_ref(),
                memory,
            )
        });
        Self {
            resource_version: pool.metadata.resource_version.clone().unwrap_or_default(),
            content,
        }
    }

    /// The version.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// A write of ours made this version into that one.
    pub fn advance_to(&mut self, version: &str) {
        version.clone_into(&mut self.resource_version);
    }

    /// All claims.
    pub fn claims(&self) -> &Claims {
        static NONE: Claims = Claims::new();
        self.content.as_ref().map_or(&NONE, Book::claims)
    }

    /// Reserved addresses changed.
    pub fn reserve(&mut self, reserved: Arc<AddressSet>, max_claims: usize, memory: &mut Memory) {
        if let Ok(book) = &mut self.content {
            book.reserve(reserved, max_claims, memory);
        }
    }

    /// Decides a claim.
    pub fn choose(
        &self,
        request: &ClaimRequest,
        memory: &mut Memory,
        now: Instant,
    ) -> Result<Choice, PoolError> {
        self.content
            .as_ref()
            .map_err(|why| PoolError::Unusable(why.clone()))?
            .choose(request, memory, now)
    }

    /// Records a claim.
    pub fn claim(&mut self, address: IpAddr, claim: Claim, memory: &Memory) {
        if let Ok(book) = &mut self.content {
            book.claim(address, claim, memory);
        }
    }

    /// Takes a claim back; `Ok(false)` when it was not there.
    pub fn unclaim(&mut self, request: &UnclaimRequest, memory: &mut Memory) -> Result<bool, PoolError> {
        let book = self
            .content
            .as_mut()
            .map_err(|why| PoolError::Unusable(why.clone()))?;
        Ok(book.unclaim(request.address, &request.pod_uid, memory))
    }

    /// The answer to a claim.
    pub fn claimed(&self, choice: &Choice, node: &str) -> Result<Claimed, PoolError> {
        let book = self
            .content
            .as_ref()
            .map_err(|why| PoolError::Unusable(why.clone()))?;
        let sub_eni = (!choice.provider_call)
            .then(|| book.sub_eni(choice.address, node))
            .flatten();
        Ok(Claimed {
            address: choice.address,
            kind: choice.kind,
            provider_call: choice.provider_call,
            mac: sub_eni.map(|(mac, _)| mac),
            vlan: sub_eni.map(|(_, vlan)| vlan),
            facts: book.facts().clone(),
        })
    }
}
