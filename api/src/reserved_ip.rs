//! `SpiderReservedIP`: addresses that nobody may have (reference §1.3).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Addresses taken out of every pool of their family.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderReservedIP",
    plural = "spiderreservedips",
    singular = "spiderreservedip",
    shortname = "sr",
    category = "spiderpool",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"VERSION","type":"string","description":"ipVersion","jsonPath":".spec.ipVersion"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ReservedIPSpec {
    /// Family, 4 or 6; inferred from the first range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::ip_version")]
    pub ip_version: Option<i64>,
    /// Ranges: `a` or `a-b`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
}
