//! `status.ipMetaData.metadata`: the provider's ledger of sub-ENIs (reference §6.3, design §5).
//!
//! Decoding is total: the whole ledger is either refused with a reason ([`NotReady`], retryable, the
//! pool fails closed) or accepted with each doubtful entry set aside in [`Ledger::skipped`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use serde::Deserialize;
use serde_json::Value;

use crate::mac::Mac;

/// The VLAN id by which a provider marks an entry that it is about to detach (seed).
pub const DETACH_MARK: i64 = -1;

/// Why no address of the pool may be handed out now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The provider has not written a ledger yet.
    #[error("the provider has not written status.ipMetaData yet")]
    Missing,
    /// Not the JSON envelope.
    #[error("status.ipMetaData.metadata cannot be read: {0}")]
    Malformed(String),
    /// Envelope without `scope`: not reconciled.
    #[error("status.ipMetaData.metadata has no \"scope\": the provider has not reconciled the pool")]
    NoScope,
    /// Written for another generation of the pool.
    #[error("status.ipMetaData.observedGeneration is {observed}, the pool is at generation {generation}")]
    Stale {
        /// What the provider saw last.
        observed: i64,
        /// `metadata.generation`.
        generation: i64,
    },
    /// Scope and `spec.nodeName` disagree.
    #[error("the ledger's scope is {scope:?} but spec.nodeName is {node_name:?}")]
    ScopeMismatch {
        /// Scope in the ledger.
        scope: String,
        /// The pool's node, empty for a global pool.
        node_name: String,
    },
    /// A node-level ledger whose entries name nodes.
    #[error("entry {key} names node {node:?} in a node-level ledger")]
    NodeInScopedEntry {
        /// The entry's key.
        key: String,
        /// The node it names.
        node: String,
    },
}

/// Where a sub-ENI is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Bound to a node and usable there.
    Bound {
        /// The effective node: the ledger's scope, else the entry's own.
        node: String,
        /// The sub-ENI's MAC.
        mac: Mac,
        /// The sub-ENI's VLAN id, 1-4094.
        vlan: u16,
    },
    /// No sub-ENI, or one that is on no node.
    Unbound,
    /// About to leave its node; never handed out.
    Detaching,
}

/// A consistent entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The paired address.
    pub ipv6: Option<Ipv6Addr>,
    /// Where the sub-ENI is.
    pub binding: Binding,
}

/// An entry that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The key as written.
    pub key: String,
    /// What contradicts what.
    pub why: String,
}

/// A ledger that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Consistent entries by primary address.
    pub entries: BTreeMap<IpAddr, Entry>,
    /// Inconsistent entries whose key is an address: neither ready, nor fresh.
    pub inconsistent: BTreeMap<IpAddr, Skipped>,
    /// Entries whose key is no address.
    pub unreadable_keys: Vec<Skipped>,
}

/// What the ledger must agree with.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// `metadata.generation` of the pool.
    pub generation: i64,
    /// The single `spec.nodeName`, `None` for a global pool.
    pub node_name: Option<&'a str>,
}

#[derive(Deserialize)]
struct Envelope {
    scope: Option<String>,
    #[serde(default)]
    ips: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(default)]
    ipv6: Option<String>,
    #[serde(default)]
    mac: Option<String>,
    #[serde(default)]
    vlan: Option<i64>,
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    status: Option<String>,
}

impl Ledger {
    /// Decodes the ledger of a marked pool.
    pub fn decode(
        metadata: Option<&str>,
        observed_generation: Option<i64>,
        expect: Expectation<'_>,
    ) -> Result<Self, NotReady> {
        let text = metadata
            .filter(|text| !text.trim().is_empty())
            .ok_or(NotReady::Missing)?;
        let observed = observed_generation.unwrap_or(0);
        if observed != expect.generation {
            return Err(NotReady::Stale {
                observed,
                generation: expect.generation,
            });
        }
        let envelope: Envelope =
            serde_json::from_str(text).map_err(|error| NotReady::Malformed(error.to_string()))?;
        let scope = envelope.scope.ok_or(NotReady::NoScope)?;
        let node_name = expect.node_name.unwrap_or_default();
        if scope != node_name {
            return Err(NotReady::ScopeMismatch {
                scope,
                node_name: node_name.to_owned(),
            });
        }
        let mut ledger = Self::default();
        for (key, value) in envelope.ips {
            ledger.add(&scope, key, value)?;
        }
        Ok(ledger)
    }

    fn add(&mut self, scope: &str, key: String, value: Value) -> Result<(), NotReady> {
        let Ok(address) = key.parse::<IpAddr>() else {
            self.unreadable_keys.push(Skipped {
                key,
                why: "the key is not an address".to_owned(),
            });
            return Ok(());
        };
        let raw = match serde_json::from_value::<RawEntry>(value) {
            Ok(raw) => raw,
            Err(error) => {
                self.inconsistent.insert(
                    address,
                    Skipped {
                        key,
                        why: error.to_string(),
                    },
                );
                return Ok(());
            }
        };
        let named = raw.node.as_deref().filter(|node| !node.is_empty());
        if let (false, Some(node)) = (scope.is_empty(), named) {
            return Err(NotReady::NodeInScopedEntry {
                key,
                node: node.to_owned(),
            });
        }
        let node = if scope.is_empty() { named } else { Some(scope) };
        match raw.read(node) {
            Ok(entry) => {
                self.entries.insert(address, entry);
            }
            Err(why) => {
                self.inconsistent.insert(address, Skipped { key, why });
            }
        }
        Ok(())
    }

    /// Every entry that was set aside, for counting and logging.
    pub fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.inconsistent.values().chain(&self.unreadable_keys)
    }
}

impl RawEntry {
    fn read(&self, node: Option<&str>) -> Result<Entry, String> {
        let ipv6 = match self.ipv6.as_deref().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(
                text.parse::<Ipv6Addr>()
                    .map_err(|_| format!("ipv6 {text:?} is not an IPv6 address"))?,
            ),
        };
        let vlan = self.vlan.unwrap_or(0);
        let marked = vlan == DETACH_MARK;
        let binding = match (self.status.as_deref().unwrap_or_default(), node) {
            ("" | "detaching", Some(_)) if marked => Binding::Detaching,
            ("" | "bound", Some(node)) if !marked => self.bound(node, vlan)?,
            ("" | "unbound", None) => Binding::Unbound,
            (status @ ("" | "bound" | "unbound" | "detaching"), node) => {
                return Err(format!(
                    "status {status:?} contradicts node {:?} with vlan {vlan}",
                    node.unwrap_or("")
                ));
            }
            (status, _) => return Err(format!("status {status:?} is none of bound, unbound, detaching")),
        };
        Ok(Entry { ipv6, binding })
    }

    fn bound(&self, node: &str, vlan: i64) -> Result<Binding, String> {
        let vlan = u16::try_from(vlan)
            .ok()
            .filter(|vlan| (1..=4094).contains(vlan))
            .ok_or_else(|| format!("vlan {vlan} of a bound entry is not in 1-4094"))?;
        let mac = self
            .mac
            .as_deref()
            .unwrap_or_default()
            .parse()
            .map_err(|error| format!("{error}"))?;
        Ok(Binding::Bound {
            node: node.to_owned(),
            mac,
            vlan,
        })
    }
}
