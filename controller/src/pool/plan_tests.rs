use serde_json::{Value, json};

use super::*;

#[allow(clippy::needless_pass_by_value, reason = "cases read better")]
fn pool(ips: &[&str], exclude: &[&str], status: Value) -> SpiderIPPool {
    let subnet = if ips.iter().any(|range| range.contains(':')) {
        "fd00::/48"
    } else {
        "10.0.0.0/8"
    };
    serde_json::from_value(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": "p", "finalizers": [FINALIZER] },
        "spec": { "subnet": subnet, "ips": ips, "excludeIPs": exclude },
        "status": status,
    }))
    .unwrap()
}

fn claims(addresses: &[&str]) -> String {
    let claims: serde_json::Map<_, _> = addresses
        .iter()
        .map(|address| ((*address).to_owned(), json!({ "pod": "ns/p", "podUid": "u" })))
        .collect();
    Value::Object(claims).to_string()
}

fn terminating(mut pool: SpiderIPPool) -> SpiderIPPool {
    let time = serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
    pool.metadata.deletion_timestamp = Some(time);
    pool
}

#[test]
fn the_total_is_the_size_of_the_difference() {
    for (ips, exclude, expected) in [
        (&["10.0.0.1"][..], &[][..], 1),
        (&["10.0.0.1-10.0.0.10"], &["10.0.0.5"], 9),
        (&["10.0.0.1-10.0.0.10", "10.0.0.5-10.0.0.20"], &[], 20),
        (&["10.0.0.1-10.0.0.10"], &["10.0.1.0-10.0.1.255"], 10),
        (&["10.0.0.1-10.0.0.10"], &["10.0.0.0-10.0.0.255"], 0),
        (&[], &[], 0),
        (&["fd00::1-fd00::ffff"], &["fd00::10"], 65_534),
    ] {
        assert_eq!(
            total(&pool(ips, exclude, json!({}))).unwrap(),
            expected,
            "{ips:?}"
        );
    }
}

#[test]
fn a_huge_v6_pool_saturates_and_costs_nothing() {
    let whole_64 = pool(&["fd00::-fd00::ffff:ffff:ffff:ffff"], &[], json!({}));
    assert_eq!(total(&whole_64).unwrap(), i64::MAX);
    let half = pool(&["fd00::-fd00::7fff:ffff:ffff:ffff"], &["fd00::"], json!({}));
    assert_eq!(total(&half).unwrap(), i64::MAX, "exactly i64::MAX, not one off");
    let less = pool(
        &["fd00::-fd00::7fff:ffff:ffff:ffff"],
        &["fd00::-fd00::1"],
        json!({}),
    );
    assert_eq!(total(&less).unwrap(), i64::MAX - 1);
}

#[test]
fn counters_are_recomputed_never_added() {
    let held = claims(&["10.0.0.1", "10.0.0.2"]);
    for wrong in [
        json!({}),
        json!({ "totalIPCount": 3, "allocatedIPCount": 1 }),
        json!({ "totalIPCount": 900, "allocatedIPCount": 77 }),
    ] {
        let mut status = wrong.clone();
        status["allocatedIPs"] = json!(held);
        let actions = plan(&pool(&["10.0.0.1-10.0.0.10"], &[], status)).unwrap();
        assert_eq!(
            actions,
            [PoolAction::SetTotal(10), PoolAction::SetAllocated(2)],
            "{wrong}"
        );
    }
    let right = json!({ "allocatedIPs": held, "totalIPCount": 10, "allocatedIPCount": 2 });
    assert_eq!(plan(&pool(&["10.0.0.1-10.0.0.10"], &[], right)).unwrap(), []);
    let emptied = json!({ "totalIPCount": 10, "allocatedIPCount": 2 });
    let actions = plan(&pool(&["10.0.0.1-10.0.0.10"], &[], emptied)).unwrap();
    assert_eq!(actions, [PoolAction::SetAllocated(0)]);
}

#[test]
fn a_terminating_pool_goes_only_when_empty() {
    let held = json!({ "allocatedIPs": claims(&["10.0.0.1", "10.0.0.2"]) });
    let range = &["10.0.0.1-10.0.0.10"];
    assert_eq!(
        plan(&terminating(pool(range, &[], held))).unwrap(),
        [PoolAction::AwaitClaims(2)]
    );
    for empty in [
        json!({}),
        json!({ "allocatedIPs": "" }),
        json!({ "allocatedIPs": "{}" }),
        json!(null),
    ] {
        let actions = plan(&terminating(pool(range, &[], empty.clone()))).unwrap();
        assert_eq!(actions, [PoolAction::RemoveFinalizer], "{empty}");
    }
    // What cannot be read may hold somebody's address.
    let unreadable = json!({ "allocatedIPs": "{\"10.0.0.1\":" });
    assert!(matches!(
        plan(&terminating(pool(range, &[], unreadable))),
        Err(PoolProblem::Claims(_))
    ));
    // A bad spec is no reason to stay.
    let actions = plan(&terminating(pool(&["nonsense"], &[], json!({})))).unwrap();
    assert_eq!(actions, [PoolAction::RemoveFinalizer]);
    let mut others = terminating(pool(range, &[], json!({})));
    others.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    assert_eq!(plan(&others).unwrap(), []);
}

#[test]
fn a_bad_pool_is_told_the_field_the_value_and_the_remedy() {
    let cases = [
        (
            pool(&["10.0.0.300"], &[], json!({})),
            "ips",
            ["spec.ips", "10.0.0.300", "write"],
        ),
        (
            pool(&["10.0.0.9-10.0.0.1"], &[], json!({})),
            "ips",
            ["spec.ips", "10.0.0.9-10.0.0.1", "swap"],
        ),
        (
            pool(&["10.0.0.1"], &["fd00::1"], json!({})),
            "exclude_ips",
            ["spec.excludeIPs", "fd00::1", "family"],
        ),
        (
            pool(&["10.0.0.1"], &[], json!({ "allocatedIPs": "[]" })),
            "claims",
            ["status.allocatedIPs", "JSON", "restore"],
        ),
    ];
    for (pool, label, words) in cases {
        let problem = plan(&pool).unwrap_err();
        assert_eq!(problem.label(), label);
        let text = problem.to_string();
        for word in words {
            assert!(text.contains(word), "{word} is not in {text}");
        }
    }
    let mut nowhere = pool(&["10.0.0.1"], &[], json!({}));
    nowhere.spec.subnet = "10.0.0.0".to_owned();
    assert!(matches!(plan(&nowhere), Err(PoolProblem::Family { .. })));
}
