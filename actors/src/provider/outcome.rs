//! What the end of a call means, and what is said about it. Pure.
//!
//! The one question that matters is whether the call may still be executing. It cannot be when the provider
//! answered with any status, or when not one byte of the request was written: *rejected*. Everything else is
//! *unknown* (design §5). The texts are the seed's and reference §6.1's.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use orbweaver_api::duration::GoDuration;

use crate::error::ProviderError;

/// How much of a text of the other side is repeated, in characters.
const TEXT_LIMIT: usize = 512;

/// What the provider's clock may lag behind ours: it counts the budget from when it *receives* the request. The
/// seed's own arithmetic leaves this much for the network (50 s timeout over a 48 s worst case).
pub const TRANSIT: Duration = Duration::from_secs(2);

/// The two calls of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `allocate-ips`.
    Allocate,
    /// `release-ip`.
    Release,
}

impl Call {
    /// The label, and the word in messages.
    pub fn label(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Release => "release",
        }
    }
}

/// A call that brought nothing, and what the provider asks for before the next one.
#[derive(Clone, Debug)]
pub struct CallFailure {
    /// For the caller.
    pub error: ProviderError,
    /// `Retry-After` of a 429 or 503.
    pub retry_after: Option<Duration>,
}

impl From<ProviderError> for CallFailure {
    fn from(error: ProviderError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

/// Which bound ends the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `httpRequestTimeout`.
    Configured(Duration),
    /// The caller's deadline, with what was left of it when the call began.
    Parent(Duration),
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No byte of the request was written.
    Unwritten,
    /// The request may be on the other side.
    Written {
        /// The budget that was sent with it.
        budget: Duration,
        /// Time since it was sent.
        elapsed: Duration,
    },
}

impl Progress {
    /// The error for this progress.
    fn failed(self, message: String) -> ProviderError {
        match self {
            Self::Unwritten => ProviderError::Rejected(message.into()),
            Self::Written { budget, elapsed } => {
                let may_run_for = budget.saturating_sub(elapsed) + TRANSIT;
                ProviderError::Unknown {
                    message: message.into(),
                    may_run_for,
                }
            }
        }
    }
}

/// The provider answered with something else than 2xx.
pub fn refused(call: Call, status: u16, body: &[u8]) -> ProviderError {
    // Four bytes are the longest character, so that no more than this is ever looked at.
    let head = body.get(..body.len().min(TEXT_LIMIT * 4 + 4)).unwrap_or_default();
    let body = printable(&String::from_utf8_lossy(head));
    ProviderError::Rejected(format!("iaas {} API returned status {status}: {body}", call.label()).into())
}

/// The provider answered 2xx with what is no answer.
pub fn unreadable(why: impl Display) -> ProviderError {
    let why = printable(&why.to_string());
    ProviderError::Rejected(format!("failed to unmarshal allocate response: {why}").into())
}

/// The provider answered 2xx with an answer to something else.
pub fn contradicted(why: impl Display) -> ProviderError {
    let why = printable(&why.to_string());
    ProviderError::Rejected(format!("iaas allocate API answered wrongly: {why}").into())
}

/// The connection could not be made, or broke.
pub fn broken(call: Call, progress: Progress, why: impl Display) -> ProviderError {
    let why = printable(&why.to_string());
    progress.failed(format!("iaas {} API call failed: {why}", call.label()))
}

/// Time ran out during the call.
pub fn timed_out(call: Call, limit: Limit, progress: Progress) -> ProviderError {
    let call = call.label();
    let seen = match progress {
        Progress::Unwritten => "not even a connection",
        Progress::Written { .. } => "no complete answer",
    };
    progress.failed(match limit {
        Limit::Configured(timeout) => format!(
            "provider-interaction timeout: IaaS {call} API call exceeded configured timeout {}: {seen}",
            go(timeout)
        ),
        Limit::Parent(left) => format!(
            "parent budget exhausted: IaaS {call} API call cancelled by parent context deadline: {seen} in the {} that \
             were left",
            go(left)
        ),
    })
}

/// Time ran out before the call.
pub fn nothing_left(call: Call, waited: Duration) -> ProviderError {
    ProviderError::NotSent(
        format!(
            "parent budget exhausted: IaaS {} API call was not sent: the deadline passed after {} of waiting",
            call.label(),
            go(waited)
        )
        .into(),
    )
}

/// A duration as Go prints it.
pub fn go(duration: Duration) -> GoDuration {
    GoDuration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// At most [`TEXT_LIMIT`] characters of a foreign text, with nothing in it that moves a terminal's cursor.
fn printable(text: &str) -> String {
    let text = text.trim();
    let mut shown = String::with_capacity(text.len().min(TEXT_LIMIT));
    let mut characters = text.chars();
    for character in characters.by_ref().take(TEXT_LIMIT) {
        if character.is_control() {
            // Writing to a String does not fail.
            let _ = write!(shown, "{}", character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
