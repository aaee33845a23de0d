//! When a pool's actor that stopped may start again, and when stopping has become the process's own fault.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// First and longest wait before a pool starts again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// So many stops within [`WINDOW`] end the process: kubelet, the outer supervisor, starts it afresh.
const MAX_STOPS: usize = 20;
/// See [`MAX_STOPS`].
const WINDOW: Duration = Duration::from_secs(60);

/// What to do about a pool that stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may start again from then on.
    RebuildFrom(Instant),
    /// The process should end.
    Escalate,
}

/// The history of stops.
#[derive(Debug, Default)]
pub struct Restarts {
    recent: VecDeque<Instant>,
    down: HashMap<Arc<str>, (u32, Instant)>,
}

impl Restarts {
    /// A pool stopped.
    pub fn stopped(&mut self, pool: Arc<str>, now: Instant) -> Decision {
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|first| *first + WINDOW < now) {
            self.recent.pop_front();
        }
        if self.recent.len() >= MAX_STOPS {
            return Decision::Escalate;
        }
        let (stops, until) = self.down.entry(pool).or_insert((0, now));
        if *until + WINDOW < now {
            *stops = 0;
        }
        *until = now + BACKOFF.0.saturating_mul(1 << (*stops).min(16)).min(BACKOFF.1);
        *stops += 1;
        Decision::RebuildFrom(*until)
    }

    /// True when the pool may start.
    pub fn may_start(&self, pool: &str, now: Instant) -> bool {
        self.down.get(pool).is_none_or(|(_, until)| *until <= now)
    }

    /// True when the pool stopped before: it must read its object before it trusts a cache.
    pub fn is_rebuild(&self, pool: &str) -> bool {
        self.down.contains_key(pool)
    }

    /// The pool was deleted: its history ends.
    pub fn forget(&mut self, pool: &str) {
        self.down.remove(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_keeps_stopping_waits_longer_each_time() {
        let mut restarts = Restarts::default();
        let now = Instant::now();
        let waits: Vec<Duration> = (0..4)
            .map(|_| match restarts.stopped("p".into(), now) {
                Decision::RebuildFrom(at) => at - now,
                Decision::Escalate => panic!("escalated"),
            })
            .collect();
        assert_eq!(waits, [100, 200, 400, 800].map(Duration::from_millis));
        assert!(!restarts.may_start("p", now) && restarts.may_start("q", now));
    }

    #[tokio::test(start_paused = true)]
    async fn many_stops_in_a_minute_end_the_process_and_old_ones_do_not_count() {
        let mut restarts = Restarts::default();
        let now = Instant::now();
        for pool in 0..MAX_STOPS - 1 {
            assert_ne!(restarts.stopped(pool.to_string().into(), now), Decision::Escalate);
        }
        assert_ne!(
            restarts.stopped("late".into(), now + WINDOW * 2),
            Decision::Escalate
        );
        for pool in 0..MAX_STOPS - 2 {
            restarts.stopped(pool.to_string().into(), now + WINDOW * 2);
        }
        assert_eq!(
            restarts.stopped("last".into(), now + WINDOW * 2),
            Decision::Escalate
        );
    }
}
