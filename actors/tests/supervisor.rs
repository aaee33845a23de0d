//! Laws of whole requests: the Supervisor with its pools and provider, in a world in memory.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

#[path = "supervisor/coming_back.rs"]
mod coming_back;
#[path = "supervisor/nics.rs"]
mod nics;
#[path = "supervisor/other_lives.rs"]
mod other_lives;
#[path = "supervisor/releasing.rs"]
mod releasing;
#[path = "supervisor/world.rs"]
mod world;

use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::{IpamError, ProviderError};
use orbweaver_actors::store::StoreError;
use serde_json::json;
use world::{World, add, del, global, plain};

/// Far more than a working test needs.
const PATIENCE: Duration = Duration::from_secs(10);

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let reached = tokio::time::timeout(PATIENCE, async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    });
    reached.await.unwrap_or_else(|_| panic!("{what} never came true"));
}

#[actix::test]
async fn a_hit_calls_nobody_and_a_cold_address_is_asked_for_once_with_everything_the_seed_names() {
    let entries = json!({ "10.7.0.12": { "mac": "fa:16:3e:00:00:12", "vlan": 212, "node": "n1" } });
    let world = World::new(&[global("g", "10.7.0.10-10.7.0.12", entries)]);
    let (supervisor, _fatal) = world.supervise(8);
    for (pod, uid) in [("hit", "u1"), ("cold", "u2")] {
        world.add_pod(pod, uid, &["g"]);
    }
    let hit = supervisor.add(add("hit", "u1")).await.unwrap();
    assert_eq!(
        (hit.addresses[0].mac.as_deref(), hit.addresses[0].vlan),
        (Some("fa:16:3e:00:00:12"), Some(212))
    );
    assert!(world.state.lock().allocates.is_empty());
    let cold = supervisor.add(add("cold", "u2")).await.unwrap();
    assert_eq!(
        (cold.addresses[0].mac.as_deref(), cold.addresses[0].vlan),
        (Some("fa:16:3e:00:00:09"), Some(9))
    );
    let asked = serde_json::to_value(&world.state.lock().allocates).unwrap();
    assert_eq!(
        asked,
        json!([{
            "podName": "cold", "podNamespace": "shop", "podUID": "u2", "nodeName": "n1",
            "subEniRequests": [{
                "parentNicMac": "fa:16:3e:0a:00:01", "subnet": "10.7.0.0/24",
                "ipv4Address": "10.7.0.10", "ipv4PoolName": "g",
            }],
        }])
    );
    assert_eq!(world.state.lock().pool_reads, 0, "an ADD reads nothing");
}

#[actix::test]
async fn a_failed_provider_call_leaves_no_claim() {
    let world = World::new(&[global("g", "10.7.0.10-10.7.0.12", json!({}))]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("p", "u1", &["g"]);
    let unknown = ProviderError::Unknown {
        message: "timed out".into(),
        may_run_for: Duration::from_secs(50),
    };
    world
        .state
        .lock()
        .provider_fails
        .extend([ProviderError::Rejected("no".into()), unknown]);
    for _ in 0..2 {
        let failed = supervisor.add(add("p", "u1")).await.unwrap_err();
        assert!(matches!(failed, IpamError::Provider(_)), "{failed}");
        assert!(world.claims("g").is_empty() && world.state.lock().endpoints.is_empty());
    }
    world.add_pod("q", "u2", &["g"]);
    let other = supervisor.add(add("q", "u2")).await.unwrap();
    assert_eq!(
        other.addresses[0].address.addr().to_string(),
        "10.7.0.11",
        "the address in doubt is avoided"
    );
    let retry = supervisor.add(add("p", "u1")).await.unwrap();
    assert_eq!(
        retry.addresses[0].address.addr().to_string(),
        "10.7.0.10",
        "and kept for its pod"
    );
}

#[actix::test]
async fn an_endpoint_that_cannot_be_written_leaves_no_claim() {
    let world = World::new(&[global("g", "10.7.0.10", json!({})), plain("p", "10.7.0.20")]);
    let (supervisor, _fatal) = world.supervise(8);
    for (pod, uid, pool) in [("a", "u1", "g"), ("b", "u2", "p")] {
        world.add_pod(pod, uid, &[pool]);
        world
            .state
            .lock()
            .endpoint_fails
            .push_back(StoreError::Unknown("cut off".to_owned()));
        let failed = supervisor.add(add(pod, uid)).await.unwrap_err();
        assert!(matches!(failed, IpamError::Endpoint { .. }), "{failed}");
        assert!(world.claims(pool).is_empty());
    }
}

#[actix::test]
async fn a_failed_repeat_leaves_alone_what_the_endpoint_names() {
    let world = World::new(&[plain("p", "10.7.0.20")]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("a", "u1", &["p"]);
    let first = supervisor.add(add("a", "u1")).await.unwrap();
    assert_eq!(supervisor.add(add("a", "u1")).await.unwrap(), first);
    assert_eq!(world.claims("p").len(), 1);
}

#[actix::test]
async fn a_caller_that_goes_away_changes_nothing() {
    let world = World::new(&[global("g", "10.7.0.10", json!({}))]);
    world.gate.forget_permits(usize::MAX >> 3);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("p", "u1", &["g"]);
    let asking = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.add(add("p", "u1")).await }
    });
    eventually("the provider is asked", || {
        !world.state.lock().allocates.is_empty()
    })
    .await;
    asking.abort();
    world.gate.add_permits(1);
    eventually("the endpoint is written", || {
        !world.state.lock().endpoints.is_empty()
    })
    .await;
    assert_eq!(world.claims("g").len(), 1);
}

