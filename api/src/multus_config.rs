//! `SpiderMultusConfig`: how a NIC is made (reference §1.5). Address management reads the type, the VLAN mode
//! and the master; the rest is kept as it is.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderMultusConfig",
    plural = "spidermultusconfigs",
    singular = "spidermultusconfig",
    shortname = "smc",
    category = "spiderpool",
    namespaced,
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct MultusConfigSpec {
    /// `macvlan`, `ipvlan`, `vlan`, `sriov`, `ovs`, `ib-sriov`, `ipoib` or `custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cni_type")]
    pub cni_type: Option<String>,
    /// For `cniType: macvlan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macvlan: Option<LinkConfig>,
    /// For `cniType: ipvlan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipvlan: Option<LinkConfig>,
    /// For `cniType: vlan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<LinkConfig>,
    /// For `cniType: sriov`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free")]
    pub sriov: Option<serde_json::Value>,
    /// For `cniType: ib-sriov`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free")]
    pub ibsriov: Option<serde_json::Value>,
    /// For `cniType: ipoib`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free")]
    pub ipoib: Option<serde_json::Value>,
    /// For `cniType: ovs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free")]
    pub ovs: Option<serde_json::Value>,
    /// For `cniType: custom`: a CNI configuration as JSON text.
    #[serde(default, rename = "customCNI", skip_serializing_if = "Option::is_none")]
    pub custom_cni: Option<String>,
    /// Chain the coordinator plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::yes")]
    pub enable_coordinator: Option<bool>,
    /// No IPAM section in the generated configuration.
    #[serde(default, rename = "disableIPAM", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::no")]
    pub disable_ipam: Option<bool>,
    /// The coordinator's own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<crate::coordinator::CoordinatorSpec>,
    /// Further plugins of the chain, JSON texts.
    #[serde(default, rename = "chainCNIJsonData", skip_serializing_if = "Vec::is_empty")]
    pub chain_cni_json_data: Vec<String>,
}

/// A NIC above a link of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkConfig {
    /// Links of the host; two or more are bonded.
    pub master: Vec<String>,
    /// `manual` or `auto`; `vlan` only. `auto`: the network provider chooses the VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::vlan_mode")]
    pub vlan_mode: Option<String>,
    /// VLAN id, 0-4094.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::vlan_id")]
    pub vlan_id: Option<i32>,
    /// How two or more masters are bonded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    /// 0: the master's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::size")]
    pub mtu: Option<i32>,
    /// Name of an RDMA device resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_resource_name: Option<String>,
    /// Default pools of NICs of this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<ConfigPools>,
}

/// A bond of masters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bond {
    /// Its link name.
    pub name: String,
    /// 0-6.
    #[schemars(schema_with = "schema::bond_mode")]
    pub mode: i32,
    /// Options of the bonding driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
}

/// Default pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigPools {
    /// IPv4 pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv4: Vec<String>,
    /// IPv6 pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
    /// SR-IOV: only pools whose subnet the physical function is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::no")]
    pub match_master_subnet: Option<bool>,
}

impl MultusConfigSpec {
    /// True when the network provider chooses the VLAN of this configuration's NICs (reference §6.1).
    pub fn is_provider_network(&self) -> bool {
        let vlan = self
            .vlan
            .as_ref()
            .filter(|_| self.cni_type.as_deref() == Some("vlan"));
        vlan.is_some_and(|vlan| vlan.vlan_mode.as_deref() == Some("auto"))
    }

    /// The pools that the generated CNI configuration names for NICs.
    pub fn default_pools(&self) -> Option<&ConfigPools> {
        self.link()?.ippools.as_ref()
    }

    fn link(&self) -> Option<&LinkConfig> {
        match self.cni_type.as_deref()? {
            "macvlan" => self.macvlan.as_ref(),
            "ipvlan" => self.ipvlan.as_ref(),
            "vlan" => self.vlan.as_ref(),
            _ => None,
        }
    }

    /// The host's link under this configuration's NICs: the bond, else the first master.
    pub fn parent_link(&self) -> Option<String> {
        let link = self.link()?;
        let bond = link
            .bond
            .as_ref()
            .filter(|_| link.master.len() > 1)
            .map(|bond| bond.name.clone());
        bond.or_else(|| link.master.first().cloned())
            .filter(|name| !name.is_empty())
    }
}

mod schema {
    use schemars::{Schema, SchemaGenerator, json_schema};

    pub(super) fn cni_type(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "default": "custom",
            "enum": ["macvlan", "ipvlan", "vlan", "sriov", "ovs", "ib-sriov", "ipoib", "custom"],
        })
    }

    pub(super) fn vlan_mode(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "default": "manual", "enum": ["manual", "auto"] })
    }

    pub(super) fn vlan_id(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int32", "nullable": true, "minimum": 0, "maximum": 4094 })
    }

    pub(super) fn bond_mode(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 6 })
    }

    pub(super) fn size(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int32", "default": 0, "minimum": 0 })
    }

    pub(super) fn yes(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean", "default": true })
    }

    pub(super) fn no(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean", "default": false })
    }

    pub(super) fn free(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
    }
}
