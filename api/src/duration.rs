//! Durations with Go's grammar and Go's printing, in whole nanoseconds (seed "Validation rules").

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signed duration in nanoseconds, as Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub i64);

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a duration: {why}; write a number with a unit (ns, us, ms, s, m, h), as 50s or 1m30s"
)]
pub struct MalformedDuration {
    /// What was read, cut to a readable length.
    pub text: String,
    /// What is wrong.
    pub why: &'static str,
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The magnitude of the smallest duration, one more than the largest.
const MAX_MAGNITUDE: u64 = 1 << 63;

impl GoDuration {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Whole seconds, saturating.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// As the standard library's; `None` when negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    /// Saturates at the largest duration, about 292 years.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = MalformedDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|why| MalformedDuration {
            text: text.chars().take(64).collect(),
            why,
        })
    }
}

fn parse(text: &str) -> Result<GoDuration, &'static str> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(GoDuration::ZERO);
    }
    if rest.is_empty() {
        return Err("there is no number");
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanoseconds, after) = parse_term(rest)?;
        total = total
            .checked_add(nanoseconds)
            .filter(|sum| *sum <= MAX_MAGNITUDE)
            .ok_or("it is too large")?;
        rest = after;
    }
    match (negative, i64::try_from(total)) {
        (false, Ok(total)) => Ok(GoDuration(total)),
        (true, Ok(total)) => Ok(GoDuration(-total)),
        (true, Err(_)) => Ok(GoDuration(i64::MIN)),
        (false, Err(_)) => Err("it is too large"),
    }
}

/// One number with its unit; gives what is left after it.
fn parse_term(text: &str) -> Result<(u64, &str), &'static str> {
    let (whole_digits, rest) = split_digits(text);
    let (fraction_digits, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole_digits.is_empty() && fraction_digits.is_empty() {
        return Err("a number is missing");
    }
    let unit_length = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_length);
    if unit.is_empty() {
        return Err("a unit is missing");
    }
    let (_, scale) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or("a unit is unknown")?;
    let mut whole: u64 = 0;
    for digit in whole_digits.bytes() {
        whole = whole
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .filter(|value| *value <= MAX_MAGNITUDE)
            .ok_or("it is too large")?;
    }
    let whole = whole
        .checked_mul(*scale)
        .filter(|value| *value <= MAX_MAGNITUDE)
        .ok_or("it is too large")?;
    let total = whole
        .checked_add(fraction(fraction_digits, *scale))
        .ok_or("it is too large")?;
    Ok((total, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Go computes fractions in floating point, and so 0.3333333333333333333h is 20 minutes sharp. Digits past what an
/// i64 holds are dropped.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go does it; the value is positive and below one unit"
)]
fn fraction(digits: &str, scale: u64) -> u64 {
    let (mut value, mut of): (u64, f64) = (0, 1.0);
    for digit in digits.bytes() {
        let longer = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match longer.filter(|value| *value <= MAX_MAGNITUDE) {
            Some(longer) => value = longer,
            None => break,
        }
        of *= 10.0;
    }
    (value as f64 * (scale as f64 / of)) as u64
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let magnitude = self.0.unsigned_abs();
        if magnitude < 1_000_000_000 {
            let (unit, scale) = match magnitude {
                0..1_000 => ("ns", 1),
                1_000..1_000_000 => ("\u{b5}s", 1_000),
                _ => ("ms", 1_000_000),
            };
            return write!(f, "{}{unit}", Decimal { magnitude, scale });
        }
        let (minutes, seconds) = (magnitude / 60_000_000_000, magnitude % 60_000_000_000);
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write!(
            f,
            "{}s",
            Decimal {
                magnitude: seconds,
                scale: 1_000_000_000
            }
        )
    }
}

/// `magnitude / scale` without trailing zeros.
struct Decimal {
    magnitude: u64,
    scale: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.magnitude / self.scale)?;
        let rest = self.magnitude % self.scale;
        if rest == 0 {
            return Ok(());
        }
        let width = self.scale.ilog10() as usize;
        write!(f, ".{}", format!("{rest:0width$}").trim_end_matches('0'))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
