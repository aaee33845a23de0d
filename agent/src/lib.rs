//! The node agent: brings the actors together with the API server, the kernel and the unix socket.
//!
//! ```text
//! main ─> runtime ─> agent::start ─┬─ watch   lists and watches ─> caches ─> ClusterView, Supervisor
//!                                  ├─ store   PoolStore, EndpointStore over the API server
//!                                  ├─ links   MACs from the kernel
//!                                  ├─ server  gRPC and OpenAPI on the unix socket
//!                                  ├─ events  Warnings on pods
//!                                  ├─ admin   probes, metrics and `explain` on a TCP port
//!                                  └─ parent_nic  status.parentNic of this node's pools
//! ```
//!
//! [`agent::start`] makes a whole agent from a [`config::Config`] inside any process; nothing is global
//! but the metrics recorder and the log, which only the daemon installs.

pub mod admin;
pub mod agent;
pub mod cluster;
pub mod config;
pub mod events;
pub mod explain;
pub mod host;
pub mod links;
pub mod metrics;
pub mod parent_nic;
pub mod runtime;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod watch;
