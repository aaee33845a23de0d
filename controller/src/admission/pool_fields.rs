//! What a pool's fields must be among themselves (reference §5.2.1, 1, 2, 4, 6-8).

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::pool::SpiderIPPool;

use super::Settings;
use super::finding::Finding;
use super::selector;

/// What could be read of a pool's addresses.
#[derive(Clone, Debug)]
pub struct Read {
    /// `spec.subnet`, canonical.
    pub subnet: IpNet,
    /// `ips - excludeIPs`; `None` when either cannot be read.
    pub effective: Option<AddressSet>,
}

/// `ips - excludeIPs`; `None` when either cannot be read.
pub fn effective(pool: &SpiderIPPool) -> Option<AddressSet> {
    let family = pool.family()?;
    let ips = AddressSet::parse(family, &pool.spec.ips).ok()?;
    let excluded = AddressSet::parse(family, &pool.spec.exclude_ips).ok()?;
    Some(ips.difference(&excluded))
}

/// The family of a network.
pub fn family_of(net: IpNet) -> Family {
    Family::of(net.addr())
}

/// Every finding of the pool alone; the subnet and ranges as far as they can be read.
pub fn check(pool: &SpiderIPPool, settings: Settings, findings: &mut Vec<Finding>) -> Option<Read> {
    affinities(pool, findings);
    names("spec.nodeName", &pool.spec.node_name, findings);
    names("spec.namespaceName", &pool.spec.namespace_name, findings);
    version(pool, settings, findings);
    let subnet = subnet(pool, findings)?;
    let ips = ranges("spec.ips", &pool.spec.ips, subnet, findings);
    let excluded = ranges("spec.excludeIPs", &pool.spec.exclude_ips, subnet, findings);
    disjoint(pool, family_of(subnet), findings);
    let effective = ips.zip(excluded).map(|(ips, excluded)| ips.difference(&excluded));
    gateway(pool, subnet, effective.as_ref(), findings);
    routes(pool, subnet, findings);
    Some(Read { subnet, effective })
}

fn version(pool: &SpiderIPPool, settings: Settings, findings: &mut Vec<Finding>) {
    let field = "spec.ipVersion";
    match (pool.spec.ip_version, pool.family()) {
        (None, None) => findings.push(Finding::required(
            field,
            "write 4 or 6, the family of spec.subnet",
        )),
        (Some(other), None) => findings.push(Finding::invalid(field, format!("{other}: write 4 or 6"))),
        (_, Some(family)) if !settings.enables(family) => {
            let detail = format!("{family} is disabled; enable it in conf.yml (enable{family}) first");
            findings.push(Finding::forbidden(field, detail));
        }
        (_, Some(_)) => {}
    }
}

fn subnet(pool: &SpiderIPPool, findings: &mut Vec<Finding>) -> Option<IpNet> {
    let field = "spec.subnet";
    let text = &pool.spec.subnet;
    let Ok(net) = text.parse::<IpNet>() else {
        let detail = format!("{text:?} is not a CIDR; write one, as 10.0.0.0/24 or fd00::/64");
        findings.push(Finding::invalid(field, detail));
        return None;
    };
    if pool.family().is_some_and(|family| family != family_of(net)) {
        let detail = format!("{text:?} is not of the family that spec.ipVersion says");
        findings.push(Finding::invalid(field, detail));
        return None;
    }
    let canonical = net.trunc();
    if *text != canonical.to_string() {
        let detail = format!("{text:?} is not in canonical form; write {canonical}");
        findings.push(Finding::invalid(field, detail));
    }
    Some(canonical)
}

fn within(subnet: IpNet) -> Option<AddressSet> {
    let all = format!("{}-{}", subnet.network(), subnet.broadcast());
    AddressSet::parse(family_of(subnet), [all]).ok()
}

fn ranges(field: &str, ranges: &[String], subnet: IpNet, findings: &mut Vec<Finding>) -> Option<AddressSet> {
    let family = family_of(subnet);
    let inside = within(subnet)?;
    let before = findings.len();
    for (at, range) in ranges.iter().enumerate() {
        let path = format!("{field}[{at}]");
        match AddressSet::parse(family, [range]) {
            Err(error) => findings.push(Finding::invalid(path, error)),
            Ok(set) if !inside.is_superset(&set) => {
                let detail = format!("{range:?} does not belong to 'spec.subnet' {subnet}");
                findings.push(Finding::invalid(path, detail));
            }
            Ok(_) => {}
        }
    }
    if findings.len() == before {
        AddressSet::parse(family, ranges).ok()
    } else {
        None
    }
}

