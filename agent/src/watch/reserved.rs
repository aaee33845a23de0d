//! Reserved addresses: each object's ranges, and the union of all.

use std::sync::Arc;

use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::reserved_ip::SpiderReservedIP;
use tracing::warn;

/// One object's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// IPv4.
    pub v4: AddressSet,
    /// IPv6.
    pub v6: AddressSet,
}

/// The union of all objects, per family.
#[derive(Clone, Debug)]
pub struct Union {
    /// IPv4.
    pub v4: Arc<AddressSet>,
    /// IPv6.
    pub v6: Arc<AddressSet>,
}

impl Default for Union {
    fn default() -> Self {
        Self {
            v4: Arc::new(AddressSet::new(Family::V4)),
            v6: Arc::new(AddressSet::new(Family::V6)),
        }
    }
}

impl Union {
    /// Of every object.
    pub fn of(objects: &[Arc<Ranges>]) -> Self {
        let mut v4 = AddressSet::new(Family::V4);
        let mut v6 = AddressSet::new(Family::V6);
        for object in objects {
            v4 = v4.union(&object.v4);
            v6 = v6.union(&object.v6);
        }
        Self {
            v4: Arc::new(v4),
            v6: Arc::new(v6),
        }
    }
}

/// What an object reserves; `None` when it is being deleted. Each range is taken by its own family, so
/// that a wrong or missing `spec.ipVersion` reserves too much rather than nothing, and a range that cannot
/// be read is left out with a warning: the others still hold.
pub fn ranges_of(object: &SpiderReservedIP) -> Option<Ranges> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut ranges = Ranges {
        v4: AddressSet::new(Family::V4),
        v6: AddressSet::new(Family::V6),
    };
    for range in &object.spec.ips {
        if let Ok(set) = AddressSet::parse(Family::V4, [range]) {
            ranges.v4 = ranges.v4.union(&set);
            continue;
        }
        match AddressSet::parse(Family::V6, [range]) {
            Ok(set) => ranges.v6 = ranges.v6.union(&set),
            Err(error) => warn!(
                name = object.metadata.name,
                %error,
                "a range of this SpiderReservedIP cannot be read and reserves nothing"
            ),
        }
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(ips: &[&str]) -> SpiderReservedIP {
        let mut object = SpiderReservedIP::default();
        object.spec.ips = ips.iter().map(|&range| range.to_owned()).collect();
        object
    }

    #[test]
    fn a_bad_range_does_not_free_the_others() {
        let ranges = ranges_of(&object(&["10.0.0.1-10.0.0.3", "nonsense", "fd00::1"])).unwrap();
        assert_eq!(ranges.v4.count(), 3);
        assert_eq!(ranges.v6.count(), 1);
    }

    #[test]
    fn an_object_that_is_being_deleted_reserves_nothing() {
        let mut leaving = object(&["10.0.0.1"]);
        assert!(ranges_of(&leaving).is_some());
        leaving.metadata.deletion_timestamp =
            Some(serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(ranges_of(&leaving), None);
    }

    #[test]
    fn the_union_spans_all_objects() {
        let objects: Vec<Arc<Ranges>> = [object(&["10.0.0.1"]), object(&["10.0.0.1-10.0.0.2", "fd00::1"])]
            .iter()
            .filter_map(ranges_of)
            .map(Arc::new)
            .collect();
        let union = Union::of(&objects);
        assert_eq!((union.v4.count(), union.v6.count()), (2, 1));
    }
}
