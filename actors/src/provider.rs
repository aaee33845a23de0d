//! The Provider actor: every call to the network provider, under a deadline, in a task of its own.
//!
//! | module | what it decides |
//! |---|---|
//! | [`answer`] | is it an answer to what was asked? |
//! | [`outcome`] | what does the end of a call mean, and what is said about it? |
//! | [`queue`] | which call is sent next? |
//! | [`throttle`] | how long does the provider want to be left alone? |
//! | [`http`], [`tls`] | the contract over HTTP |
//! | [`handle`] | how callers reach the actor |
//!
//! A call runs to its end whoever waits for it: a caller who goes away changes nothing (peer rule L13).

pub mod answer;
mod client;
pub mod handle;
pub mod http;
mod job;
pub mod metrics;
pub mod outcome;
pub mod queue;
pub mod report;
pub mod throttle;
pub mod tls;
mod witness;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use async_trait::async_trait;
use orbweaver_api::mac::Mac;
use orbweaver_api::provider::{AllocateRequest, AllocateResponse, ReleaseRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use self::handle::ProviderHandle;
pub use self::http::{ProviderHttp, ProviderHttpError, ProviderHttpOptions};
use self::job::Job;
pub use self::outcome::CallFailure;
pub use self::queue::QueueLimits;
use self::queue::{CLASSES, CallQueue, Queued};
use crate::deadline::Deadline;
use crate::error::ProviderError;

/// Who goes first when calls wait (design §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallClass {
    /// A pod is starting.
    PodStart,
    /// An undo.
    Undo,
    /// A release that nobody waits for.
    Release,
}

impl CallClass {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::PodStart => "pod_start",
            Self::Undo => "undo",
            Self::Release => "release",
        }
    }
}

/// One sub-ENI that the provider bound, checked against what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSubEni {
    /// As asked.
    pub ipv4: Option<Ipv4Addr>,
    /// As asked.
    pub ipv6: Option<Ipv6Addr>,
    /// `None`: keep what the allocation had.
    pub mac: Option<Mac>,
    /// `None`: keep what the allocation had.
    pub vlan: Option<u16>,
}

/// The network provider: one call is one request, never repeated, ended by the deadline at the latest.
#[async_trait]
pub trait ProviderApi: Send + Sync + 'static {
    /// `allocate-ips`. The answer is not checked yet.
    async fn allocate(
        &self,
        request: &AllocateRequest,
        deadline: Deadline,
        request_id: &str,
    ) -> Result<AllocateResponse, CallFailure>;

    /// `release-ip`.
    async fn release(
        &self,
        request: &ReleaseRequest,
        deadline: Deadline,
        request_id: &str,
    ) -> Result<(), CallFailure>;
}

/// How the actor behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProviderOptions {
    /// Bounds.
    pub limits: QueueLimits,
}

/// What a drain left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Calls still with the provider when the deadline passed: their outcome is unknown.
    pub in_flight: usize,
    /// Calls that were let in but not sent before the deadline.
    pub not_sent: usize,
    /// The actor itself did not answer by the deadline, so the numbers are not known.
    pub overdue: bool,
}

/// The actor. It decides nothing: see [`queue`].
pub struct Provider {
    api: Arc<dyn ProviderApi>,
    limits: QueueLimits,
    queue: CallQueue<Job>,
    alarm: Option<SpawnHandle>,
    draining: bool,
    drains: Vec<oneshot::Sender<DrainReport>>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A call wants to be made.
#[derive(Message)]
#[rtype(result = "()")]
struct Submit(Job);

/// A call ended and its slot is free.
#[derive(Message)]
#[rtype(result = "()")]
struct CallFinished {
    class: CallClass,
    pause: Option<Duration>,
}

/// See [`ProviderHandle::drain`].
#[derive(Message)]
#[rtype(result = "()")]
struct Drain {
    deadline: Deadline,
    done: oneshot::Sender<DrainReport>,
}

impl Provider {
    fn new(options: ProviderOptions, api: Arc<dyn ProviderApi>) -> Self {
        let limits = options.limits;
        let queue = CallQueue::new(limits);
        Self {
            api,
            limits,
            queue,
            alarm: None,
            draining: false,
            drains: Vec::new(),
        }
    }

