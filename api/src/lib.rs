//! The words that every part of Orbweaver shares. No IO happens here.
//!
//! | module | what it holds |
//! |---|---|
//! | [`address_set`] | sets of addresses as sorted disjoint intervals, and the range syntax of pools |
//! | [`annotation`] | the annotations that address management reads, and their parsers |
//! | [`config`] | `conf.yml`: its keys, defaults and rules (feature `resources`) |
//! | [`claims`] | `status.allocatedIPs`: who holds which address |
//! | [`duration`] | durations with Go's grammar and Go's printing |
//! | [`pattern`] | patterns over pool names |
//! | [`ledger`] | `status.ipMetaData.metadata`: the provider's sub-ENIs |
//! | [`provider`] | the provider's HTTP messages |
//! | [`pool`], [`endpoint`], ... | the custom resources (feature `resources`) |
//! | [`grpc`] | what the CNI plugin says to the agent (feature `grpc`) |

pub mod address_set;
pub mod annotation;
pub mod claims;
pub mod cni_code;
pub mod duration;
pub mod ledger;
pub mod mac;
pub mod multus;
pub mod openapi;
pub mod pattern;
pub mod provider;

#[cfg(feature = "resources")]
pub mod config;
#[cfg(feature = "resources")]
pub mod coordinator;
#[cfg(feature = "resources")]
pub mod crd;
#[cfg(feature = "resources")]
pub mod endpoint;
#[cfg(feature = "resources")]
pub mod multus_config;
#[cfg(feature = "resources")]
pub mod pool;
#[cfg(feature = "resources")]
pub mod release_mark;
#[cfg(feature = "resources")]
pub mod reserved_ip;
#[cfg(feature = "resources")]
pub mod subnet;

/// The generated gRPC contract `orbweaver.ipam.v1`.
#[cfg(feature = "grpc")]
#[allow(clippy::pedantic, missing_docs, unreachable_pub)]
pub mod grpc {
    tonic::include_proto!("orbweaver.ipam.v1");
}

/// The API group of every custom resource.
pub const GROUP: &str = "spiderpool.spidernet.io";
/// The only served and stored version of [`GROUP`].
pub const VERSION: &str = "v2beta1";
/// Finalizer on pools, subnets, coordinators and endpoints (reference §1).
pub const FINALIZER: &str = "spiderpool.spidernet.io";
