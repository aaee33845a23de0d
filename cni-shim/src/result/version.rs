//! The versions of the CNI specification that are spoken here.

use serde::Serialize;

/// A version of the CNI specification. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Version {
    V0_3_0,
    V0_3_1,
    V0_4_0,
    V1_0_0,
    V1_1_0,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V0_3_0,
        Self::V0_3_1,
        Self::V0_4_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];
    /// What is spoken when the configuration does not say.
    pub const LATEST: Self = Self::V1_1_0;

    /// As in `cniVersion`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The version of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }

    /// All names with commas, for messages.
    pub fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Before 1.0 each address is marked `"4"` or `"6"`.
    pub(super) fn names_the_family(self) -> bool {
        self < Self::V1_0_0
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    cni_version: &'static str,
    supported_versions: [&'static str; Version::ALL.len()],
}

/// The answer of VERSION.
pub fn versions() -> String {
    super::json(&Versions {
        cni_version: Version::LATEST.name(),
        supported_versions: Version::ALL.map(Version::name),
    })
}
