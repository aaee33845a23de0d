use super::*;

fn turn(failures: u32) -> Turn {
    let pool = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": "p", "uid": "u", "resourceVersion": "7", "finalizers": ["a", FINALIZER, "b"] },
        "spec": { "subnet": "10.0.0.0/24" },
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
        Some(json!({
            "metadata": { "resourceVersion": "7" },
            "status": { "totalIPCount": 10, "allocatedIPCount": 2 },
        }))
    );
    assert_eq!(
        counters_patch(&turn(0), &both[..1]),
        Some(json!({ "metadata": { "resourceVersion": "7" }, "status": { "totalIPCount": 10 } }))
    );
    assert_eq!(counters_patch(&turn(0), &[PoolAction::AwaitClaims(3)]), None);
    assert_eq!(
        finalizer_patch(&turn(9).pool),
        json!({ "metadata": { "resourceVersion": "7", "finalizers": ["a", "b"] } })
    );
}

#[test]
fn a_total_gets_through_to_a_pool_that_never_rests() {
    let both = [PoolAction::SetTotal(10), PoolAction::SetAllocated(2)];
    assert_eq!(
        counters_patch(&turn(CONFLICTS + 1), &both),
        Some(json!({ "metadata": { "uid": "u" }, "status": { "totalIPCount": 10 } }))
    );
    assert_eq!(counters_patch(&turn(CONFLICTS + 1), &both[1..]), None);
}
