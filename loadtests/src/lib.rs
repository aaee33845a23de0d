//! Simulated nodes and kubelets over the simulated cluster and cloud: demo, load and end-to-end tests.
//!
//! - [`simulation`] is the one place a cluster comes from: simulated, or real by `ORBWEAVER_TEST_KUBECONFIG`.
//! - [`node`] runs real agent processes; [`kubelet`] calls the real plugin as a kubelet does.
//! - [`workload`] makes what controllers make: pods of Deployments, StatefulSets, Jobs and so on.
//! - [`auditor`] checks the invariants that can be seen from outside.
//! - [`demo`] tells the main job as a story and checks every sentence of it.

pub mod auditor;
pub mod demo;
pub mod kubelet;
pub mod metrics;
pub mod node;
pub mod process;
pub mod programs;
pub mod simulation;
pub mod wait;
pub mod workload;
