//! Faults that tests inject while the provider runs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Which call a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// `allocate-ips`.
    Allocate,
    /// `release-ip`.
    Release,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answered with this status before anything is done.
    Refuse(u16),
    /// The same, with `Retry-After` in seconds.
    RefuseFor(u16, u64),
    /// The connection is closed before anything is done.
    Disconnect,
    /// Never answered; nothing is done.
    Hang,
    /// Done and answered, so much later (not scaled).
    Delay(Duration),
    /// Done; the connection is closed instead of an answer.
    LoseReply,
    /// Done; never answered.
    HangAfter,
    /// Done; answered with an address that was not asked for.
    WrongAddress,
    /// Done; answered with this VLAN.
    Vlan(i64),
    /// Done; answered with this MAC.
    MacText(String),
    /// Done; answered without MAC and VLAN, which the seed allows.
    Bare,
    /// Done; the JSON ends in the middle.
    TruncatedJson,
    /// Done; the answer is blown up to so many bytes.
    HugeBody(usize),
}

impl Fault {
    /// Whether it strikes before the work.
    pub(crate) fn prevents(&self) -> bool {
        matches!(
            self,
            Self::Refuse(_) | Self::RefuseFor(..) | Self::Disconnect | Self::Hang
        )
    }
}

/// The faults of one cloud; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    cloud_skips: u64,
    cloud_failures: u64,
}

#[derive(Debug)]
struct Rule {
    kind: CallKind,
    times: u64,
    fault: Fault,
}

impl Faults {
    /// Hits the next `times` calls; faults of one kind of call strike in the order in which they were added.
    pub fn add(&self, kind: CallKind, times: u64, fault: Fault) {
        if times > 0 {
            self.0.lock().rules.push(Rule { kind, times, fault });
        }
    }

    /// Refuses the next `times` allocate calls with a status, before anything is done.
    pub fn fail_allocate(&self, times: u64, status: u16) {
        self.add(CallKind::Allocate, times, Fault::Refuse(status));
    }

    /// Does the work of the next `times` allocate calls and closes the connection instead of an answer.
    pub fn lose_allocate_reply(&self, times: u64) {
        self.add(CallKind::Allocate, times, Fault::LoseReply);
    }

    /// Fails `times` operations inside the cloud, after `skip` that succeed.
    pub fn fail_cloud(&self, skip: u64, times: u64) {
        let mut state = self.0.lock();
        state.cloud_skips = skip;
        state.cloud_failures = times;
    }

    /// Faults that have not struck yet.
    pub fn pending(&self) -> u64 {
        let state = self.0.lock();
        state.rules.iter().map(|rule| rule.times).sum::<u64>() + state.cloud_failures
    }

    /// Forgets all faults.
    pub fn clear(&self) {
        *self.0.lock() = State::default();
    }

    pub(crate) fn hit(&self, kind: CallKind) -> Option<Fault> {
        let mut state = self.0.lock();
        let index = state.rules.iter().position(|rule| rule.kind == kind)?;
        let rule = &mut state.rules[index];
        rule.times -= 1;
        let fault = rule.fault.clone();
        if rule.times == 0 {
            state.rules.remove(index);
        }
        Some(fault)
    }

    pub(crate) fn hit_cloud(&self) -> bool {
        let mut state = self.0.lock();
        if state.cloud_failures == 0 {
            return false;
        }
        if state.cloud_skips > 0 {
            state.cloud_skips -= 1;
            return false;
        }
        state.cloud_failures -= 1;
        true
    }
}
