//! `SpiderSubnet`: addresses from which pools are cut (reference §1.4).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pool::Route;

/// Desired state of a subnet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderSubnet",
    plural = "spidersubnets",
    singular = "spidersubnet",
    shortname = "ss",
    category = "spiderpool",
    status = "SubnetStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"VERSION","type":"string","description":"ipVersion","jsonPath":".spec.ipVersion"}"#,
    printcolumn = r#"{"name":"SUBNET","type":"string","description":"subnet","jsonPath":".spec.subnet"}"#,
    printcolumn = r#"{"name":"ALLOCATED-IP-COUNT","type":"integer","description":"allocatedIPCount","jsonPath":".status.allocatedIPCount"}"#,
    printcolumn = r#"{"name":"TOTAL-IP-COUNT","type":"integer","description":"totalIPCount","jsonPath":".status.totalIPCount"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {
    /// Family, 4 or 6; inferred from `subnet`; immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::ip_version")]
    pub ip_version: Option<i64>,
    /// Canonical CIDR; immutable.
    pub subnet: String,
    /// Ranges that pools may take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Ranges subtracted from `ips`.
    #[serde(default, rename = "excludeIPs", skip_serializing_if = "Vec::is_empty")]
    pub exclude_ips: Vec<String>,
    /// Inherited by pools that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Inherited by pools that have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// Observed state of a subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetStatus {
    /// JSON text: pool name to its ranges and application.
    #[serde(
        default,
        rename = "controlledIPPools",
        skip_serializing_if = "Option::is_none"
    )]
    pub controlled_ip_pools: Option<String>,
    /// Size of the effective set.
    #[serde(default, rename = "totalIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub total_ip_count: Option<i64>,
    /// Addresses handed to pools.
    #[serde(default, rename = "allocatedIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub allocated_ip_count: Option<i64>,
}
