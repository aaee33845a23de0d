//! Which address a claim gets.

use std::time::Duration;

use orbweaver_actors::error::PoolError;
use orbweaver_actors::pool::effect::{ClaimKind, UnclaimReason, Unclaimed};
use serde_json::{Value, json};

use crate::bench::{Bench, entry, marked, plain};

#[test]
fn every_case_of_the_ledger_gets_its_address() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../api/tests/data/ledger.json")).unwrap();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let claims: serde_json::Map<String, Value> = case["claims"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(address, uid)| (address.clone(), json!({ "pod": "ns/other", "podUid": uid })))
            .collect();
        let source = &case["pool"];
        let mut object = json!({
            "metadata": {
                "name": "p", "uid": "u", "resourceVersion": "1", "generation": source["generation"],
                "labels": { "ipam.spidernet.io/iaas-provider": "c" },
            },
            "spec": { "subnet": source["subnet"], "ips": source["ips"], "excludeIPs": source["excludeIPs"] },
            "status": { "ipMetaData": { "observedGeneration": source["observedGeneration"] } },
        });
        if !source["nodeName"].is_null() {
            object["spec"]["nodeName"] = source["nodeName"].clone();
        }
        if !case["metadata"].is_null() {
            object["status"]["ipMetaData"]["metadata"] = case["metadata"].clone();
        }
        if !claims.is_empty() {
            object["status"]["allocatedIPs"] = json!(Value::Object(claims).to_string());
        }
        let mut bench = Bench::new(object);
        let result = bench.claim("mine", case["node"].as_str().unwrap());
        let expect = &case["expect"];
        match (expect["error"].as_str(), result) {
            (Some("exhausted"), Err(PoolError::Exhausted))
            | (Some("metadata-not-ready"), Err(PoolError::MetadataNotReady(_))) => {}
            (None, Ok(claimed)) => {
                assert_eq!(claimed.address.to_string(), expect["address"], "{name}");
                assert_eq!(claimed.provider_call, expect["provider_call"], "{name}");
                if let Some(mac) = expect["mac"].as_str() {
                    assert_eq!(claimed.mac.unwrap().to_string(), mac, "{name}");
                    assert_eq!(claimed.vlan.map(u64::from), expect["vlan"].as_u64(), "{name}");
                }
            }
            (expected, got) => panic!("{name}: expected {expected:?}, got {got:?}"),
        }
    }
}

#[test]
fn a_plain_pool_gives_its_lowest_free_address() {
    let mut object = plain(&["10.7.0.10-10.7.0.14"]);
    object["spec"]["excludeIPs"] = json!(["10.7.0.11"]);
    let mut bench = Bench::reserving(object, &["10.7.0.10"]);
    let addresses: Vec<String> = ["a", "b", "c"]
        .map(|uid| bench.claim(uid, "n1").unwrap().address.to_string())
        .into();
    assert_eq!(addresses, ["10.7.0.12", "10.7.0.13", "10.7.0.14"]);
    assert!(matches!(bench.claim("d", "n1"), Err(PoolError::Exhausted)));
    assert_eq!(bench.unclaim("10.7.0.13", "b"), Unclaimed::TakenBack);
    assert_eq!(bench.claim("d", "n1").unwrap().address.to_string(), "10.7.0.13");
}

#[test]
fn a_hit_takes_the_address_released_last_on_this_node() {
    let ledger = json!({ "scope": "", "ips": {
        "10.7.0.10": entry("n1", 10), "10.7.0.11": entry("n1", 11), "10.7.0.12": entry("n1", 12),
    } });
    let mut bench = Bench::new(marked(&["10.7.0.10-10.7.0.12"], &ledger));
    for uid in ["a", "b", "c"] {
        bench.claim(uid, "n1").unwrap();
    }
    bench.unclaim("10.7.0.11", "b");
    bench.unclaim("10.7.0.10", "a");
    let hit = bench.claim("d", "n1").unwrap();
    assert_eq!(
        (hit.address.to_string().as_str(), hit.kind, hit.provider_call),
        ("10.7.0.10", ClaimKind::Hit, false)
    );
}

