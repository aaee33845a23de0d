//! Durations with Go's grammar and Go's printing, in whole nanoseconds.

/// A signed duration in nanoseconds, as Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub i64);
