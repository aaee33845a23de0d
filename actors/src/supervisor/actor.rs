//! The Supervisor's actor: owns the recipes of pools, gives turns, rebuilds what stopped.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::messages::{
    EnterPod, FindPool, ForgetPool, LeavePod, ObservePool, Ping, ReloadReserved, StopPools,
};
use super::restart::{Decision, Restarts};
use super::turns::Turns;
use super::{Ports, SupervisorOptions};
use crate::error::PoolError;
use crate::metrics;
use crate::pool::handle::{LocalPool, PoolHandle};
use crate::pool::messages::{PoolDeleted, PoolObserved, PoolStopped, ReservedChanged, StopPool};
use crate::pool::state::Beginning;
use crate::pool::{Pool, PoolRecipe};

/// Running pools by name; read by request tasks without asking the actor.
pub(super) type Routes = Arc<DashMap<Arc<str>, PoolHandle>>;

/// The right to work for a pod; it ends when this is dropped.
#[derive(Debug)]
pub struct PodTurn {
    pod: Arc<str>,
    supervisor: Option<Addr<Supervisor>>,
}

impl Drop for PodTurn {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.do_send(LeavePod {
                pod: self.pod.clone(),
            });
        }
    }
}

struct Running {
    addr: Addr<Pool>,
    life: u64,
}

/// The actor. See the module's documentation.
pub struct Supervisor {
    options: SupervisorOptions,
    ports: Ports,
    arbiters: Vec<ArbiterHandle>,
    routes: Routes,
    running: HashMap<Arc<str>, Running>,
    lives: u64,
    restarts: Restarts,
    turns: Turns<Option<oneshot::Sender<PodTurn>>>,
    fatal: Option<oneshot::Sender<String>>,
    stopping: Option<oneshot::Sender<()>>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor")
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

impl Supervisor {
    pub(super) fn new(
        options: SupervisorOptions,
        ports: Ports,
        arbiters: Vec<ArbiterHandle>,
        routes: Routes,
        fatal: oneshot::Sender<String>,
    ) -> Self {
        Self {
            options,
            ports,
            arbiters,
            routes,
            running: HashMap::new(),
            lives: 0,
            restarts: Restarts::default(),
            turns: Turns::default(),
            fatal: Some(fatal),
            stopping: None,
        }
    }

    fn find(&mut self, name: &Arc<str>, ctx: &mut Context<Self>) -> Result<PoolHandle, PoolError> {
        if let Some(handle) = self.routes.get(name) {
            return Ok(handle.clone());
        }
        if self.stopping.is_some() || !self.restarts.may_start(name, Instant::now()) {
            return Err(PoolError::Restarting);
        }
        let object = self.ports.view.pool(name).ok_or(PoolError::Gone)?;
        let family = object.family().ok_or_else(|| {
            let why = format!(
                "spec.ipVersion {:?} and spec.subnet {:?} name no family",
                object.spec.ip_version, object.spec.subnet
            );
            PoolError::Unusable(why.into())
        })?;
        self.lives += 1;
        let recipe = PoolRecipe {
            beginning: Beginning {
                object,
                reserved: self.ports.view.reserved(family),
                max_claims: self.options.max_claims_per_pool,
                rebuild: self.restarts.is_rebuild(name),
            },
            store: self.ports.pools.clone(),
            parent: ctx.address().recipient(),
            life: self.lives,
        };
        let addr = self.start_pool(name, recipe);
        let handle = PoolHandle::new(Arc::new(LocalPool::new(addr.clone())));
        self.routes.insert(name.clone(), handle.clone());
        self.running.insert(
            name.clone(),
            Running {
                addr,
                life: self.lives,
            },
        );
        Ok(handle)
    }

    /// A pool always lives on the same arbiter: one thread writes it.
    fn start_pool(&self, name: &Arc<str>, recipe: PoolRecipe) -> Addr<Pool> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let count = self.arbiters.len().max(1) as u64;
        let index = usize::try_from(hasher.finish() % count).unwrap_or(0);
        match self.arbiters.get(index) {
            Some(arbiter) => Pool::start_in_arbiter(arbiter, |_| Pool::new(recipe)),
            None => Pool::new(recipe).start(),
        }
    }

