//! Whether a pool may be created, changed or deleted (reference §5.2.1, §6.6): every reason against it at once.

use orbweaver_api::address_set::AddressSet;
use orbweaver_api::claims::{self, Claim, Claims, MalformedClaims};
use orbweaver_api::pool::SpiderIPPool;
use std::net::IpAddr;

use super::Settings;
use super::finding::Finding;
use super::iaas_rules;
use super::pool_fields::{self, Read, effective};

/// How many addresses or ranges an answer lists; a pool may have thousands of claims.
const LISTED: usize = 20;

/// Judges a new pool. `others` are the cluster's pools; one of the same name is left to the API server, which answers
/// `AlreadyExists` by itself and knows better than a cache.
pub fn create<'a, I>(pool: &SpiderIPPool, others: I, settings: Settings) -> Vec<Finding>
where
    I: Iterator<Item = &'a SpiderIPPool> + Clone,
{
    let mut findings = Vec::new();
    let others = others.filter(|other| other.metadata.name != pool.metadata.name);
    if let Some(read) = pool_fields::check(pool, settings, &mut findings) {
        neighbours(&read, others.clone(), true, &mut findings);
    }
    iaas_rules::check(pool, others, &mut findings);
    findings
}

/// Judges a change. One that touches no field, label or annotation is admitted, so that a pool from before these
/// rules can still get and lose finalizers.
pub fn update<'a, I>(old: &SpiderIPPool, new: &SpiderIPPool, others: I, settings: Settings) -> Vec<Finding>
where
    I: Iterator<Item = &'a SpiderIPPool> + Clone,
{
    let mut findings = Vec::new();
    if same(old, new) {
        return findings;
    }
    if old.metadata.deletion_timestamp.is_some() {
        let detail = "the pool is being deleted; only its finalizers may still be changed";
        findings.push(Finding::forbidden("metadata.deletionTimestamp", detail));
        return findings;
    }
    immutable(old, new, &mut findings);
    let others = others.filter(|other| other.metadata.name != new.metadata.name);
    if let Some(read) = pool_fields::check(new, settings, &mut findings) {
        neighbours(&read, others.clone(), false, &mut findings);
    }
    let held = held(old);
    keeps_what_is_in_use(old, new, &held, &mut findings);
    iaas_rules::check(new, others, &mut findings);
    // Claims that cannot be read may be any.
    let in_use = held.map_or(true, |held| !held.is_empty());
    iaas_rules::check_change(old, new, in_use, &mut findings);
    findings
}

/// Judges a deletion: only a guarded cluster refuses one, elsewhere the finalizer waits for the claims.
pub fn delete(pool: &SpiderIPPool, settings: Settings) -> Vec<Finding> {
    if !settings.guard_deletes {
        return Vec::new();
    }
    let field = "status.allocatedIPs";
    match held(pool) {
        Ok(held) if held.is_empty() => Vec::new(),
        Ok(held) => {
            let count = held.len();
            let detail = format!(
                "cannot delete an IPPool with allocated IPs: {count} are in use; delete their Pods first"
            );
            vec![Finding::forbidden(field, detail)]
        }
        Err(error) => vec![Finding::forbidden(field, error)],
    }
}

fn same(old: &SpiderIPPool, new: &SpiderIPPool) -> bool {
    let keys = |pool: &SpiderIPPool| {
        let metadata = &pool.metadata;
        [&metadata.labels, &metadata.annotations].map(|all| all.clone().unwrap_or_default())
    };
    old.spec == new.spec && keys(old) == keys(new)
}

fn held(pool: &SpiderIPPool) -> Result<Claims, MalformedClaims> {
    let status = pool.status.as_ref();
    claims::decode(status.and_then(|status| status.allocated_ips.as_deref()))
}

fn immutable(old: &SpiderIPPool, new: &SpiderIPPool, findings: &mut Vec<Finding>) {
    let detail = "is not changeable; make another pool";
    // A version that was only implied may be written down.
    let restated = old.spec.ip_version.is_none() && old.family() == new.family();
    if old.spec.ip_version != new.spec.ip_version && !restated {
        findings.push(Finding::forbidden("spec.ipVersion", detail));
    }
    if old.spec.subnet != new.spec.subnet {
        findings.push(Finding::forbidden("spec.subnet", detail));
    }
}

fn neighbours<'a>(
    read: &Read,
    others: impl Iterator<Item = &'a SpiderIPPool>,
    subnets: bool,
    findings: &mut Vec<Finding>,
) {
    for other in others {
        let Ok(subnet) = other.spec.subnet.parse::<ipnet::IpNet>() else {
            continue;
        };
        let subnet = subnet.trunc();
        let name = other.metadata.name.as_deref().unwrap_or_default();
        if subnet == read.subnet {
            // Ranges that cannot be read hand nothing out either.
            let (Some(mine), Some(theirs)) = (&read.effective, effective(other)) else {
                continue;
            };
            let shared = theirs.intersection(mine);
            if !shared.is_empty() {
                let detail = format!("overlap with IPPool {name} in IP ranges {}", listed(&shared));
                findings.push(Finding::forbidden("spec.ips", detail));
            }
        } else if subnets && (subnet.contains(&read.subnet) || read.subnet.contains(&subnet)) {
            let detail = format!("overlap with IPPool {name} which 'spec.subnet' is {subnet}");
            findings.push(Finding::invalid("spec.subnet", detail));
        }
    }
}

fn listed(set: &AddressSet) -> String {
    let mut ranges = set.to_ranges();
    let more = ranges.len().saturating_sub(LISTED);
    ranges.truncate(LISTED);
    if more > 0 {
        ranges.push(format!("and {more} more"));
    }
    format!("[{}]", ranges.join(", "))
}

fn keeps_what_is_in_use(
    old: &SpiderIPPool,
    new: &SpiderIPPool,
    held: &Result<Claims, MalformedClaims>,
    findings: &mut Vec<Finding>,
) {
    let Some(after) = effective(new) else { return };
    // Without a readable past every claimed address counts as there.
    let before = effective(old).unwrap_or_else(|| after.clone());
    match held {
        Err(error) if !after.is_superset(&before) => {
            findings.push(Finding::forbidden("status.allocatedIPs", error));
        }
        Err(_) => {}
        Ok(held) => {
            // An address that was outside before is not removed by this change.
            let readable = effective(old).is_some();
            let removed: Vec<(&IpAddr, &Claim)> = held
                .iter()
                .filter(|(at, _)| !after.contains(**at) && (!readable || before.contains(**at)))
                .collect();
            tell_removed(new, &removed, findings);
        }
    }
}

fn tell_removed(new: &SpiderIPPool, removed: &[(&IpAddr, &Claim)], findings: &mut Vec<Finding>) {
    let kept = new
        .family()
        .and_then(|family| AddressSet::parse(family, &new.spec.ips).ok());
    for (address, claim) in removed.iter().take(LISTED) {
        let excluded = kept.as_ref().is_some_and(|ips| ips.contains(**address));
        let field = if excluded { "spec.excludeIPs" } else { "spec.ips" };
        let pod = &claim.pod;
        let detail = format!(
            "remove an IP address {address} that is being used by Pod {pod}; keep it until the Pod is gone"
        );
        findings.push(Finding::forbidden(field, detail));
    }
    let more = removed.len().saturating_sub(LISTED);
    if more > 0 {
        let detail = format!("remove {more} more IP addresses that are being used");
        findings.push(Finding::forbidden("spec.ips", detail));
    }
}
