//! What a pool object says, read once per version.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::annotation;
use orbweaver_api::mac::Mac;
use orbweaver_api::pool::{PoolMode, Route, SpiderIPPool};

/// The parts of a pool that allocation needs besides claims and ledger. Shared with whoever got an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFacts {
    /// Name.
    pub name: Arc<str>,
    /// Plain, node-level or global.
    pub mode: PoolMode,
    /// Family.
    pub family: Family,
    /// The subnet; its prefix length goes with every address.
    pub subnet: IpNet,
    /// `ips - excludeIPs`.
    pub addresses: AddressSet,
    /// Gateway.
    pub gateway: Option<IpAddr>,
    /// Routes that go with every address.
    pub routes: Vec<Route>,
    /// The node of a node-level pool.
    pub node_name: Option<Arc<str>>,
    /// `status.parentNic.mac` of a node-level pool: on others one MAC cannot be every node's.
    pub parent_nic_mac: Option<Mac>,
    /// The annotation `parent-nic`.
    pub parent_nic: Option<String>,
}

impl PoolFacts {
    /// Reads the object; the error names the field, its value and what to write.
    pub fn read(pool: &SpiderIPPool) -> Result<Self, String> {
        let spec = &pool.spec;
        let subnet: IpNet = spec.subnet.parse().map_err(|_| {
            format!(
                "spec.subnet {:?} is not a CIDR; write one such as 10.6.0.0/16",
                spec.subnet
            )
        })?;
        let family = match subnet {
            IpNet::V4(_) => Family::V4,
            IpNet::V6(_) => Family::V6,
        };
        if spec
            .ip_version
            .is_some_and(|version| version != i64::from(family.number()))
        {
            return Err(format!(
                "spec.ipVersion is {:?} but spec.subnet {subnet} is {family}",
                spec.ip_version
            ));
        }
        let ranges = |field: &str, texts: &[String]| {
            AddressSet::parse(family, texts).map_err(|error| format!("{field}: {error}"))
        };
        let addresses =
            ranges("spec.ips", &spec.ips)?.difference(&ranges("spec.excludeIPs", &spec.exclude_ips)?);
        let gateway = match spec.gateway.as_deref().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                format!("spec.gateway {text:?} is not an address; write one of the subnet {subnet}")
            })?),
        };
        let mode = pool.mode();
        if mode == PoolMode::NodeLevel && spec.node_name.len() != 1 {
            return Err(format!(
                "spec.nodeName of a node-level pool names {:?}; name exactly one node",
                spec.node_name
            ));
        }
        let status = pool.status.as_ref();
        Ok(Self {
            name: pool.metadata.name.as_deref().unwrap_or_default().into(),
            mode,
            family,
            subnet,
            addresses,
            gateway,
            routes: spec.routes.clone(),
            node_name: (mode == PoolMode::NodeLevel).then(|| spec.node_name[0].as_str().into()),
            parent_nic_mac: status
                .filter(|_| mode == PoolMode::NodeLevel)
                .and_then(|status| status.parent_nic.as_ref())
                .and_then(|nic| nic.mac.as_deref())
                .and_then(|mac| mac.parse().ok()),
            parent_nic: pool
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(annotation::PARENT_NIC))
                .filter(|name| !name.is_empty())
                .cloned(),
        })
    }

    /// The address with the subnet's prefix length.
    pub fn with_prefix(&self, address: IpAddr) -> IpNet {
        // Only addresses of the pool's own family come here; a host prefix is the honest rest.
        IpNet::new(address, self.subnet.prefix_len()).unwrap_or_else(|_| address.into())
    }
}