    fn escalate(&mut self, why: String) {
        tracing::error!(%why, "the process must end");
        if let Some(fatal) = self.fatal.take() {
            // Nobody listening means that the process is ending already.
            drop(fatal.send(why));
        }
    }

    fn grant(
        supervisor: &Addr<Self>,
    ) -> impl FnMut(&Arc<str>, &mut Option<oneshot::Sender<PodTurn>>) -> bool {
        let supervisor = supervisor.clone();
        move |pod, waiter| {
            let Some(reply) = waiter.take() else { return false };
            if reply.is_closed() {
                return false;
            }
            match reply.send(PodTurn {
                pod: pod.clone(),
                supervisor: Some(supervisor.clone()),
            }) {
                Ok(()) => true,
                Err(mut turn) => {
                    // Its end must not be taken for the end of the next one's turn.
                    turn.supervisor = None;
                    false
                }
            }
        }
    }

    fn finish_stopping(&mut self) {
        if self.running.is_empty()
            && let Some(done) = self.stopping.take()
        {
            let _ = done.send(());
        }
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.escalate("the Supervisor stopped".to_owned());
    }
}

impl Handler<FindPool> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: FindPool, ctx: &mut Self::Context) {
        let found = self.find(&message.pool, ctx);
        drop(message.reply.send(found));
    }
}

impl Handler<EnterPod> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: EnterPod, ctx: &mut Self::Context) {
        self.turns
            .enter(&message.pod, Some(message.reply), Self::grant(&ctx.address()));
    }
}

impl Handler<LeavePod> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: LeavePod, ctx: &mut Self::Context) {
        self.turns.leave(&message.pod, Self::grant(&ctx.address()));
    }
}

impl Handler<ObservePool> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: ObservePool, _: &mut Self::Context) {
        let name = message.0.metadata.name.as_deref().unwrap_or_default();
        if let Some(running) = self.running.get(name) {
            running.addr.do_send(PoolObserved(message.0));
        }
    }
}

impl Handler<ForgetPool> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: ForgetPool, _: &mut Self::Context) {
        self.routes.remove(&message.0);
        self.restarts.forget(&message.0);
        if let Some(running) = self.running.remove(&message.0) {
            running.addr.do_send(PoolDeleted);
        }
    }
}

impl Handler<ReloadReserved> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: ReloadReserved, _: &mut Self::Context) {
        for (name, running) in &self.running {
            if let Some(family) = self.ports.view.pool(name).and_then(|pool| pool.family()) {
                running
                    .addr
                    .do_send(ReservedChanged(self.ports.view.reserved(family)));
            }
        }
    }
}

impl Handler<PoolStopped> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: PoolStopped, _: &mut Self::Context) {
        if self
            .running
            .get(&message.pool)
            .is_none_or(|running| running.life != message.life)
        {
            return;
        }
        self.running.remove(&message.pool);
        self.routes.remove(&message.pool);
        if self.stopping.is_some() {
            self.finish_stopping();
            return;
        }
        metrics::actor_restarted("pool", if message.panicked { "panic" } else { "stop" });
        match self.restarts.stopped(message.pool.clone(), Instant::now()) {
            Decision::RebuildFrom(_) => {
                tracing::error!(pool = %message.pool, panicked = message.panicked, "a pool's actor stopped; it is rebuilt on its next use");
            }
            Decision::Escalate => self.escalate(format!(
                "pool actors keep stopping, the last was {}",
                message.pool
            )),
        }
    }
}

impl Handler<StopPools> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: StopPools, _: &mut Self::Context) {
        self.stopping = Some(message.0);
        for running in self.running.values() {
            running.addr.do_send(StopPool);
        }
        self.finish_stopping();
    }
}

impl Handler<Ping> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Ping, _: &mut Self::Context) {
        let _ = message.0.send(());
    }
}
