//! The provider's HTTP messages, exactly as the seed gives them ("API contract").

pub mod settings;

use serde::{Deserialize, Serialize};

/// `POST` path of the allocate call.
pub const ALLOCATE_PATH: &str = "/v1/apis/network.iaas.io/ipam/allocate-ips";
/// `POST` path of the release call.
pub const RELEASE_PATH: &str = "/v1/apis/network.iaas.io/ipam/release-ip";
/// Remaining budget in whole milliseconds, positive, computed at send.
pub const TIMEOUT_HEADER: &str = "x-request-timeout-ms";

/// Body of the allocate call: one item per sub-ENI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocateRequest {
    /// Pod name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// Pod namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod_namespace: String,
    /// Pod UID.
    #[serde(default, rename = "podUID", skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
    /// Node on which the sub-ENIs are wanted.
    pub node_name: String,
    /// What is wanted.
    pub sub_eni_requests: Vec<SubEniRequest>,
}

/// One sub-ENI: IPv4, IPv6 or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubEniRequest {
    /// MAC of the NIC that carries the sub-ENI.
    pub parent_nic_mac: String,
    /// The IPv4 CIDR when there is IPv4, else the IPv6 CIDR.
    pub subnet: String,
    /// Bare address.
    #[serde(default, rename = "ipv4Address", skip_serializing_if = "String::is_empty")]
    pub ipv4_address: String,
    /// Bare address.
    #[serde(default, rename = "ipv6Address", skip_serializing_if = "String::is_empty")]
    pub ipv6_address: String,
    /// Pool of the IPv4 address.
    #[serde(default, rename = "ipv4PoolName", skip_serializing_if = "String::is_empty")]
    pub ipv4_pool_name: String,
    /// Pool of the IPv6 address.
    #[serde(default, rename = "ipv6PoolName", skip_serializing_if = "String::is_empty")]
    pub ipv6_pool_name: String,
}

/// Answer of the allocate call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocateResponse {
    /// Echo.
    #[serde(default)]
    pub pod_name: String,
    /// Echo.
    #[serde(default)]
    pub pod_namespace: String,
    /// Echo.
    #[serde(default)]
    pub node_name: String,
    /// What was bound.
    pub sub_eni_responses: Vec<SubEniResponse>,
}

/// One bound sub-ENI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubEniResponse {
    /// MAC of the parent NIC.
    #[serde(default)]
    pub parent_nic_mac: String,
    /// CIDR.
    #[serde(default)]
    pub subnet: String,
    /// Bare address; empty for IPv6 only.
    #[serde(default, rename = "ipv4Address", skip_serializing_if = "String::is_empty")]
    pub ipv4_address: String,
    /// Bare address; empty for IPv4 only.
    #[serde(default, rename = "ipv6Address", skip_serializing_if = "String::is_empty")]
    pub ipv6_address: String,
    /// Empty: keep what the allocation had.
    #[serde(default)]
    pub mac_address: String,
    /// Absent or 0: keep what the allocation had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
}

/// Body of the release call: one per sub-ENI, by its IPv4 address where it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRequest {
    /// Pod name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// Pod namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod_namespace: String,
    /// Pod UID.
    #[serde(default, rename = "podUID", skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
    /// Node where the pod ran.
    pub node_name: String,
    /// May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent_nic_mac: String,
    /// CIDR of the address.
    pub subnet: String,
    /// Bare address.
    pub ip_address: String,
    /// Pool of the address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool_name: String,
}
