//! One call on its way through the actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use orbweaver_api::provider::{AllocateRequest, ReleaseRequest};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};

use super::answer::Asked;
use super::outcome::{self, CallFailure, Limit, Progress};
use super::report::{CallFacts, Outcome};
use super::{BoundSubEni, CallClass, ProviderApi, answer};
use crate::deadline::Deadline;
use crate::error::ProviderError;

pub(super) type Reply<T> = oneshot::Sender<Result<T, ProviderError>>;

/// Where a call is, as its caller and its actor both see it. Exactly one of them takes it out of the queue, so that
/// "not sent" is never said of a call that is sent.
#[derive(Debug, Default)]
pub(super) struct Life(AtomicU8);

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const ABANDONED: u8 = 2;

impl Life {
    /// The actor takes the call. False: the caller was told that it is not sent.
    pub(super) fn start(&self) -> bool {
        self.leave(STARTED)
    }

    /// The caller gives up. False: the call may be with the provider.
    pub(super) fn abandon(&self) -> bool {
        self.leave(ABANDONED)
    }

    fn leave(&self, to: u8) -> bool {
        self.0
            .compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// What to say to the provider, and whom to tell.
pub(super) enum Question {
    Allocate {
        request: AllocateRequest,
        asked: Vec<Asked>,
        reply: Reply<Vec<BoundSubEni>>,
    },
    Release {
        request: ReleaseRequest,
        reply: Reply<()>,
    },
}

/// A call that was let in.
pub(super) struct Job {
    pub(super) question: Question,
    pub(super) class: CallClass,
    pub(super) deadline: Deadline,
    pub(super) facts: CallFacts,
    pub(super) life: Arc<Life>,
    /// Held to the end: it is what bounds the mailbox.
    pub(super) permit: OwnedSemaphorePermit,
}

impl Job {
    /// Ends a call that never left the queue.
    pub(super) fn not_sent(self, error: ProviderError, waited: Duration) {
        if !self.life.start() {
            return;
        }
        match self.question {
            Question::Allocate { reply, .. } => answer_caller(&self.facts, reply, Err(error), waited),
            Question::Release { reply, .. } => answer_caller(&self.facts, reply, Err(error), waited),
        }
    }

    /// Makes the call and answers. Gives back how long the provider wants to be left alone.
    pub(super) async fn run(self, api: Arc<dyn ProviderApi>) -> Option<Duration> {
        let Self {
            question,
            deadline,
            facts,
            permit,
            ..
        } = self;
        let bound = Bound {
            facts: &facts,
            deadline,
            began: Instant::now(),
        };
        let pause = match question {
            Question::Allocate {
                request,
                asked,
                reply,
            } => {
                let call = api.allocate(&request, deadline, &facts.request_id);
                let checked = bound.of(call).await.and_then(|response| {
                    answer::check(&asked, &response).map_err(|wrong| outcome::contradicted(wrong).into())
                });
                bound.answer(reply, checked)
            }
            Question::Release { request, reply } => {
                let call = api.release(&request, deadline, &facts.request_id);
                let done = bound.of(call).await;
                bound.answer(reply, done)
            }
        };
        drop(permit);
        pause
    }
}

struct Bound<'a> {
    facts: &'a CallFacts,
    deadline: Deadline,
    began: Instant,
}

impl Bound<'_> {
    /// The API keeps the deadline by itself and knows more when it passes; this is for one that does not.
    async fn of<T>(&self, call: impl Future<Output = Result<T, CallFailure>>) -> Result<T, CallFailure> {
        let late = |_| {
            let budget = self.deadline.remaining(self.began);
            let progress = Progress::Written {
                budget,
                elapsed: self.began.elapsed(),
            };
            outcome::timed_out(self.facts.call, Limit::Parent(budget), progress)
        };
        timeout_at(self.deadline.instant(), call).await.map_err(late)?
    }

    fn answer<T>(&self, reply: Reply<T>, result: Result<T, CallFailure>) -> Option<Duration> {
        let (result, pause) = match result {
            Ok(done) => (Ok(done), None),
            Err(failure) => (Err(failure.error), failure.retry_after),
        };
        answer_caller(self.facts, reply, result, self.began.elapsed());
        pause
    }
}

fn answer_caller<T>(facts: &CallFacts, reply: Reply<T>, result: Result<T, ProviderError>, took: Duration) {
    facts.finished(&result, took);
    let outcome = Outcome::of(&result);
    if reply.send(result).is_err() {
        facts.unheard(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_given_up_is_never_started_and_a_started_one_never_given_up() {
        let given_up = Life::default();
        assert!(given_up.abandon());
        assert!(!given_up.start());
        let started = Life::default();
        assert!(started.start());
        assert!(!started.abandon());
        assert!(!started.start(), "nor twice");
    }
}
