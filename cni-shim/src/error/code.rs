//! The CNI error codes of what goes wrong in this plugin; what the agent refuses has its table in
//! [`orbweaver_api::cni_code`].

pub(super) use orbweaver_api::cni_code::{
    DECODE_FAILURE, INVALID_CONFIGURATION, INVALID_ENVIRONMENT, IO_FAILURE, NOT_AVAILABLE, TRY_AGAIN_LATER,
    of_grpc,
};

/// CNI: incompatible version.
pub(super) const INCOMPATIBLE_VERSION: u32 = 1;
/// Ours: a bug in this plugin.
pub(super) const BUG: u32 = 110;
/// Ours: the agent gave this NIC nothing.
pub(super) const NOTHING_FOR_NIC: u32 = 111;
