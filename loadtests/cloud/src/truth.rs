//! What the cloud itself knows and enforces, whatever any provider believes. No clock and no waiting.

mod nic;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use orbweaver_api::mac::Mac;

use crate::sub_eni::{Inventory, Place, SubEni};
use crate::truth::nic::{LAST_VLAN, Nic};

/// One thing the cloud can be told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make a sub-ENI and attach it.
    Create {
        /// Primary address.
        address: IpAddr,
        /// Paired address.
        ipv6: Option<Ipv6Addr>,
        /// CIDR of the primary address.
        subnet: String,
        /// Tag.
        pool: String,
        /// Where to attach it.
        target: Target,
    },
    /// Attach one that is on no node.
    Attach {
        /// Which.
        address: IpAddr,
        /// Where.
        target: Target,
    },
    /// Take one off its node.
    Detach(IpAddr),
    /// Give one a paired address, or take it away.
    Pair(IpAddr, Option<Ipv6Addr>),
    /// Change the tag.
    Tag(IpAddr, String),
    /// Detach and delete.
    Delete(IpAddr),
}

/// Where a sub-ENI is to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Node.
    pub node: String,
    /// NIC.
    pub parent: Mac,
    /// A VLAN that is wanted again, when an attachment is restored.
    pub vlan: Option<u16>,
}

/// The cloud's refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// The caller's picture is old: read the address again.
    #[error("the sub-ENI of {0} is not in the state that the operation expects")]
    Outdated(IpAddr),
    /// The address belongs to another sub-ENI.
    #[error("address {address} belongs to the sub-ENI of {holder}")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Primary address of its sub-ENI.
        holder: IpAddr,
    },
    /// The parent NIC can carry no more.
    #[error("parent NIC {parent} of node {node} carries {limit} sub-ENIs, the most that it can carry")]
    NicFull {
        /// NIC.
        parent: Mac,
        /// Node.
        node: String,
        /// The most.
        limit: usize,
    },
    /// It broke.
    #[error("internal error of the cloud (injected)")]
    Broken,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Work {
    /// Calls that the cloud has got, finished or not.
    pub calls: u64,
    /// Sub-ENIs made.
    pub created: u64,
    /// Attachments apart from those at creation.
    pub attached: u64,
    /// Detachments apart from those at deletion.
    pub detached: u64,
    /// Sub-ENIs deleted.
    pub deleted: u64,
}

/// The cloud's own list.
#[derive(Clone, Debug)]
pub struct Truth {
    sub_enis: Inventory,
    nics: BTreeMap<Mac, Nic>,
    limit: usize,
    macs: u64,
    /// What was done.
    pub work: Work,
}

impl Truth {
    /// An empty cloud whose parent NICs carry at most `limit` sub-ENIs.
    pub fn new(limit: usize) -> Self {
        Self {
            sub_enis: Inventory::default(),
            nics: BTreeMap::new(),
            limit: limit.min(usize::from(LAST_VLAN)),
            macs: 0,
            work: Work::default(),
        }
    }

    /// The list.
    pub fn sub_enis(&self) -> &Inventory {
        &self.sub_enis
    }

    /// Does one thing, all or nothing, and says how to undo it. A deletion cannot be undone.
    pub fn perform(&mut self, operation: &Operation) -> Result<Option<Operation>, CloudError> {
        match operation {
            Operation::Create {
                address,
                ipv6,
                subnet,
                pool,
                target,
            } => {
                let sub_eni = SubEni {
                    address: *address,
                    ipv6: *ipv6,
                    mac: self.next_mac(),
                    subnet: subnet.clone(),
                    pool: pool.clone(),
                    place: None,
                };
                self.create(sub_eni, target).map(Some)
            }
            Operation::Attach { address, target } => self.attach(*address, target).map(Some),
            Operation::Detach(address) => self.detach(*address).map(Some),
            Operation::Pair(address, ipv6) => self.pair(*address, *ipv6).map(Some),
            Operation::Tag(address, pool) => self.tag(*address, pool.clone()).map(Some),
            Operation::Delete(address) => self.delete(*address).map(|()| None),
        }
    }

    fn create(&mut self, mut sub_eni: SubEni, target: &Target) -> Result<Operation, CloudError> {
        let address = sub_eni.address;
        self.free(address)?;
        if let Some(ipv6) = sub_eni.ipv6 {
            self.free(IpAddr::V6(ipv6))?;
        }
        sub_eni.place = Some(self.plug(target)?);
        self.sub_enis.put(sub_eni);
        self.work.created += 1;
        Ok(Operation::Delete(address))
    }

    fn attach(&mut self, address: IpAddr, target: &Target) -> Result<Operation, CloudError> {
        let mut sub_eni = self.known(address, |sub_eni| sub_eni.place.is_none())?;
        sub_eni.place = Some(self.plug(target)?);
        self.sub_enis.put(sub_eni);
        self.work.attached += 1;
        Ok(Operation::Detach(address))
    }

    fn detach(&mut self, address: IpAddr) -> Result<Operation, CloudError> {
        let mut sub_eni = self.known(address, |_| true)?;
        let place = sub_eni.place.take().ok_or(CloudError::Outdated(address))?;
        self.unplug(&place);
        self.sub_enis.put(sub_eni);
        self.work.detached += 1;
        let target = Target {
            node: place.node,
            parent: place.parent_nic_mac,
            vlan: Some(place.vlan),
        };
        Ok(Operation::Attach { address, target })
    }

    fn pair(&mut self, address: IpAddr, ipv6: Option<Ipv6Addr>) -> Result<Operation, CloudError> {
        let mut sub_eni = self.known(address, |_| true)?;
        if let Some(ipv6) = ipv6 {
            self.free(IpAddr::V6(ipv6))?;
        }
        let before = std::mem::replace(&mut sub_eni.ipv6, ipv6);
        self.sub_enis.put(sub_eni);
        Ok(Operation::Pair(address, before))
    }

