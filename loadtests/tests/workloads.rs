//! Whole workloads over a cluster with real agents and the real plugin: every law of reference §9 that is about
//! pods and pools, by its id.
//!
//! Agents are processes, so the tests of this file share one cluster: see [`stage`].

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "workloads/affinity.rs"]
mod affinity;
#[path = "workloads/annotation.rs"]
mod annotation;
#[path = "workloads/assign.rs"]
mod assign;
#[path = "workloads/nics.rs"]
mod nics;
#[path = "workloads/operator.rs"]
mod operator;
#[path = "workloads/pool.rs"]
mod pool;
#[path = "workloads/reserved.rs"]
mod reserved;
#[path = "workloads/scene.rs"]
mod scene;
#[path = "workloads/stage.rs"]
mod stage;
#[path = "workloads/stateful.rs"]
mod stateful;
