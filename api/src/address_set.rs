//! Sets of addresses as sorted disjoint intervals. Nothing here expands a range, so a /64 costs no
//! more than a single address.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// 4 or 6, as resources write it.
    pub fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            // Only values that came from an IPv4 address are stored in a V4 set: nothing saturates.
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX))),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv{}", self.number())
    }
}

/// Why a range could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Neither `a` nor `a-b`.
    #[error("{text:?} is not an address or a range; write \"10.0.0.10\" or \"10.0.0.10-10.0.0.20\"")]
    Syntax {
        /// What was read.
        text: String,
    },
    /// An address of the other family.
    #[error("{text:?} is not {expected}; every range of a pool has the family of its subnet")]
    Family {
        /// What was read.
        text: String,
        /// The family of the set.
        expected: Family,
    },
    /// Start after end.
    #[error("{text:?} ends before it starts; swap its two addresses")]
    Reversed {
        /// What was read.
        text: String,
    },
}

/// A set of addresses of one family.
#[derive(Clone, PartialEq, Eq)]
pub struct AddressSet {
    family: Family,
    /// start -> inclusive end; disjoint and never adjacent.
    intervals: BTreeMap<u128, u128>,
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl AddressSet {
    /// The empty set.
    pub fn new(family: Family) -> Self {
        Self {
            family,
            intervals: BTreeMap::new(),
        }
    }

    /// Reads ranges `a` and `a-b` (reference §1.1 "Encoding of ips"); overlapping ones merge.
    pub fn parse<S: AsRef<str>>(
        family: Family,
        ranges: impl IntoIterator<Item = S>,
    ) -> Result<Self, RangeError> {
        let mut set = Self::new(family);
        for range in ranges {
            let (start, end) = parse_range(family, range.as_ref())?;
            set.insert_bits(start, end);
        }
        Ok(set)
    }

    /// The family of every member.
    pub fn family(&self) -> Family {
        self.family
    }

    /// True when there is no member.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Number of members, saturating at `u128::MAX` (only `::/0` has one more).
    pub fn count(&self) -> u128 {
        self.intervals.iter().fold(0u128, |sum, (start, end)| {
            sum.saturating_add((end - start).saturating_add(1))
        })
    }

    /// Number of intervals: what operations cost.
    pub fn interval_count(&self) -> usize {
        self.intervals.len()
    }

    /// Membership; an address of the other family is never a member.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family && self.contains_bits(bits(address))
    }

    fn contains_bits(&self, at: u128) -> bool {
        self.intervals
            .range(..=at)
            .next_back()
            .is_some_and(|(_, end)| *end >= at)
    }

    /// Lowest member.
    pub fn first(&self) -> Option<IpAddr> {
        self.intervals
            .keys()
            .next()
            .map(|start| self.family.address(*start))
    }

    /// Lowest member at or above `from`; none above an address of the other family.
    pub fn first_from(&self, from: IpAddr) -> Option<IpAddr> {
        if Family::of(from) != self.family {
            return None;
        }
        let from = bits(from);
        if self.contains_bits(from) {
            return Some(self.family.address(from));
        }
        self.intervals
            .range(from..)
            .next()
            .map(|(start, _)| self.family.address(*start))
    }

    /// Lowest member that is not in `taken`: the first free address.
    pub fn first_not_in(&self, taken: &Self) -> Option<IpAddr> {
        if self.family != taken.family {
            return self.first();
        }
        for (start, end) in &self.intervals {
            let mut at = *start;
            loop {
                match taken.intervals.range(..=at).next_back() {
                    Some((_, taken_end)) if *taken_end >= at => {
                        if *taken_end >= *end {
                            break;
                        }
                        at = taken_end + 1;
                    }
                    _ => return Some(self.family.address(at)),
                }
            }
        }
        None
    }

    /// Adds one address; false when it was there or is of the other family.
    pub fn insert(&mut self, address: IpAddr) -> bool {
        if Family::of(address) != self.family || self.contains(address) {
            return false;
        }
        self.insert_bits(bits(address), bits(address));
        true
    }

