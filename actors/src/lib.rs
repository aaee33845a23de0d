//! The heart of Orbweaver: actors that allocate addresses.
//!
//! ```text
//! server ──> Supervisor ──> Pool (one per SpiderIPPool) ──> PoolStore    (API server)
//!                │
//!                └───────> Provider ─────────────────────> HTTP          (network provider)
//! ```
//!
//! - [`supervisor`] routes a request, gives each pod its turn and rebuilds pools that stopped.
//! - [`pool`] is the one writer of one pool in this process: at most one write in flight, whatever arrives
//!   meanwhile joins the next.
//! - [`provider`] makes the calls to the network provider in tasks of its own.
//!
//! Actors are thin: what they decide is in plain structs beside them, without `async`, clock or IO.

pub mod deadline;
pub mod error;
pub mod metrics;
pub mod pool;
pub mod provider;
pub mod request;
pub mod store;
pub mod supervisor;
