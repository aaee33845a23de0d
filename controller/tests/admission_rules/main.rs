//! What pools and reserved addresses may be: one law a rule.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use orbweaver_api::pool::SpiderIPPool;
use orbweaver_controller::admission::finding::Finding;
use orbweaver_controller::admission::{Settings, pool_rules};
use serde_json::{Value, json};

mod iaas;
mod pods;
mod reserved;

const MARK: &str = "ipam.spidernet.io/iaas-provider";
const NIC: &str = "ipam.spidernet.io/parent-nic";
const PAIR: &str = "ipam.spidernet.io/pair-pool";

fn object(name: &str, annotations: &Value, spec: &Value) -> SpiderIPPool {
    serde_json::from_value(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": name, "annotations": annotations },
        "spec": spec,
    }))
    .unwrap()
}

/// 10.0.0.0/24 with .10-.20, changed by `fields`.
fn pool(fields: &Value) -> SpiderIPPool {
    marked(&json!({}), fields)
}

fn marked(annotations: &Value, fields: &Value) -> SpiderIPPool {
    let mut spec = json!({ "ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.20"] });
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    object("p", annotations, &spec)
}

fn claimed(mut pool: SpiderIPPool) -> SpiderIPPool {
    let status = json!({ "allocatedIPs": r#"{"10.0.0.12":{"pod":"ns/web-0","podUid":"u"}}"# });
    pool.status = Some(serde_json::from_value(status).unwrap());
    pool
}

fn create(pool: &SpiderIPPool, others: &[SpiderIPPool]) -> Vec<Finding> {
    pool_rules::create(pool, others.iter(), Settings::default())
}

fn update(old: &SpiderIPPool, new: &SpiderIPPool) -> Vec<Finding> {
    pool_rules::update(old, new, [].iter(), Settings::default())
}

/// Exactly one finding, for this field and with this text.
#[track_caller]
fn only(findings: &[Finding], field: &str, text: &str) {
    let [one] = findings else {
        panic!("not exactly one finding about {field}: {findings:#?}");
    };
    assert_eq!(one.field, field, "{one}");
    assert!(one.detail.contains(text), "{one}");
}

#[test]
fn a_sound_pool_is_admitted() {
    let sound = json!({
        "gateway": "10.0.0.1",
        "routes": [{ "dst": "10.9.0.0/16", "gw": "10.0.0.2" }],
        "podAffinity": { "matchLabels": { "app": "web" } },
        "nodeName": ["node-1", "node-2"],
    });
    assert_eq!(create(&pool(&sound), &[]), []);
    let six = json!({ "ipVersion": 6, "subnet": "fd00::/64", "ips": ["fd00::1-fd00::ffff:ffff"] });
    assert_eq!(create(&object("six", &json!({}), &six), &[]), []);
}

#[test]
fn a_field_that_breaks_a_rule_is_named() {
    let affinity = |operator: &str, values: Value| json!({ "podAffinity": { "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] } });
    for (fields, field, text) in [
        (json!({ "subnet": "10.0.0.1/24" }), "spec.subnet", "10.0.0.0/24"),
        (json!({ "subnet": "nonsense" }), "spec.subnet", "not a CIDR"),
        (json!({ "ipVersion": 6 }), "spec.subnet", "family"),
        (json!({ "ipVersion": 5 }), "spec.ipVersion", "4 or 6"),
        (json!({ "ips": ["10.0.1.1"] }), "spec.ips[0]", "does not belong"),
        (json!({ "ips": ["10.0.0.9", "fd00::1"] }), "spec.ips[1]", "IPv4"),
        (
            json!({ "ips": ["10.0.0.9-10.0.0.8"] }),
            "spec.ips[0]",
            "ends before",
        ),
        (json!({ "ips": ["10.0.0.0/28"] }), "spec.ips[0]", "not an address"),
        (
            json!({ "ips": ["10.0.0.1-10.0.0.9", "10.0.0.9"] }),
            "spec.ips[1]",
            "overlaps",
        ),
        (
            json!({ "excludeIPs": ["10.0.1.1"] }),
            "spec.excludeIPs[0]",
            "does not belong",
        ),
        (
            json!({ "gateway": "10.0.1.1" }),
            "spec.gateway",
            "does not belong",
        ),
        (json!({ "gateway": "x" }), "spec.gateway", "not an address"),
        (
            json!({ "gateway": "10.0.0.12" }),
            "spec.ips",
            "conflicts with 'spec.gateway'",
        ),
        (
            json!({ "routes": [{ "dst": "0.0.0.0/0", "gw": "10.0.0.1" }] }),
            "spec.routes[0].dst",
            "please specify 'spec.gateway'",
        ),
        (
            json!({ "routes": [{ "dst": "fd00::/64", "gw": "10.0.0.1" }] }),
            "spec.routes[0].dst",
            "not IPv4",
        ),
        (
            json!({ "routes": [{ "dst": "10.1.0.0", "gw": "10.0.0.1" }] }),
            "spec.routes[0].dst",
            "not a CIDR",
        ),
        (
            json!({ "routes": [{ "dst": "10.1.0.0/16", "gw": "10.1.0.1" }] }),
            "spec.routes[0].gw",
            "does not belong",
        ),
        (
            json!({ "routes": [{ "dst": "10.1.0.0/16", "gw": "10.0.0.1" }, { "dst": "10.1.0.0/16", "gw": "10.0.0.2" }] }),
            "spec.routes[1].dst",
            "already",
        ),
        (json!({ "podAffinity": {} }), "spec.podAffinity", "empty"),
        (
            affinity("Near", json!(["x"])),
            "spec.podAffinity.matchExpressions[0].operator",
            "Near",
        ),
        (
            affinity("In", json!([])),
            "spec.podAffinity.matchExpressions[0].values",
            "at least one",
        ),
        (
            affinity("Exists", json!(["x"])),
            "spec.podAffinity.matchExpressions[0].values",
            "no values",
        ),
        (
            json!({ "nodeAffinity": { "matchLabels": { "a b": "c" } } }),
            "spec.nodeAffinity.matchLabels",
            "a b",
        ),
        (
            json!({ "namespaceAffinity": { "matchLabels": { "a": "-c" } } }),
            "spec.namespaceAffinity.matchLabels",
            "-c",
        ),
        (json!({ "nodeName": ["Node 1"] }), "spec.nodeName[0]", "Node 1"),
    ] {
        only(&create(&pool(&fields), &[]), field, text);
    }
}

#[test]
fn a_gateway_among_the_addresses_is_admitted_when_it_is_excluded() {
    assert_eq!(
        create(
            &pool(&json!({ "gateway": "10.0.0.12", "excludeIPs": ["10.0.0.12"] })),
            &[]
        ),
        []
    );
}

#[test]
fn all_findings_come_at_once() {
    let wrong = json!({
        "ips": ["10.0.1.1", "x"], "gateway": "y", "routes": [{ "dst": "z", "gw": "10.0.0.1" }], "podAffinity": {},
    });
    assert_eq!(create(&pool(&wrong), &[]).len(), 5);
}

#[test]
fn a_family_that_is_off_is_refused() {
    let settings = Settings {
        ipv4: false,
        ..Settings::default()
    };
    only(
        &pool_rules::create(&pool(&json!({})), [].iter(), settings),
        "spec.ipVersion",
        "IPv4 is disabled",
    );
}

#[test]
fn subnets_are_equal_or_apart() {
    let other = |subnet: &str| {
        vec![object(
            "other",
            &json!({}),
            &json!({ "ipVersion": 4, "subnet": subnet, "ips": [] }),
        )]
    };
    let new = pool(&json!({}));
    assert_eq!(create(&new, &other("10.0.0.0/24")), []);
    assert_eq!(create(&new, &other("10.0.1.0/24")), []);
    for subnet in ["10.0.0.0/16", "10.0.0.128/25"] {
        let text = format!("overlap with IPPool other which 'spec.subnet' is {subnet}");
        only(&create(&new, &other(subnet)), "spec.subnet", &text);
    }
}

#[test]
fn ranges_of_one_subnet_do_not_meet_unless_excluded() {
    let mut other = pool(&json!({ "ips": ["10.0.0.20-10.0.0.30"] }));
    other.metadata.name = Some("other".to_owned());
    let text = "overlap with IPPool other in IP ranges [10.0.0.20]";
    only(
        &create(&pool(&json!({})), std::slice::from_ref(&other)),
        "spec.ips",
        text,
    );
    assert_eq!(
        create(&pool(&json!({ "excludeIPs": ["10.0.0.20"] })), &[other]),
        []
    );
}

#[test]
fn family_and_subnet_never_change() {
    let old = pool(&json!({ "ips": [] }));
    let moved = pool(&json!({ "ips": [], "subnet": "10.5.0.0/24" }));
    only(&update(&old, &moved), "spec.subnet", "is not changeable");
    let turned = pool(&json!({ "ips": [], "ipVersion": 6, "subnet": "fd00::/64" }));
    let fields: Vec<_> = update(&old, &turned)
        .into_iter()
        .map(|finding| finding.field)
        .collect();
    assert_eq!(fields, ["spec.ipVersion", "spec.subnet"]);
}

#[test]
fn an_address_in_use_stays_and_its_pod_is_named() {
    let old = claimed(pool(&json!({})));
    let text = "remove an IP address 10.0.0.12 that is being used by Pod ns/web-0";
    only(
        &update(&old, &pool(&json!({ "ips": ["10.0.0.13"] }))),
        "spec.ips",
        text,
    );
    only(
        &update(&old, &pool(&json!({ "excludeIPs": ["10.0.0.12"] }))),
        "spec.excludeIPs",
        text,
    );
    assert_eq!(update(&old, &pool(&json!({ "ips": ["10.0.0.12"] }))), []);
}

#[test]
fn a_pool_that_is_going_only_loses_finalizers() {
    let mut old = pool(&json!({}));
    old.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    old.metadata.finalizers = Some(vec![orbweaver_api::FINALIZER.to_owned()]);
    let mut new = old.clone();
    new.metadata.finalizers = None;
    assert_eq!(update(&old, &new), []);
    new.spec.disable = Some(true);
    only(&update(&old, &new), "metadata.deletionTimestamp", "being deleted");
}

#[test]
fn a_guarded_pool_with_claims_is_not_deleted() {
    let guard = Settings {
        guard_deletes: true,
        ..Settings::default()
    };
    let used = claimed(pool(&json!({})));
    only(
        &pool_rules::delete(&used, guard),
        "status.allocatedIPs",
        "allocated IPs",
    );
    assert_eq!(pool_rules::delete(&used, Settings::default()), []);
    assert_eq!(pool_rules::delete(&pool(&json!({})), guard), []);
}
