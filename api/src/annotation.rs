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
/// Pod annotation: subnet from which a pool is made.
pub const POD_SUBNET: &str = "ipam.spidernet.io/subnet";
/// Pod annotation: subnets by NIC.
pub const POD_SUBNETS: &str = "ipam.spidernet.io/subnets";
/// Namespace annotation: default IPv4 pools.
pub const NAMESPACE_IPV4_POOLS: &str = "ipam.spidernet.io/default-ipv4-ippool";
/// Namespace annotation: default IPv6 pools.
pub const NAMESPACE_IPV6_POOLS: &str = "ipam.spidernet.io/default-ipv6-ippool";
/// The seed's spelling of [`NAMESPACE_IPV4_POOLS`].
pub const NAMESPACE_IPV4_POOLS_SEED: &str = "ipam.spidernet.io/defaultv4ippool";
/// The seed's spelling of [`NAMESPACE_IPV6_POOLS`].
pub const NAMESPACE_IPV6_POOLS_SEED: &str = "ipam.spidernet.io/defaultv6ippool";
/// Multus: the pod's default network.
pub const MULTUS_DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// Multus: the pod's further networks.
pub const MULTUS_NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// How much of an offending value an error shows, in characters.
const SHOWN: usize = 200;

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

impl MalformedAnnotation {
    /// An error that shows at most 200 characters of the value.
    pub fn new(
        annotation: &'static str,
        value: &str,
        problem: impl Into<String>,
        form: &'static str,
    ) -> Self {
        Self {
            annotation,
            value: value.chars().take(SHOWN).collect(),
            problem: problem.into(),
            form,
        }
    }
}

/// Value of [`POD_POOL`]: `{"ipv4":["p4"],"ipv6":["p6"]}`; at least one list is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolLists {
    /// Names or patterns of IPv4 pools, in order of preference.
    #[serde(default, deserialize_with = "crate::openapi::null_is_default")]
    pub ipv4: Vec<String>,
    /// Names or patterns of IPv6 pools, in order of preference.
    #[serde(default, deserialize_with = "crate::openapi::null_is_default")]
    pub ipv6: Vec<String>,
}

impl PoolLists {
    const FORM: &str = r#"{"ipv4":["pool"],"ipv6":["pool"]} with at least one name"#;

    /// Reads the annotation.
    pub fn parse(annotation: &'static str, text: &str) -> Result<Self, MalformedAnnotation> {
        let malformed = |problem: String| MalformedAnnotation::new(annotation, text, problem, Self::FORM);
        let lists: Self = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if lists.ipv4.is_empty() && lists.ipv6.is_empty() {
            return Err(malformed("no pool is named".to_owned()));
        }
        if lists
            .ipv4
            .iter()
            .chain(&lists.ipv6)
            .any(|name| name.trim().is_empty())
        {
            return Err(malformed("a pool name is empty".to_owned()));
        }
        Ok(lists)
    }
}

/// Reads a namespace's list of pools: a JSON array of names.
pub fn parse_pool_names(annotation: &'static str, text: &str) -> Result<Vec<String>, MalformedAnnotation> {
    let form = r#"["pool"] with at least one name"#;
    let malformed = |problem: String| MalformedAnnotation::new(annotation, text, problem, form);
    let names: Vec<String> = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
    if names.is_empty() {
        return Err(malformed("no pool is named".to_owned()));
    }
    if names.iter().any(|name| name.trim().is_empty()) {
        return Err(malformed("a pool name is empty".to_owned()));
    }
    Ok(names)
}
