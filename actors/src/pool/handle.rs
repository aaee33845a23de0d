//! The way to a pool's actor, wherever it lives.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::effect::{ClaimRequest, Claimed, UnclaimRequest, Unclaimed};
use super::messages::{AskedAt, ClaimAddress, UnclaimAddress};
use crate::deadline::Deadline;
use crate::error::PoolError;

/// Requests that may wait for one pool in one process. A write carries all of them, so this is a bound on
/// memory, not on speed: four times the pods that a large node runs.
pub const MAX_WAITING_PER_POOL: usize = 1024;

/// What a pool does for its callers. The local actor implements it; so can one in another process.
#[async_trait]
pub trait PoolPort: Send + Sync + 'static {
    /// Claims an address.
    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, PoolError>;
    /// Takes a claim back.
    async fn unclaim(&self, request: UnclaimRequest) -> Result<Unclaimed, PoolError>;
}

/// The way to one pool; the caller cannot tell where its actor lives.
#[derive(Clone)]
pub struct PoolHandle(Arc<dyn PoolPort>);

impl std::fmt::Debug for PoolHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PoolHandle")
    }
}

impl PoolHandle {
    /// A handle to any implementation.
    pub fn new(port: Arc<dyn PoolPort>) -> Self {
        Self(port)
    }

    /// Claims an address. A caller that goes away before the answer leaves no claim behind.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Claimed, PoolError> {
        self.0.claim(request).await
    }

    /// Takes a claim back. Goes on when the caller goes away.
    pub async fn unclaim(&self, request: UnclaimRequest) -> Result<Unclaimed, PoolError> {
        self.0.unclaim(request).await
    }
}

/// A pool's actor in this process.
pub struct LocalPool {
    addr: actix::Addr<super::Pool>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for LocalPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalPool").finish_non_exhaustive()
    }
}

impl LocalPool {
    /// A port to a running actor.
    pub fn new(addr: actix::Addr<super::Pool>) -> Self {
        Self {
            addr,
            permits: Arc::new(Semaphore::new(MAX_WAITING_PER_POOL)),
        }
    }

    fn enter(&self) -> Result<OwnedSemaphorePermit, PoolError> {
        let busy = |_| PoolError::Busy {
            limit: MAX_WAITING_PER_POOL,
        };
        self.permits.clone().try_acquire_owned().map_err(busy)
    }
}

async fn answer<T>(
    reply: oneshot::Receiver<Result<T, PoolError>>,
    deadline: Deadline,
) -> Result<T, PoolError> {
    match tokio::time::timeout_at(deadline.instant(), reply).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(PoolError::Restarting),
        Err(_) => Err(PoolError::DeadlineExceeded { attempts: 0 }),
    }
}

#[async_trait]
impl PoolPort for LocalPool {
    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, PoolError> {
        let permit = self.enter()?;
        let (reply, answered) = oneshot::channel();
        let deadline = request.deadline;
        self.addr.do_send(ClaimAddress {
            request,
            reply,
            asked: AskedAt {
                at: Instant::now(),
                permit,
            },
        });
        answer(answered, deadline).await
    }

    async fn unclaim(&self, request: UnclaimRequest) -> Result<Unclaimed, PoolError> {
        let permit = self.enter()?;
        let (reply, answered) = oneshot::channel();
        let deadline = request.deadline;
        self.addr.do_send(UnclaimAddress {
            request,
            reply,
            asked: AskedAt {
                at: Instant::now(),
                permit,
            },
        });
        answer(answered, deadline).await
    }
}
