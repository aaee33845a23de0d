//! Waiting for a condition, never for a time.

use std::future::Future;
use std::time::Duration;

/// The condition did not come true.
#[derive(Debug, thiserror::Error)]
#[error("{what} did not come true within {within:?}; last seen: {last}")]
pub struct NotYet {
    /// What was waited for.
    pub what: String,
    /// How long.
    pub within: Duration,
    /// The last thing seen.
    pub last: String,
}

/// Looks again and again until `look` gives a value; its error says what was seen instead.
pub async fn until<T, F: Future<Output = Result<T, String>>>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> F,
) -> Result<T, NotYet> {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let mut last = String::new();
    let found = tokio::time::timeout(within, async {
        loop {
            ticks.tick().await;
            match look().await {
                Ok(value) => return value,
                Err(seen) => last = seen,
            }
        }
    })
    .await;
    found.map_err(|_| NotYet {
        what: what.to_owned(),
        within,
        last,
    })
}
