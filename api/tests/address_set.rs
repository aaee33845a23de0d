//! Address sets against a plain set of numbers, at the bottom, in the middle and at the top of both families.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use orbweaver_api::address_set::{AddressSet, Family, RangeError};
use proptest::prelude::*;

/// Addresses of the model: `offset` above one of three bases.
const WIDTH: u128 = 40;

fn bases(family: Family) -> [u128; 3] {
    match family {
        Family::V4 => [0, 0x0a00_00f0, u128::from(u32::MAX) - (WIDTH - 1)],
        Family::V6 => [0, 0xfd00 << 112, u128::MAX - (WIDTH - 1)],
    }
}

fn address(family: Family, bits: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap())),
        Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

fn range(family: Family, start: u128, end: u128) -> String {
    format!("{}-{}", address(family, start), address(family, end))
}

type Model = BTreeSet<u128>;
/// Starts and inclusive ends.
type Ranges = Vec<(u128, u128)>;

fn addresses(family: Family, model: &Model) -> Vec<IpAddr> {
    model.iter().map(|bits| address(family, *bits)).collect()
}

fn check(family: Family, set: &AddressSet, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(set.iter().collect::<Vec<_>>(), addresses(family, model));
    prop_assert_eq!(set.count(), model.len() as u128);
    prop_assert_eq!(set.is_empty(), model.is_empty());
    prop_assert_eq!(set.first(), model.first().map(|bits| address(family, *bits)));
    let gaps = model
        .iter()
        .zip(model.iter().skip(1))
        .filter(|(a, b)| **b - **a > 1)
        .count();
    prop_assert_eq!(
        set.interval_count(),
        gaps + usize::from(!model.is_empty()),
        "not minimal"
    );
    let read = AddressSet::parse(family, set.to_ranges()).unwrap();
    prop_assert_eq!(&read, set);
    Ok(())
}

fn model_of(ranges: &[(u128, u128)]) -> Model {
    ranges.iter().flat_map(|(start, end)| *start..=*end).collect()
}

