//! What a provider that is asked too much asks for. Pure.

use std::time::{Duration, SystemTime};

/// The longest pause that is believed: a longer one would outlive every pod's budget (100 s), and a wrong clock on
/// the other side must not silence a node.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The share of a pause that is added at random, so that a cluster's agents do not all come back at one instant.
const JITTER: f64 = 0.1;

/// The pause that an answer asks for: `Retry-After` of a 429 or 503, in seconds or as an HTTP date.
pub fn retry_after(status: u16, value: Option<&str>, now: SystemTime) -> Option<Duration> {
    if !matches!(status, 429 | 503) {
        return None;
    }
    let value = value?.trim();
    let asked = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds is still a number: a long pause.
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        httpdate::parse_http_date(value).ok()?.duration_since(now).ok()?
    };
    Some(asked.min(MAX_PAUSE)).filter(|pause| !pause.is_zero())
}

/// Spreads the return: `pause` and up to a tenth more, by `chance` in 0..1.
pub fn spread(pause: Duration, chance: f64) -> Duration {
    pause + pause.mul_f64(JITTER * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(date: &str) -> SystemTime {
        httpdate::parse_http_date(date).expect("a date")
    }

    #[test]
    fn seconds_and_dates_are_understood_and_bounded() {
        let now = at("Sun, 06 Nov 1994 08:49:37 GMT");
        let seconds = |text| retry_after(429, Some(text), now).map(|pause| pause.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("0"), None);
        assert_eq!(seconds("3600"), Some(60));
        assert_eq!(seconds("99999999999999999999999"), Some(60));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:49 GMT"), Some(12));
        assert_eq!(seconds("Sun, 06 Nov 1994 09:49:37 GMT"), Some(60));
        assert_eq!(
            seconds("Sun, 06 Nov 1994 08:00:00 GMT"),
            None,
            "a date that has passed"
        );
        for nonsense in ["", "-1", "1.5", "soon", "+3"] {
            assert_eq!(seconds(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn only_429_and_503_pause() {
        let now = SystemTime::UNIX_EPOCH;
        assert!(retry_after(503, Some("5"), now).is_some());
        for status in [200, 301, 400, 500, 502, 504] {
            assert_eq!(retry_after(status, Some("5"), now), None);
        }
        assert_eq!(retry_after(429, None, now), None);
    }

    proptest! {
        #[test]
        fn no_value_pauses_for_longer_than_the_bound(value in ".{0,40}", seconds in any::<u64>()) {
            let now = SystemTime::UNIX_EPOCH;
            let seconds = seconds.to_string();
            for value in [value.as_str(), seconds.as_str()] {
                prop_assert!(retry_after(503, Some(value), now).is_none_or(|pause| pause <= MAX_PAUSE));
            }
        }

        #[test]
        fn agents_come_back_after_the_pause_and_within_a_tenth(chance in 0.0..1.0_f64) {
            let pause = Duration::from_secs(10);
            let spread = spread(pause, chance);
            prop_assert!(spread >= pause && spread <= Duration::from_secs(11));
        }
    }
}
