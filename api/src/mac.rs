//! MAC addresses: read strictly, printed in one way.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A 48-bit MAC address; prints as `fa:16:3e:00:00:12`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 6]);

/// The text is not six pairs of hex digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address; write six pairs of hex digits with colons, as fa:16:3e:00:00:12")]
pub struct MalformedMac(pub String);

impl Mac {
    /// From six bytes.
    pub fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Mac {
    type Err = MalformedMac;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedMac(text.to_owned());
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(malformed)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(malformed());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| malformed())?;
        }
        if parts.next().is_some() {
            Err(malformed())
        } else {
            Ok(Self(bytes))
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = MalformedMac;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
