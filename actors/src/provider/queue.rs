//! Which call is sent next. Pure: time is a parameter.
//!
//! Three classes, first come first served inside each. Priority cannot take a slot back from a call of 50 s that is
//! already running, so the lower classes may not fill all slots; and it must not starve anybody, so a class that
//! was passed over often enough goes next.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::CallClass;

/// All classes, first the one that goes first.
pub const CLASSES: [CallClass; 3] = [CallClass::PodStart, CallClass::Undo, CallClass::Release];

/// After so many starts of others while an undo could have gone, an undo goes (a release that is due too may come
/// before it). An undo gives back what a failed pod start holds; its own budget is 10 s.
const UNDO_TURN: u32 = 3;
/// After so many starts of others while a release could have gone, a release goes: one start in eight.
const RELEASE_TURN: u32 = 7;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Calls in flight together. At 12 calls/s for the whole cluster a node gets nothing from more.
    pub in_flight: usize,
    /// Waiting pod starts. A parent NIC carries at most 256 sub-ENIs, so more pods cannot start at once.
    pub pod_starts: usize,
    /// Waiting undos: at most one for each failed pod start.
    pub undos: usize,
    /// Waiting releases. After an outage everything that a node's journal holds comes at once: four times its pods.
    /// What does not fit stays in the journal.
    pub releases: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            in_flight: 32,
            pod_starts: 256,
            undos: 256,
            releases: 1024,
        }
    }
}

impl QueueLimits {
    /// How many calls of a class may wait.
    pub fn waiting(&self, class: CallClass) -> usize {
        match class {
            CallClass::PodStart => self.pod_starts,
            CallClass::Undo => self.undos,
            CallClass::Release => self.releases,
        }
    }

    /// How many calls of a class and of those below it may be in flight: all, three quarters, half. At least one.
    fn ceiling(&self, class: CallClass) -> usize {
        let slots = self.in_flight.max(1);
        match class {
            CallClass::PodStart => slots,
            CallClass::Undo => (slots * 3 / 4).max(1),
            CallClass::Release => (slots / 2).max(1),
        }
    }
}

/// A call that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Queued<T> {
    /// The call.
    pub item: T,
    /// Who it is.
    pub class: CallClass,
    /// When nobody waits any more.
    pub deadline: Instant,
    /// When it came.
    pub since: Instant,
}

#[derive(Debug)]
struct Lane<T> {
    class: CallClass,
    waiting: VecDeque<Queued<T>>,
    in_flight: usize,
    paused_until: Option<Instant>,
    passed_over: u32,
}

impl<T> Lane<T> {
    fn new(class: CallClass) -> Self {
        Self {
            class,
            waiting: VecDeque::new(),
            in_flight: 0,
            paused_until: None,
            passed_over: 0,
        }
    }

    fn paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// True when it is this lane's turn, whatever waits above it.
    fn due(&self) -> bool {
        match self.class {
            CallClass::PodStart => false,
            CallClass::Undo => self.passed_over >= UNDO_TURN,
            CallClass::Release => self.passed_over >= RELEASE_TURN,
        }
    }
}

/// The calls that wait and the number of those in flight.
#[derive(Debug)]
pub struct CallQueue<T> {
    limits: QueueLimits,
    lanes: [Lane<T>; 3],
}

impl<T> CallQueue<T> {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            lanes: CLASSES.map(Lane::new),
        }
    }

    /// Adds a call, or gives it back when its class is full.
    pub fn push(&mut self, call: Queued<T>) -> Result<(), Queued<T>> {
        let limit = self.limits.waiting(call.class);
        let waiting = &mut self.lane(call.class).waiting;
        if waiting.len() >= limit {
            return Err(call);
        }
        waiting.push_back(call);
        Ok(())
    }

    /// Takes out every call whose deadline has passed.
    pub fn take_expired(&mut self, now: Instant) -> Vec<Queued<T>> {
        let mut expired = Vec::new();
        for lane in &mut self.lanes {
            if lane.waiting.iter().any(|call| call.deadline <= now) {
                let (gone, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut lane.waiting)
                    .into_iter()
                    .partition(|call| call.deadline <= now);
                lane.waiting = kept;
                expired.extend(gone);
            }
        }
        expired
    }

    /// Takes out everything that waits.
    pub fn take_all(&mut self) -> Vec<Queued<T>> {
        self.lanes
            .iter_mut()
            .flat_map(|lane| std::mem::take(&mut lane.waiting))
            .collect()
    }

    /// The call to send now, if any; it counts as in flight from here. Expired calls must have been taken out.
    pub fn next(&mut self, now: Instant) -> Option<Queued<T>> {
        let startable = CLASSES.map(|class| self.startable(class, now));
        let mut could = self
            .lanes
            .iter_mut()
            .zip(startable)
            .filter_map(|(lane, can)| can.then_some(lane));
        // Of two that are due the lower goes: it has waited for longer.
        let mut chosen = could.next()?;
        let mut others = Vec::with_capacity(2);
        for lane in could {
            if lane.due() {
                others.push(std::mem::replace(&mut chosen, lane));
            } else {
                others.push(lane);
            }
        }
        for lane in others {
            lane.passed_over = lane.passed_over.saturating_add(1);
        }
        chosen.passed_over = 0;
        let call = chosen.waiting.pop_front()?;
        chosen.in_flight += 1;
        Some(call)
    }

    /// A call ended.
    pub fn finished(&mut self, class: CallClass) {
        let in_flight = &mut self.lane(class).in_flight;
        *in_flight = in_flight.saturating_sub(1);
    }

    /// The provider asked a call of this class to come back later: so do this class and those below it. A class above
    /// may still try, since the provider may keep room for it.
    pub fn pause(&mut self, class: CallClass, until: Instant) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.class >= class) {
            lane.paused_until = lane.paused_until.max(Some(until));
        }
    }

    /// When time alone changes what can be done: a deadline passes or a pause ends.
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        let waiting = self.lanes.iter().filter(|lane| !lane.waiting.is_empty());
        waiting
            .flat_map(|lane| {
                let pause = lane.paused_until.filter(|until| now < *until);
                lane.waiting.iter().map(|call| call.deadline).chain(pause)
            })
            .min()
    }

    /// Calls of a class in flight.
    pub fn in_flight(&self, class: CallClass) -> usize {
        self.lanes
            .iter()
            .filter(|lane| lane.class == class)
            .map(|lane| lane.in_flight)
            .sum()
    }

    /// All calls in flight.
    pub fn all_in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight).sum()
    }

    /// All calls that wait.
    pub fn all_waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    fn startable(&self, class: CallClass, now: Instant) -> bool {
        let and_below = |lane: &&Lane<T>| lane.class >= class;
        let used: usize = self
            .lanes
            .iter()
            .filter(and_below)
            .map(|lane| lane.in_flight)
            .sum();
        used < self.limits.ceiling(class)
            && self.all_in_flight() < self.limits.ceiling(CallClass::PodStart)
            && self
                .lanes
                .iter()
                .any(|lane| lane.class == class && !lane.waiting.is_empty() && !lane.paused(now))
    }

    fn lane(&mut self, class: CallClass) -> &mut Lane<T> {
        let [pod_start, undo, release] = &mut self.lanes;
        match class {
            CallClass::PodStart => pod_start,
            CallClass::Undo => undo,
            CallClass::Release => release,
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
