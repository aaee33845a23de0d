//! Spiderpool's OpenAPI v1 messages on the agent's socket (reference §3.4).

use serde::{Deserialize, Deserializer, Serialize};

/// `GET`: is the agent there.
pub const HEALTHY_PATH: &str = "/v1/ipam/healthy";
/// `POST` an [`IpamAddArgs`], `DELETE` an [`IpamDelArgs`].
pub const IP_PATH: &str = "/v1/ipam/ip";
/// `POST` and `DELETE` for several NICs at once.
pub const IPS_PATH: &str = "/v1/ipam/ips";
/// `GET` with `podNamespace` and `podName`.
pub const ENDPOINT_PATH: &str = "/v1/workloadendpoint";

/// What an ADD sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpamAddArgs {
    /// CNI container id.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// CNI interface name.
    pub if_name: String,
    /// Network namespace path.
    pub net_namespace: String,
    /// Pod namespace.
    pub pod_namespace: String,
    /// Pod name.
    pub pod_name: String,
    /// Pod UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// `ipam.default_ipv4_ippool`.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        rename = "defaultIPv4IPPool",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub default_ipv4_pools: Vec<String>,
    /// `ipam.default_ipv6_ippool`.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        rename = "defaultIPv6IPPool",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub default_ipv6_pools: Vec<String>,
    /// `ipam.clean_gateway`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub clean_gateway: bool,
    /// `ipam.match_master_subnet`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub match_master_subnet: bool,
}

/// What a DEL sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpamDelArgs {
    /// CNI container id.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// CNI interface name.
    pub if_name: String,
    /// Network namespace path.
    #[serde(default)]
    pub net_namespace: String,
    /// Pod namespace.
    pub pod_namespace: String,
    /// Pod name.
    pub pod_name: String,
    /// Pod UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
}

/// What a release of all NICs sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpamBatchDelArgs {
    /// CNI container id.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// Network namespace path.
    #[serde(default)]
    pub net_namespace: String,
    /// Pod namespace.
    pub pod_namespace: String,
    /// Pod name.
    pub pod_name: String,
    /// Pod UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The addresses were found in use by somebody else.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        rename = "isReleaseConflictIPs"
    )]
    pub is_release_conflict_ips: bool,
}

/// What an ADD gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpamAddResponse {
    /// Addresses.
    pub ips: Vec<IpConfig>,
    /// Routes.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub routes: Vec<Route>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
}

/// One address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpConfig {
    /// 4 or 6.
    pub version: i64,
    /// With prefix length.
    pub address: String,
    /// CNI interface name.
    pub nic: String,
    /// Pool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip_pool: String,
    /// Gateway; empty when there is none or it was cleaned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// VLAN id.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vlan: i64,
    /// MAC address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Always false: probing needs an interface that does not exist yet.
    #[serde(default, deserialize_with = "null_is_default")]
    pub enable_gateway_detection: bool,
    /// Always false: probing needs an interface that does not exist yet.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        rename = "enableIPConflictDetection"
    )]
    pub enable_ip_conflict_detection: bool,
}

/// Go writes an empty list as null, and reads null as nothing.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// CNI interface name.
    pub if_name: String,
    /// Destination CIDR.
    pub dst: String,
    /// Gateway address.
    pub gw: String,
}

/// Name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Domain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Servers.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub nameservers: Vec<String>,
    /// Options.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub options: Vec<String>,
    /// Search list.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub search: Vec<String>,
}

/// What `GET /v1/workloadendpoint` gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadEndpointStatus {
    /// Pod namespace.
    pub pod_namespace: String,
    /// Pod name.
    pub pod_name: String,
    /// Pod UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Node.
    pub node: String,
    /// NICs.
    pub interfaces: Vec<InterfaceDetail>,
}

/// What one NIC has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceDetail {
    /// CNI interface name.
    pub interface: String,
    /// With prefix length.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ipv4: String,
    /// With prefix length.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ipv6: String,
    /// MAC address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// VLAN id; left out when 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vlan: i64,
    /// Pool of `ipv4`.
    #[serde(default, rename = "ipv4Pool", skip_serializing_if = "String::is_empty")]
    pub ipv4_pool: String,
    /// Pool of `ipv6`.
    #[serde(default, rename = "ipv6Pool", skip_serializing_if = "String::is_empty")]
    pub ipv6_pool: String,
    /// Gateway of `ipv4`.
    #[serde(default, rename = "ipv4Gateway", skip_serializing_if = "String::is_empty")]
    pub ipv4_gateway: String,
    /// Gateway of `ipv6`.
    #[serde(default, rename = "ipv6Gateway", skip_serializing_if = "String::is_empty")]
    pub ipv6_gateway: String,
    /// Routes.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub routes: Vec<Route>,
}
