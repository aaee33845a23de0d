//! Is the provider's answer an answer to what was asked? Pure.
//!
//! A 2xx answer may leave out MAC and VLAN, never an address, and may name no address that nobody asked for
//! (design §6). A wrong answer is an error of the whole call: a pod with half of its interfaces is no pod.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use orbweaver_api::mac::Mac;
use orbweaver_api::provider::{AllocateRequest, AllocateResponse, SubEniResponse};

use super::BoundSubEni;

/// The largest VLAN id of IEEE 802.1Q; 0 means "no VLAN" and 4095 is reserved.
const MAX_VLAN: i64 = 4094;

/// One sub-ENI of a request, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Address wanted.
    pub ipv4: Option<Ipv4Addr>,
    /// Address wanted.
    pub ipv6: Option<Ipv6Addr>,
    /// MAC of the parent NIC, in lower case.
    pub parent_nic: String,
}

impl Asked {
    /// The address by which the sub-ENI is known: IPv4 where there is one.
    fn address(&self) -> Option<IpAddr> {
        self.ipv4.map(IpAddr::V4).or(self.ipv6.map(IpAddr::V6))
    }
}

/// A request that must not be sent, because no answer to it could be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// A field that the contract requires is empty.
    #[error("{field} is empty; the provider needs it")]
    Empty {
        /// JSON name.
        field: &'static str,
    },
    /// A sub-ENI without any address.
    #[error("subEniRequests[{item}] names no address; give ipv4Address, ipv6Address or both")]
    NoAddress {
        /// Index.
        item: usize,
    },
    /// Not an address.
    #[error("subEniRequests[{item}].{field} {value:?} is not an address; write it without prefix length")]
    Address {
        /// Index.
        item: usize,
        /// JSON name.
        field: &'static str,
        /// As given.
        value: String,
    },
    /// One address in two items.
    #[error("subEniRequests[{item}] asks for {address} a second time")]
    Twice {
        /// Index.
        item: usize,
        /// Address.
        address: IpAddr,
    },
}

/// Why a 2xx answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongAnswer {
    /// Not an address.
    #[error("subEniResponses[{item}].{field} {value:?} is not an address")]
    Address {
        /// Index.
        item: usize,
        /// JSON name.
        field: &'static str,
        /// As answered.
        value: String,
    },
    /// An item that belongs to nothing.
    #[error("subEniResponses[{item}] names no address")]
    NoAddress {
        /// Index.
        item: usize,
    },
    /// An address that is somebody else's.
    #[error("address {0} was answered but not asked for")]
    Unasked(IpAddr),
    /// The pair was torn apart.
    #[error("{ipv4} was asked for with {wanted} but answered with {got}")]
    Pair {
        /// The pair's IPv4 address.
        ipv4: Ipv4Addr,
        /// The IPv6 address asked for.
        wanted: Ipv6Addr,
        /// The one answered.
        got: Ipv6Addr,
    },
    /// One family of a pair is missing.
    #[error("{got} was answered without {missing}, which was asked for on the same sub-ENI")]
    HalfPair {
        /// The family that came.
        got: IpAddr,
        /// The family that did not.
        missing: IpAddr,
    },
    /// Two answers to one question.
    #[error("address {0} was answered twice")]
    Twice(IpAddr),
    /// No answer to a question.
    #[error("address {0} was asked for but not answered")]
    Unanswered(IpAddr),
    /// Not a MAC address.
    #[error("macAddress of {address}: {why}")]
    Mac {
        /// Whose.
        address: IpAddr,
        /// What is wrong.
        why: String,
    },
    /// Not a VLAN id.
    #[error("vlanId {vlan} of {address} is not between 1 and 4094")]
    Vlan {
        /// Whose.
        address: IpAddr,
        /// As answered.
        vlan: i64,
    },
    /// Two sub-ENIs that could not be told apart on the wire (peer rule L18).
    #[error("vlanId {vlan} of {address} is already the VLAN of another sub-ENI on parent NIC {parent_nic}")]
    SameVlan {
        /// The second one.
        address: IpAddr,
        /// The VLAN id.
        vlan: u16,
        /// MAC of the parent NIC.
        parent_nic: String,
    },
}

/// Parses what a request asks for. Everything that the contract requires must be there.
pub fn asked(request: &AllocateRequest) -> Result<Vec<Asked>, MalformedRequest> {
    if request.node_name.is_empty() {
        return Err(MalformedRequest::Empty { field: "nodeName" });
    }
    if request.sub_eni_requests.is_empty() {
        return Err(MalformedRequest::Empty {
            field: "subEniRequests",
        });
    }
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(request.sub_eni_requests.len());
    for (item, wanted) in request.sub_eni_requests.iter().enumerate() {
        if wanted.parent_nic_mac.is_empty() {
            return Err(MalformedRequest::Empty {
                field: "parentNicMac",
            });
        }
        if wanted.subnet.is_empty() {
            return Err(MalformedRequest::Empty { field: "subnet" });
        }
        let malformed = |field, value: String| MalformedRequest::Address { item, field, value };
        let one = Asked {
            ipv4: address(&wanted.ipv4_address).map_err(|value| malformed("ipv4Address", value))?,
            ipv6: address(&wanted.ipv6_address).map_err(|value| malformed("ipv6Address", value))?,
            parent_nic: wanted.parent_nic_mac.to_ascii_lowercase(),
        };
        let addresses = [one.ipv4.map(IpAddr::V4), one.ipv6.map(IpAddr::V6)];
        if addresses == [None, None] {
            return Err(MalformedRequest::NoAddress { item });
        }
        if let Some(address) = addresses
            .into_iter()
            .flatten()
            .find(|address| !seen.insert(*address))
        {
            return Err(MalformedRequest::Twice { item, address });
        }
        all.push(one);
    }
    Ok(all)
}