    /// Removes one address; false when it was not there.
    pub fn remove(&mut self, address: IpAddr) -> bool {
        if Family::of(address) != self.family {
            return false;
        }
        let at = bits(address);
        let Some((start, end)) = self.intervals.range(..=at).next_back().map(|(s, e)| (*s, *e)) else {
            return false;
        };
        if end < at {
            return false;
        }
        self.intervals.remove(&start);
        if start < at {
            self.intervals.insert(start, at - 1);
        }
        if at < end {
            self.intervals.insert(at + 1, end);
        }
        true
    }

    fn insert_bits(&mut self, mut start: u128, mut end: u128) {
        let reach = end.saturating_add(1);
        let touching: Vec<(u128, u128)> = self
            .intervals
            .range(..=reach)
            .rev()
            .take_while(|(_, e)| e.saturating_add(1) >= start)
            .map(|(s, e)| (*s, *e))
            .collect();
        for (s, e) in touching {
            self.intervals.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.intervals.insert(start, end);
    }

    /// Members of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (mut large, small) = if self.intervals.len() >= other.intervals.len() {
            (self.clone(), other)
        } else {
            (other.clone(), self)
        };
        large.family = self.family;
        if self.family == other.family {
            for (start, end) in &small.intervals {
                large.insert_bits(*start, *end);
            }
            large
        } else {
            self.clone()
        }
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if self.family != other.family {
            return self.clone();
        }
        let mut left = Self::new(self.family);
        for (start, end) in &self.intervals {
            let mut at = Some(*start);
            let before = other.intervals.range(..=*start).next_back();
            let inside = other
                .intervals
                .range((std::ops::Bound::Excluded(*start), std::ops::Bound::Included(*end)));
            for (cut_start, cut_end) in before.into_iter().chain(inside) {
                let Some(from) = at else { break };
                if *cut_end < from {
                    continue;
                }
                if *cut_start > from {
                    left.intervals.insert(from, cut_start - 1);
                }
                at = if *cut_end >= *end { None } else { Some(cut_end + 1) };
            }
            if let Some(from) = at {
                left.intervals.insert(from, *end);
            }
        }
        left
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.difference(&self.difference(other))
    }

    /// True when there is a member of both.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.family != other.family {
            return false;
        }
        self.intervals.iter().any(|(start, end)| {
            other
                .intervals
                .range(..=*end)
                .next_back()
                .is_some_and(|(_, other_end)| other_end >= start)
        })
    }

    /// True when every member of `other` is a member.
    pub fn is_superset(&self, other: &Self) -> bool {
        other.difference(self).is_empty()
    }

    /// Members in ascending order, lazily.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let family = self.family;
        self.intervals
            .iter()
            .flat_map(move |(start, end)| (*start..=*end).map(move |at| family.address(at)))
    }

    /// The minimal sorted range texts, as pools write them.
    pub fn to_ranges(&self) -> Vec<String> {
        self.intervals
            .iter()
            .map(|(start, end)| {
                let (first, last) = (self.family.address(*start), self.family.address(*end));
                if first == last {
                    first.to_string()
                } else {
                    format!("{first}-{last}")
                }
            })
            .collect()
    }
}

impl fmt::Debug for AddressSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.to_ranges()).finish()
    }
}

fn parse_range(family: Family, text: &str) -> Result<(u128, u128), RangeError> {
    let syntax = || RangeError::Syntax {
        text: text.to_owned(),
    };
    let read = |part: &str| -> Result<u128, RangeError> {
        let address: IpAddr = part.parse().map_err(|_| syntax())?;
        if Family::of(address) != family {
            return Err(RangeError::Family {
                text: text.to_owned(),
                expected: family,
            });
        }
        Ok(bits(address))
    };
    match text.split_once('-') {
        None => read(text).map(|at| (at, at)),
        Some((first, last)) => {
            let (start, end) = (read(first)?, read(last)?);
            if start > end {
                return Err(RangeError::Reversed {
                    text: text.to_owned(),
                });
            }
            Ok((start, end))
        }
    }
}
