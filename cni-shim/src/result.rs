//! Answers of the CNI specification in each of its versions. Pure.

mod version;

use std::net::IpAddr;

use ipnet::IpNet;
use orbweaver_api::grpc::{self, AddResponse};
use serde::Serialize;

use crate::error::{Error, shown};
pub use version::{Version, versions};

/// Most addresses or routes that are accepted for one NIC. A pod has one address per family; a NIC's routes
/// come from one pool.
const ENTRIES_MAX: usize = 1024;

/// What an ADD gave to one NIC, checked. Independent of the CNI version until printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddResult {
    nic: String,
    netns: String,
    addresses: Vec<(IpNet, Option<IpAddr>)>,
    routes: Vec<(IpNet, Option<IpAddr>)>,
}

impl AddResult {
    /// The part of the agent's answer that is about `nic`. MAC and VLAN are no part of an IPAM result
    /// (reference §3.2): the main plugin asks the agent for them itself.
    ///
    /// # Errors
    /// The answer names nothing for `nic`, or names it badly.
    pub fn new(answer: &AddResponse, nic: &str, netns: &str) -> Result<Self, Error> {
        let mine = answer.addresses.iter().filter(|address| address.nic == nic);
        let addresses = mine
            .take(ENTRIES_MAX)
            .map(address)
            .collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(nothing(answer, nic));
        }
        let mine = answer.routes.iter().filter(|route| route.nic == nic);
        let mut routes = mine.take(ENTRIES_MAX).map(route).collect::<Result<Vec<_>, _>>()?;
        for gateway in addresses.iter().filter_map(|(_, gateway)| *gateway) {
            let default = default_route(gateway);
            // A pool may name its own default route, and two addresses may share a gateway.
            if !routes.iter().any(|(destination, _)| *destination == default) {
                routes.push((default, Some(gateway)));
            }
        }
        Ok(Self {
            nic: nic.to_owned(),
            netns: netns.to_owned(),
            addresses,
            routes,
        })
    }

    /// For the log.
    pub fn summary(&self) -> String {
        let addresses: Vec<String> = self
            .addresses
            .iter()
            .map(|(address, _)| address.to_string())
            .collect();
        format!("allocated {}", addresses.join(", "))
    }

    /// One line of JSON, as `version` of the specification wants it.
    pub fn print(&self, version: Version) -> String {
        let ips = self.addresses.iter().map(|(address, gateway)| Ip {
            version: version
                .names_the_family()
                .then_some(if address.addr().is_ipv4() { "4" } else { "6" }),
            interface: 0,
            address: *address,
            gateway: *gateway,
        });
        let routes = self.routes.iter().map(|(dst, gw)| Route { dst: *dst, gw: *gw });
        crate::result::json(&Printed {
            cni_version: version.name(),
            interfaces: [Interface {
                name: &self.nic,
                sandbox: &self.netns,
            }],
            ips: ips.collect(),
            routes: routes.collect(),
            dns: Dns {},
        })
    }
}

/// JSON of one of our own answers.
pub(crate) fn json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("our answers have string keys and no failing serializer")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
    cni_version: &'static str,
    interfaces: [Interface<'a>; 1],
    ips: Vec<Ip>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
    dns: Dns,
}

#[derive(Serialize)]
struct Interface<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    sandbox: &'a str,
}

#[derive(Serialize)]
struct Ip {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    interface: u32,
    address: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
}

#[derive(Serialize)]
struct Route {
    dst: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<IpAddr>,
}

/// The contract carries no name servers; kubelet writes a pod's resolver itself.
#[derive(Serialize)]
struct Dns {}

fn default_route(gateway: IpAddr) -> IpNet {
    match gateway {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

fn nothing(answer: &AddResponse, nic: &str) -> Error {
    let mut others: Vec<String> = answer
        .addresses
        .iter()
        .take(16)
        .map(|address| shown(&address.nic))
        .collect();
    others.sort();
    others.dedup();
    let others = if others.is_empty() {
        "no NIC at all".to_owned()
    } else {
        others.join(", ")
    };
    Error::NothingForNic {
        nic: nic.to_owned(),
        others,
    }
}

fn address(given: &grpc::Address) -> Result<(IpNet, Option<IpAddr>), Error> {
    let address: IpNet = parse("address", &given.address)?;
    let family = if address.addr().is_ipv4() { 4 } else { 6 };
    if given.version != family {
        let problem = format!("address {address} is declared as IP version {}", given.version);
        return Err(Error::Answer(problem));
    }
    Ok((address, via("gateway", &given.gateway, address)?))
}

fn route(given: &grpc::Route) -> Result<(IpNet, Option<IpAddr>), Error> {
    let destination = parse::<IpNet>("route destination", &given.dst)?.trunc();
    Ok((destination, via("route gateway", &given.gw, destination)?))
}

fn via(name: &str, text: &str, net: IpNet) -> Result<Option<IpAddr>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let gateway: IpAddr = parse(name, text)?;
    if gateway.is_ipv4() != net.addr().is_ipv4() {
        return Err(Error::Answer(format!(
            "{name} {gateway} is of another IP version than {net}"
        )));
    }
    Ok(Some(gateway))
}

fn parse<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, Error> {
    text.parse()
        .map_err(|_| Error::Answer(format!("{name} {} cannot be parsed", shown(text))))
}

#[cfg(test)]
mod tests;
