//! The chart: linted and rendered by Helm's own library over the values files of `charts/orbweaver/ci`, held against
//! Kubernetes' types, applied to the simulated API server, and its permissions against what the programs really do.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod admission;
mod applied;
mod helm;
mod kinds;
mod monitoring;
mod permissions;
mod programs;
mod recorded;
mod security;
mod uninstall;
mod values;