#[test]
fn a_steal_takes_the_address_that_idled_longest() {
    let ledger =
        json!({ "scope": "", "ips": { "10.7.0.10": entry("n2", 10), "10.7.0.11": entry("n2", 11) } });
    let mut bench = Bench::new(marked(&["10.7.0.10-10.7.0.11"], &ledger));
    for uid in ["a", "b"] {
        bench.claim(uid, "n2").unwrap();
    }
    bench.unclaim("10.7.0.11", "b");
    bench.unclaim("10.7.0.10", "a");
    let stolen = bench.claim("c", "n1").unwrap();
    assert_eq!(
        (
            stolen.address.to_string().as_str(),
            stolen.kind,
            stolen.provider_call
        ),
        ("10.7.0.11", ClaimKind::Steal, true)
    );
}

#[test]
fn the_pods_own_claim_is_found_again_and_costs_no_write() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    let first = bench.claim("a", "n1").unwrap();
    let again = bench.claim("a", "n1").unwrap();
    assert_eq!((again.address, again.kind), (first.address, ClaimKind::Found));
    assert_eq!(bench.writes.len(), 1);
}

#[test]
fn two_nics_of_one_pod_on_one_pool_get_two_addresses() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    let first = bench.claim("a", "n1").unwrap();
    let mut request = bench.request("a", "n1");
    request.held_by_other_nics = vec![first.address];
    let id = bench.submit(request);
    bench.run();
    assert_ne!(bench.claimed(id).unwrap().address, first.address);
}

#[test]
fn an_interrupted_cold_claim_is_called_for_again() {
    let ledger = json!({ "scope": "", "ips": {} });
    let mut bench = Bench::new(marked(&["10.7.0.10-10.7.0.14"], &ledger));
    assert!(bench.claim("a", "n1").unwrap().provider_call);
    let again = bench.claim("a", "n1").unwrap();
    assert_eq!((again.kind, again.provider_call), (ClaimKind::Found, true));
    let mut request = bench.request("a", "n1");
    request.recorded = Some(again.address);
    let id = bench.submit(request);
    bench.run();
    assert!(
        !bench.claimed(id).unwrap().provider_call,
        "a finished allocation is not called for again"
    );
}

#[test]
fn an_address_in_doubt_is_kept_for_its_pod_and_from_others() {
    let ledger = json!({ "scope": "", "ips": {} });
    let mut bench = Bench::new(marked(&["10.7.0.10-10.7.0.11"], &ledger));
    let first = bench.claim("a", "n1").unwrap().address.to_string();
    let reason = UnclaimReason::RollbackInDoubt {
        for_at_most: Duration::from_secs(50),
    };
    bench.submit_unclaim(&first, "a", reason);
    bench.run();
    assert!(bench.claims().is_empty());
    assert_ne!(bench.claim("b", "n1").unwrap().address.to_string(), first);
    assert!(matches!(bench.claim("c", "n1"), Err(PoolError::Exhausted)));
    assert_eq!(bench.claim("a", "n1").unwrap().address.to_string(), first);
    bench.unclaim(&first, "a");
    bench.now += Duration::from_secs(51);
    assert_eq!(bench.claim("c", "n1").unwrap().address.to_string(), first);
}

#[test]
fn a_released_address_of_another_uid_stays() {
    let mut bench = Bench::new(plain(&["10.7.0.10"]));
    bench.claim("new", "n1").unwrap();
    assert_eq!(bench.unclaim("10.7.0.10", "old"), Unclaimed::NotHeld);
    assert_eq!(bench.claims().len(), 1);
}

#[test]
fn a_pool_that_cannot_be_read_says_which_field_and_is_not_written() {
    for (field, value, text) in [
        ("/spec/ips", json!(["10.7.0.300"]), "spec.ips"),
        ("/spec/subnet", json!("10.7.0.0"), "spec.subnet"),
        ("/spec/gateway", json!("x"), "spec.gateway"),
        ("/status", json!({ "allocatedIPs": "{" }), "status.allocatedIPs"),
    ] {
        let mut object = plain(&["10.7.0.10"]);
        object["status"] = json!({});
        *object.pointer_mut(field).unwrap() = value;
        let mut bench = Bench::new(object);
        match bench.claim("a", "n1") {
            Err(PoolError::Unusable(why)) => assert!(why.contains(text), "{why}"),
            other => panic!("{field}: {other:?}"),
        }
        assert!(bench.writes.is_empty());
    }
}