#[actix::test]
async fn a_pods_requests_take_turns() {
    let world = World::new(&[global("g", "10.7.0.10-10.7.0.12", json!({}))]);
    world.gate.forget_permits(usize::MAX >> 3);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("p", "u1", &["g"]);
    let add_task = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.add(add("p", "u1")).await }
    });
    eventually("the provider is asked", || {
        !world.state.lock().allocates.is_empty()
    })
    .await;
    world.end_pod("p");
    let del_task = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.del(del("p", "u1")).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!del_task.is_finished(), "the DEL waits for the ADD");
    world.gate.add_permits(1);
    add_task.await.unwrap().unwrap();
    del_task.await.unwrap().unwrap();
    assert!(world.claims("g").is_empty() && world.state.lock().endpoints.is_empty());
    assert!(
        world.state.lock().releases.is_empty(),
        "no DEL in a marked pool calls the provider"
    );
}

#[actix::test]
async fn a_del_is_judged_by_whether_its_pod_lives() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.22")]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("a", "u1", &["p"]);
    supervisor.add(add("a", "u1")).await.unwrap();
    supervisor.del(del("a", "u1")).await.unwrap();
    assert_eq!(
        (world.claims("p").len(), world.state.lock().pod_reads),
        (1, 1),
        "a living pod keeps everything"
    );
    supervisor.del(del("a", "u0")).await.unwrap();
    assert_eq!(
        world.claims("p").len(),
        1,
        "so does it when an earlier namesake is asked for"
    );
    world.end_pod("a");
    for _ in 0..3 {
        supervisor.del(del("a", "u1")).await.unwrap();
    }
    assert!(world.claims("p").is_empty() && world.state.lock().endpoints.is_empty());
    assert_eq!(
        world.state.lock().pod_reads,
        1,
        "a pod that the watch lost is not asked for"
    );
}

#[actix::test]
async fn an_exhausted_higher_class_never_falls_back_to_a_lower_one() {
    let world = World::new(&[global("g", "10.7.0.10", json!({})), plain("p", "10.7.0.20")]);
    let (supervisor, _fatal) = world.supervise(8);
    for (pod, uid) in [("a", "u1"), ("b", "u2")] {
        world.add_pod(pod, uid, &["p", "g"]);
    }
    supervisor.add(add("a", "u1")).await.unwrap();
    let refused = supervisor.add(add("b", "u2")).await.unwrap_err();
    assert_eq!(refused.reason(), "exhausted", "{refused}");
    assert!(world.claims("p").is_empty());
}

