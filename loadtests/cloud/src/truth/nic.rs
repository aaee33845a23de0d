//! The VLANs of a parent NIC.

use std::collections::BTreeSet;

use orbweaver_api::mac::Mac;

use crate::call_time::mixed;

/// The cloud's VLAN ids go from 1 to this.
pub(super) const LAST_VLAN: u16 = 4094;

/// Which VLANs are in use, and where to look for the next.
#[derive(Clone, Debug)]
pub(super) struct Nic {
    vlans: BTreeSet<u16>,
    next: u16,
}

impl Nic {
    /// Counting starts somewhere else on every NIC, so that a moved sub-ENI is seen to get another VLAN.
    pub(super) fn new(mac: Mac) -> Self {
        let sum = mac
            .to_string()
            .bytes()
            .fold(0, |sum, byte| mixed(sum ^ u64::from(byte)));
        let next = u16::try_from(sum % u64::from(LAST_VLAN)).map_or(1, |start| start + 1);
        Self {
            vlans: BTreeSet::new(),
            next,
        }
    }

    /// The wanted VLAN when it is free, else the next free one; the caller has checked that there is one.
    pub(super) fn take(&mut self, wanted: Option<u16>) -> u16 {
        if let Some(vlan) = wanted.filter(|vlan| !self.vlans.contains(vlan)) {
            self.vlans.insert(vlan);
            return vlan;
        }
        while !self.vlans.insert(self.next) {
            self.step();
        }
        let vlan = self.next;
        self.step();
        vlan
    }

    /// VLANs in use.
    pub(super) fn used(&self) -> usize {
        self.vlans.len()
    }

    /// Frees a VLAN.
    pub(super) fn give_back(&mut self, vlan: u16) {
        self.vlans.remove(&vlan);
    }

    fn step(&mut self) {
        self.next = if self.next >= LAST_VLAN { 1 } else { self.next + 1 };
    }
}
