//! `SpiderCoordinator`: how the coordinator plugin sets up pods' routes (reference §1.6). Orbweaver installs
//! the resource and leaves it to its readers.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pool::Route;

/// Desired state.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderCoordinator",
    plural = "spidercoordinators",
    singular = "spidercoordinator",
    shortname = "scc",
    category = "spiderpool",
    status = "CoordinatorStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorSpec {
    /// `auto`, `underlay`, `overlay` or `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mode")]
    pub mode: Option<String>,
    /// `auto`, `cluster`, `calico`, `cilium` or `none`.
    #[serde(default, rename = "podCIDRType", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pod_cidr_type")]
    pub pod_cidr_type: Option<String>,
    /// Destinations that go through the host.
    #[serde(default, rename = "hijackCIDR", skip_serializing_if = "Vec::is_empty")]
    pub hijack_cidr: Vec<String>,
    /// Further routes in the policy table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<Route>,
    /// First two bytes of pods' MAC addresses.
    #[serde(default, rename = "podMACPrefix", skip_serializing_if = "Option::is_none")]
    pub pod_mac_prefix: Option<String>,
    /// Set up routes of pods with several NICs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::yes")]
    pub tune_pod_routes: Option<bool>,
    /// NIC of the default route.
    #[serde(
        default,
        rename = "podDefaultRouteNIC",
        skip_serializing_if = "Option::is_none"
    )]
    pub pod_default_route_nic: Option<String>,
    /// Routing table on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::table")]
    pub host_rule_table: Option<i64>,
    /// `rp_filter` in the pod.
    #[serde(default, rename = "podRPFilter", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::zero")]
    pub pod_rp_filter: Option<i64>,
    /// Transmit queue length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::zero")]
    pub tx_queue_len: Option<i64>,
    /// Address of the veth link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veth_link_address: Option<String>,
    /// MTU of the veth link.
    #[serde(default, rename = "vethMTU", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::positive")]
    pub veth_mtu: Option<i64>,
}

/// Observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorStatus {
    /// `Synced` or `NotReady`.
    pub phase: String,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Pod CIDRs of the overlay network.
    #[serde(default, rename = "overlayPodCIDR", skip_serializing_if = "Vec::is_empty")]
    pub overlay_pod_cidr: Vec<String>,
    /// Service CIDRs.
    #[serde(default, rename = "serviceCIDR", skip_serializing_if = "Vec::is_empty")]
    pub service_cidr: Vec<String>,
}

mod schema {
    use schemars::{Schema, SchemaGenerator, json_schema};

    pub(super) fn mode(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "default": "auto",
            "enum": ["auto", "underlay", "overlay", "disabled"],
        })
    }

    pub(super) fn pod_cidr_type(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": ["auto", "cluster", "calico", "cilium", "none"],
        })
    }

    pub(super) fn yes(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean", "default": true })
    }

    pub(super) fn table(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "default": 500 })
    }

    pub(super) fn zero(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "default": 0 })
    }

    pub(super) fn positive(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "nullable": true, "minimum": 1 })
    }
}
