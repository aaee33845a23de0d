//! `status.allocatedIPs`: who holds which address (reference §1.1, "Encoding of status.allocatedIPs").
//!
//! One JSON object in one string, key = bare address, value = `{"pod":"ns/name","podUid":"..."}`.
//! An empty map is the absence of the field, never `{}`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The holder of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// `namespace/name`.
    pub pod: String,
    /// Pod UID; the only thing that makes a claim somebody's.
    #[serde(rename = "podUid")]
    pub pod_uid: String,
}

/// All claims of a pool, in address order.
pub type Claims = BTreeMap<IpAddr, Claim>;

/// The text is not a claim map. Nothing may be written over it.
#[derive(Debug, thiserror::Error)]
#[error(
    "status.allocatedIPs is not a JSON object of address to {{pod, podUid}}: {0}; restore the field before this pool can be used"
)]
pub struct MalformedClaims(#[source] serde_json::Error);

/// Reads the field; absent and empty mean no claims.
pub fn decode(text: Option<&str>) -> Result<Claims, MalformedClaims> {
    match text.map(str::trim) {
        None | Some("") => Ok(Claims::new()),
        Some(text) => serde_json::from_str(text).map_err(MalformedClaims),
    }
}

/// Writes the field; no claims give `None`, which clears it. Keys are ordered by address.
pub fn encode(claims: &Claims) -> Option<String> {
    if claims.is_empty() {
        return None;
    }
    // Addresses and strings always print.
    serde_json::to_string(claims).ok()
}
