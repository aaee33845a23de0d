//! Why a request is not carried out, and what its caller is told.

use std::time::Duration;

/// A refusal; the variants differ in what the caller can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request can never succeed as it is.
    #[error("{field} {value:?}: {problem}")]
    Invalid {
        /// Name of the field as the caller wrote it.
        field: String,
        /// Its value.
        value: String,
        /// What is wrong and what to send instead.
        problem: String,
    },
    /// The budget does not cover the worst case. Nothing was spent.
    #[error(
        "request budget {}ms is less than the provider's worst case {}ms (rate-limit wait and cloud call){}",
        budget.as_millis(), least.as_millis(), waited(*spent)
    )]
    Budget {
        /// What the caller sent.
        budget: Duration,
        /// What waiting for another request of the same address used of it.
        spent: Duration,
        /// What is needed.
        least: Duration,
    },
    /// The queue for the cloud is too long.
    #[error("the rate limit queue is full; retry after {}s", retry_after_seconds(*retry_after))]
    Throttled {
        /// When the queue is expected to have room.
        retry_after: Duration,
    },
    /// Another sub-ENI, or too many of them, stand in the way.
    #[error("{0}")]
    Conflict(String),
    /// The cloud did not do its work; what it had done was undone.
    #[error("the cloud failed: {0}")]
    Cloud(String),
    /// The provider cannot judge or finish the request now.
    #[error("{0}; try again")]
    Unavailable(String),
}

fn waited(spent: Duration) -> String {
    if spent.is_zero() {
        return String::new();
    }
    format!(
        " after {}ms behind another request for the same address",
        spent.as_millis()
    )
}

fn retry_after_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

impl Refusal {
    /// A field that cannot be used.
    pub fn invalid(field: impl Into<String>, value: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            value: value.into(),
            problem: problem.into(),
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Invalid { .. } => 400,
            Self::Conflict(_) => 409,
            Self::Throttled { .. } => 429,
            Self::Cloud(_) => 502,
            Self::Budget { .. } | Self::Unavailable(_) => 503,
        }
    }

    /// `Retry-After` in whole seconds, rounded up.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Throttled { retry_after } => Some(retry_after_seconds(*retry_after).max(1)),
            _ => None,
        }
    }
}
