//! Sub-ENIs, and a set of them that can be asked by either address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use orbweaver_api::mac::Mac;
use serde::Serialize;

/// An interface of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubEni {
    /// The primary address: IPv4 where there is one.
    pub address: IpAddr,
    /// The paired address; stays for the life of the sub-ENI (seed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
    /// Stays for the life of the sub-ENI.
    pub mac: Mac,
    /// The CIDR it was made in.
    pub subnet: String,
    /// The pool it is tagged with; empty when the ask named none.
    pub pool: String,
    /// Where it is attached.
    #[serde(flatten)]
    pub place: Option<Place>,
}

/// Where a sub-ENI is attached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The node.
    pub node: String,
    /// The NIC that carries it.
    pub parent_nic_mac: Mac,
    /// Unique among the sub-ENIs of one parent NIC, 1-4094.
    pub vlan: u16,
}

impl SubEni {
    /// The node it is on.
    pub fn node(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.node.as_str())
    }

    /// Its VLAN on the parent NIC.
    pub fn vlan(&self) -> Option<u16> {
        self.place.as_ref().map(|place| place.vlan)
    }

    /// The MAC of the NIC that carries it.
    pub fn parent_nic_mac(&self) -> Option<Mac> {
        self.place.as_ref().map(|place| place.parent_nic_mac)
    }

    /// Whether it is on this NIC of this node.
    pub fn is_on(&self, node: &str, parent: Mac) -> bool {
        self.node() == Some(node) && self.parent_nic_mac() == Some(parent)
    }
}

/// Sub-ENIs by primary and by paired address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    by_address: BTreeMap<IpAddr, SubEni>,
    by_paired: BTreeMap<Ipv6Addr, IpAddr>,
}

impl Inventory {
    /// Adds, or takes the place of the one with the same primary address.
    pub fn put(&mut self, sub_eni: SubEni) {
        self.remove(sub_eni.address);
        if let Some(ipv6) = sub_eni.ipv6 {
            self.by_paired.insert(ipv6, sub_eni.address);
        }
        self.by_address.insert(sub_eni.address, sub_eni);
    }

    /// Removes by primary address.
    pub fn remove(&mut self, address: IpAddr) -> Option<SubEni> {
        let removed = self.by_address.remove(&address)?;
        if let Some(ipv6) = removed.ipv6 {
            self.by_paired.remove(&ipv6);
        }
        Some(removed)
    }

    /// By primary address.
    pub fn get(&self, address: IpAddr) -> Option<&SubEni> {
        self.by_address.get(&address)
    }

    /// By primary or paired address.
    pub fn holder(&self, address: IpAddr) -> Option<&SubEni> {
        self.get(address).or_else(|| match address {
            IpAddr::V6(v6) => self.by_paired.get(&v6).and_then(|primary| self.get(*primary)),
            IpAddr::V4(_) => None,
        })
    }

    /// All, in address order.
    pub fn iter(&self) -> impl Iterator<Item = &SubEni> {
        self.by_address.values()
    }

    /// Those tagged with a pool, in address order.
    pub fn of_pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a SubEni> {
        self.iter().filter(move |sub_eni| sub_eni.pool == pool)
    }
}
