//! Laws of a pool's rules: which address a claim gets, and how writes fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "pool_state/bench.rs"]
mod bench;
#[path = "pool_state/choice.rs"]
mod choice;
#[path = "pool_state/protocol.rs"]
mod protocol;
#[path = "pool_state/take_over.rs"]
mod take_over;
