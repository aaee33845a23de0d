//! Times as text, in UTC. Pure; a calendar of 20 lines instead of a dependency.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millisecond: u32,
}

impl Civil {
    /// Times before 1970 read as 1970: a clock that wrong has no better answer.
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs();
        // Years begin in March here, so that a leap day is the last of its year. Day 0 is 0000-03-01.
        let days = seconds / DAY_SECONDS + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * shifted + 2) / 5 + 1,
            hour: seconds % DAY_SECONDS / 3600,
            minute: seconds % 3600 / 60,
            second: seconds % 60,
            millisecond: since.subsec_millis(),
        }
    }
}

/// `2023-11-14T22:13:20.123Z`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
        millisecond,
    } = Civil::of(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// The same without colons, for the name of a file; names sort by time.
pub(super) fn for_file_name(time: SystemTime) -> String {
    rfc3339(time).replace(':', "-")
}

/// Whether `text` has the shape of [`for_file_name`].
pub(super) fn is_for_file_name(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00-00-00.000Z";
    let fits = |(found, wanted): (u8, &u8)| {
        if *wanted == b'0' {
            found.is_ascii_digit()
        } else {
            found == *wanted
        }
    };
    text.len() == SHAPE.len() && text.bytes().zip(SHAPE).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_calendar_is_right_around_leap_days_and_year_ends() {
        let table = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ];
        for (seconds, text) in table {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(
            rfc3339(UNIX_EPOCH - Duration::from_secs(1)),
            "1970-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn a_file_name_is_recognised_and_nothing_else() {
        assert!(is_for_file_name(&for_file_name(UNIX_EPOCH)));
        for text in ["", "old", "2023-11-14T22:13:20.123Z", "2023-11-14T22-13-20.123Zx"] {
            assert!(!is_for_file_name(text), "{text}");
        }
    }
}
