//! The stores against a simulated API server.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
#[path = "support/world.rs"]
mod world;

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::{ClaimsWrite, EndpointStore, PoolStore, StoreError};
use orbweaver_agent::store::Calls;
use orbweaver_agent::store::endpoints::KubeEndpoints;
use orbweaver_agent::store::pools::KubePools;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_cluster_sim::faults::Fault;
use serde_json::{Value, json};
use world::{NODE, PATIENCE, World, run};

fn pools(world: &World) -> KubePools {
    KubePools::new(world.client.clone(), Calls::default())
}

fn endpoints(world: &World) -> KubeEndpoints {
    KubeEndpoints::new(world.client.clone(), Calls::default(), NODE.into())
}

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

fn write(version: &str, claims: Option<&str>) -> ClaimsWrite {
    ClaimsWrite {
        pool: "p".into(),
        resource_version: version.to_owned(),
        allocated_ips: claims.map(str::to_owned),
        allocated_ip_count: claims.map_or(0, |_| 1),
    }
}

const CLAIM: &str = r#"{"10.6.0.10":{"pod":"default/a","podUid":"u"}}"#;

fn endpoint(name: &str, uid: &str, node: &str) -> SpiderEndpoint {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default" },
        "status": {
            "current": { "uid": uid, "node": node, "ips": [] },
            "ownerControllerType": "Pod", "ownerControllerName": name,
        },
    }))
    .unwrap()
}

#[test]
fn a_conflict_is_a_conflict() {
    run(async |world| {
        world.define(true, None).await;
        let version = world.plain_pool("p").await.metadata.resource_version.unwrap();
        let store = pools(&world);
        let next = store.write_claims(write(&version, Some(CLAIM))).await.unwrap();
        let stale = store.write_claims(write(&version, None)).await;
        assert!(matches!(stale, Err(StoreError::Conflict)), "{stale:?}");
        let pool = store.read_pool("p").await.unwrap();
        assert_eq!(pool.metadata.resource_version.as_deref(), Some(next.as_str()));
        assert_eq!(
            pool.status.as_ref().unwrap().allocated_ips.as_deref(),
            Some(CLAIM)
        );
        assert!(matches!(
            store.read_pool("absent").await,
            Err(StoreError::NotFound)
        ));
    });
}

#[test]
fn a_claims_write_leaves_the_others_fields_alone() {
    run(async |world| {
        world.define(true, None).await;
        world.plain_pool("p").await;
        let others = json!({ "status": {
            "totalIPCount": 11,
            "ipMetaData": { "metadata": "{\"scope\":\"\"}", "observedGeneration": 1 },
        }});
        world
            .pools()
            .patch_status("p", &PatchParams::default(), &Patch::Merge(&others))
            .await
            .unwrap();
        let store = pools(&world);
        let version = store
            .read_pool("p")
            .await
            .unwrap()
            .metadata
            .resource_version
            .clone()
            .unwrap();
        let version = store.write_claims(write(&version, Some(CLAIM))).await.unwrap();
        store.write_claims(write(&version, None)).await.unwrap();
        let status = store.read_pool("p").await.unwrap().status.clone().unwrap();
        assert_eq!(status.allocated_ips, None);
        assert_eq!(status.allocated_ip_count, Some(0));
        assert_eq!(status.total_ip_count, Some(11));
        assert_eq!(status.ip_meta_data.unwrap().observed_generation, Some(1));
    });
}

#[test]
fn a_lost_reply_is_unknown_and_nothing_is_sent_again() {
    run(async |world| {
        world.define(true, None).await;
        let version = world.plain_pool("p").await.metadata.resource_version.unwrap();
        let store = pools(&world);
        world.fault("patch", "", 1, Fault::LoseReply);
        let lost = store.write_claims(write(&version, Some(CLAIM))).await;
        assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
        let status = store.read_pool("p").await.unwrap().status.clone().unwrap();
        assert_eq!(status.allocated_ips.as_deref(), Some(CLAIM), "it was carried out");

        for code in [503, 429, 422] {
            world.simulated.counters().reset();
            world.fault("patch", "", 1, Fault::Refuse(code));
            let refused = store.write_claims(write("1", None)).await.unwrap_err();
            match code {
                503 => assert!(matches!(refused, StoreError::Unknown(_)), "{refused}"),
                429 => assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}"),
                _ => assert!(matches!(refused, StoreError::Refused(_)), "{refused}"),
            }
            assert_eq!(world.requests("patch", "spiderippools/status"), 1, "{code}");
        }
    });
}

#[test]
fn an_answer_that_does_not_come_by_the_deadline_is_unknown() {
    run(async |world| {
        world.define(true, None).await;
        world.fault("get", "spiderendpoints", 1, Fault::Delay(PATIENCE));
        let deadline = Deadline::after(Duration::from_millis(200));
        let late = endpoints(&world).read_endpoint("default", "a", deadline).await;
        assert!(matches!(late, Err(StoreError::Unknown(_))), "{late:?}");
    });
}

