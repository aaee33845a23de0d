//! One deadline per request, made from the budget that came with it and carried in every message.

use std::time::Duration;

use tokio::time::Instant;

/// An instant after which nobody waits for the answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The budget of a CNI request when the client named none (seed "Time budget hierarchy").
    pub const CNI_BUDGET: Duration = Duration::from_secs(100);
    /// What an undo gets: never the caller's rest (design §3).
    pub const UNDO_BUDGET: Duration = Duration::from_secs(10);

    /// The deadline at an instant.
    pub fn at(instant: Instant) -> Self {
        Self(instant)
    }

    /// The deadline `budget` from now.
    pub fn after(budget: Duration) -> Self {
        Self(Instant::now() + budget)
    }

    /// The instant itself, for `timeout_at`.
    pub fn instant(self) -> Instant {
        self.0
    }

    /// The earlier of this and `budget` after `now`.
    #[must_use]
    pub fn within(self, now: Instant, budget: Duration) -> Self {
        Self(self.0.min(now + budget))
    }

    /// What is left at `now`; zero when expired.
    pub fn remaining(self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }

    /// True when nothing is left at `now`.
    pub fn expired(self, now: Instant) -> bool {
        self.0 <= now
    }
}