    fn tag(&mut self, address: IpAddr, pool: String) -> Result<Operation, CloudError> {
        let mut sub_eni = self.known(address, |_| true)?;
        let before = std::mem::replace(&mut sub_eni.pool, pool);
        self.sub_enis.put(sub_eni);
        Ok(Operation::Tag(address, before))
    }

    fn delete(&mut self, address: IpAddr) -> Result<(), CloudError> {
        let removed = self
            .sub_enis
            .remove(address)
            .ok_or(CloudError::Outdated(address))?;
        if let Some(place) = removed.place {
            self.unplug(&place);
        }
        self.work.deleted += 1;
        Ok(())
    }

    fn known(&self, address: IpAddr, fits: impl Fn(&SubEni) -> bool) -> Result<SubEni, CloudError> {
        let found = self.sub_enis.get(address).filter(|sub_eni| fits(sub_eni));
        found.cloned().ok_or(CloudError::Outdated(address))
    }

    fn free(&self, address: IpAddr) -> Result<(), CloudError> {
        match self.sub_enis.holder(address) {
            None => Ok(()),
            Some(sub_eni) if sub_eni.address == address => Err(CloudError::Outdated(address)),
            Some(sub_eni) => Err(CloudError::Taken {
                address,
                holder: sub_eni.address,
            }),
        }
    }

    fn plug(&mut self, target: &Target) -> Result<Place, CloudError> {
        let nic = self
            .nics
            .entry(target.parent)
            .or_insert_with(|| Nic::new(target.parent));
        if nic.used() >= self.limit {
            return Err(CloudError::NicFull {
                parent: target.parent,
                node: target.node.clone(),
                limit: self.limit,
            });
        }
        Ok(Place {
            node: target.node.clone(),
            parent_nic_mac: target.parent,
            vlan: nic.take(target.vlan),
        })
    }

    fn unplug(&mut self, place: &Place) {
        if let Some(nic) = self.nics.get_mut(&place.parent_nic_mac) {
            nic.give_back(place.vlan);
        }
    }

    fn next_mac(&mut self) -> Mac {
        self.macs += 1;
        let [.., a, b, c, d] = self.macs.to_be_bytes();
        Mac::new([0xfa, 0x17, a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 4;

    fn target(nic: u8) -> Target {
        Target {
            node: format!("n{nic}"),
            parent: Mac::new([nic; 6]),
            vlan: None,
        }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let six =
            proptest::option::of((0u16..6).prop_map(|last| Ipv6Addr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])));
        (0u8..6, 0u8..10, 0u8..3, six).prop_map(|(kind, last, nic, ipv6)| match kind {
            0 | 1 => Operation::Create {
                address: address(last),
                ipv6,
                subnet: "10.0.0.0/24".to_owned(),
                pool: "p".to_owned(),
                target: target(nic),
            },
            2 => Operation::Attach {
                address: address(last),
                target: target(nic),
            },
            3 => Operation::Detach(address(last)),
            4 => Operation::Pair(address(last), ipv6),
            _ => Operation::Delete(address(last)),
        })
    }

    fn check(truth: &Truth) {
        let mut ports = BTreeSet::new();
        let mut used = BTreeMap::<Mac, usize>::new();
        let (mut sixes, mut macs) = (BTreeSet::new(), BTreeSet::new());
        for sub_eni in truth.sub_enis().iter() {
            assert!(macs.insert(sub_eni.mac), "two sub-ENIs have {}", sub_eni.mac);
            assert!(
                sub_eni.ipv6.is_none_or(|six| sixes.insert(six)),
                "a v6 is used twice"
            );
            if let Some(place) = &sub_eni.place {
                assert!((1..=4094).contains(&place.vlan));
                assert!(
                    ports.insert((place.parent_nic_mac, place.vlan)),
                    "a VLAN is used twice"
                );
                *used.entry(place.parent_nic_mac).or_default() += 1;
            }
        }
        assert!(
            used.values().all(|count| *count <= LIMIT),
            "a NIC is over its limit"
        );
    }

    proptest! {
        #[test]
        fn the_cloud_never_breaks_its_own_rules(operations in proptest::collection::vec(operation(), 1..80)) {
            let mut truth = Truth::new(LIMIT);
            for operation in operations {
                let before = truth.sub_enis.clone();
                if truth.perform(&operation).is_err() {
                    prop_assert_eq!(&before, &truth.sub_enis, "a refused operation changed something");
                }
                check(&truth);
            }
        }

        #[test]
        fn undo_restores_everything_but_a_deletion(operations in proptest::collection::vec(operation(), 1..40)) {
            let mut truth = Truth::new(LIMIT);
            for operation in operations {
                let before = truth.sub_enis.clone();
                if let Ok(Some(undo)) = truth.perform(&operation) {
                    let redone = truth.clone();
                    truth.perform(&undo).unwrap();
                    prop_assert_eq!(&before, &truth.sub_enis);
                    truth = redone;
                }
            }
        }
    }

    #[test]
    fn vlans_of_a_nic_run_around_and_fill_up() {
        let mut truth = Truth::new(usize::MAX);
        for number in 0..4095u16 {
            let [high, low] = number.to_be_bytes();
            let made = truth.perform(&Operation::Create {
                address: IpAddr::from([10, 0, high, low]),
                ipv6: None,
                subnet: String::new(),
                pool: String::new(),
                target: target(1),
            });
            assert_eq!(made.is_ok(), number < 4094, "{number}: {made:?}");
        }
    }
}
