use serde_json::json;

use super::*;

fn pool(generation: i64, total: i64) -> Arc<SpiderIPPool> {
    let pool = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": "p", "uid": "u", "generation": generation, "finalizers": [orbweaver_api::FINALIZER] },
        "spec": { "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.10"] },
        "status": { "totalIPCount": total, "allocatedIPs": "{\"10.0.0.1\":{\"pod\":\"n/p\",\"podUid\":\"u\"}}" },
    });
    Arc::new(serde_json::from_value(pool).unwrap())
}

fn agenda() -> (Agenda, Instant, Pace) {
    (Agenda::new(Pace::default()), Instant::now(), Pace::default())
}

/// A turn that puts everything right.
fn settle(agenda: &mut Agenda, at: Instant) {
    let (name, _) = agenda.take_due(at).unwrap();
    agenda.done(&name, Outcome::Settled, at);
}

#[test]
fn a_wrong_total_is_urgent_and_a_right_one_is_not() {
    let (mut agenda, now, pace) = agenda();
    agenda.apply("p", pool(1, 10), now);
    assert_eq!(agenda.next_due(), Some(now + pace.settle));
    agenda.apply("p", pool(1, 9), now);
    assert_eq!(agenda.next_due(), Some(now));
}

#[test]
fn a_busy_pool_is_looked_at_once_per_settle_time_and_at_its_newest() {
    let (mut agenda, start, pace) = agenda();
    for millisecond in 0..4_000 {
        let now = start + Duration::from_millis(millisecond);
        agenda.apply("p", pool(1, 10), now);
        assert!(agenda.take_due(now).is_none());
    }
    let newest = pool(1, 10);
    agenda.apply("p", newest.clone(), start + pace.settle);
    let (_, turn) = agenda.take_due(start + pace.settle).unwrap();
    assert!(Arc::ptr_eq(&turn.pool, &newest));
}

#[test]
fn a_pool_in_its_turn_has_no_second_turn() {
    let (mut agenda, now, _) = agenda();
    agenda.apply("p", pool(1, 9), now);
    let (name, _) = agenda.take_due(now).unwrap();
    agenda.apply("p", pool(2, 9), now);
    assert!(agenda.take_due(now).is_none());
    agenda.done(&name, Outcome::Settled, now);
    assert!(
        agenda.take_due(now).is_some(),
        "what came meanwhile is not forgotten"
    );
}

#[test]
fn a_failing_pool_waits_longer_and_longer_whatever_happens() {
    let (mut agenda, mut now, pace) = agenda();
    agenda.apply("p", pool(1, 9), now);
    let mut waits = Vec::new();
    for _ in 0..10 {
        let (name, _) = agenda.take_due(now).unwrap();
        agenda.done(&name, Outcome::Again, now);
        agenda.apply("p", pool(1, 9), now);
        let due = agenda.next_due().unwrap();
        waits.push(due - now);
        now = due;
    }
    assert!(
        waits.is_sorted() && waits[0] == pace.first_retry && waits[9] == pace.last_retry,
        "{waits:?}"
    );
    agenda.apply("p", pool(2, 9), now - pace.first_retry);
    assert!(agenda.next_due().unwrap() < now, "a new spec is a new chance");
}

#[test]
fn a_settled_pool_is_looked_at_again_after_the_resync_period() {
    let (mut agenda, now, pace) = agenda();
    agenda.apply("p", pool(1, 9), now);
    settle(&mut agenda, now);
    assert_eq!(agenda.next_due(), Some(now + pace.resync));
}

#[test]
fn a_terminating_pool_is_urgent_when_it_becomes_empty() {
    let (mut agenda, now, pace) = agenda();
    let mut held = (*pool(1, 10)).clone();
    held.metadata.deletion_timestamp = serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
    agenda.apply("p", Arc::new(held.clone()), now);
    assert_eq!(agenda.next_due(), Some(now + pace.settle));
    held.status.as_mut().unwrap().allocated_ips = None;
    agenda.apply("p", Arc::new(held), now);
    assert_eq!(agenda.next_due(), Some(now));
}

#[test]
fn the_same_thing_is_said_once() {
    let (mut agenda, now, _) = agenda();
    agenda.apply("p", pool(1, 9), now);
    assert!(agenda.says("p", Some("bad")));
    assert!(!agenda.says("p", Some("bad")));
    assert!(!agenda.says("p", None));
    assert!(agenda.says("p", Some("bad")));
}
