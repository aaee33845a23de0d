//! The node agent.

pub mod cluster;
pub mod host;
pub mod links;
pub mod metrics;
pub mod parent_nic;
pub mod store;
pub mod watch;
