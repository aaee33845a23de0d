//! Who leads: one candidate at a time, by a `coordination.k8s.io` Lease.
//!
//! - [`election`] decides: pure, over the lease as last read and the local time at which it last changed.
//! - [`campaign`] acts: reads, writes by compare-and-swap, and runs the leader's work under a token.
//! - [`store`] is the API server.
//!
//! No clock of another machine is trusted. A candidate counts a lease's age from the moment at which it saw the
//! lease change; the leader counts from before it sent the write that the others can only have seen later. The
//! leader has stopped its work before the shortest of these waits can end, as long as clocks run at the same speed.

pub mod campaign;
pub mod election;
pub mod store;