/// Checks an answer. The result has one entry per item of the request, in the request's order.
pub fn check(asked: &[Asked], response: &AllocateResponse) -> Result<Vec<BoundSubEni>, WrongAnswer> {
    let mut bound: Vec<Option<BoundSubEni>> = vec![None; asked.len()];
    let mut vlans = HashSet::new();
    for (item, answer) in response.sub_eni_responses.iter().enumerate() {
        let (place, address) = place(asked, item, answer)?;
        let (Some(question), Some(slot)) = (asked.get(place), bound.get_mut(place)) else {
            return Err(WrongAnswer::Unasked(address));
        };
        if slot.is_some() {
            return Err(WrongAnswer::Twice(address));
        }
        let vlan = vlan(address, answer.vlan_id)?;
        if let Some(vlan) = vlan {
            let parent_nic = parent_nic(question, answer);
            if !vlans.insert((parent_nic.clone(), vlan)) {
                return Err(WrongAnswer::SameVlan {
                    address,
                    vlan,
                    parent_nic,
                });
            }
        }
        *slot = Some(BoundSubEni {
            ipv4: question.ipv4,
            ipv6: question.ipv6,
            mac: mac(address, &answer.mac_address)?,
            vlan,
        });
    }
    let unanswered = asked.iter().zip(&bound).find(|(_, slot)| slot.is_none());
    if let Some(address) = unanswered.and_then(|(question, _)| question.address()) {
        return Err(WrongAnswer::Unanswered(address));
    }
    Ok(bound.into_iter().flatten().collect())
}

/// Which question an item answers, and the address to call it by.
fn place(asked: &[Asked], item: usize, answer: &SubEniResponse) -> Result<(usize, IpAddr), WrongAnswer> {
    let malformed = |field, value: String| WrongAnswer::Address { item, field, value };
    let ipv4: Option<Ipv4Addr> =
        address(&answer.ipv4_address).map_err(|value| malformed("ipv4Address", value))?;
    let ipv6: Option<Ipv6Addr> =
        address(&answer.ipv6_address).map_err(|value| malformed("ipv6Address", value))?;
    let (found, named) = match (ipv4, ipv6) {
        (Some(v4), _) => (
            asked.iter().position(|question| question.ipv4 == Some(v4)),
            IpAddr::V4(v4),
        ),
        (None, Some(v6)) => (
            asked.iter().position(|question| question.ipv6 == Some(v6)),
            IpAddr::V6(v6),
        ),
        (None, None) => return Err(WrongAnswer::NoAddress { item }),
    };
    let Some((place, question)) = found.and_then(|place| Some((place, asked.get(place)?))) else {
        return Err(WrongAnswer::Unasked(named));
    };
    match (question.ipv4, ipv4, question.ipv6, ipv6) {
        (Some(missing), None, _, _) => Err(WrongAnswer::HalfPair {
            got: named,
            missing: IpAddr::V4(missing),
        }),
        (_, _, Some(missing), None) => Err(WrongAnswer::HalfPair {
            got: named,
            missing: IpAddr::V6(missing),
        }),
        (_, _, None, Some(extra)) => Err(WrongAnswer::Unasked(IpAddr::V6(extra))),
        (Some(ipv4), _, Some(wanted), Some(got)) if wanted != got => {
            Err(WrongAnswer::Pair { ipv4, wanted, got })
        }
        _ => Ok((place, named)),
    }
}

/// The NIC that carries the sub-ENI: the provider's word, else ours.
fn parent_nic(question: &Asked, answer: &SubEniResponse) -> String {
    if answer.parent_nic_mac.is_empty() {
        question.parent_nic.clone()
    } else {
        answer.parent_nic_mac.to_ascii_lowercase()
    }
}

/// `None` for an empty text; the text itself when it is no address.
fn address<A: std::str::FromStr>(text: &str) -> Result<Option<A>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| text.to_owned())
}

fn mac(address: IpAddr, text: &str) -> Result<Option<Mac>, WrongAnswer> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed: Result<Mac, _> = text.parse();
    parsed.map(Some).map_err(|malformed| WrongAnswer::Mac {
        address,
        why: malformed.to_string(),
    })
}

fn vlan(address: IpAddr, vlan: Option<i64>) -> Result<Option<u16>, WrongAnswer> {
    let Some(vlan) = vlan.filter(|vlan| *vlan != 0) else {
        return Ok(None);
    };
    match u16::try_from(vlan) {
        Ok(id) if vlan <= MAX_VLAN => Ok(Some(id)),
        _ => Err(WrongAnswer::Vlan { address, vlan }),
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
