//! The annotations and labels that address management reads (reference §1.1, §1.7).

use serde::{Deserialize, Serialize};

/// Pool annotation and mirrored label: the pool belongs to a network provider. The value is opaque.
pub const IAAS_PROVIDER: &str = "ipam.spidernet.io/iaas-provider";
/// Pool annotation: the sibling of the other family.
pub const PAIR_POOL: &str = "ipam.spidernet.io/pair-pool";
/// Pool annotation: the NIC that carries the pool's sub-ENIs.
pub const PARENT_NIC: &str = "ipam.spidernet.io/parent-nic";
/// Pod annotation: pools of the NIC in question.
pub const POD_POOL: &str = "ipam.spidernet.io/ippool";
/// Pod annotation: pools by NIC.
pub const POD_POOLS: &str = "ipam.spidernet.io/ippools";
/// Pod annotation: extra routes.
pub const POD_ROUTES: &str = "ipam.spidernet.io/routes";
/// Multus: the pod's default network.
pub const MULTUS_DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// Multus: the pod's further networks.
pub const MULTUS_NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {problem} in {value:?}; write {form}")]
pub struct MalformedAnnotation {
    /// The annotation's key.
    pub annotation: &'static str,
    /// The offending text, cut to a readable length.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// The accepted form.
    pub form: &'static str,
}

/// Value of [`POD_POOL`]: `{"ipv4":["p4"],"ipv6":["p6"]}`; at least one list is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolLists {
    /// Names or patterns of IPv4 pools, in order of preference.
    #[serde(default)]
    pub ipv4: Vec<String>,
    /// Names or patterns of IPv6 pools, in order of preference.
    #[serde(default)]
    pub ipv6: Vec<String>,
}
