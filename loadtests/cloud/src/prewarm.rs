//! Which sub-ENIs of a node-level pool are made next.

use std::net::{IpAddr, Ipv6Addr};

use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::mac::Mac;
use orbweaver_api::pool::PoolMode;

use crate::ask::{AllocateAsk, Item};
use crate::call_time::mixed;
use crate::options::Prewarm;
use crate::pool_view::PoolView;
use crate::sub_eni::Inventory;

/// The next batch, `None` when the pool is as warm as it shall be, or cannot be warmed yet.
pub fn next(
    pool: &PoolView,
    sibling: Option<&PoolView>,
    known: &Inventory,
    options: &Prewarm,
    limit: usize,
) -> Option<AllocateAsk> {
    if pool.mode != PoolMode::NodeLevel || !pool.keeps_ledger() {
        return None;
    }
    let node = pool.node.clone()?;
    let parent = match pool.parent {
        Some(parent) => parent,
        None if options.immediately => invented_parent(&node),
        None => return None,
    };
    if pool.pair.is_some() && sibling.is_none() {
        return None;
    }
    let on_nic = known
        .iter()
        .filter(|sub_eni| sub_eni.parent_nic_mac() == Some(parent));
    let room = limit.saturating_sub(on_nic.count());
    let is_warm = |address: IpAddr| {
        known
            .get(address)
            .is_some_and(|sub_eni| sub_eni.is_on(&node, parent))
    };
    let warm = known
        .of_pool(&pool.name)
        .filter(|sub_eni| is_warm(sub_eni.address) && pool.addresses.contains(sub_eni.address))
        .count();
    let missing = options.count.unwrap_or(usize::MAX).saturating_sub(warm);
    let mut sixes = sibling.map(|sibling| FreeSixes::new(sibling, known));
    let mut items = Vec::new();
    let wanted = missing.min(room).min(options.batch);
    // Claimed addresses are left to their pods: moving them would cut a pod off.
    let cold = |address: &IpAddr| !is_warm(*address) && pool.is_idle(*address);
    for primary in pool.addresses.iter().filter(cold).take(wanted) {
        let kept = known.get(primary).and_then(|sub_eni| sub_eni.ipv6);
        let paired = match (&mut sixes, kept) {
            (_, Some(kept)) => Some(kept),
            (Some(sixes), None) => Some(sixes.next()?),
            (None, None) => None,
        };
        items.push(Item {
            parent,
            subnet: pool.subnet,
            primary,
            paired,
            pool: pool.name.clone(),
            paired_pool: sibling.map(|pool| pool.name.clone()).unwrap_or_default(),
        });
    }
    (!items.is_empty()).then_some(AllocateAsk { node, items })
}

/// The IPv6 addresses of a sibling that no sub-ENI and no pod has, lowest first.
struct FreeSixes<'a> {
    all: &'a AddressSet,
    taken: AddressSet,
}

impl<'a> FreeSixes<'a> {
    fn new(sibling: &'a PoolView, known: &Inventory) -> Self {
        let mut taken = AddressSet::new(Family::V6);
        let paired = known.iter().filter_map(|sub_eni| sub_eni.ipv6.map(IpAddr::V6));
        let alone = known
            .iter()
            .map(|sub_eni| sub_eni.address)
            .filter(IpAddr::is_ipv6);
        let claimed = sibling.claimed.iter().flatten().copied();
        for address in paired.chain(alone).chain(claimed) {
            taken.insert(address);
        }
        Self {
            all: &sibling.addresses,
            taken,
        }
    }

    fn next(&mut self) -> Option<Ipv6Addr> {
        let IpAddr::V6(free) = self.all.first_not_in(&self.taken)? else {
            return None;
        };
        self.taken.insert(IpAddr::V6(free));
        Some(free)
    }
}

