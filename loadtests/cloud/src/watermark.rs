//! Which idle sub-ENIs of a global pool are taken back (reference §6.7).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use orbweaver_api::pool::PoolMode;

use crate::envelope::Marks;
use crate::options::Reclaim;
use crate::pool_view::PoolView;
use crate::sub_eni::{Inventory, SubEni};

/// Since when bound addresses have had no claim, by the provider's clock.
pub type IdleSince = BTreeMap<IpAddr, Duration>;

/// Brings the idle times up to date.
pub fn note_idle(idle: &mut IdleSince, pool: &PoolView, known: &Inventory, now: Duration) {
    let mut next = IdleSince::new();
    for sub_eni in bound(pool, known).filter(|sub_eni| pool.is_idle(sub_eni.address)) {
        let since = idle.get(&sub_eni.address).copied().unwrap_or(now);
        next.insert(sub_eni.address, since);
    }
    *idle = next;
}

/// The addresses to mark for detachment, longest idle first.
pub fn to_detach(
    pool: &PoolView,
    known: &Inventory,
    marks: &Marks,
    idle: &IdleSince,
    now: Duration,
    options: &Reclaim,
    idle_for: Duration,
) -> Vec<IpAddr> {
    if pool.mode != PoolMode::Global || !pool.keeps_ledger() {
        return Vec::new();
    }
    let staying = bound(pool, known).filter(|sub_eni| !marks.contains_key(&sub_eni.address));
    let excess = excess(staying.count(), pool, options.detach_above);
    let mut candidates: Vec<(Duration, IpAddr)> = idle
        .iter()
        .filter(|(address, since)| {
            !marks.contains_key(address) && pool.is_idle(**address) && now.saturating_sub(**since) >= idle_for
        })
        .map(|(address, since)| (*since, *address))
        .collect();
    candidates.sort_unstable();
    candidates
        .into_iter()
        .map(|(_, address)| address)
        .take(excess.min(options.batch))
        .collect()
}

/// The unbound sub-ENIs to delete.
pub fn to_delete(pool: &PoolView, known: &Inventory, options: &Reclaim) -> Vec<IpAddr> {
    if pool.mode != PoolMode::Global || !pool.keeps_ledger() {
        return Vec::new();
    }
    let excess = excess(members(pool, known).count(), pool, options.delete_above);
    members(pool, known)
        .filter(|sub_eni| sub_eni.place.is_none() && pool.is_idle(sub_eni.address))
        .map(|sub_eni| sub_eni.address)
        .take(excess.min(options.batch))
        .collect()
}

fn members<'a>(pool: &'a PoolView, known: &'a Inventory) -> impl Iterator<Item = &'a SubEni> {
    known
        .of_pool(&pool.name)
        .filter(|sub_eni| pool.addresses.contains(sub_eni.address))
}

fn bound<'a>(pool: &'a PoolView, known: &'a Inventory) -> impl Iterator<Item = &'a SubEni> {
    members(pool, known).filter(|sub_eni| sub_eni.place.is_some())
}

/// How many of `count` are over the share of the pool's addresses.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count is not exact, and a cast of floats saturates"
)]
fn excess(count: usize, pool: &PoolView, share: f64) -> usize {
    let allowed = (pool.addresses.count() as f64 * share).floor() as usize;
    count.saturating_sub(allowed)
}

#[cfg(test)]
mod tests {
    use orbweaver_api::mac::Mac;
    use serde_json::json;

    use super::*;
    use crate::pool_view::tests::view;
    use crate::sub_eni::Place;

    fn scene(claimed: &str) -> (PoolView, Inventory) {
        let spec = json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.0-10.0.0.9"] });
        let pool = view("p", true, spec, json!({ "allocatedIPs": claimed }));
        let mut known = Inventory::default();
        for last in 0..8 {
            known.put(SubEni {
                address: format!("10.0.0.{last}").parse().unwrap(),
                ipv6: None,
                mac: Mac::new([last; 6]),
                subnet: String::new(),
                pool: "p".to_owned(),
                place: Some(Place {
                    node: "n".to_owned(),
                    parent_nic_mac: Mac::new([9; 6]),
                    vlan: 1,
                }),
            });
        }
        (pool, known)
    }

    fn chosen(pool: &PoolView, known: &Inventory, marks: &Marks, now: u64) -> Vec<String> {
        let mut idle = IdleSince::new();
        note_idle(&mut idle, pool, known, Duration::ZERO);
        if let Some(since) = idle.get_mut(&"10.0.0.1".parse::<IpAddr>().unwrap()) {
            *since = Duration::from_secs(1);
        }
        let (now, idle_for) = (Duration::from_secs(now), Duration::from_secs(60));
        to_detach(pool, known, marks, &idle, now, &Reclaim::default(), idle_for)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn only_the_excess_is_taken_and_the_longest_idle_first() {
        let claims = r#"{"10.0.0.0":{"pod":"a/b","podUid":"u"}}"#;
        let (pool, known) = scene(claims);
        assert_eq!(
            chosen(&pool, &known, &Marks::new(), 100),
            ["10.0.0.2", "10.0.0.3"]
        );
        assert!(chosen(&pool, &known, &Marks::new(), 59).is_empty());
        let marks = Marks::from([("10.0.0.2".parse().unwrap(), String::new())]);
        assert_eq!(chosen(&pool, &known, &marks, 100), ["10.0.0.3"]);
    }

    #[test]
    fn a_claim_ends_the_idle_time() {
        let (pool, known) = scene("");
        let mut idle = IdleSince::new();
        note_idle(&mut idle, &pool, &known, Duration::ZERO);
        assert_eq!(idle.len(), 8);
        let (claimed, _) = scene(r#"{"10.0.0.0":{"pod":"a/b","podUid":"u"}}"#);
        note_idle(&mut idle, &claimed, &known, Duration::from_secs(5));
        note_idle(&mut idle, &pool, &known, Duration::from_secs(9));
        assert_eq!(
            idle.get(&"10.0.0.0".parse().unwrap()),
            Some(&Duration::from_secs(9))
        );
    }

    #[test]
    fn unreadable_claims_stop_reclaim() {
        let (pool, known) = scene("{");
        assert!(chosen(&pool, &known, &Marks::new(), 100).is_empty());
    }
}
