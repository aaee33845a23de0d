//! What goes into a [`super::state::PoolState`] and what it wants done.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::mac::Mac;
use tokio::time::Instant;

use super::facts::PoolFacts;
use crate::deadline::Deadline;
use crate::error::PoolError;
use crate::store::ClaimsWrite;

/// Names an item until it is answered.
pub type ItemId = u64;

/// Asks for an address for one NIC of one pod.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// `namespace/name`.
    pub pod: Arc<str>,
    /// Pod UID.
    pub pod_uid: Arc<str>,
    /// CNI interface name.
    pub nic: Arc<str>,
    /// The pod's node.
    pub node: Arc<str>,
    /// What the pod's endpoint names for this NIC in this pool.
    pub recorded: Option<IpAddr>,
    /// What the pod's endpoint names for its other NICs: not this NIC's, whoever claimed it.
    pub held_by_other_nics: Vec<IpAddr>,
    /// The pod came back under another UID and wants `recorded` and nothing else: an earlier life's claim of
    /// it, known by the pod's name, is taken over (reference §2.6).
    pub takes_over: bool,
    /// When the caller stops waiting.
    pub deadline: Deadline,
}

/// Why a claim is taken back. A closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnclaimReason {
    /// The pod is gone.
    Release,
    /// The ADD failed.
    Rollback,
    /// The provider may still be working on the address for so long: others avoid it meanwhile, and the
    /// pod's retry prefers it (design §5).
    RollbackInDoubt {
        /// Counted from the answer.
        for_at_most: Duration,
    },
    /// Nobody waited for the claim when it was made.
    Abandoned,
}

impl UnclaimReason {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Rollback | Self::RollbackInDoubt { .. } => "rollback",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Takes a claim back; a claim of another UID is left alone.
#[derive(Clone, Debug)]
pub struct UnclaimRequest {
    /// Bare address.
    pub address: IpAddr,
    /// Whose claim.
    pub pod_uid: Arc<str>,
    /// Why.
    pub reason: UnclaimReason,
    /// When the caller stops waiting.
    pub deadline: Deadline,
}

/// How an address was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimKind {
    /// A plain pool's.
    Plain,
    /// A node-level pool's prewarmed sub-ENI.
    Prewarmed,
    /// A global pool's idle sub-ENI on this node.
    Hit,
    /// A global pool's address without a sub-ENI.
    Cold,
    /// A global pool's sub-ENI that idles on another node.
    Steal,
    /// The pod's own claim, made earlier.
    Found,
    /// The claim of the pod's earlier life.
    TakenOver,
}

impl ClaimKind {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Prewarmed => "prewarmed",
            Self::Hit => "hit",
            Self::Cold => "cold",
            Self::Steal => "steal",
            Self::Found => "found",
            Self::TakenOver => "taken_over",
        }
    }
}

/// An address that is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Bare address.
    pub address: IpAddr,
    /// How it was come by.
    pub kind: ClaimKind,
    /// True when a sub-ENI must be created, or moved here, before use.
    pub provider_call: bool,
    /// From the ledger.
    pub mac: Option<Mac>,
    /// From the ledger.
    pub vlan: Option<u16>,
    /// The pool.
    pub facts: Arc<PoolFacts>,
}

/// What became of an unclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaimed {
    /// The claim was there and is gone.
    TakenBack,
    /// There was no claim of that UID on that address.
    NotHeld,
}

/// An answer to an item.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To a claim.
    Claim(Result<Claimed, PoolError>),
    /// To an unclaim.
    Unclaim(Result<Unclaimed, PoolError>),
}

/// What the actor must do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Write, then call `written`.
    Write {
        /// What.
        write: ClaimsWrite,
        /// How many items it carries.
        items: usize,
    },
    /// Read the object, then call `read`.
    Read,
    /// Wait until then, then call `waited`.
    Wait(Instant),
    /// Answer.
    Reply(ItemId, Answer),
}

impl Claimed {
    /// True when the claim was there before this request.
    pub fn found(&self) -> bool {
        self.kind == ClaimKind::Found
    }
}
