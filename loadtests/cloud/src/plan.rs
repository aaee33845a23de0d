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
