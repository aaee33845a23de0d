//! CNI error codes (CNI specification, "Error"); 100 and up are this plugin's own.

pub(super) const INCOMPATIBLE_VERSION: u32 = 1;
pub(super) const UNKNOWN_CONTAINER: u32 = 3;
pub(super) const BAD_ENVIRONMENT: u32 = 4;
pub(super) const IO: u32 = 5;
pub(super) const DECODE: u32 = 6;
pub(super) const BAD_CONFIG: u32 = 7;
pub(super) const TRY_AGAIN: u32 = 11;
pub(super) const NOT_AVAILABLE: u32 = 50;
pub(super) const INTERNAL: u32 = 100;
pub(super) const NOTHING_FOR_NIC: u32 = 101;

/// The one table from gRPC status to CNI code.
pub(super) fn of_status(code: tonic::Code) -> u32 {
    use tonic::Code;
    match code {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => BAD_CONFIG,
        Code::NotFound => UNKNOWN_CONTAINER,
        Code::Unavailable
        | Code::ResourceExhausted
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Cancelled => TRY_AGAIN,
        _ => INTERNAL,
    }
}
