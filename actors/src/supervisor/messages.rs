//! What the Supervisor actor is sent.

use std::sync::Arc;

use actix::Message;
use orbweaver_api::pool::SpiderIPPool;
use tokio::sync::oneshot;

use super::actor::PodTurn;
use crate::error::PoolError;
use crate::pool::handle::PoolHandle;

/// Give me the pool's handle; start its actor on first use.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct FindPool {
    /// Which.
    pub pool: Arc<str>,
    /// The answer.
    pub reply: oneshot::Sender<Result<PoolHandle, PoolError>>,
}

/// Let me be the only one who works for this pod.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct EnterPod {
    /// `ns/name`.
    pub pod: Arc<str>,
    /// The turn, when it comes.
    pub reply: oneshot::Sender<PodTurn>,
}

/// My turn is over.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct LeavePod {
    /// `ns/name`.
    pub pod: Arc<str>,
}

/// The watch saw a pool.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ObservePool(pub Arc<SpiderIPPool>);

/// The watch saw a pool go.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ForgetPool(pub Arc<str>);

/// Reserved addresses changed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ReloadReserved;

/// Stop every pool once it has answered everybody; fires when none runs any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopPools(pub oneshot::Sender<()>);

/// Are you there? Answered at once.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Ping(pub oneshot::Sender<()>);