/// A parent NIC for a node that has published none; the same for the same name.
pub fn invented_parent(node: &str) -> Mac {
    let sum = node.bytes().fold(0, |sum, byte| mixed(sum ^ u64::from(byte)));
    let [a, b, c, d, ..] = sum.to_be_bytes();
    Mac::new([0xfa, 0x18, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pool_view::tests::view;
    use crate::sub_eni::{Place, SubEni};

    fn pool(status: Value) -> PoolView {
        let spec = json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.20"], "nodeName": ["n1"] });
        view("p", true, spec, status)
    }

    fn published() -> Value {
        json!({ "parentNic": { "name": "eth1", "mac": "fa:16:3e:00:00:01" } })
    }

    fn batch(pool: &PoolView, known: &Inventory, options: &Prewarm, limit: usize) -> Vec<String> {
        next(pool, None, known, options, limit)
            .map(|ask| ask.items.iter().map(|item| item.primary.to_string()).collect())
            .unwrap_or_default()
    }

    fn warm(address: &str, node: &str) -> SubEni {
        SubEni {
            address: address.parse().unwrap(),
            ipv6: None,
            mac: Mac::new([2; 6]),
            subnet: String::new(),
            pool: "p".to_owned(),
            place: Some(Place {
                node: node.to_owned(),
                parent_nic_mac: "fa:16:3e:00:00:01".parse().unwrap(),
                vlan: 1,
            }),
        }
    }

    #[test]
    fn nothing_is_warmed_before_the_parent_nic_is_known() {
        let none = Inventory::default();
        let mut options = Prewarm::default();
        assert!(batch(&pool(json!({})), &none, &options, 256).is_empty());
        assert_eq!(batch(&pool(published()), &none, &options, 256).len(), 10);
        options.immediately = true;
        assert_eq!(batch(&pool(json!({})), &none, &options, 256).len(), 10);
    }

    #[test]
    fn batches_go_on_until_the_count_or_the_nic_is_full() {
        let options = Prewarm {
            count: Some(3),
            batch: 2,
            ..Prewarm::default()
        };
        let mut known = Inventory::default();
        assert_eq!(
            batch(&pool(published()), &known, &options, 256),
            ["10.0.0.10", "10.0.0.11"]
        );
        known.put(warm("10.0.0.10", "n1"));
        known.put(warm("10.0.0.11", "n1"));
        assert_eq!(batch(&pool(published()), &known, &options, 256), ["10.0.0.12"]);
        assert!(batch(&pool(published()), &known, &options, 2).is_empty());
    }

    #[test]
    fn a_claimed_address_is_never_moved() {
        let mut status = published();
        status["allocatedIPs"] = json!(r#"{"10.0.0.10":{"pod":"a/b","podUid":"u"}}"#);
        let mut known = Inventory::default();
        known.put(warm("10.0.0.10", "n2"));
        let first = batch(&pool(status), &known, &Prewarm::default(), 256);
        assert_eq!(first.first().map(String::as_str), Some("10.0.0.11"));
    }

    #[test]
    fn a_pair_waits_for_its_sibling_and_uses_no_v6_twice() {
        let mut pool = pool(published());
        pool.pair = Some("p6".to_owned());
        let spec = json!({ "subnet": "fd00::/64", "ips": ["fd00::1-fd00::ff"] });
        let sibling = view("p6", true, spec, json!({}));
        let options = Prewarm::default();
        let mut known = Inventory::default();
        assert_eq!(next(&pool, None, &known, &options, 256), None);
        let mut used = warm("10.9.9.9", "n3");
        used.ipv6 = Some("fd00::2".parse().unwrap());
        known.put(used);
        let ask = next(&pool, Some(&sibling), &known, &options, 256).unwrap();
        let sixes: Vec<_> = ask.items.iter().filter_map(|item| item.paired).collect();
        assert_eq!(sixes.len(), 10);
        assert_eq!(
            sixes[..2],
            ["fd00::1".parse::<Ipv6Addr>().unwrap(), "fd00::3".parse().unwrap()]
        );
    }
}
