//! Requests that have been checked: every field has its meaning, or the refusal names it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use orbweaver_api::mac::Mac;
use orbweaver_api::provider::{AllocateRequest, ReleaseRequest, SubEniRequest};

use crate::refusal::Refusal;

/// Most items of one request.
const MOST_ITEMS: usize = 64;

/// A checked allocate request, without the pod: who asks does not change what is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllocateAsk {
    /// Where the sub-ENIs are wanted.
    pub node: String,
    /// At least one; no address twice.
    pub items: Vec<Item>,
}

/// One sub-ENI as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The NIC that is to carry it.
    pub parent: Mac,
    /// The subnet of the primary address.
    pub subnet: IpNet,
    /// IPv4 where there is one, else IPv6.
    pub primary: IpAddr,
    /// The IPv6 address beside an IPv4 one.
    pub paired: Option<Ipv6Addr>,
    /// Pool of the primary address; empty when not said.
    pub pool: String,
    /// Pool of the paired address; empty when not said.
    pub paired_pool: String,
}

/// A checked release request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseAsk {
    /// Where the pod ran.
    pub node: String,
    /// Either address of the sub-ENI.
    pub address: IpAddr,
}

impl AllocateAsk {
    /// Checks a request.
    pub fn read(request: &AllocateRequest) -> Result<Self, Refusal> {
        let node = required("nodeName", &request.node_name)?;
        let items = &request.sub_eni_requests;
        if items.is_empty() || items.len() > MOST_ITEMS {
            let found = format!("{} items", items.len());
            let problem = format!("send between 1 and {MOST_ITEMS} items");
            return Err(Refusal::invalid("subEniRequests", found, problem));
        }
        let mut seen = BTreeSet::new();
        let mut checked = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let item = Item::read(index, item)?;
            for address in item.addresses() {
                if !seen.insert(address) {
                    let field = format!("subEniRequests[{index}]");
                    return Err(Refusal::invalid(
                        field,
                        address.to_string(),
                        "an address may be in one item only",
                    ));
                }
            }
            checked.push(item);
        }
        Ok(Self { node, items: checked })
    }

    /// Every address of every item.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.items.iter().flat_map(Item::addresses)
    }
}

impl Item {
    fn read(index: usize, item: &SubEniRequest) -> Result<Self, Refusal> {
        let name = |field: &str| format!("subEniRequests[{index}].{field}");
        let parent = required(&name("parentNicMac"), &item.parent_nic_mac)?;
        let parent = parent.parse::<Mac>().map_err(|error| {
            Refusal::invalid(name("parentNicMac"), &item.parent_nic_mac, error.to_string())
        })?;
        let subnet = subnet(&name("subnet"), &item.subnet)?;
        let v4: Option<Ipv4Addr> = optional(&name("ipv4Address"), &item.ipv4_address, "a bare IPv4 address")?;
        let v6: Option<Ipv6Addr> = optional(&name("ipv6Address"), &item.ipv6_address, "a bare IPv6 address")?;
        let (field, primary, paired) = match (v4, v6) {
            (Some(v4), v6) => ("ipv4Address", IpAddr::V4(v4), v6),
            (None, Some(v6)) => ("ipv6Address", IpAddr::V6(v6), None),
            (None, None) => {
                let problem = "give an IPv4 address, an IPv6 address or both";
                return Err(Refusal::invalid(name("ipv4Address"), "", problem));
            }
        };
        inside(&name(field), primary, subnet)?;
        let (pool, paired_pool) = if v4.is_some() {
            (&item.ipv4_pool_name, &item.ipv6_pool_name)
        } else {
            (&item.ipv6_pool_name, &item.ipv4_pool_name)
        };
        Ok(Self {
            parent,
            subnet,
            primary,
            paired,
            pool: pool.clone(),
            paired_pool: paired_pool.clone(),
        })
    }

    /// One address or two.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        [Some(self.primary), self.paired.map(IpAddr::V6)]
            .into_iter()
            .flatten()
    }
}

impl ReleaseAsk {
    /// Checks a request.
    pub fn read(request: &ReleaseRequest) -> Result<Self, Refusal> {
        let node = required("nodeName", &request.node_name)?;
        let subnet = subnet("subnet", &request.subnet)?;
        required("ipAddress", &request.ip_address)?;
        let address: IpAddr = parsed("ipAddress", &request.ip_address, "a bare IP address")?;
        inside("ipAddress", address, subnet)?;
        if !request.parent_nic_mac.is_empty() {
            let parent = request.parent_nic_mac.parse::<Mac>();
            parent.map_err(|error| {
                Refusal::invalid("parentNicMac", &request.parent_nic_mac, error.to_string())
            })?;
        }
        Ok(Self { node, address })
    }
}

