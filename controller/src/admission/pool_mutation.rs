//! What a pool gets when it is written (reference §5.2.1, "Mutation").

use std::collections::BTreeMap;

use orbweaver_api::FINALIZER;
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::annotation::IAAS_PROVIDER;
use orbweaver_api::pool::SpiderIPPool;
use serde_json::{Value, json};

use super::selector;

/// The label that says a pool's subnet, in the characters a label may have (reference §1.1).
pub const CIDR_LABEL: &str = "ipam.spidernet.io/ippool-cidr";

/// JSON patch operations that complete a pool; none for one that is being deleted.
///
/// What cannot be read is left as it is: the validating hook says why it is wrong.
pub fn patch(pool: &SpiderIPPool) -> Vec<Value> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut operations = Vec::new();
    let mut finalizers = pool.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        operations.push(set("/metadata/finalizers", &json!(finalizers)));
    }
    let before = pool.metadata.labels.clone().unwrap_or_default();
    let labels = labels(pool);
    if labels != before {
        operations.push(set("/metadata/labels", &json!(labels)));
    }
    let Some(family) = pool.family() else {
        return operations;
    };
    if pool.spec.ip_version.is_none() {
        operations.push(set("/spec/ipVersion", &json!(family.number())));
    }
    for (path, ranges) in [
        ("/spec/ips", &pool.spec.ips),
        ("/spec/excludeIPs", &pool.spec.exclude_ips),
    ] {
        operations.extend(merged(family, ranges).map(|merged| set(path, &json!(merged))));
    }
    operations
}

/// The minimal sorted form, when there is more than one range and the form differs. One range is kept as written.
pub fn merged(family: Family, ranges: &[String]) -> Option<Vec<String>> {
    if ranges.len() < 2 {
        return None;
    }
    let merged = AddressSet::parse(family, ranges).ok()?.to_ranges();
    (merged != ranges).then_some(merged)
}

/// `add` of a member that is there replaces it.
pub(super) fn set(path: &str, value: &Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

fn labels(pool: &SpiderIPPool) -> BTreeMap<String, String> {
    let mut labels = pool.metadata.labels.clone().unwrap_or_default();
    let cidr = pool.spec.subnet.replace(['.', ':', '/'], "-");
    // A label's value begins with a letter or digit, which ::/64 does not; such a pool goes without.
    if pool.spec.subnet.parse::<ipnet::IpNet>().is_ok() && selector::is_value(&cidr) {
        labels.insert(CIDR_LABEL.to_owned(), cidr);
    } else {
        labels.remove(CIDR_LABEL);
    }
    let mark = pool
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(IAAS_PROVIDER));
    match mark {
        Some(mark) => labels.insert(IAAS_PROVIDER.to_owned(), mark.clone()),
        None => labels.remove(IAAS_PROVIDER),
    };
    labels
}