#[actix::test]
async fn an_exhausted_pool_is_passed_over_for_the_next_of_its_class() {
    let world = World::new(&[plain("p", "10.7.0.20"), plain("q", "10.7.0.30")]);
    let (supervisor, _fatal) = world.supervise(8);
    for (pod, uid, pool) in [("a", "u1", "p"), ("b", "u2", "q")] {
        world.add_pod(pod, uid, &["p", "q"]);
        assert_eq!(
            supervisor.add(add(pod, uid)).await.unwrap().addresses[0].pool,
            pool
        );
    }
}

#[actix::test]
async fn a_parent_nic_that_cannot_be_found_fails_the_add_and_names_what_was_tried() {
    let mut pool = global("g", "10.7.0.10", json!({}));
    pool["metadata"]["annotations"]["ipam.spidernet.io/parent-nic"] = json!("eth7");
    let world = World::new(&[pool]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("p", "u1", &["g"]);
    let failed = supervisor.add(add("p", "u1")).await.unwrap_err().to_string();
    assert!(
        failed.contains("eth7") && failed.contains("SpiderMultusConfig"),
        "{failed}"
    );
    assert!(world.claims("g").is_empty() && world.state.lock().allocates.is_empty());
}

#[actix::test]
async fn a_pool_that_panicked_is_rebuilt_from_the_api_server() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("a", "u1", &["p"]);
    world.state.lock().panics = 1;
    let failed = supervisor.add(add("a", "u1")).await.unwrap_err();
    assert_eq!(failed.reason(), "pool_busy", "{failed}");
    let again = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Ok(allocated) = supervisor.add(add("a", "u1")).await {
                return allocated;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(again.await.unwrap().addresses.len(), 1);
    assert!(
        world.state.lock().pool_reads >= 1,
        "a rebuilt pool trusts no cache"
    );
}

#[actix::test]
async fn more_requests_than_agreed_are_told_to_come_back() {
    let world = World::new(&[global("g", "10.7.0.10-10.7.0.12", json!({}))]);
    world.gate.forget_permits(usize::MAX >> 3);
    let (supervisor, _fatal) = world.supervise(1);
    for (pod, uid) in [("a", "u1"), ("b", "u2")] {
        world.add_pod(pod, uid, &["g"]);
    }
    let first = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.add(add("a", "u1")).await }
    });
    eventually("the first is served", || !world.state.lock().allocates.is_empty()).await;
    let second = supervisor.add(add("b", "u2")).await.unwrap_err();
    assert!(matches!(second, IpamError::Busy { limit: 1 }), "{second}");
    world.gate.add_permits(1);
    first.await.unwrap().unwrap();
}

#[actix::test]
async fn a_drain_waits_for_what_is_under_way_and_takes_nothing_new() {
    let world = World::new(&[global("g", "10.7.0.10-10.7.0.12", json!({}))]);
    world.gate.forget_permits(usize::MAX >> 3);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("a", "u1", &["g"]);
    let under_way = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.add(add("a", "u1")).await }
    });
    eventually("the provider is asked", || {
        !world.state.lock().allocates.is_empty()
    })
    .await;
    let drain = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.drain(Deadline::after(PATIENCE)).await }
    });
    let refuses = async {
        while supervisor.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refuses).await.unwrap();
    let refused = supervisor.add(add("b", "u2")).await.unwrap_err();
    assert!(matches!(refused, IpamError::Unavailable(_)), "{refused}");
    assert!(!drain.is_finished());
    world.gate.add_permits(1);
    under_way.await.unwrap().unwrap();
    drain.await.unwrap();
    assert_eq!(world.claims("g").len(), 1);
}

#[actix::test]
async fn a_claim_that_nobody_waits_for_any_more_is_taken_back() {
    let world = World::new(&[plain("p", "10.7.0.20")]);
    world.write_gate.forget_permits(usize::MAX >> 3);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("a", "u1", &["p"]);
    let mut request = add("a", "u1");
    request.deadline = Deadline::after(Duration::from_millis(100));
    let late = supervisor.add(request).await.unwrap_err();
    assert_eq!(late.reason(), "deadline", "{late}");
    // The request's own task notices the deadline, too.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    world.write_gate.add_permits(1);
    eventually("the claim is made", || world.claims("p").len() == 1).await;
    world.write_gate.add_permits(1);
    eventually("the claim is taken back", || world.claims("p").is_empty()).await;
}
