//! The way to the Provider actor: a plain async API that is bounded in number and in time.

use std::sync::Arc;

use actix::{Actor, Addr};
use actix_rt::ArbiterHandle;
use orbweaver_api::provider::{AllocateRequest, ReleaseRequest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::job::{Job, Life, Question, Reply};
use super::outcome::{self, Limit, Progress};
use super::queue::{CLASSES, QueueLimits};
use super::report::CallFacts;
use super::{
    BoundSubEni, CallClass, Drain, DrainReport, Provider, ProviderApi, ProviderOptions, Submit, answer,
};
use crate::deadline::Deadline;
use crate::error::ProviderError;

/// The way to the Provider actor. Clones share its bounds.
#[derive(Clone, Debug)]
pub struct ProviderHandle {
    /// `None`: no provider is configured.
    way: Option<Arc<Way>>,
}

#[derive(Debug)]
struct Way {
    addr: Addr<Provider>,
    /// One per class. A mailbox bounds nothing, so admission does.
    admission: [(CallClass, Arc<Semaphore>); 3],
    limits: QueueLimits,
}

impl ProviderHandle {
    /// Starts the actor on an arbiter.
    pub fn start(options: ProviderOptions, api: Arc<dyn ProviderApi>, arbiter: &ArbiterHandle) -> Self {
        let limits = options.limits;
        let addr = Provider::start_in_arbiter(arbiter, move |_| Provider::new(options, api));
        let admission = CLASSES.map(|class| {
            let room = limits
                .waiting(class)
                .saturating_add(limits.in_flight)
                .min(Semaphore::MAX_PERMITS);
            (class, Arc::new(Semaphore::new(room)))
        });
        Self {
            way: Some(Arc::new(Way {
                addr,
                admission,
                limits,
            })),
        }
    }

    /// For an agent without a network provider: every call is "not sent".
    pub fn disabled() -> Self {
        Self { way: None }
    }

    /// False when calls cannot be made any more: the actor stopped. It has no supervisor of its own.
    pub fn alive(&self) -> bool {
        self.way.as_ref().is_some_and(|way| way.addr.connected())
    }

    /// Asks for every sub-ENI of one ADD in one call. Answers in the order of the request's items, by the deadline.
    pub async fn allocate(
        &self,
        request: AllocateRequest,
        class: CallClass,
        deadline: Deadline,
        request_id: Arc<str>,
    ) -> Result<Vec<BoundSubEni>, ProviderError> {
        let facts = CallFacts::of_allocate(&request, request_id);
        let asked = match answer::asked(&request) {
            Ok(asked) => asked,
            Err(why) => return turned_away(&facts, &format!("the allocate request is malformed: {why}")),
        };
        self.ask(facts, class, deadline, |reply| Question::Allocate {
            request,
            asked,
            reply,
        })
        .await
    }

    /// Gives one sub-ENI back. Answers by the deadline.
    pub async fn release(
        &self,
        request: ReleaseRequest,
        class: CallClass,
        deadline: Deadline,
        request_id: Arc<str>,
    ) -> Result<(), ProviderError> {
        let facts = CallFacts::of_release(&request, request_id);
        self.ask(facts, class, deadline, |reply| Question::Release {
            request,
            reply,
        })
        .await
    }

    /// Lets nothing in any more, makes the calls that were let in, and comes back when the last one has ended or the
    /// deadline passed. Then calls that wait are "not sent"; those in flight run on for as long as the runtime does.
    pub async fn drain(&self, deadline: Deadline) -> DrainReport {
        let Some(way) = &self.way else {
            return DrainReport::default();
        };
        let (done, report) = oneshot::channel();
        way.addr.do_send(Drain { deadline, done });
        // An actor that has stopped has nothing to drain; one that does not answer is given the deadline.
        match timeout_at(deadline.instant(), report).await {
            Ok(report) => report.unwrap_or_default(),
            Err(_) => DrainReport {
                overdue: true,
                ..DrainReport::default()
            },
        }
    }

    async fn ask<T>(
        &self,
        facts: CallFacts,
        class: CallClass,
        deadline: Deadline,
        question: impl FnOnce(Reply<T>) -> Question,
    ) -> Result<T, ProviderError> {
        let Some(way) = &self.way else {
            return turned_away(
                &facts,
                "no network provider is configured; set iaasNetworkProvider.serverUrl",
            );
        };
        let Some(permit) = way.admit(class) else {
            return turned_away(&facts, &full(class, way.limits));
        };
        let (reply, answer) = oneshot::channel();
        let life = Arc::new(Life::default());
        let began = Instant::now();
        way.addr.do_send(Submit(Job {
            question: question(reply),
            class,
            deadline,
            facts: facts.clone(),
            life: life.clone(),
            permit,
        }));
        let answered = timeout_at(deadline.instant(), answer).await;
        let overdue = match answered {
            Ok(Ok(result)) => return result,
            Ok(Err(_)) => false,
            Err(_) => true,
        };
        let waited = began.elapsed();
        if life.abandon() {
            let error = if overdue {
                outcome::nothing_left(facts.call, waited)
            } else {
                ProviderError::NotSent("the agent's provider actor has stopped".into())
            };
            let result = Err(error);
            facts.finished(&result, waited);
            return result;
        }
        let budget = deadline.remaining(began);
        let progress = Progress::Written {
            budget,
            elapsed: waited,
        };
        if overdue {
            // Its task reports it.
            return Err(outcome::timed_out(facts.call, Limit::Parent(budget), progress));
        }
        let result = Err(outcome::broken(
            facts.call,
            progress,
            "its task broke down; see the log for a panic",
        ));
        facts.finished(&result, waited);
        result
    }
}

impl Way {
    fn admit(&self, class: CallClass) -> Option<OwnedSemaphorePermit> {
        let (_, room) = self.admission.iter().find(|(of, _)| *of == class)?;
        room.clone().try_acquire_owned().ok()
    }
}

/// The text for a call that finds its class full.
pub(super) fn full(class: CallClass, limits: QueueLimits) -> String {
    let limit = limits.waiting(class);
    format!(
        "the provider's {} queue is full with a maximum length of {limit}",
        class.label()
    )
}

fn turned_away<T>(facts: &CallFacts, why: &str) -> Result<T, ProviderError> {
    let result = Err(ProviderError::NotSent(why.into()));
    facts.finished(&result, std::time::Duration::ZERO);
    result
}
