//! What the server asks of the [`crate::supervisor`] and what it gets.

use std::sync::Arc;

use crate::deadline::Deadline;

/// The NIC of a pod's sandbox that a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// CNI container id.
    pub container_id: String,
    /// CNI interface name.
    pub nic: String,
    /// Network namespace path; empty in late DELs.
    pub netns: String,
    /// Pod namespace.
    pub namespace: String,
    /// Pod name.
    pub name: String,
    /// Pod UID as the runtime sent it; may be empty.
    pub uid: String,
}

impl Attachment {
    /// `namespace/name`.
    pub fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A CNI ADD.
#[derive(Clone, Debug)]
pub struct AddRequest {
    /// Whose NIC.
    pub attachment: Attachment,
    /// Pools of the CNI configuration, IPv4.
    pub default_ipv4_pools: Vec<String>,
    /// Pools of the CNI configuration, IPv6.
    pub default_ipv6_pools: Vec<String>,
    /// No default route from the pool's gateway.
    pub clean_gateway: bool,
    /// When nobody waits any more.
    pub deadline: Deadline,
    /// One id from the plugin's log to the provider's.
    pub request_id: Arc<str>,
}

/// A CNI DEL.
#[derive(Clone, Debug)]
pub struct DelRequest {
    /// Whose NIC.
    pub attachment: Attachment,
    /// When nobody waits any more.
    pub deadline: Deadline,
    /// One id from the plugin's log to the provider's.
    pub request_id: Arc<str>,
}

/// A CNI CHECK.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// Whose NIC.
    pub attachment: Attachment,
    /// Addresses with prefix length that the previous result named.
    pub addresses: Vec<String>,
    /// When nobody waits any more.
    pub deadline: Deadline,
}

/// What an ADD gives: the addresses of the NIC in question, one per family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// One per family.
    pub addresses: Vec<AllocatedAddress>,
    /// Routes of this NIC: destination CIDR and gateway.
    pub routes: Vec<orbweaver_api::pool::Route>,
}

/// One address of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedAddress {
    /// With prefix length.
    pub address: ipnet::IpNet,
    /// CNI interface name.
    pub nic: String,
    /// Pool name.
    pub pool: String,
    /// Gateway for the default route; `None` when there is none or it was cleaned.
    pub gateway: Option<String>,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// MAC address.
    pub mac: Option<String>,
}
