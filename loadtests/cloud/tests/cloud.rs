//! The provider as its callers see it: over HTTP, and by what it writes into a cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "cloud/contract.rs"]
mod contract;
#[path = "cloud/faulty.rs"]
mod faulty;
#[path = "cloud/ledger.rs"]
mod ledger;
#[path = "cloud/reclaim.rs"]
mod reclaim;
#[path = "cloud/scene.rs"]
mod scene;