fn required(field: &str, value: &str) -> Result<String, Refusal> {
    if value.trim().is_empty() {
        return Err(Refusal::invalid(field, value, "the field is required"));
    }
    Ok(value.to_owned())
}

fn parsed<T: std::str::FromStr>(field: &str, value: &str, form: &str) -> Result<T, Refusal> {
    value
        .parse()
        .map_err(|_| Refusal::invalid(field, value, format!("send {form}")))
}

fn optional<T: std::str::FromStr>(field: &str, value: &str, form: &str) -> Result<Option<T>, Refusal> {
    if value.is_empty() {
        return Ok(None);
    }
    parsed(field, value, form).map(Some)
}

fn subnet(field: &str, value: &str) -> Result<IpNet, Refusal> {
    required(field, value)?;
    parsed(field, value, "a CIDR such as 10.0.0.0/24")
}

fn inside(field: &str, address: IpAddr, subnet: IpNet) -> Result<(), Refusal> {
    if subnet.contains(&address) {
        return Ok(());
    }
    let problem = format!("the address is not in subnet {subnet}");
    Err(Refusal::invalid(field, address.to_string(), problem))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item() -> Value {
        json!({
            "parentNicMac": "fa:16:3e:11:22:33", "subnet": "10.0.0.0/24", "ipv4Address": "10.0.0.10",
            "ipv6Address": "fd00::10", "ipv4PoolName": "p4", "ipv6PoolName": "p6",
        })
    }

    fn allocate(items: &[Value]) -> Result<AllocateAsk, Refusal> {
        let body = json!({ "nodeName": "n1", "subEniRequests": items });
        AllocateAsk::read(&serde_json::from_value(body).unwrap())
    }

    #[test]
    fn a_refusal_names_the_field_and_the_value() {
        let cases = [
            ("parentNicMac", "fa:16"),
            ("parentNicMac", ""),
            ("subnet", "10.0.0.0"),
            ("subnet", ""),
            ("ipv4Address", "10.0.0.10/24"),
            ("ipv4Address", "10.0.1.10"),
            ("ipv4Address", "fd00::1"),
            ("ipv6Address", "10.0.0.10"),
        ];
        for (field, value) in cases {
            let mut bad = item();
            bad[field] = json!(value);
            let refusal = allocate(&[bad]).unwrap_err();
            let text = refusal.to_string();
            assert_eq!(refusal.status(), 400);
            assert!(
                text.contains(&format!("subEniRequests[0].{field}")) && text.contains(value),
                "{text}"
            );
        }
    }

    #[test]
    fn an_item_needs_an_address_and_no_address_is_in_two_items() {
        let mut bare = item();
        bare["ipv4Address"] = json!("");
        bare["ipv6Address"] = json!("");
        assert!(allocate(&[bare]).is_err());
        assert!(allocate(&[]).is_err());
        let mut other = item();
        other["ipv4Address"] = json!("10.0.0.11");
        let text = allocate(&[item(), other]).unwrap_err().to_string();
        assert!(
            text.contains("subEniRequests[1]") && text.contains("fd00::10"),
            "{text}"
        );
    }

    #[test]
    fn ipv6_alone_is_primary_and_brings_its_own_pool() {
        let mut only = item();
        only["ipv4Address"] = json!("");
        only["subnet"] = json!("fd00::/64");
        let ask = allocate(&[only]).unwrap();
        assert_eq!(ask.items[0].primary, "fd00::10".parse::<IpAddr>().unwrap());
        assert_eq!((ask.items[0].pool.as_str(), ask.items[0].paired), ("p6", None));
    }

    #[test]
    fn a_release_needs_no_parent_nic_but_node_subnet_and_address() {
        let good = json!({ "nodeName": "n1", "subnet": "10.0.0.0/24", "ipAddress": "10.0.0.10" });
        let read = |body: Value| ReleaseAsk::read(&serde_json::from_value(body).unwrap());
        assert!(read(good.clone()).is_ok());
        for (field, value) in [
            ("nodeName", ""),
            ("subnet", ""),
            ("ipAddress", ""),
            ("ipAddress", "10.9.0.1"),
            ("parentNicMac", "x"),
        ] {
            let mut bad = good.clone();
            bad[field] = json!(value);
            assert!(read(bad).unwrap_err().to_string().starts_with(field), "{field}");
        }
    }
}
