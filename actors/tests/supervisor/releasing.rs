//! Laws of plain pools on a provider network: one release that may execute, before the claim goes (design §5 "DEL").

use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::error::ProviderError;
use orbweaver_actors::store::StatefulOwner;
use orbweaver_actors::supervisor::SupervisorHandle;
use orbweaver_api::release_mark::RELEASE_MARK;
use serde_json::json;

use crate::world::{World, add, del, plain};

const SET: (&str, &str, &str) = ("apps/v1", "StatefulSet", "db");

/// Pod `a` is to have an address on a provider network.
fn pod_on_provider_network() -> (Arc<World>, SupervisorHandle) {
    let world = World::new(&[plain("p", "10.7.0.20")]);
    world
        .state
        .lock()
        .provider_networks
        .push("kube-system/cloud".to_owned());
    let (supervisor, _fatal) = world.supervise(8);
    let annotations = json!({
        "ipam.spidernet.io/ippool": json!({ "ipv4": ["p"] }).to_string(),
        "v1.multus-cni.io/default-network": "kube-system/cloud",
    });
    world.add_annotated("a", "u1", &annotations);
    (world, supervisor)
}

/// It had one, and has ended.
async fn ended_pod() -> (Arc<World>, SupervisorHandle) {
    let (world, supervisor) = pod_on_provider_network();
    let given = supervisor.add(add("a", "u1")).await.unwrap();
    assert_eq!(given.addresses[0].vlan, Some(9), "the provider made the sub-ENI");
    world.end_pod("a");
    (world, supervisor)
}

fn sent(world: &World) -> usize {
    world.state.lock().releases.len()
}

fn mark(world: &World, by: &str, until: &str) {
    let mut state = world.state.lock();
    let mut endpoint = state.endpoints["shop/a"].as_ref().clone();
    let text = json!({ "podUid": "u1", "by": by, "until": until }).to_string();
    endpoint
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(RELEASE_MARK.to_owned(), text);
    state.endpoints.insert("shop/a".to_owned(), Arc::new(endpoint));
}

#[actix::test]
async fn the_provider_is_told_first_and_once_and_then_nothing_is_left() {
    let (world, supervisor) = ended_pod().await;
    for _ in 0..3 {
        supervisor.del(del("a", "u1")).await.unwrap();
    }
    let released = world.state.lock().releases.clone();
    assert_eq!((released.len(), released[0].node_name.as_str()), (1, "n1"));
    assert!(world.claims("p").is_empty() && world.state.lock().endpoints.is_empty());
}

#[actix::test]
async fn while_another_release_may_be_executing_none_is_sent_and_nothing_is_lost() {
    let (world, supervisor) = ended_pod().await;
    for (by, until) in [
        ("controller/c-0", "2999-01-01T00:00:00Z"),
        ("agent/n1", "2999-01-01T00:00:00Z"),
        ("controller/c-0", "some day"),
    ] {
        mark(&world, by, until);
        let refused = supervisor.del(del("a", "u1")).await.unwrap_err().to_string();
        assert!(refused.contains(by) && refused.contains("10.7.0.20"), "{refused}");
        assert_eq!((sent(&world), world.claims("p").len()), (0, 1));
    }
    mark(&world, "controller/c-0", "2001-01-01T00:00:00Z");
    supervisor.del(del("a", "u1")).await.unwrap();
    assert_eq!((sent(&world), world.claims("p").len()), (1, 0));
}

#[actix::test]
async fn a_refused_release_is_sent_again_and_one_of_unknown_outcome_is_not() {
    let (world, supervisor) = ended_pod().await;
    let unknown = ProviderError::Unknown {
        message: "timed out".into(),
        may_run_for: Duration::from_secs(50),
    };
    world
        .state
        .lock()
        .release_fails
        .extend([ProviderError::Rejected("not now".into()), unknown]);
    for expected in [1, 2, 2, 2] {
        supervisor.del(del("a", "u1")).await.unwrap_err();
        assert_eq!((sent(&world), world.claims("p").len()), (expected, 1));
    }
}

#[actix::test]
async fn what_cannot_be_announced_is_not_sent() {
    let (world, supervisor) = ended_pod().await;
    let conflict = orbweaver_actors::store::StoreError::Conflict;
    world.state.lock().endpoint_fails.push_back(conflict);
    supervisor.del(del("a", "u1")).await.unwrap_err();
    assert_eq!((sent(&world), world.claims("p").len()), (0, 1));
    supervisor.del(del("a", "u1")).await.unwrap();
    assert_eq!((sent(&world), world.claims("p").len()), (1, 0));
}

#[actix::test]
async fn a_claim_that_stays_after_a_failed_call_can_be_found_with_its_node() {
    let (world, supervisor) = pod_on_provider_network();
    for _ in 0..2 {
        world
            .state
            .lock()
            .provider_fails
            .push_back(ProviderError::Rejected("not now".into()));
        supervisor.add(add("a", "u1")).await.unwrap_err();
        let current = world.state.lock().endpoints["shop/a"].status.current.clone();
        assert_eq!(
            (current.uid.as_str(), current.node.as_str(), current.ips.len()),
            ("u1", "n1", 0)
        );
        assert_eq!(world.claims("p").len(), 1, "kept for the retry");
    }
    supervisor.add(add("a", "u1")).await.unwrap();
    world.end_pod("a");
    supervisor.del(del("a", "u1")).await.unwrap();
    assert_eq!((sent(&world), world.claims("p").len()), (1, 0));
}

/// Garbage collection has begun to release what the scaled-away life had, and then the pod is wanted again.
#[actix::test]
async fn nothing_is_taken_over_while_somebody_may_be_releasing_it() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    let set = StatefulOwner::StatefulSet {
        first: 0,
        replicas: 1,
    };
    world.state.lock().stateful.insert("shop/db".to_owned(), set);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_owned("db-0", "u1", &["p"], SET);
    supervisor.add(add("db-0", "u1")).await.unwrap();
    world.end_pod("db-0");
    supervisor.del(del("db-0", "u1")).await.unwrap();
    world.add_owned("db-0", "u2", &["p"], SET);
    for (until, waits) in [("2999-01-01T00:00:00Z", true), ("2001-01-01T00:00:00Z", false)] {
        let mut endpoint = world.state.lock().endpoints["shop/db-0"].as_ref().clone();
        let mark = json!({ "podUid": "u1", "by": "controller/c-0", "until": until }).to_string();
        endpoint.metadata.annotations =
            Some([("ipam.spidernet.io/release-in-flight".to_owned(), mark)].into());
        world
            .state
            .lock()
            .endpoints
            .insert("shop/db-0".to_owned(), Arc::new(endpoint));
        let given = supervisor.add(add("db-0", "u2")).await;
        assert_eq!(given.is_err(), waits, "{given:?}");
        if let Err(error) = given {
            assert!(
                error.temporary() && error.to_string().contains("controller/c-0"),
                "{error}"
            );
            assert_eq!(world.claims("p")[0].1, "u1");
        }
    }
}