    /// Sends what can be sent and sets the alarm for the next thing that time alone changes.
    fn advance(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        for expired in self.queue.take_expired(now) {
            let waited = now.saturating_duration_since(expired.since);
            let error = outcome::nothing_left(expired.item.facts.call, waited);
            expired.item.not_sent(error, waited);
        }
        while let Some(queued) = self.queue.next(now) {
            if queued.item.life.start() {
                metrics::waited(queued.class, now.saturating_duration_since(queued.since));
                self.spawn(queued.item, ctx.address());
            } else {
                self.queue.finished(queued.class);
            }
        }
        for class in CLASSES {
            metrics::in_flight(class, self.queue.in_flight(class));
        }
        if let Some(alarm) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        self.alarm = self.queue.wake_at(now).map(|at| {
            ctx.run_later(at.saturating_duration_since(now), |provider, ctx| {
                provider.alarm = None;
                provider.advance(ctx);
            })
        });
        if self.queue.all_in_flight() + self.queue.all_waiting() == 0 {
            self.drained(DrainReport::default());
        }
    }

    fn spawn(&self, job: Job, provider: Addr<Self>) {
        let api = self.api.clone();
        let slot = Slot {
            provider,
            class: job.class,
            pause: None,
        };
        // Not a future of this actor: those are dropped when it stops, and a call must not be. The deadline bounds
        // the task, the slot reports its end even from a panic.
        tokio::spawn(async move {
            // The whole slot moves in here, not only the field that is written.
            let mut slot = slot;
            slot.pause = job.run(api).await;
        });
    }

    fn drained(&mut self, report: DrainReport) {
        for done in self.drains.drain(..) {
            // Whoever asked may have gone.
            let _ = done.send(report);
        }
    }

    fn give_up(&mut self) {
        let now = Instant::now();
        let waiting = self.queue.take_all();
        let report = DrainReport {
            in_flight: self.queue.all_in_flight(),
            not_sent: waiting.len(),
            overdue: false,
        };
        for queued in waiting {
            queued
                .item
                .not_sent(shutting_down(), now.saturating_duration_since(queued.since));
        }
        self.drained(report);
    }
}

impl Actor for Provider {
    type Context = Context<Self>;
}

impl Handler<Submit> for Provider {
    type Result = ();

    fn handle(&mut self, Submit(job): Submit, ctx: &mut Context<Self>) {
        if self.draining {
            return job.not_sent(shutting_down(), Duration::ZERO);
        }
        let queued = Queued {
            class: job.class,
            deadline: job.deadline.instant(),
            since: Instant::now(),
            item: job,
        };
        if let Err(refused) = self.queue.push(queued) {
            let why = handle::full(refused.class, self.limits);
            refused
                .item
                .not_sent(ProviderError::NotSent(why.into()), Duration::ZERO);
        }
        self.advance(ctx);
    }
}

impl Handler<CallFinished> for Provider {
    type Result = ();

    fn handle(&mut self, CallFinished { class, pause }: CallFinished, ctx: &mut Context<Self>) {
        self.queue.finished(class);
        if let Some(pause) = pause {
            let pause = throttle::spread(pause, rand::random());
            tracing::warn!(
                class = class.label(),
                seconds = pause.as_secs_f64(),
                "the provider is asked too much and gets a pause; raise its limits if this lasts"
            );
            self.queue.pause(class, Instant::now() + pause);
        }
        self.advance(ctx);
    }
}

impl Handler<Drain> for Provider {
    type Result = ();

    fn handle(&mut self, Drain { deadline, done }: Drain, ctx: &mut Context<Self>) {
        self.draining = true;
        self.drains.push(done);
        // A moment early, so that the report comes before the one who asks gives up.
        let left = deadline.remaining(Instant::now()).mul_f64(0.95);
        ctx.run_later(left, |provider, _| provider.give_up());
        self.advance(ctx);
    }
}

/// A slot of the queue that a running call occupies.
struct Slot {
    provider: Addr<Provider>,
    class: CallClass,
    pause: Option<Duration>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.provider.do_send(CallFinished {
            class: self.class,
            pause: self.pause,
        });
    }
}

fn shutting_down() -> ProviderError {
    ProviderError::NotSent("the agent is shutting down and makes no new provider calls".into())
}
