//! The pure part of leader election.
//!
//! A *term* is one holder's uninterrupted rule: holder, acquisition time and number of transitions together. A
//! candidate knows its own lease by the term that it wrote, not by its name alone, so two processes that were
//! given one identity by mistake still never lead at once.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// The durations of an election (reference §5.1: 15 s, 10 s, 2 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait for a lease that does not change.
    pub lease: Duration,
    /// How long after its last renewal a leader goes on.
    pub renew_deadline: Duration,
    /// Time between attempts.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// These durations would let two leaders meet, or never elect one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Lease too short for the work to stop in.
    #[error("the lease duration {0:?} must be at least 2 s longer than the renew deadline {1:?}")]
    Lease(Duration, Duration),
    /// No attempt would fit.
    #[error("the renew deadline {0:?} must be longer than twice the retry period {1:?}")]
    RenewDeadline(Duration, Duration),
    /// A busy loop, or a lease that lives in whole seconds rounded to none.
    #[error(
        "the retry period must be at least 100 ms and the lease duration whole seconds, not {0:?} and {1:?}"
    )]
    Retry(Duration, Duration),
}

impl Timing {
    /// Checks that a leader stops before its lease ends, and that attempts fit.
    pub fn check(&self) -> Result<(), TimingError> {
        if self.retry < Duration::from_millis(100) || self.lease.subsec_nanos() != 0 {
            return Err(TimingError::Retry(self.retry, self.lease));
        }
        if self.lease < self.renew_deadline + Duration::from_secs(2) {
            return Err(TimingError::Lease(self.lease, self.renew_deadline));
        }
        if self.renew_deadline <= self.retry * 2 {
            return Err(TimingError::RenewDeadline(self.renew_deadline, self.retry));
        }
        Ok(())
    }
}

/// What to do about the lease now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is free: write this, by compare-and-swap (or create it).
    Acquire(LeaseSpec),
    /// It is ours: write this, by compare-and-swap.
    Renew(LeaseSpec),
    /// It is somebody else's; not free before this long.
    Wait(Duration),
    /// It was ours and is not any more: stop at once.
    Lost,
}

/// One holder's uninterrupted rule.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    holder: String,
    /// Microseconds: what a lease keeps of a time.
    acquired: Option<i64>,
    transitions: i32,
}

impl Term {
    fn of(spec: &LeaseSpec) -> Option<Self> {
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        Some(Self {
            holder,
            acquired: spec.acquire_time.as_ref().map(|time| time.0.as_microsecond()),
            transitions: spec.lease_transitions.unwrap_or(0),
        })
    }
}

/// The lease as last seen, and since when it has been so.
#[derive(Clone, Debug)]
struct Seen {
    /// `None`: there is no lease.
    version: Option<String>,
    since: Instant,
    /// What its holder promised; longer than ours if it says so.
    lasts: Duration,
}

/// One candidate's view of the election.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    timing: Timing,
    seen: Option<Seen>,
    /// The term last written, or sent with an unknown outcome.
    own: Option<Term>,
    /// When the last successful write was sent; only while leading.
    renewed: Option<Instant>,
}

impl Election {
    /// A candidate that has seen nothing yet.
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seen: None,
            own: None,
            renewed: None,
        }
    }

    /// The candidate's name.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The durations.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Until when the leader may work, if it leads; then it must stop.
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.renew_deadline)
    }

    /// When another candidate may lead at the earliest, if this one leads.
    pub fn expires(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.lease)
    }

    /// Decides about the lease that was just read (`None`: there is none). `wall` is only written, never compared.
    pub fn decide(&mut self, lease: Option<&Lease>, now: Instant, wall: &MicroTime) -> Step {
        self.observe(lease, now);
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        let holder = spec.and_then(Term::of);
        let ours = holder.is_some() && holder == self.own;
        if self.renewed.is_some() && !ours {
            self.renewed = None;
            return Step::Lost;
        }
        if let (true, Some(spec)) = (ours, spec) {
            return Step::Renew(self.renewal(spec, wall));
        }
        match self.remaining(holder.is_some(), now) {
            Some(wait) => Step::Wait(wait),
            None => Step::Acquire(self.acquisition(spec, wall)),
        }
    }

    /// A write is about to be sent. Its outcome may stay unknown: if it is found done later, the lease is ours.
    pub fn sending(&mut self, spec: &LeaseSpec) {
        self.own = Term::of(spec);
    }

    /// The write certainly did not happen.
    pub fn refused(&mut self) {
        if self.renewed.is_none() {
            self.own = None;
        }
    }

    /// The write sent at `sent` succeeded and left this lease.
    pub fn written(&mut self, lease: &Lease, sent: Instant, now: Instant) {
        self.observe(Some(lease), now);
        self.renewed = Some(sent);
    }

    /// The work has stopped. A lease that is still ours can be taken again by renewing it.
    pub fn step_down(&mut self) {
        self.renewed = None;
    }

    /// What gives the lease back, if it is ours.
    pub fn release(&self, lease: &Lease, wall: &MicroTime) -> Option<LeaseSpec> {
        let spec = lease.spec.as_ref()?;
        let ours = self.own.is_some() && Term::of(spec) == self.own;
        ours.then(|| LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(wall.clone()),
            ..spec.clone()
        })
    }

    fn observe(&mut self, lease: Option<&Lease>, now: Instant) {
        let version = lease.and_then(|lease| lease.metadata.resource_version.clone());
        if self.seen.as_ref().is_some_and(|seen| seen.version == version) {
            return;
        }
        let vanished = version.is_none().then_some(self.seen.as_ref()).flatten();
        let promised = lease
            .and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(Duration::ZERO, Duration::from_secs);
        let lasts = match vanished {
            // Its holder does not know yet that somebody deleted it.
            Some(before) => before.lasts,
            None if lease.is_none() => Duration::ZERO,
            None => promised.max(self.timing.lease),
        };
        self.seen = Some(Seen {
            version,
            since: now,
            lasts,
        });
    }

    /// How long the lease is still somebody else's; `None`: it is free.
    fn remaining(&self, held: bool, now: Instant) -> Option<Duration> {
        let seen = self.seen.as_ref()?;
        if !held && seen.version.is_some() {
            return None;
        }
        let left = (seen.since + seen.lasts).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    fn renewal(&self, spec: &LeaseSpec, wall: &MicroTime) -> LeaseSpec {
        LeaseSpec {
            lease_duration_seconds: Some(self.seconds()),
            renew_time: Some(wall.clone()),
            ..spec.clone()
        }
    }

    fn acquisition(&self, before: Option<&LeaseSpec>, wall: &MicroTime) -> LeaseSpec {
        let transitions = before.map_or(0, |spec| spec.lease_transitions.unwrap_or(0).saturating_add(1));
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.seconds()),
            acquire_time: Some(wall.clone()),
            renew_time: Some(wall.clone()),
            lease_transitions: Some(transitions),
            ..before.cloned().unwrap_or_default()
        }
    }

    fn seconds(&self) -> i32 {
        i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
#[path = "election_tests.rs"]
mod tests;
