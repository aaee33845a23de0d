//! The annotations and labels that address management reads (reference §1.1, §1.7).

mod object;

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub(crate) use self::object::Object;
use crate::pattern::{self, Pattern};

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
    /// An error that shows at most 200 characters of the value, and as many of the problem, which may quote it.
    pub fn new(
        annotation: &'static str,
        value: &str,
        problem: impl Into<String>,
        form: &'static str,
    ) -> Self {
        Self {
            annotation,
            value: value.chars().take(SHOWN).collect(),
            problem: problem.into().chars().take(SHOWN).collect(),
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
    const FORM: &str =
        r#"{"ipv4":["pool"],"ipv6":["pool"]} with at least one name; *, ? and [a-z] make a name a pattern"#;

    /// Reads the annotation.
    pub fn parse(annotation: &'static str, text: &str) -> Result<Self, MalformedAnnotation> {
        let malformed = |problem: String| MalformedAnnotation::new(annotation, text, problem, Self::FORM);
        let Object(lists): Object<Self> =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        lists.check().map_err(malformed)?;
        Ok(lists)
    }

    fn check(&self) -> Result<(), String> {
        if self.ipv4.is_empty() && self.ipv6.is_empty() {
            return Err("no pool is named".to_owned());
        }
        check_names(&self.ipv4)?;
        check_names(&self.ipv6)
    }
}

fn check_names(names: &[String]) -> Result<(), String> {
    for name in names {
        if name.trim().is_empty() {
            return Err("a pool name is empty".to_owned());
        }
        if pattern::is_pattern(name) {
            Pattern::parse(name).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Reads a namespace's list of pools: a JSON array of names.
pub fn parse_pool_names(annotation: &'static str, text: &str) -> Result<Vec<String>, MalformedAnnotation> {
    let form = r#"["pool"] with at least one name; *, ? and [a-z] make a name a pattern"#;
    let malformed = |problem: String| MalformedAnnotation::new(annotation, text, problem, form);
    let names: Vec<String> = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
    if names.is_empty() {
        return Err(malformed("no pool is named".to_owned()));
    }
    check_names(&names).map_err(malformed)?;
    Ok(names)
}

/// One item of [`POD_POOLS`]: the pools of one NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NicPools {
    /// The NIC; all items name theirs, or none does.
    #[serde(default, deserialize_with = "crate::openapi::null_is_default")]
    pub interface: String,
    /// Its pools.
    #[serde(flatten)]
    pub pools: PoolLists,
    /// Overrides the CNI configuration's `clean_gateway`.
    #[serde(default, rename = "cleangateway")]
    pub clean_gateway: Option<bool>,
}

/// Reads [`POD_POOLS`]. What comes back has at least one item, and names all NICs, each once, or none.
pub fn parse_nic_pools(text: &str) -> Result<Vec<NicPools>, MalformedAnnotation> {
    let form = r#"[{"interface":"eth0","ipv4":["pool"],"ipv6":["pool"],"cleangateway":false}] with "interface" in every item or in none"#;
    let malformed = |problem: String| MalformedAnnotation::new(POD_POOLS, text, problem, form);
    let items: Vec<Object<NicPools>> =
        serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let items: Vec<NicPools> = items.into_iter().map(|Object(item)| item).collect();
    if items.is_empty() {
        return Err(malformed("it has no item".to_owned()));
    }
    let named = items.iter().filter(|item| !item.interface.is_empty()).count();
    if named != 0 && named != items.len() {
        return Err(malformed(format!(
            "{named} of {} items name their interface",
            items.len()
        )));
    }
    for (index, item) in items.iter().enumerate() {
        let nic = &item.interface;
        item.pools
            .check()
            .map_err(|problem| malformed(format!("item {index}: {problem}")))?;
        if !nic.is_empty() && items[..index].iter().any(|earlier| earlier.interface == *nic) {
            return Err(malformed(format!("interface {nic:?} is named twice")));
        }
    }
    Ok(items)
}

/// A route of [`POD_ROUTES`]; both ends are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRoute {
    /// Destination.
    pub dst: IpNet,
    /// Gateway.
    pub gw: IpAddr,
}

#[derive(Deserialize)]
struct JsonRoute {
    dst: String,
    gw: String,
}

/// Reads [`POD_ROUTES`].
pub fn parse_routes(text: &str) -> Result<Vec<PodRoute>, MalformedAnnotation> {
    let form = r#"[{"dst":"10.0.0.0/16","gw":"10.6.0.1"}] with a CIDR and an address of the same family"#;
    let malformed = |problem: String| MalformedAnnotation::new(POD_ROUTES, text, problem, form);
    let routes: Vec<Object<JsonRoute>> =
        serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let read = |Object(JsonRoute { dst, gw }): Object<JsonRoute>| {
        let to: IpNet = dst
            .parse()
            .map_err(|_| malformed(format!("dst {dst:?} is not a CIDR")))?;
        let via: IpAddr = gw
            .parse()
            .map_err(|_| malformed(format!("gw {gw:?} is not an address")))?;
        if to.addr().is_ipv4() != via.is_ipv4() {
            return Err(malformed(format!("dst {dst} and gw {gw} are not of one family")));
        }
        // The kernel refuses a route with bits set behind its prefix.
        Ok(PodRoute {
            dst: to.trunc(),
            gw: via,
        })
    };
    routes.into_iter().map(read).collect()
}
