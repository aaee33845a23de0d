//! The Pool actor: the one writer of one pool in this process.
//!
//! | module | what it decides |
//! |---|---|
//! | [`state`] | the protocol: what to write, read, wait for and answer |
//! | [`book`] | who holds what, and which address the next claim gets |
//! | [`version`], [`facts`] | what one version of the object says |
//! | [`handle`], [`messages`] | how callers reach the actor |
//!
//! The actor below performs the effects of [`state::PoolState`] and nothing else.

mod backoff;
pub mod book;
pub mod effect;
pub mod facts;
pub mod handle;
mod item;
pub mod memory;
pub mod messages;
pub mod state;
mod take_over;
pub mod version;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use self::effect::{Answer, Claimed, Effect, ItemId, UnclaimReason, UnclaimRequest, Unclaimed};
use self::messages::{
    ClaimAddress, PoolDeleted, PoolObserved, PoolStopped, ReservedChanged, StopPool, UnclaimAddress,
};
use self::state::{Beginning, PoolState};
use crate::deadline::Deadline;
use crate::error::PoolError;
use crate::metrics;
use crate::store::PoolStore;

/// Everything needed to build a pool's actor, again and again.
pub struct PoolRecipe {
    /// What the rules start from.
    pub beginning: Beginning,
    /// Where it is read and written.
    pub store: Arc<dyn PoolStore>,
    /// Who is told when it stops.
    pub parent: Recipient<PoolStopped>,
    /// Which life this is.
    pub life: u64,
}

impl std::fmt::Debug for PoolRecipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolRecipe")
            .field("pool", &self.beginning.object.metadata.name)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

enum Reply {
    Claim {
        to: oneshot::Sender<Result<Claimed, PoolError>>,
        pod_uid: Arc<str>,
    },
    Unclaim {
        to: oneshot::Sender<Result<Unclaimed, PoolError>>,
        reason: UnclaimReason,
    },
    /// The actor's own undo of a claim that nobody waited for.
    Nobody,
}

/// The actor. See the module's documentation.
pub struct Pool {
    name: Arc<str>,
    state: PoolState,
    store: Arc<dyn PoolStore>,
    replies: HashMap<ItemId, (Reply, Option<OwnedSemaphorePermit>)>,
    next_item: ItemId,
    parent: Recipient<PoolStopped>,
    life: u64,
    stopping: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.name)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Builds the actor from its recipe.
    pub fn new(recipe: PoolRecipe) -> Self {
        Self {
            name: recipe
                .beginning
                .object
                .metadata
                .name
                .as_deref()
                .unwrap_or_default()
                .into(),
            state: PoolState::new(recipe.beginning, rand::random()),
            store: recipe.store,
            replies: HashMap::new(),
            next_item: 0,
            parent: recipe.parent,
            life: recipe.life,
            stopping: false,
        }
    }

    fn register(&mut self, reply: Reply, permit: Option<OwnedSemaphorePermit>) -> ItemId {
        self.next_item += 1;
        self.replies.insert(self.next_item, (reply, permit));
        self.next_item
    }

    fn advance(&mut self, ctx: &mut Context<Self>) {
        let effects = self.state.advance(Instant::now());
        self.perform(effects, ctx);
    }

    fn perform(&mut self, effects: Vec<Effect>, ctx: &mut Context<Self>) {
        let mut abandoned = false;
        for effect in effects {
            match effect {
                Effect::Write { write, items } => {
                    metrics::batch_sent(&self.name, items);
                    metrics::ledger_read(&self.name, self.state.skipped_entries());
                    let store = self.store.clone();
                    let written = async move { store.write_claims(write).await };
                    ctx.spawn(
                        written
                            .into_actor(self)
                            .map(|outcome, pool, ctx| pool.write_finished(outcome, ctx)),
                    );
                }
                Effect::Read => {
                    let (store, name) = (self.store.clone(), self.name.clone());
                    let read = async move { store.read_pool(&name).await };
                    ctx.spawn(read.into_actor(self).map(|outcome, pool, ctx| {
                        let effects = pool.state.read(outcome, Instant::now());
                        pool.perform(effects, ctx);
                    }));
                }
                Effect::Wait(until) => {
                    let wait = tokio::time::sleep_until(until);
                    ctx.spawn(wait.into_actor(self).map(|(), pool, ctx| {
                        let effects = pool.state.waited(Instant::now());
                        pool.perform(effects, ctx);
                    }));
                }
                Effect::Reply(id, answer) => abandoned |= self.reply(id, answer),
            }
        }
        metrics::waiting(&self.name, self.state.waiting());
        if abandoned {
            self.advance(ctx);
        }
        if self.stopping && self.replies.is_empty() {
            ctx.stop();
        }
    }

    fn write_finished(&mut self, outcome: Result<String, crate::store::StoreError>, ctx: &mut Context<Self>) {
        use crate::store::StoreError;
        let label = match &outcome {
            Ok(_) => "ok",
            Err(StoreError::Conflict) => "conflict",
            Err(StoreError::Unknown(_)) => "unknown",
            Err(_) => "failed",
        };
        metrics::write_finished(&self.name, label);
        if let Err(error) = outcome.as_ref().map_err(ToString::to_string)
            && label != "conflict"
        {
            tracing::warn!(pool = %self.name, %error, outcome = label, "claims were not written; reading the pool again");
        }
        let effects = self.state.written(outcome, Instant::now());
        self.perform(effects, ctx);
    }

    /// Answers; true when a new claim found nobody waiting and its undo was queued.
    fn reply(&mut self, id: ItemId, answer: Answer) -> bool {
        match (self.replies.remove(&id), answer) {
            (Some((Reply::Claim { to, pod_uid }, _permit)), Answer::Claim(result)) => {
                if let Ok(claimed) = &result {
                    metrics::claim_answered(&self.name, claimed.kind.label());
                }
                if let Err(Ok(claimed)) = to.send(result)
                    && !claimed.found()
                {
                    self.abandon(&claimed, pod_uid);
                    return true;
                }
            }
            (Some((Reply::Unclaim { to, reason }, _permit)), Answer::Unclaim(result)) => {
                if let Ok(Unclaimed::TakenBack) = &result {
                    metrics::claim_taken_back(&self.name, reason.label());
                }
                // An unclaim stands whether or not somebody waits for it.
                drop(to.send(result));
            }
            (Some((Reply::Nobody, _)), Answer::Unclaim(result)) => match result {
                Ok(_) => metrics::claim_taken_back(&self.name, UnclaimReason::Abandoned.label()),
                Err(error) => tracing::error!(
                    pool = %self.name, %error,
                    "a claim whose caller went away could not be taken back; garbage collection will"
                ),
            },
            _ => {}
        }
        false
    }

    fn abandon(&mut self, claimed: &Claimed, pod_uid: Arc<str>) {
        let id = self.register(Reply::Nobody, None);
        let request = UnclaimRequest {
            address: claimed.address,
            pod_uid,
            reason: UnclaimReason::Abandoned,
            deadline: Deadline::after(Deadline::UNDO_BUDGET),
        };
        self.state.unclaim(id, request);
    }
}

