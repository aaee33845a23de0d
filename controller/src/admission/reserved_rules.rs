//! Completing and judging reserved addresses (reference §5.2.2).

use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::reserved_ip::SpiderReservedIP;
use serde_json::{Value, json};

use super::Settings;
use super::finding::Finding;
use super::pool_mutation::{merged, set};

/// The family: as written, else that of the first range; `None` when neither can be read.
pub fn family(reserved: &SpiderReservedIP) -> Option<Family> {
    match reserved.spec.ip_version {
        Some(4) => Some(Family::V4),
        Some(6) => Some(Family::V6),
        Some(_) => None,
        None => {
            let first = reserved.spec.ips.first()?;
            [Family::V4, Family::V6]
                .into_iter()
                .find(|family| AddressSet::parse(*family, [first]).is_ok())
        }
    }
}

/// JSON patch operations that complete an object; none for one that is being deleted.
pub fn patch(reserved: &SpiderReservedIP) -> Vec<Value> {
    let Some(family) = family(reserved).filter(|_| reserved.metadata.deletion_timestamp.is_none()) else {
        return Vec::new();
    };
    let mut operations = Vec::new();
    if reserved.spec.ip_version.is_none() {
        operations.push(set("/spec/ipVersion", &json!(family.number())));
    }
    operations.extend(merged(family, &reserved.spec.ips).map(|merged| set("/spec/ips", &json!(merged))));
    operations
}

/// Judges a new object. It may overlap others of its kind, and addresses in use.
pub fn create(reserved: &SpiderReservedIP, settings: Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let field = "spec.ipVersion";
    let family = family(reserved);
    match (reserved.spec.ip_version, family) {
        (Some(other), None) => findings.push(Finding::invalid(field, format!("{other}: write 4 or 6"))),
        (None, None) => {
            let detail = "write 4 or 6; 'spec.ips' does not say which";
            findings.push(Finding::required(field, detail));
        }
        (_, Some(family)) if !settings.enables(family) => {
            let detail = format!("{family} is disabled; enable it in conf.yml (enable{family}) first");
            findings.push(Finding::forbidden(field, detail));
        }
        (_, Some(_)) => {}
    }
    for (at, range) in reserved.spec.ips.iter().enumerate() {
        let result = match family {
            Some(family) => AddressSet::parse(family, [range]),
            // Without a family the syntax is judged all the same.
            None => {
                AddressSet::parse(Family::V4, [range]).or_else(|_| AddressSet::parse(Family::V6, [range]))
            }
        };
        if let Err(error) = result {
            findings.push(Finding::invalid(format!("spec.ips[{at}]"), error));
        }
    }
    findings
}

/// Judges a change; one that leaves `spec` as it is is admitted.
pub fn update(old: &SpiderReservedIP, new: &SpiderReservedIP, settings: Settings) -> Vec<Finding> {
    if old.spec == new.spec {
        return Vec::new();
    }
    if old.metadata.deletion_timestamp.is_some() {
        let detail = "the object is being deleted; only its finalizers may still be changed";
        return vec![Finding::forbidden("metadata.deletionTimestamp", detail)];
    }
    let mut findings = Vec::new();
    if family(old).is_some_and(|before| family(new) != Some(before)) {
        let detail = "is not changeable; make another object";
        findings.push(Finding::forbidden("spec.ipVersion", detail));
    }
    findings.extend(create(new, settings));
    findings
}
