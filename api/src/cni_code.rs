//! The one table between gRPC status codes and CNI error codes (CNI specification, "Error").

/// What a plugin answers for a gRPC status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CniCode {
    /// CNI error code; 100 and above are Orbweaver's own.
    pub code: u32,
    /// A few words that go before the agent's own.
    pub message: &'static str,
}

/// CNI: invalid environment variables.
pub const INVALID_ENVIRONMENT: u32 = 4;
/// CNI: an IO failure.
pub const IO_FAILURE: u32 = 5;
/// CNI: the content could not be decoded.
pub const DECODE_FAILURE: u32 = 6;
/// CNI: invalid network configuration.
pub const INVALID_CONFIGURATION: u32 = 7;
/// CNI: try again later.
pub const TRY_AGAIN_LATER: u32 = 11;
/// CNI: the plugin cannot serve ADD.
pub const NOT_AVAILABLE: u32 = 50;
/// Ours: the agent refused; asking again does not help until somebody changes something.
pub const REFUSED: u32 = 100;
/// Ours: the agent failed.
pub const FAILED: u32 = 101;
/// Ours: the agent does not offer this.
pub const NOT_SUPPORTED: u32 = 102;

/// The table, by the number of the gRPC code. A number that gRPC does not know counts as a failure.
pub fn of_grpc(code: i32) -> CniCode {
    let (code, message) = match code {
        3 => (INVALID_CONFIGURATION, "the request is wrong"),
        4 => (TRY_AGAIN_LATER, "the time budget ran out"),
        1 | 8 | 10 | 14 => (TRY_AGAIN_LATER, "no address could be given now"),
        5 => (TRY_AGAIN_LATER, "the agent does not know the pod yet"),
        9 => (REFUSED, "the agent refused"),
        7 | 16 => (REFUSED, "the agent does not accept this caller"),
        12 => (NOT_SUPPORTED, "the agent does not support this"),
        _ => (FAILED, "the agent failed"),
    };
    CniCode { code, message }
}