impl Actor for Pool {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.parent.do_send(PoolStopped {
            pool: self.name.clone(),
            life: self.life,
            panicked: std::thread::panicking(),
        });
    }
}

impl Handler<ClaimAddress> for Pool {
    type Result = ();

    fn handle(&mut self, message: ClaimAddress, ctx: &mut Self::Context) {
        metrics::mailbox_waited("pool", waited(message.asked.at));
        let reply = Reply::Claim {
            to: message.reply,
            pod_uid: message.request.pod_uid.clone(),
        };
        let id = self.register(reply, Some(message.asked.permit));
        self.state.claim(id, message.request);
        self.advance(ctx);
    }
}

impl Handler<UnclaimAddress> for Pool {
    type Result = ();

    fn handle(&mut self, message: UnclaimAddress, ctx: &mut Self::Context) {
        metrics::mailbox_waited("pool", waited(message.asked.at));
        let reply = Reply::Unclaim {
            to: message.reply,
            reason: message.request.reason,
        };
        let id = self.register(reply, Some(message.asked.permit));
        self.state.unclaim(id, message.request);
        self.advance(ctx);
    }
}

fn waited(since: Instant) -> Duration {
    Instant::now().saturating_duration_since(since)
}

impl Handler<PoolObserved> for Pool {
    type Result = ();

    fn handle(&mut self, message: PoolObserved, _: &mut Self::Context) {
        self.state.observe(message.0);
    }
}

impl Handler<PoolDeleted> for Pool {
    type Result = ();

    fn handle(&mut self, _: PoolDeleted, ctx: &mut Self::Context) {
        let effects = self.state.remove();
        self.stopping = true;
        self.perform(effects, ctx);
    }
}

impl Handler<ReservedChanged> for Pool {
    type Result = ();

    fn handle(&mut self, message: ReservedChanged, _: &mut Self::Context) {
        self.state.reserve(message.0);
    }
}

impl Handler<StopPool> for Pool {
    type Result = ();

    fn handle(&mut self, _: StopPool, ctx: &mut Self::Context) {
        self.stopping = true;
        self.perform(Vec::new(), ctx);
    }
}
