//! What is completed, what is reserved, and nonsense of any kind.

use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use orbweaver_controller::admission::{Settings, pool_mutation, pool_rules, reserved_rules};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{MARK, NIC, PAIR, claimed, object, only, pool};

fn patched(pool: &SpiderIPPool, path: &str) -> Option<Value> {
    let operations = pool_mutation::patch(pool);
    operations
        .iter()
        .find(|operation| operation["path"] == path)
        .map(|operation| operation["value"].clone())
}

#[test]
fn a_pool_is_completed() {
    let raw = json!({ "subnet": "10.6.0.0/16", "ips": ["10.6.0.9", "10.6.0.1-10.6.0.3", "10.6.0.4"], "excludeIPs": ["10.6.0.2-10.6.0.2"] });
    let mut pool = object("p", &json!({ MARK: "cloud" }), &raw);
    assert_eq!(patched(&pool, "/spec/ipVersion"), Some(json!(4)));
    assert_eq!(
        patched(&pool, "/spec/ips"),
        Some(json!(["10.6.0.1-10.6.0.4", "10.6.0.9"]))
    );
    assert_eq!(
        patched(&pool, "/spec/excludeIPs"),
        None,
        "one range stays as written"
    );
    assert_eq!(
        patched(&pool, "/metadata/finalizers"),
        Some(json!([orbweaver_api::FINALIZER]))
    );
    let labels = json!({ pool_mutation::CIDR_LABEL: "10-6-0-0-16", MARK: "cloud" });
    assert_eq!(patched(&pool, "/metadata/labels"), Some(labels));
    pool.metadata.annotations = None;
    pool.metadata.labels = Some([(MARK.to_owned(), "stale".to_owned())].into());
    assert_eq!(
        patched(&pool, "/metadata/labels"),
        Some(json!({ pool_mutation::CIDR_LABEL: "10-6-0-0-16" }))
    );
    pool.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(pool_mutation::patch(&pool), Vec::<Value>::new());
}

fn reserved(spec: &Value) -> SpiderReservedIP {
    serde_json::from_value(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP", "metadata": { "name": "r" }, "spec": spec,
    }))
    .unwrap()
}

#[test]
fn reserved_addresses_have_one_family_and_keep_it() {
    let (four, settings) = (
        reserved(&json!({ "ips": ["10.0.0.2", "10.0.0.1"] })),
        Settings::default(),
    );
    let paths: Vec<_> = reserved_rules::patch(&four)
        .iter()
        .map(|operation| operation["path"].clone())
        .collect();
    assert_eq!(paths, ["/spec/ipVersion", "/spec/ips"]);
    assert_eq!(reserved_rules::create(&four, settings), []);
    let mixed = reserved(&json!({ "ips": ["10.0.0.2", "fd00::1"] }));
    only(&reserved_rules::create(&mixed, settings), "spec.ips[1]", "IPv4");
    let six = reserved(&json!({ "ips": ["fd00::1"] }));
    only(
        &reserved_rules::update(&four, &six, settings),
        "spec.ipVersion",
        "is not changeable",
    );
    only(
        &reserved_rules::create(
            &six,
            Settings {
                ipv6: false,
                ..settings
            },
        ),
        "spec.ipVersion",
        "IPv6 is disabled",
    );
    only(
        &reserved_rules::create(&reserved(&json!({})), settings),
        "spec.ipVersion",
        "4 or 6",
    );
}

proptest! {
    #[test]
    fn nothing_that_is_written_breaks_admission(
        texts in prop::collection::vec("[0-9a-f:./ -]{0,24}|\\PC{0,12}|10\\.0\\.0\\.[0-9]{1,3}(-10\\.0\\.0\\.[0-9]{1,3})?", 8),
        version in prop::option::of(-1i64..8),
        claims in prop::option::of("\\PC{0,20}"),
    ) {
        let annotations = json!({ MARK: texts[0], NIC: texts[1], PAIR: texts[2] });
        let spec = json!({
            "ipVersion": version, "subnet": texts[3], "ips": texts[3..6], "excludeIPs": [texts[6]], "gateway": texts[7],
            "routes": [{ "dst": texts[3], "gw": texts[4] }], "nodeName": [texts[5]],
        });
        let mut wild = object("wild", &annotations, &spec);
        wild.status = Some(serde_json::from_value(json!({ "allocatedIPs": claims })).unwrap());
        let tame = claimed(pool(&json!({ "ips": texts[3..6] })));
        let settings = Settings { guard_deletes: true, ..Settings::default() };
        pool_mutation::patch(&wild);
        pool_rules::create(&wild, [&tame].into_iter(), settings);
        pool_rules::create(&tame, [&wild].into_iter(), settings);
        pool_rules::update(&wild, &tame, [&wild].into_iter(), settings);
        pool_rules::update(&tame, &wild, [&tame].into_iter(), settings);
        pool_rules::delete(&wild, settings);
        let spec = json!({ "ipVersion": version, "ips": texts });
        reserved_rules::patch(&reserved(&spec));
        reserved_rules::create(&reserved(&spec), settings);
    }
}