fn set_of(family: Family, ranges: &[(u128, u128)]) -> AddressSet {
    AddressSet::parse(
        family,
        ranges.iter().map(|(start, end)| range(family, *start, *end)),
    )
    .unwrap()
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

fn ranges(family: Family) -> impl Strategy<Value = Ranges> {
    let one = (0usize..3, 0..WIDTH, 0u128..12).prop_map(move |(base, start, length)| {
        let base = bases(family)[base];
        (base + start, base + (start + length).min(WIDTH - 1))
    });
    prop::collection::vec(one, 0..10)
}

fn two_sets() -> impl Strategy<Value = (Family, Ranges, Ranges)> {
    family().prop_flat_map(|family| (Just(family), ranges(family), ranges(family)))
}

proptest! {
    #[test]
    fn sets_are_sets((family, a, b) in two_sets()) {
        let (set_a, set_b) = (set_of(family, &a), set_of(family, &b));
        let (model_a, model_b) = (model_of(&a), model_of(&b));
        check(family, &set_a, &model_a)?;
        check(family, &set_a.union(&set_b), &model_a.union(&model_b).copied().collect())?;
        check(family, &set_a.difference(&set_b), &model_a.difference(&model_b).copied().collect())?;
        check(family, &set_a.intersection(&set_b), &model_a.intersection(&model_b).copied().collect())?;
        prop_assert_eq!(set_a.overlaps(&set_b), !model_a.is_disjoint(&model_b));
        prop_assert_eq!(set_a.is_superset(&set_b), model_a.is_superset(&model_b));
        let free = model_a.difference(&model_b).next().map(|bits| address(family, *bits));
        prop_assert_eq!(set_a.first_not_in(&set_b), free);
    }

    #[test]
    fn members_come_and_go(
        (family, start, _) in two_sets(),
        steps in prop::collection::vec((any::<bool>(), 0usize..3, 0..WIDTH), 0..60),
    ) {
        let (mut set, mut model) = (set_of(family, &start), model_of(&start));
        for (add, base, offset) in steps {
            let bits = bases(family)[base] + offset;
            let at = address(family, bits);
            if add {
                prop_assert_eq!(set.insert(at), model.insert(bits));
            } else {
                prop_assert_eq!(set.remove(at), model.remove(&bits));
            }
            prop_assert_eq!(set.contains(at), add);
            let above = model.range(bits..).next().map(|bits| address(family, *bits));
            prop_assert_eq!(set.first_from(at), above);
        }
        check(family, &set, &model)?;
    }

    #[test]
    fn no_text_makes_reading_panic(text in any::<String>(), family in family()) {
        let _ = AddressSet::parse(family, [text]);
    }

    #[test]
    fn no_text_of_an_addresss_letters_makes_reading_panic(text in "[-0-9a-f:./]{0,40}", family in family()) {
        let _ = AddressSet::parse(family, [text]);
    }
}

#[test]
fn whole_families_are_no_special_case() {
    let v4 = AddressSet::parse(Family::V4, ["0.0.0.0-255.255.255.255"]).unwrap();
    assert_eq!(v4.count(), 1 << 32);
    assert_eq!(v4.first_not_in(&v4), None);
    assert_eq!(v4.to_ranges(), ["0.0.0.0-255.255.255.255"]);
    let v6 = AddressSet::parse(Family::V6, ["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]).unwrap();
    assert_eq!(v6.count(), u128::MAX, "one less than there are");
    assert!(v6.difference(&v6).is_empty());
    assert_eq!(v6.union(&v6), v6);
    let mut holed = v6.clone();
    for end in ["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
        assert!(holed.remove(end.parse().unwrap()));
        assert!(!holed.remove(end.parse().unwrap()));
    }
    assert_eq!(holed.to_ranges(), ["::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"]);
    assert_eq!(v6.difference(&holed).interval_count(), 2);
}

#[test]
fn adjacent_ranges_become_one() {
    let set = AddressSet::parse(
        Family::V4,
        ["10.0.0.5-10.0.0.9", "10.0.0.1-10.0.0.4", "10.0.0.10"],
    )
    .unwrap();
    assert_eq!(set.to_ranges(), ["10.0.0.1-10.0.0.10"]);
}

#[test]
fn the_other_family_is_never_a_member() {
    let mut set = AddressSet::parse(Family::V4, ["0.0.0.1"]).unwrap();
    let same_bits: IpAddr = "::1".parse().unwrap();
    assert!(!set.contains(same_bits));
    assert!(!set.insert(same_bits));
    assert!(!set.remove(same_bits));
    assert_eq!(set.first_from(same_bits), None);
    let other = AddressSet::parse(Family::V6, ["::1"]).unwrap();
    assert!(!set.overlaps(&other));
    assert_eq!(set.intersection(&other), AddressSet::new(Family::V4));
    assert_eq!(set.difference(&other), set);
    assert_eq!(set.union(&other), set);
    assert_eq!(set.first_not_in(&other), set.first());
}

#[test]
fn a_wrong_range_is_told_its_text_and_what_to_write() {
    let error = |text: &str| AddressSet::parse(Family::V4, [text]).unwrap_err();
    for text in [
        "",
        "-",
        "10.0.0.1-",
        "-10.0.0.1",
        "10.0.0.1 - 10.0.0.2",
        "10.0.0.0/24",
        "a",
        "10.0.0.1-10.0.0.2-10.0.0.3",
        " 10.0.0.1",
    ] {
        assert!(matches!(error(text), RangeError::Syntax { .. }), "{text:?}");
        assert!(error(text).to_string().contains(&format!("{text:?}")));
    }
    assert!(matches!(error("::1"), RangeError::Family { .. }));
    assert!(matches!(error("10.0.0.1-::1"), RangeError::Family { .. }));
    assert!(matches!(error("10.0.0.2-10.0.0.1"), RangeError::Reversed { .. }));
}
