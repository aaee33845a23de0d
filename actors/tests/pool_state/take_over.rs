//! Laws of addresses that a pod wants back under another UID (reference §2.6).

use orbweaver_actors::error::PoolError;
use orbweaver_actors::pool::effect::{ClaimKind, Claimed};
use serde_json::json;

use crate::bench::{Bench, entry, marked, plain};

/// Pod `ns/a` comes back as `uid` and wants `address`.
fn take_over(bench: &mut Bench, address: &str, uid: &str, node: &str) -> Result<Claimed, PoolError> {
    let mut request = bench.request("a", node);
    request.pod_uid = uid.into();
    request.recorded = Some(address.parse().unwrap());
    request.takes_over = true;
    let id = bench.submit(request);
    bench.run();
    bench.claimed(id)
}

#[test]
fn an_earlier_lifes_claim_changes_its_uid_in_one_write_and_nothing_else() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    bench.claim("b", "n1").unwrap();
    bench.claim("a", "n1").unwrap();
    let writes = bench.writes.len();
    let taken = take_over(&mut bench, "10.7.0.11", "a2", "n2").unwrap();
    assert_eq!(
        (taken.address.to_string().as_str(), taken.kind),
        ("10.7.0.11", ClaimKind::TakenOver)
    );
    assert_eq!((bench.writes.len() - writes, bench.claims().len()), (1, 2));
    let again = take_over(&mut bench, "10.7.0.11", "a2", "n2").unwrap();
    assert_eq!(
        (again.kind, bench.writes.len() - writes),
        (ClaimKind::Found, 1),
        "again costs nothing"
    );
    assert_eq!(
        bench.claim("a", "n1").unwrap().address.to_string(),
        "10.7.0.12",
        "the old UID holds nothing now"
    );
}

#[test]
fn an_address_that_nobody_claims_any_more_is_claimed_and_one_that_another_has_is_lost() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    bench.claim("b", "n1").unwrap();
    let free = take_over(&mut bench, "10.7.0.13", "a2", "n1").unwrap();
    assert_eq!(
        (free.address.to_string().as_str(), free.kind),
        ("10.7.0.13", ClaimKind::Plain)
    );
    for (address, part) in [
        ("10.7.0.10", "ns/b holds it"),
        ("10.7.0.99", "does not give it out"),
    ] {
        match take_over(&mut bench, address, "a2", "n1") {
            Err(error @ PoolError::Lost { .. }) => assert!(error.to_string().contains(part), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_reserved_address_stays_with_the_pod_that_has_it() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    bench.claim("a", "n1").unwrap();
    bench.change(|object| object["spec"]["excludeIPs"] = json!(["10.7.0.10"]));
    bench.watch();
    assert_eq!(
        take_over(&mut bench, "10.7.0.10", "a2", "n1").unwrap().kind,
        ClaimKind::TakenOver
    );
}

#[test]
fn a_sub_eni_that_is_elsewhere_must_be_moved_and_one_that_is_marked_is_lost() {
    let ledger =
        json!({ "scope": "", "ips": { "10.7.0.10": entry("n1", 12), "10.7.0.11": entry("n1", 13) } });
    let mut bench = Bench::new(marked(&["10.7.0.10-10.7.0.11"], &ledger));
    assert!(!bench.claim("a", "n1").unwrap().provider_call);
    let here = take_over(&mut bench, "10.7.0.11", "a2", "n1");
    assert!(!here.unwrap().provider_call);
    let there = take_over(&mut bench, "10.7.0.11", "a3", "n2").unwrap();
    assert!(there.provider_call && there.mac.is_none());
    let again = take_over(&mut bench, "10.7.0.11", "a3", "n2").unwrap();
    assert!(again.provider_call, "an unfinished move is not a finished one");
    let ledger = json!({ "scope": "", "ips": { "10.7.0.11": entry("n1", -1) } });
    bench.change(|object| object["status"]["ipMetaData"]["metadata"] = json!(ledger.to_string()));
    bench.watch();
    match take_over(&mut bench, "10.7.0.11", "a4", "n1") {
        Err(PoolError::Lost { claimed_by, .. }) => assert_eq!(claimed_by.as_deref(), Some("a3")),
        other => panic!("{other:?}"),
    }
}

/// Reference §2.9: the error names the bound.
#[test]
fn a_pool_holds_no_more_claims_than_it_may() {
    let mut bench = Bench::limited(plain(&["10.7.0.10-10.7.0.14"]), 2);
    for uid in ["a", "b"] {
        bench.claim(uid, "n1").unwrap();
    }
    let full = bench.claim("c", "n1").unwrap_err();
    assert!(
        matches!(full, PoolError::Full { limit: 2 }) && full.next_candidate(),
        "{full}"
    );
    assert!(full.to_string().contains("all IP addresses used out"), "{full}");
    bench.claim("a", "n1").unwrap();
}
