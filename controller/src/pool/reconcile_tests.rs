use super::*;

fn turn(failures: u32) -> Turn {
    let pool = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": "p", "uid": "u", "resourceVersion": "7", "generation": 4, "finalizers": ["a", FINALIZER, "b"] },
        "spec": { "subnet": "10.0.0.0/24" },
        "status": {},
    });
    Turn {
        pool: Arc::new(serde_json::from_value(pool).unwrap()),
        failures,
    }
}

#[test]
fn a_write_carries_its_version_and_nothing_but_what_is_wrong() {
    let both = [PoolAction::SetTotal(10), PoolAction::SetAllocated(2)];
    assert_eq!(
        counters_patch(&turn(0), &both),
        Some(Guarded::Version(json!({
            "metadata": { "resourceVersion": "7" },
            "status": { "totalIPCount": 10, "allocatedIPCount": 2 },
        })))
    );
    assert_eq!(
        counters_patch(&turn(0), &both[..1]),
        Some(Guarded::Version(
            json!({ "metadata": { "resourceVersion": "7" }, "status": { "totalIPCount": 10 } })
        ))
    );
    assert_eq!(counters_patch(&turn(0), &[PoolAction::AwaitClaims(3)]), None);
    assert_eq!(
        finalizer_patch(&turn(9).pool),
        json!({ "metadata": { "resourceVersion": "7", "finalizers": ["a", "b"] } })
    );
}

#[test]
fn a_total_gets_through_to_a_pool_that_never_rests_but_not_to_another_spec() {
    let both = [PoolAction::SetTotal(10), PoolAction::SetAllocated(2)];
    assert_eq!(
        counters_patch(&turn(CONFLICTS + 1), &both),
        Some(Guarded::Generation(json!([
            { "op": "test", "path": "/metadata/uid", "value": "u" },
            { "op": "test", "path": "/metadata/generation", "value": 4 },
            { "op": "add", "path": "/status/totalIPCount", "value": 10 },
        ])))
    );
    assert!(matches!(
        counters_patch(&turn(CONFLICTS + 1), &both[1..]),
        Some(Guarded::Version(_))
    ));
}

fn guarded(name: &str, ips: &Value) -> DeserializeGuard<SpiderIPPool> {
    let pool = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": name, "uid": name },
        "spec": { "subnet": "10.0.0.0/24", "ips": ips },
    });
    serde_json::from_value(pool).unwrap()
}

#[test]
fn a_pool_that_cannot_be_read_is_set_aside_and_harms_no_other() {
    let (mut agenda, mut seen) = (Agenda::new(Pace::default()), Seen::default());
    let (good, bad) = (json!(["10.0.0.1"]), json!(7));
    follow(Event::Apply(guarded("good", &good)), &mut agenda, &mut seen);
    follow(Event::Apply(guarded("turned", &good)), &mut agenda, &mut seen);
    follow(Event::Apply(guarded("turned", &bad)), &mut agenda, &mut seen);
    assert_eq!(agenda.len(), 1, "nothing is planned on what it was");
    follow(Event::Apply(guarded("turned", &good)), &mut agenda, &mut seen);
    assert_eq!(agenda.len(), 2, "corrected, it is back");
    assert!(seen.unreadable.is_empty());
}

#[test]
fn a_pool_that_cannot_be_read_is_told_once_for_each_reason() {
    let mut seen = Seen::default();
    assert!(seen.is_news("p", "ips is a number"));
    assert!(!seen.is_news("p", "ips is a number"));
    assert!(seen.is_news("p", "subnet is a list"));
    assert!(seen.is_news("q", "subnet is a list"));

    let mut agenda = Agenda::new(Pace::default());
    follow(Event::Init, &mut agenda, &mut seen);
    follow(Event::InitApply(guarded("p", &json!(7))), &mut agenda, &mut seen);
    follow(Event::InitDone, &mut agenda, &mut seen);
    let kept: Vec<_> = seen.unreadable.keys().collect();
    assert_eq!(kept, ["p"], "a pool that is gone is forgotten");
}
