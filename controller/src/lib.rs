//! The cluster controller: what one process per cluster must see to.
//!
//! ```text
//! main ─> daemon ─> run ─┬─ admin      probes and metrics on a TCP port, in every replica
//!                        └─ lease      one replica leads ─> pool   counters and finalizers of pools
//!                                                  └> collection   addresses that nobody will come back for
//! ```
//!
//! [`run`] is a whole controller inside any process: nothing is global but the metrics recorder and the log, which
//! only the daemon installs. Whatever a leader does stops before another can lead, see [`lease`].

pub mod admin;
pub mod admission;
pub mod cluster;
pub mod collection;
pub mod config;
pub mod controller;
pub mod daemon;
pub mod lease;
pub mod metrics;
pub mod pool;
pub mod telemetry;

pub use controller::{RunError, run};

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some libraries repeat their cause in their own text.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
