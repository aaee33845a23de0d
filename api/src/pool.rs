//! `SpiderIPPool`: a set of addresses and who may have them (reference §1.1).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::annotation;

/// Desired state of a pool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderIPPool",
    plural = "spiderippools",
    singular = "spiderippool",
    shortname = "sp",
    category = "spiderpool",
    status = "IPPoolStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"VERSION","type":"string","description":"ipVersion","jsonPath":".spec.ipVersion"}"#,
    printcolumn = r#"{"name":"SUBNET","type":"string","description":"subnet","jsonPath":".spec.subnet"}"#,
    printcolumn = r#"{"name":"ALLOCATED-IP-COUNT","type":"integer","description":"allocatedIPCount","jsonPath":".status.allocatedIPCount"}"#,
    printcolumn = r#"{"name":"TOTAL-IP-COUNT","type":"integer","description":"totalIPCount","jsonPath":".status.totalIPCount"}"#,
    printcolumn = r#"{"name":"DEFAULT","type":"boolean","description":"default","jsonPath":".spec.default"}"#,
    printcolumn = r#"{"name":"DISABLE","type":"boolean","description":"disable","jsonPath":".spec.disable","priority":10}"#,
    printcolumn = r#"{"name":"NodeName","type":"string","description":"nodeName","jsonPath":".spec.nodeName","priority":10}"#,
    printcolumn = r#"{"name":"MultusName","type":"string","description":"multusName","jsonPath":".spec.multusName","priority":10}"#,
    printcolumn = r#"{"name":"APP-NAMESPACE","type":"string","description":"application namespace of an auto-created pool","jsonPath":".spec.podAffinity.matchLabels['ipam\\.spidernet\\.io/app-namespace']","priority":10}"#
)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolSpec {
    /// Family, 4 or 6; inferred from `subnet` by the webhook; immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::ip_version")]
    pub ip_version: Option<i64>,
    /// Canonical CIDR; immutable.
    pub subnet: String,
    /// Ranges that may be handed out: `a` or `a-b`.
    #[serde(default, rename = "ips", skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Ranges subtracted from `ips`.
    #[serde(default, rename = "excludeIPs", skip_serializing_if = "Vec::is_empty")]
    pub exclude_ips: Vec<String>,
    /// Default gateway of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Routes that go with every address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Selector over pod labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<LabelSelector>,
    /// Selector over namespace labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_affinity: Option<LabelSelector>,
    /// Namespaces; beats `namespaceAffinity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_name: Vec<String>,
    /// Selector over node labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<LabelSelector>,
    /// Nodes; beats `nodeAffinity`. Exactly one on a node-level pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_name: Vec<String>,
    /// Network attachment definitions (`ns/name` or `name`) the NIC must use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multus_name: Vec<String>,
    /// Cluster default pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// No new allocation; release goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
}

/// An extra route: destination CIDR and gateway address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Destination CIDR.
    pub dst: String,
    /// Gateway address.
    pub gw: String,
}

/// Observed state of a pool. Three writers share it, each its own fields: agents
/// (`allocatedIPs`, `allocatedIPCount`, `parentNic`), controller (`totalIPCount`) and provider
/// (`ipMetaData`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolStatus {
    /// JSON text, see [`crate::claims`]; absent when there is no claim.
    #[serde(default, rename = "allocatedIPs", skip_serializing_if = "Option::is_none")]
    pub allocated_ips: Option<String>,
    /// `|ips - excludeIPs|`.
    #[serde(default, rename = "totalIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub total_ip_count: Option<i64>,
    /// Number of claims.
    #[serde(default, rename = "allocatedIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub allocated_ip_count: Option<i64>,
    /// The provider's ledger; never written by Orbweaver.
    #[serde(default, rename = "ipMetaData", skip_serializing_if = "Option::is_none")]
    pub ip_meta_data: Option<IpMetaData>,
    /// Parent NIC of a node-level pool, written by that node's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_nic: Option<ParentNic>,
}

/// The provider's ledger, see [`crate::ledger`] (reference §6.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpMetaData {
    /// JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// Must equal the pool's generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub observed_generation: Option<i64>,
    /// Observational.
    #[serde(default, rename = "readyIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub ready_ip_count: Option<i64>,
    /// Observational.
    #[serde(default, rename = "unreadyIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::count")]
    pub unready_ip_count: Option<i64>,
}

/// The NIC of a node that carries a pool's sub-ENIs (reference §6.4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentNic {
    /// Link name in the host's network namespace.
    pub name: String,
    /// MAC address; absent until resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// What a pool is, derived from its shape alone (design §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolMode {
    /// No provider mark.
    Plain,
    /// Marked and pinned to one node: prewarmed addresses only.
    NodeLevel,
    /// Marked and not pinned: sub-ENIs follow the pods.
    Global,
}

impl PoolMode {
    /// Closed label set for metrics and logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::NodeLevel => "node_level",
            Self::Global => "global",
        }
    }
}

impl SpiderIPPool {
    /// The pool's mode: the mark is the label `ipam.spidernet.io/iaas-provider` that the webhook mirrors
    /// from the annotation; the annotation alone counts too, for clusters whose webhook was away.
    pub fn mode(&self) -> PoolMode {
        let marked = [&self.metadata.labels, &self.metadata.annotations]
            .into_iter()
            .flatten()
            .any(|keys: &BTreeMap<String, String>| keys.contains_key(annotation::IAAS_PROVIDER));
        match (marked, self.spec.node_name.is_empty()) {
            (false, _) => PoolMode::Plain,
            (true, false) => PoolMode::NodeLevel,
            (true, true) => PoolMode::Global,
        }
    }

    /// 4 or 6: `spec.ipVersion`, else what `spec.subnet` says; `None` when neither can be read.
    pub fn family(&self) -> Option<crate::address_set::Family> {
        use crate::address_set::Family;
        match self.spec.ip_version {
            Some(4) => Some(Family::V4),
            Some(6) => Some(Family::V6),
            Some(_) => None,
            None => self
                .spec
                .subnet
                .parse::<ipnet::IpNet>()
                .ok()
                .map(|net| match net {
                    ipnet::IpNet::V4(_) => Family::V4,
                    ipnet::IpNet::V6(_) => Family::V6,
                }),
        }
    }
}

/// Hand-written pieces of the schema that a Rust type cannot say.
pub(crate) mod schema {
    use schemars::{Schema, SchemaGenerator, json_schema};

    pub(crate) fn ip_version(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "enum": [4, 6] })
    }

    pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "minimum": 0, "nullable": true })
    }

    pub(crate) fn vlan(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 4094, "nullable": true })
    }
}
