//! The token bucket in front of the cloud (seed, "Provider timing model"). It has no clock: time is an argument.

use std::time::Duration;

/// A bucket that is filled at a steady rate and whose takers queue in the order in which they came.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    longest_wait: Duration,
    /// Negative while takers are queued.
    tokens: f64,
    filled_at: Duration,
    spent: u64,
}

/// The queue is too long; nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull {
    /// How long until the queue is short enough again.
    pub retry_after: Duration,
}

impl TokenBucket {
    /// A full bucket. `rate` in tokens per second.
    pub fn new(rate: f64, burst: u32, longest_wait: Duration) -> Self {
        Self {
            rate,
            burst: f64::from(burst),
            longest_wait,
            tokens: f64::from(burst),
            filled_at: Duration::ZERO,
            spent: 0,
        }
    }

    /// Takes a token; it may be used after the returned wait.
    pub fn take(&mut self, now: Duration) -> Result<Duration, QueueFull> {
        self.fill(now);
        let wait = self.time_for(1.0 - self.tokens);
        let retry_after = wait.saturating_sub(self.longest_wait);
        if !retry_after.is_zero() {
            return Err(QueueFull { retry_after });
        }
        self.tokens -= 1.0;
        self.spent += 1;
        Ok(wait)
    }

    /// Takes a token when `spare` would be left, else says how long to wait before another try.
    pub fn take_spare(&mut self, now: Duration, spare: u32) -> Result<(), Duration> {
        self.fill(now);
        let wanted = (1.0 + f64::from(spare)).min(self.burst);
        if self.tokens < wanted {
            return Err(self.time_for(wanted - self.tokens));
        }
        self.tokens -= 1.0;
        self.spent += 1;
        Ok(())
    }

    /// Tokens taken since the start.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.filled_at = self.filled_at.max(now);
    }

    /// Rounded up to whole microseconds, so that the token is there when the wait is over.
    fn time_for(&self, tokens: f64) -> Duration {
        let seconds = (tokens.max(0.0) / self.rate * 1e6).ceil() / 1e6;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_burst_is_free_and_the_queue_is_in_order() {
        let mut bucket = TokenBucket::new(2.0, 3, SECOND * 30);
        let waits: Vec<_> = (0..5)
            .map(|_| bucket.take(Duration::ZERO).unwrap().as_millis())
            .collect();
        assert_eq!(waits, [0, 0, 0, 500, 1000]);
    }

    #[test]
    fn a_wait_over_the_longest_is_refused_and_takes_nothing() {
        let mut bucket = TokenBucket::new(1.0, 1, SECOND * 2);
        let full = (0..10).find_map(|_| bucket.take(Duration::ZERO).err());
        assert_eq!(full, Some(QueueFull { retry_after: SECOND }));
        assert_eq!(bucket.spent(), 3);
        assert_eq!(bucket.take(SECOND), Ok(SECOND * 2));
    }

    #[test]
    fn prewarming_leaves_tokens_for_pods() {
        let mut bucket = TokenBucket::new(1.0, 3, SECOND);
        assert_eq!(bucket.take_spare(Duration::ZERO, 2), Ok(()));
        assert_eq!(bucket.take_spare(Duration::ZERO, 2), Err(SECOND));
        assert_eq!(bucket.take(Duration::ZERO), Ok(Duration::ZERO));
    }

    #[test]
    fn more_spare_tokens_than_the_burst_do_not_stop_prewarming() {
        let mut bucket = TokenBucket::new(1.0, 2, SECOND);
        assert_eq!(bucket.take_spare(Duration::ZERO, 9), Ok(()));
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_allow(gaps in proptest::collection::vec(0u64..400, 1..200)) {
            let mut bucket = TokenBucket::new(10.0, 5, SECOND);
            let mut now = Duration::ZERO;
            let mut uses = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                if let Ok(wait) = bucket.take(now) {
                    prop_assert!(wait <= SECOND);
                    uses.push(now + wait);
                }
            }
            for (first, start) in uses.iter().enumerate() {
                for (last, end) in uses.iter().enumerate().skip(first) {
                    let used = f64::from(u32::try_from(last - first + 1).unwrap());
                    let allowed = 5.0 + end.saturating_sub(*start).as_secs_f64() * 10.0;
                    prop_assert!(used <= allowed + 1e-3, "{used} uses in {:?}", end.saturating_sub(*start));
                }
            }
        }
    }
}