/// The mutating hook merges such ranges; whoever gets here with them wrote past it.
fn disjoint(pool: &SpiderIPPool, family: Family, findings: &mut Vec<Finding>) {
    let ranges = &pool.spec.ips;
    let bounds = |at: usize| -> Option<(IpAddr, IpAddr, usize)> {
        let range = &ranges[at];
        AddressSet::parse(family, [range]).ok()?;
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse().ok()?, last.parse().ok()?, at))
    };
    let mut sorted: Vec<_> = (0..ranges.len()).filter_map(bounds).collect();
    sorted.sort_unstable();
    // Of those so far, the one that ends last: as many comparisons as ranges, whatever was sent.
    let mut reach: Option<(IpAddr, usize)> = None;
    for (first, last, at) in sorted {
        if let Some((end, other)) = reach.filter(|(end, _)| first <= *end) {
            let later = at.max(other);
            let detail = format!("{:?} overlaps a range before it; merge them", ranges[later]);
            findings.push(Finding::invalid(format!("spec.ips[{later}]"), detail));
            if last <= end {
                continue;
            }
        }
        reach = Some((last, at));
    }
}

fn gateway(pool: &SpiderIPPool, subnet: IpNet, usable: Option<&AddressSet>, findings: &mut Vec<Finding>) {
    let Some(text) = pool.spec.gateway.as_ref().filter(|text| !text.is_empty()) else {
        return;
    };
    let field = "spec.gateway";
    let Some(address) = inside(field, text, subnet, findings) else {
        return;
    };
    if usable.is_some_and(|usable| usable.contains(address)) {
        let detail = format!(
            "conflicts with 'spec.gateway' {address}; take it out of 'spec.ips' or add it to 'spec.excludeIPs'"
        );
        findings.push(Finding::forbidden("spec.ips", detail));
    }
}

fn inside(field: &str, text: &str, subnet: IpNet, findings: &mut Vec<Finding>) -> Option<IpAddr> {
    let Ok(address) = text.parse::<IpAddr>() else {
        findings.push(Finding::invalid(field, format!("{text:?} is not an address")));
        return None;
    };
    if !subnet.contains(&address) {
        let detail = format!("{text:?} does not belong to 'spec.subnet' {subnet}");
        findings.push(Finding::invalid(field, detail));
        return None;
    }
    Some(address)
}

fn routes(pool: &SpiderIPPool, subnet: IpNet, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (at, route) in pool.spec.routes.iter().enumerate() {
        let field = format!("spec.routes[{at}].dst");
        inside(&format!("spec.routes[{at}].gw"), &route.gw, subnet, findings);
        let dst = &route.dst;
        match dst.parse::<IpNet>() {
            Ok(net) if family_of(net) != family_of(subnet) => {
                let detail = format!("{dst:?} is not {}, as 'spec.subnet' is", family_of(subnet));
                findings.push(Finding::invalid(field, detail));
            }
            Ok(net) if net.prefix_len() == 0 => {
                let detail = format!("{dst:?}: please specify 'spec.gateway' to configure the default route");
                findings.push(Finding::invalid(field, detail));
            }
            Ok(net) if !seen.insert(net.trunc()) => {
                let detail = format!("{dst:?} has a route already; remove one of them");
                findings.push(Finding::duplicate(field, detail));
            }
            Ok(_) => {}
            Err(_) => findings.push(Finding::invalid(field, format!("{dst:?} is not a CIDR"))),
        }
    }
}

fn affinities(pool: &SpiderIPPool, findings: &mut Vec<Finding>) {
    let spec = &pool.spec;
    if spec.pod_affinity.as_ref().is_some_and(selector::is_empty) {
        let detail = "it is empty and would select every pod; name labels or remove it";
        findings.push(Finding::invalid("spec.podAffinity", detail));
    }
    for (field, selector) in [
        ("spec.podAffinity", &spec.pod_affinity),
        ("spec.namespaceAffinity", &spec.namespace_affinity),
        ("spec.nodeAffinity", &spec.node_affinity),
    ] {
        if let Some(selector) = selector {
            selector::check(field, selector, findings);
        }
    }
}

fn names(field: &str, names: &[String], findings: &mut Vec<Finding>) {
    for (at, name) in names.iter().enumerate() {
        // Names that are patterns would never match anything here.
        if !selector::is_domain(name) {
            let detail = format!("{name:?} is not a name of lower case letters, digits, '-' and '.'");
            findings.push(Finding::invalid(format!("{field}[{at}]"), detail));
        }
    }
}
