//! What must be done in the cloud so that an item is bound where it is wanted.

use std::net::IpAddr;

use crate::ask::{AllocateAsk, Item};
use crate::refusal::Refusal;
use crate::sub_eni::Inventory;
use crate::truth::{Operation, Target};

/// Operations in two calls: the second may need the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Sub-ENIs that leave another node or NIC.
    pub detach: Vec<Operation>,
    /// Everything else.
    pub bind: Vec<Operation>,
    /// Items whose sub-ENI was bound on another node.
    pub steals: u64,
}

impl Plan {
    /// Nothing to do: everything is bound as it is wanted.
    pub fn is_empty(&self) -> bool {
        self.detach.is_empty() && self.bind.is_empty()
    }
}

/// Plans a whole request; one item that cannot be bound refuses all of it.
pub fn plan(known: &Inventory, ask: &AllocateAsk) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    for item in &ask.items {
        plan_item(&mut plan, known, &ask.node, item)?;
    }
    Ok(plan)
}

fn plan_item(plan: &mut Plan, known: &Inventory, node: &str, item: &Item) -> Result<(), Refusal> {
    let address = item.primary;
    let target = Target {
        node: node.to_owned(),
        parent: item.parent,
        vlan: None,
    };
    for wanted in item.addresses() {
        if let Some(holder) = known.holder(wanted).filter(|holder| holder.address != address) {
            return Err(Refusal::Conflict(format!(
                "address {wanted} belongs to the sub-ENI of {}; release that one first",
                holder.address
            )));
        }
    }
    let Some(sub_eni) = known.get(address) else {
        plan.bind.push(Operation::Create {
            address,
            ipv6: item.paired,
            subnet: item.subnet.to_string(),
            pool: item.pool.clone(),
            target,
        });
        return Ok(());
    };
    match (item.paired, sub_eni.ipv6) {
        (Some(wanted), Some(has)) if wanted != has => {
            return Err(Refusal::Conflict(format!(
                "address {wanted} was asked for beside {address}, whose sub-ENI has {has} for its lifetime; ask for that one"
            )));
        }
        (Some(wanted), None) => plan.bind.push(Operation::Pair(address, Some(wanted))),
        _ => {}
    }
    if !item.pool.is_empty() && item.pool != sub_eni.pool {
        plan.bind.push(Operation::Tag(address, item.pool.clone()));
    }
    if sub_eni.is_on(node, item.parent) {
        return Ok(());
    }
    if let Some(from) = sub_eni.node() {
        plan.detach.push(Operation::Detach(address));
        plan.steals += u64::from(from != node);
    }
    plan.bind.push(Operation::Attach { address, target });
    Ok(())
}

/// What a release must do: `None` when there is nothing, or the sub-ENI has moved to another node since.
pub fn plan_release(known: &Inventory, node: &str, address: IpAddr) -> Option<Operation> {
    let holder = known.holder(address)?;
    if holder.node().is_some_and(|on| on != node) {
        return None;
    }
    Some(Operation::Delete(holder.address))
}

#[cfg(test)]
mod tests {
    use orbweaver_api::mac::Mac;

    use super::*;
    use crate::sub_eni::{Place, SubEni};

    fn known(node: Option<&str>, ipv6: Option<&str>) -> Inventory {
        let mut known = Inventory::default();
        known.put(SubEni {
            address: "10.0.0.1".parse().unwrap(),
            ipv6: ipv6.map(|six| six.parse().unwrap()),
            mac: Mac::new([9; 6]),
            subnet: "10.0.0.0/24".to_owned(),
            pool: "p".to_owned(),
            place: node.map(|node| Place {
                node: node.to_owned(),
                parent_nic_mac: Mac::new([1; 6]),
                vlan: 5,
            }),
        });
        known
    }

    fn ask(node: &str, nic: u8, pool: &str, paired: Option<&str>) -> AllocateAsk {
        AllocateAsk {
            node: node.to_owned(),
            items: vec![Item {
                parent: Mac::new([nic; 6]),
                subnet: "10.0.0.0/24".parse().unwrap(),
                primary: "10.0.0.1".parse().unwrap(),
                paired: paired.map(|six| six.parse().unwrap()),
                pool: pool.to_owned(),
                paired_pool: String::new(),
            }],
        }
    }

    /// The names of the operations, those of the first call before the bar.
    fn steps(known: &Inventory, ask: &AllocateAsk) -> String {
        let name = |operations: &[Operation]| {
            let names = operations.iter().map(|operation| match operation {
                Operation::Create { .. } => "create",
                Operation::Attach { .. } => "attach",
                Operation::Detach(_) => "detach",
                Operation::Pair(..) => "pair",
                Operation::Tag(..) => "tag",
                Operation::Delete(_) => "delete",
            });
            names.collect::<Vec<_>>().join(" ")
        };
        match plan(known, ask) {
            Ok(plan) => format!("{} | {} | {}", name(&plan.detach), name(&plan.bind), plan.steals),
            Err(refusal) => refusal.status().to_string(),
        }
    }

    #[test]
    fn each_state_needs_just_the_steps_that_are_missing() {
        let (none, six) = (None, Some("fd00::1"));
        let nothing = Inventory::default();
        let cases = [
            (&nothing, ask("n1", 1, "p", none), " | create | 0"),
            (&known(Some("n1"), none), ask("n1", 1, "p", none), " |  | 0"),
            (&known(Some("n1"), none), ask("n1", 1, "", none), " |  | 0"),
            (&known(Some("n1"), six), ask("n1", 1, "p", none), " |  | 0"),
            (&known(Some("n1"), six), ask("n1", 1, "p", six), " |  | 0"),
            (&known(Some("n1"), none), ask("n1", 1, "p", six), " | pair | 0"),
            (&known(Some("n1"), none), ask("n1", 1, "q", none), " | tag | 0"),
            (
                &known(Some("n1"), none),
                ask("n2", 2, "p", none),
                "detach | attach | 1",
            ),
            (
                &known(Some("n1"), none),
                ask("n1", 2, "p", none),
                "detach | attach | 0",
            ),
            (&known(None, none), ask("n2", 2, "p", none), " | attach | 0"),
            (&known(Some("n1"), six), ask("n1", 1, "p", Some("fd00::2")), "409"),
        ];
        for (index, (known, ask, expected)) in cases.iter().enumerate() {
            assert_eq!(steps(known, ask), *expected, "case {index}");
        }
    }

    #[test]
    fn a_release_deletes_by_either_address_but_not_on_another_node() {
        let known = known(Some("n1"), Some("fd00::1"));
        let primary: IpAddr = "10.0.0.1".parse().unwrap();
        for address in [primary, "fd00::1".parse().unwrap()] {
            assert_eq!(
                plan_release(&known, "n1", address),
                Some(Operation::Delete(primary))
            );
            assert_eq!(plan_release(&known, "n2", address), None);
        }
        assert_eq!(plan_release(&known, "n1", "10.0.0.2".parse().unwrap()), None);
    }
}
