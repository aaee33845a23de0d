//! The ledger's cases, as far as the ledger alone decides them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use orbweaver_api::ledger::{Expectation, Ledger};
use proptest::prelude::*;
use serde_json::Value;

fn decode(case: &Value) -> Result<Ledger, orbweaver_api::ledger::NotReady> {
    let pool = &case["pool"];
    let expect = Expectation {
        generation: pool["generation"].as_i64().unwrap(),
        node_name: pool["nodeName"][0].as_str(),
    };
    Ledger::decode(
        case["metadata"].as_str(),
        pool["observedGeneration"].as_i64(),
        expect,
    )
}

#[test]
fn a_ledger_is_refused_exactly_when_its_case_says_so() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("data/ledger.json")).unwrap();
    assert!(cases.len() >= 20);
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let refused = case["expect"]["error"] == "metadata-not-ready";
        match decode(case) {
            Err(error) => assert!(refused, "{name}: {error}"),
            Ok(ledger) => {
                assert!(!refused, "{name}: it was accepted");
                let skipped: Vec<&str> = ledger.inconsistent.values().map(|one| one.key.as_str()).collect();
                let expected: Vec<&str> = case["skipped"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                assert_eq!(skipped, expected, "{name}");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_ledger_panic(text in ".{0,200}", generation in 0i64..3) {
        let expect = Expectation { generation, node_name: None };
        let _ = Ledger::decode(Some(&text), Some(1), expect);
    }

    #[test]
    fn no_entry_makes_the_ledger_panic(
        key in "[0-9a-f.:]{0,12}", vlan in any::<i64>(), node in "[a-z]{0,3}", mac in "[0-9a-f:]{0,18}", status in "[a-z]{0,10}",
    ) {
        let entry = serde_json::json!({ "vlan": vlan, "node": node, "mac": mac, "status": status });
        let text = serde_json::json!({ "scope": "", "ips": { key: entry } }).to_string();
        let expect = Expectation { generation: 1, node_name: None };
        let ledger = Ledger::decode(Some(&text), Some(1), expect).unwrap();
        prop_assert!(ledger.entries.len() + ledger.skipped().count() == 1);
    }
}
