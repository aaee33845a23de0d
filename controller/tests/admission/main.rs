//! Admission as API servers see it: over TLS, through webhook configurations, on the simulated API server or a real one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test fails by panicking; a test binary has no outside"
)]

mod contention;
mod daemon;
mod definitions;
mod laws;
mod pods;
mod port;
mod trust;
mod world;
