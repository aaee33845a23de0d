//! What the Pool actor is sent.

use std::sync::Arc;

use actix::Message;
use orbweaver_api::address_set::AddressSet;
use orbweaver_api::pool::SpiderIPPool;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::effect::{ClaimRequest, Claimed, UnclaimRequest, Unclaimed};
use crate::error::PoolError;

/// When a message was sent, and the place it holds in the pool's queue until it is answered.
#[derive(Debug)]
pub struct AskedAt {
    /// When.
    pub at: Instant,
    /// The place.
    pub permit: OwnedSemaphorePermit,
}

/// Claim an address.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ClaimAddress {
    /// What is asked.
    pub request: ClaimRequest,
    /// Closed without an answer when the actor stops.
    pub reply: oneshot::Sender<Result<Claimed, PoolError>>,
    /// When.
    pub asked: AskedAt,
}

/// Take a claim back.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UnclaimAddress {
    /// What is asked.
    pub request: UnclaimRequest,
    /// Closed without an answer when the actor stops.
    pub reply: oneshot::Sender<Result<Unclaimed, PoolError>>,
    /// When.
    pub asked: AskedAt,
}

/// The watch saw the pool.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct PoolObserved(pub Arc<SpiderIPPool>);

/// The watch saw the pool go.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct PoolDeleted;

/// Reserved addresses changed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ReservedChanged(pub Arc<AddressSet>);

/// Finish the write in flight, answer everybody, stop.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopPool;

/// The actor stopped: to its parent, which rebuilds it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct PoolStopped {
    /// Which.
    pub pool: Arc<str>,
    /// Which life of it; an older life's end is no news.
    pub life: u64,
    /// True when it panicked.
    pub panicked: bool,
}
