//! How long the cloud works: a distribution that gives the same times for the same seed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The time that one request spends in the cloud, before scaling.
#[derive(Clone)]
pub enum CallTime {
    /// Always the same.
    Fixed(Duration),
    /// Evenly between the two.
    Uniform(Duration, Duration),
    /// Mostly around `typical`, one in a hundred anywhere up to `longest`.
    LongTail {
        /// The middle of the usual times.
        typical: Duration,
        /// The end of the tail.
        longest: Duration,
    },
    /// By the number of the request, from 0.
    Custom(Arc<dyn Fn(u64) -> Duration + Send + Sync>),
}

impl Default for CallTime {
    /// Ours: 400 ms with a tail up to the seed's 16 s.
    fn default() -> Self {
        Self::LongTail {
            typical: Duration::from_millis(400),
            longest: Duration::from_secs(16),
        }
    }
}

impl fmt::Debug for CallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => write!(f, "Fixed({time:?})"),
            Self::Uniform(low, high) => write!(f, "Uniform({low:?}, {high:?})"),
            Self::LongTail { typical, longest } => write!(f, "LongTail({typical:?}, {longest:?})"),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

impl CallTime {
    /// The time of request number `index`.
    pub fn sample(&self, seed: u64, index: u64) -> Duration {
        let at = |salt: u64| unit(seed ^ salt, index);
        match self {
            Self::Fixed(time) => *time,
            Self::Uniform(low, high) => *low + high.saturating_sub(*low).mul_f64(at(1)),
            Self::LongTail { typical, longest } => {
                if at(2) < 0.01 {
                    *typical + longest.saturating_sub(*typical).mul_f64(at(3))
                } else {
                    typical.mul_f64(0.5 + at(4)).min(*longest)
                }
            }
            Self::Custom(sample) => sample(index),
        }
    }
}

/// A number in `[0, 1)` that depends on nothing but its arguments.
fn unit(seed: u64, index: u64) -> f64 {
    let top = u32::try_from(mixed(seed.wrapping_add(mixed(index))) >> 32).unwrap_or(u32::MAX);
    f64::from(top) / (f64::from(u32::MAX) + 1.0)
}

/// Spreads the bits of a number over all 64.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let time = CallTime::default();
        let times = |seed| (0..50).map(|index| time.sample(seed, index)).collect::<Vec<_>>();
        assert_eq!(times(7), times(7));
        assert_ne!(times(7), times(8));
    }

    #[test]
    fn no_time_is_outside_its_bounds_and_the_tail_is_reached() {
        let (typical, longest) = (Duration::from_millis(400), Duration::from_secs(16));
        let time = CallTime::LongTail { typical, longest };
        let times: Vec<_> = (0..5000).map(|index| time.sample(3, index)).collect();
        assert!(times.iter().all(|time| *time <= longest));
        let slow = times.iter().filter(|time| **time > typical * 2).count();
        assert!((10..150).contains(&slow), "{slow} of 5000 are in the tail");
    }
}