#[test]
fn an_endpoint_is_created_once_with_the_finalizer() {
    run(async |world| {
        world.define(true, None).await;
        let store = endpoints(&world);
        let created = store
            .create_endpoint(endpoint("a", "u", NODE), soon())
            .await
            .unwrap();
        assert_eq!(
            created.metadata.finalizers.as_deref(),
            Some(&["spiderpool.spidernet.io".to_owned()][..])
        );
        assert_eq!(store.known_endpoint("default", "a"), Some(created));
        let again = store.create_endpoint(endpoint("a", "u", NODE), soon()).await;
        assert!(matches!(again, Err(StoreError::AlreadyExists)), "{again:?}");
    });
}

#[test]
fn a_stale_replacement_is_a_conflict_and_is_forgotten() {
    run(async |world| {
        world.define(true, None).await;
        let store = endpoints(&world);
        let created = store
            .create_endpoint(endpoint("a", "u1", NODE), soon())
            .await
            .unwrap();
        let mut next = (*created).clone();
        next.status.current.uid = "u2".to_owned();
        let replaced = store.replace_endpoint(next.clone(), soon()).await.unwrap();
        assert_eq!(store.known_endpoint("default", "a"), Some(replaced.clone()));
        let stale = store.replace_endpoint(next, soon()).await;
        assert!(matches!(stale, Err(StoreError::Conflict)), "{stale:?}");
        assert_eq!(store.known_endpoint("default", "a"), None);
        assert_eq!(
            store.read_endpoint("default", "a", soon()).await.unwrap(),
            replaced
        );
        assert_eq!(store.known_endpoint("default", "a"), Some(replaced));
    });
}

#[test]
fn a_removed_endpoint_is_gone_and_a_second_removal_succeeds() {
    run(async |world| {
        world.define(true, None).await;
        let store = endpoints(&world);
        let created = store
            .create_endpoint(endpoint("a", "u", NODE), soon())
            .await
            .unwrap();
        store.remove_endpoint(&created, soon()).await.unwrap();
        assert_eq!(world.endpoints().get_opt("a").await.unwrap(), None);
        assert_eq!(store.known_endpoint("default", "a"), None);
        store.remove_endpoint(&created, soon()).await.unwrap();
    });
}

#[test]
fn a_successor_of_the_same_name_is_not_removed() {
    run(async |world| {
        world.define(true, None).await;
        let store = endpoints(&world);
        let first = store
            .create_endpoint(endpoint("a", "u1", NODE), soon())
            .await
            .unwrap();
        store.remove_endpoint(&first, soon()).await.unwrap();
        let second = store
            .create_endpoint(endpoint("a", "u2", NODE), soon())
            .await
            .unwrap();
        store.remove_endpoint(&first, soon()).await.unwrap();
        assert_eq!(store.read_endpoint("default", "a", soon()).await.unwrap(), second);
    });
}

#[test]
fn an_endpoint_that_moved_to_another_node_is_not_removed() {
    run(async |world| {
        world.define(true, None).await;
        let store = endpoints(&world);
        let mine = store
            .create_endpoint(endpoint("web-0", "u1", NODE), soon())
            .await
            .unwrap();
        let mut elsewhere = (*mine).clone();
        elsewhere.status.current.node = "node-2".to_owned();
        elsewhere.status.current.uid = "u2".to_owned();
        world
            .endpoints()
            .replace("web-0", &PostParams::default(), &elsewhere)
            .await
            .unwrap();
        let removed = store.remove_endpoint(&mine, soon()).await;
        assert!(matches!(removed, Err(StoreError::Conflict)), "{removed:?}");
        assert_eq!(store.known_endpoint("default", "web-0"), None);
        assert!(world.endpoints().get_opt("web-0").await.unwrap().is_some());
    });
}

#[test]
fn an_endpoint_whose_deletion_began_elsewhere_is_let_go() {
    run(async |world| {
        world.define(true, None).await;
        let store = endpoints(&world);
        let created = store
            .create_endpoint(endpoint("a", "u", NODE), soon())
            .await
            .unwrap();
        world
            .endpoints()
            .delete("a", &DeleteParams::default())
            .await
            .unwrap();
        assert!(
            world.endpoints().get_opt("a").await.unwrap().is_some(),
            "the finalizer holds it"
        );
        store.remove_endpoint(&created, soon()).await.unwrap();
        assert_eq!(world.endpoints().get_opt("a").await.unwrap(), None);
    });
}

#[test]
fn the_book_starts_with_this_nodes_endpoints_over_all_pages() {
    run(async |world| {
        world.define(false, None).await;
        let api = world.endpoints();
        for number in 0..520 {
            let node = if number % 10 == 0 { NODE } else { "node-2" };
            let endpoint = endpoint(&format!("pod-{number}"), "u", node);
            api.create(&PostParams::default(), &endpoint).await.unwrap();
        }
        let bad: Value = json!({
            "metadata": { "name": "bad", "namespace": "default" }, "status": { "current": 7 },
        });
        world.raw("SpiderEndpoint", "spiderendpoints", bad).await;
        let store = endpoints(&world);
        assert_eq!(store.load().await.unwrap(), 52);
        assert!(store.known_endpoint("default", "pod-510").is_some());
        assert!(store.known_endpoint("default", "pod-511").is_none());
        assert!(world.requests("list", "spiderendpoints") >= 2);
    });
}
