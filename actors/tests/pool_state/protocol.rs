//! How writes are made, and how they fail.

use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::PoolError;
use orbweaver_actors::pool::effect::{ClaimKind, UnclaimReason};
use orbweaver_actors::store::StoreError;
use serde_json::json;

use crate::bench::{Bench, marked, plain};

#[test]
fn what_arrives_during_a_write_joins_the_next_one() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.200"]));
    let ids: Vec<u64> = (0..100)
        .map(|pod| bench.submit(bench.request(&format!("u{pod}"), "n1")))
        .collect();
    bench.run();
    let addresses: std::collections::BTreeSet<_> =
        ids.iter().map(|id| bench.claimed(*id).unwrap().address).collect();
    assert_eq!((addresses.len(), bench.writes.len(), bench.reads), (100, 2, 0));
}

#[test]
fn a_conflict_is_planned_again_on_the_new_object() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.11"]));
    let id = bench.submit(bench.request("mine", "n1"));
    let mut first = true;
    bench.run_with(|bench, _| {
        if std::mem::take(&mut first) {
            let claims = json!({ "10.7.0.10": { "pod": "ns/x", "podUid": "x" } }).to_string();
            bench.change(|object| object["status"] = json!({ "allocatedIPs": claims }));
        }
        Ok(())
    });
    assert_eq!(bench.claimed(id).unwrap().address.to_string(), "10.7.0.11");
    assert_eq!((bench.claims().len(), bench.writes.len(), bench.reads), (2, 2, 1));
}

#[test]
fn a_write_whose_answer_was_lost_counts_as_made_and_makes_no_second_claim() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    let id = bench.submit(bench.request("mine", "n1"));
    bench.run_with(|bench, write| {
        bench.commit(write).unwrap();
        Err(StoreError::Unknown("timed out".to_owned()))
    });
    let claimed = bench.claimed(id).unwrap();
    assert_eq!(
        (claimed.kind, bench.claims().len(), bench.writes.len()),
        (ClaimKind::Plain, 1, 1)
    );
}

#[test]
fn a_lost_unclaim_is_taken_back_once() {
    let mut bench = Bench::new(plain(&["10.7.0.10"]));
    bench.claim("a", "n1").unwrap();
    let id = bench.submit_unclaim("10.7.0.10", "a", UnclaimReason::Release);
    bench.run_with(|bench, write| {
        bench.commit(write).unwrap();
        Err(StoreError::Unknown("reset".to_owned()))
    });
    assert!(bench.unclaimed(id).is_ok());
    assert!(bench.claims().is_empty() && bench.object["status"]["allocatedIPs"].is_null());
}

#[test]
fn an_item_ends_by_its_deadline_when_every_write_conflicts() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    let mut request = bench.request("mine", "n1");
    request.deadline = Deadline::at(bench.now + Duration::from_secs(5));
    let id = bench.submit(request);
    bench.run_with(|bench, _| {
        bench.change(|_| {});
        Ok(())
    });
    assert!(matches!(bench.claimed(id), Err(PoolError::DeadlineExceeded { attempts }) if attempts > 1));
    assert!(bench.claims().is_empty());
}

#[test]
fn one_bad_item_does_not_fail_its_batch() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.11"]));
    let ids: Vec<u64> = ["a", "b", "c"]
        .map(|uid| bench.submit(bench.request(uid, "n1")))
        .into();
    bench.run();
    assert!(bench.claimed(ids[0]).is_ok() && bench.claimed(ids[1]).is_ok());
    assert!(matches!(bench.claimed(ids[2]), Err(PoolError::Exhausted)));
}

#[test]
fn exhaustion_is_not_believed_of_a_stale_object() {
    let mut object = plain(&["10.7.0.10"]);
    object["status"] =
        json!({ "allocatedIPs": json!({ "10.7.0.10": { "pod": "ns/x", "podUid": "x" } }).to_string() });
    let mut bench = Bench::new(object);
    bench.change(|object| object["status"] = json!({}));
    assert_eq!(bench.claim("a", "n1").unwrap().address.to_string(), "10.7.0.10");
    assert_eq!(bench.reads, 1);
}

#[test]
fn a_claim_that_races_the_providers_mark_loses() {
    let bound = json!({ "mac": "fa:16:3e:00:00:01", "vlan": 7, "node": "n1" });
    let mut detaching = bound.clone();
    detaching["vlan"] = json!(-1);
    let ledger =
        |entry: &serde_json::Value| json!({ "scope": "", "ips": { "10.7.0.10": entry } }).to_string();
    let mut bench = Bench::new(marked(
        &["10.7.0.10"],
        &json!({ "scope": "", "ips": { "10.7.0.10": bound } }),
    ));
    let id = bench.submit(bench.request("mine", "n1"));
    let mut first = true;
    bench.run_with(|bench, _| {
        if std::mem::take(&mut first) {
            bench.change(|object| object["status"]["ipMetaData"]["metadata"] = json!(ledger(&detaching)));
        }
        Ok(())
    });
    assert!(matches!(bench.claimed(id), Err(PoolError::Exhausted)));
    bench.change(|object| object["status"]["ipMetaData"]["metadata"] = json!(ledger(&bound)));
    bench.watch();
    assert_eq!(bench.claim("mine", "n1").unwrap().kind, ClaimKind::Hit);
}

#[test]
fn an_old_watch_event_undoes_nothing() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.14"]));
    let old = bench.object.clone();
    let first = bench.claim("a", "n1").unwrap();
    bench.state.observe(crate::bench::pool(old));
    let second = bench.claim("b", "n1").unwrap();
    assert_ne!(first.address, second.address);
    assert_eq!(bench.reads, 0);
}

#[test]
fn a_deleted_pool_answers_everybody() {
    let mut bench = Bench::new(plain(&["10.7.0.10"]));
    let id = bench.submit(bench.request("a", "n1"));
    bench.run_with(|_, _| Err(StoreError::NotFound));
    assert!(matches!(bench.claimed(id), Err(PoolError::Gone)));
}

#[test]
fn a_refused_write_is_told_to_its_items_and_the_next_one_starts_afresh() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.11"]));
    let id = bench.submit(bench.request("a", "n1"));
    bench.run_with(|_, _| Err(StoreError::Refused("forbidden".to_owned())));
    assert!(matches!(
        bench.claimed(id),
        Err(PoolError::Store(StoreError::Refused(_)))
    ));
    assert_eq!(bench.claim("b", "n1").unwrap().address.to_string(), "10.7.0.10");
}

#[test]
fn a_late_watch_event_is_not_believed_after_a_write_that_failed() {
    let mut bench = Bench::new(plain(&["10.7.0.10-10.7.0.11"]));
    bench.claim("a", "n1").unwrap();
    let late = bench.object.clone();
    bench.unclaim("10.7.0.10", "a");
    bench.submit(bench.request("b", "n1"));
    bench.run_with(|_, _| Err(StoreError::Refused("forbidden".to_owned())));
    bench.state.observe(crate::bench::pool(late));
    bench.claim("a", "n1").unwrap();
    assert_eq!(bench.claims().len(), 1, "the answer is a claim in the object");
}

#[test]
fn an_unclaim_is_not_refused_on_a_stale_object() {
    let mut bench = Bench::new(plain(&["10.7.0.10"]));
    let claims = json!({ "10.7.0.10": { "pod": "ns/x", "podUid": "x" } }).to_string();
    bench.change(|object| object["status"] = json!({ "allocatedIPs": claims }));
    bench.unclaim("10.7.0.10", "x");
    assert!(bench.claims().is_empty());
}
