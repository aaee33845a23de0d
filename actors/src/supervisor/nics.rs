//! The NICs that one ADD works on: mostly the one in question; all of a pod where `ippools` names no NICs, or
//! where the pod came back.

use std::net::IpAddr;
use std::sync::Arc;

use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::NicAllocation;
use orbweaver_api::multus::NetworkRef;

use super::endpoint;
use crate::pool::effect::Claimed;

/// The candidates of one family, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) family: Family,
    pub(super) pools: Vec<Arc<str>>,
}

/// What one NIC is to get.
#[derive(Clone, Debug)]
pub(super) struct NicPlan {
    /// CNI interface name; empty for a slot that the ADD of a later NIC takes.
    pub(super) nic: String,
    /// The network that it is attached to, when that is known.
    pub(super) network: Option<NetworkRef>,
    pub(super) attempts: Vec<Attempt>,
    /// No default route from the pool's gateway.
    pub(super) clean_gateway: bool,
    /// What the pod's endpoint says of it.
    pub(super) recorded: Option<NicAllocation>,
    /// The pod came back: what is recorded, or nothing.
    pub(super) takes_over: bool,
}

impl NicPlan {
    /// The same again as recorded.
    pub(super) fn of_record(nic: &NicAllocation, network: Option<NetworkRef>) -> Self {
        let families = [
            (Family::V4, &nic.ipv4, &nic.ipv4_pool),
            (Family::V6, &nic.ipv6, &nic.ipv6_pool),
        ];
        let attempts = families.into_iter().filter_map(|(family, address, pool)| {
            address.as_ref()?;
            Some(Attempt {
                family,
                pools: vec![pool.as_deref()?.into()],
            })
        });
        Self {
            nic: nic.interface.clone(),
            network,
            attempts: attempts.collect(),
            clean_gateway: nic.clean_gateway == Some(true),
            recorded: Some(nic.clone()),
            takes_over: false,
        }
    }

    /// The recorded address of a family.
    pub(super) fn recorded(&self, family: Family) -> Option<IpAddr> {
        endpoint::address(self.recorded.as_ref()?, family)
    }
}

/// An address of this ADD, with what the provider said of it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) claimed: Claimed,
    /// The pod's endpoint names it already: a failed ADD leaves it alone.
    pub(super) recorded: bool,
    pub(super) mac: Option<String>,
    pub(super) vlan: Option<u16>,
}

impl Held {
    pub(super) fn new(claimed: Claimed, plan: &NicPlan) -> Self {
        let recorded = plan.recorded(claimed.facts.family) == Some(claimed.address);
        Self {
            recorded: recorded && (claimed.found() || plan.takes_over),
            mac: claimed.mac.map(|mac| mac.to_string()),
            vlan: claimed.vlan,
            claimed,
        }
    }
}

/// What one NIC holds.
#[derive(Clone, Debug)]
pub(super) struct NicHeld {
    pub(super) plan: NicPlan,
    pub(super) held: Vec<Held>,
}

impl NicHeld {
    /// True when every recorded address was found claimed by the pod, with its sub-ENI in place.
    pub(super) fn is_as_recorded(&self) -> bool {
        let recorded = [Family::V4, Family::V6]
            .into_iter()
            .filter_map(|family| self.plan.recorded(family));
        let mut recorded = recorded.peekable();
        recorded.peek().is_some()
            && recorded.all(|address| {
                self.held.iter().any(|held| {
                    held.claimed.address == address && held.claimed.found() && !held.claimed.provider_call
                })
            })
    }

    /// True when there is an address of every family that was asked for, and of one at least.
    pub(super) fn is_complete(&self) -> bool {
        !self.held.is_empty() && self.held.len() == self.plan.attempts.len()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.held.iter().map(|held| held.claimed.address)
    }
}
