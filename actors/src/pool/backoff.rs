//! How long a pool waits after a write that did not succeed.

use std::time::Duration;

/// The shortest and the longest wait. The longest bounds how late a lone writer returns; the shortest is about
/// one round trip.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));

/// Waits that grow with the conflicts seen and are spread at random, so that few of many writers write at a time.
#[derive(Debug)]
pub(super) struct Backoff {
    /// Failed writes in a row, halved by each success: an estimate of how many others write this pool.
    contention: u32,
    jitter: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            contention: 0,
            jitter: seed | 1,
        }
    }

    /// A write succeeded.
    pub(super) fn succeeded(&mut self) {
        self.contention /= 2;
    }

    /// A write or a read did not: wait so long.
    pub(super) fn failed(&mut self) -> Duration {
        self.contention = (self.contention + 1).min(16);
        let most = BOUNDS.0.saturating_mul(1 << self.contention.min(8)).min(BOUNDS.1);
        most.mul_f64(self.next_jitter())
    }

    /// In `[0, 1)`; xorshift, as nothing here needs better.
    #[allow(clippy::cast_precision_loss)]
    fn next_jitter(&mut self) -> f64 {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        (self.jitter >> 11) as f64 / (1u64 << 53) as f64
    }
}
