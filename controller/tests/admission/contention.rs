//! Many writers and several replicas: of pools that overlap one is admitted, and what never came to be binds nobody.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Error, ResourceExt};
use orbweaver_cluster_sim::faults::Fault;
use orbweaver_controller::admission::pledge::EXPIRY;
use orbweaver_controller::admission::registrar::PLEDGES;
use serde_json::{Value, json};

use crate::world::{World, until};

/// Why the API server refused; `None`: it did not.
fn refusal(outcome: Result<DynamicObject, Error>) -> Option<String> {
    match outcome {
        Ok(_) => None,
        Err(Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            Some(status.message)
        }
        Err(other) => panic!("{other}"),
    }
}

fn pledges(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.client.clone(), &world.name)
}

/// D00006, I00009, I00010.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_creations_at_once_that_overlap_leave_one_pool() {
    let world = World::start(3).await;
    let creations = (0..100).map(|at| {
        // Subnets that contain each other, and ranges of one subnet.
        let (subnet, range) = [("0.0/24", "0.7"), ("0.0/20", "0.1-0.9")][at % 2];
        let pool = World::for_replica(world.pool(&format!("p{at}"), subnet, &[range]), at % 3);
        let pools = world.pools();
        async move { refusal(pools.create(&PostParams::default(), &pool).await) }
    });
    let refusals: Vec<String> = join_all(creations).await.into_iter().flatten().collect();
    assert_eq!(refusals.len(), 99);
    let overlaps = refusals
        .iter()
        .filter(|text| text.contains("overlap with IPPool"));
    assert_eq!(overlaps.count(), 99, "{refusals:#?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_creations_at_once_that_do_not_overlap_all_pass() {
    let world = World::start(3).await;
    let creations = (0..100).map(|at| {
        let range = format!("0.{at}");
        let pool = World::for_replica(world.pool(&format!("p{at}"), "0.0/24", &[&range]), at % 3);
        let pools = world.pools();
        async move { refusal(pools.create(&PostParams::default(), &pool).await) }
    });
    let refusals: Vec<String> = join_all(creations).await.into_iter().flatten().collect();
    assert_eq!(refusals, Vec::<String>::new());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_pools_that_grow_into_each_other_at_once_one_does() {
    let world = World::start(3).await;
    let pools = world.pools();
    for at in 0..12 {
        let range = format!("0.{at}");
        let pool = World::for_replica(world.pool(&format!("p{at}"), "0.0/24", &[&range]), at % 3);
        pools.create(&PostParams::default(), &pool).await.unwrap();
    }
    let growths = (0..12).map(|at| {
        let ips = [world.at(&format!("0.{at}")), world.at("0.200")];
        let patch = Patch::Merge(json!({ "spec": { "ips": ips } }));
        let (name, pools) = (world.named(&format!("p{at}")), world.pools());
        async move { refusal(pools.patch(&name, &PatchParams::default(), &patch).await) }
    });
    let refusals = join_all(growths).await.into_iter().flatten().count();
    assert_eq!(refusals, 11);
    world.end().await;
}

#[tokio::test]
async fn the_addresses_of_a_pool_that_is_gone_are_free_at_once() {
    let world = World::start(1).await;
    let pools = world.pools();
    for at in 0..5 {
        let pool = world.pool(&format!("p{at}"), "0.0/24", &["0.1"]);
        pools.create(&PostParams::default(), &pool).await.unwrap();
        let name = pool.name_any();
        pools.delete(&name, &DeleteParams::default()).await.unwrap();
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        match pools.patch(&name, &PatchParams::default(), &free).await {
            // On a cluster that tests share another one's controller may have let it go.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            freed => drop(freed.unwrap()),
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_dry_run_is_judged_and_pledges_nothing() {
    let world = World::start(1).await;
    let (pools, dry) = (
        world.pools(),
        PostParams {
            dry_run: true,
            ..PostParams::default()
        },
    );
    let pool = world.pool("p", "0.0/24", &["0.1"]);
    pools.create(&dry, &pool).await.unwrap();
    assert!(pledges(&world).get_opt(PLEDGES).await.unwrap().is_none());
    pools.create(&PostParams::default(), &pool).await.unwrap();
    let other = world.pool("q", "0.0/24", &["0.1"]);
    assert!(refusal(pools.create(&dry, &other).await).is_some());
    world.end().await;
}

fn pledge(world: &World, at: Duration) -> Value {
    let pledge = json!([{
        "uid": "nobody", "name": world.named("never"), "at": at.as_secs(), "ipVersion": 4,
        "subnet": world.at("0.0/24"), "ips": [world.at("0.1")],
    }]);
    json!({ "data": { "pledges": pledge.to_string() } })
}

#[tokio::test]
async fn a_pledge_without_a_pool_holds_for_its_time_and_no_longer() {
    let world = World::start(1).await;
    let (pools, params) = (world.pools(), PostParams::default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut object: ConfigMap = serde_json::from_value(pledge(&world, now)).unwrap();
    object.metadata.name = Some(PLEDGES.to_owned());
    pledges(&world).create(&params, &object).await.unwrap();
    let pool = world.pool("p", "0.0/24", &["0.1"]);
    let refused = refusal(pools.create(&params, &pool).await).unwrap();
    assert!(refused.contains(&world.named("never")), "{refused}");
    assert!(refused.contains("try again, in 150 s at most"), "{refused}");
    let same_name = world.pool("never", "0.0/24", &["0.1"]);
    let dry = PostParams {
        dry_run: true,
        ..params.clone()
    };
    pools.create(&dry, &same_name).await.unwrap();
    let old = Patch::Merge(pledge(&world, now.saturating_sub(EXPIRY)));
    pledges(&world)
        .patch(PLEDGES, &PatchParams::default(), &old)
        .await
        .unwrap();
    pools.create(&params, &pool).await.unwrap();
    let kept = pledges(&world).get(PLEDGES).await.unwrap();
    assert!(!kept.data.unwrap()["pledges"].contains("nobody"));
    world.end().await;
}

#[tokio::test]
async fn pledges_that_cannot_be_read_admit_nothing_and_the_remedy_is_told() {
    let world = World::start(1).await;
    let object = json!({ "metadata": { "name": PLEDGES }, "data": { "pledges": "{" } });
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    let params = PostParams::default();
    pledges(&world).create(&params, &object).await.unwrap();
    let pool = world.pool("p", "0.0/24", &["0.1"]);
    let outcome = world.pools().create(&params, &pool).await;
    assert!(matches!(outcome, Err(Error::Api(status)) if status.code == 500));
    pledges(&world)
        .delete(PLEDGES, &DeleteParams::default())
        .await
        .unwrap();
    until("the pool is admitted", async || {
        world.pools().create(&params, &pool).await.ok()
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_pool_whose_pledge_is_in_doubt_is_not_admitted_and_may_be_asked_for_again() {
    let world = World::start(1).await;
    if !world.spoil("create", "configmaps", Fault::LoseReply) {
        return world.end().await;
    }
    let (pools, params) = (world.pools(), PostParams::default());
    let pool = world.pool("p", "0.0/24", &["0.1"]);
    let outcome = pools.create(&params, &pool).await;
    assert!(matches!(outcome, Err(Error::Api(status)) if status.code == 500));
    assert!(pools.get_opt(&pool.name_any()).await.unwrap().is_none());
    pools.create(&params, &pool).await.unwrap();
    let other = world.pool("q", "0.0/24", &["0.1"]);
    assert!(refusal(pools.create(&params, &other).await).is_some());
    world.end().await;
}

/// S00003, when an agent claims the address at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_claimed_or_removed_and_never_both() {
    let world = World::start(1).await;
    let (pools, params) = (world.pools(), PatchParams::default());
    let address = world.at("0.1");
    for round in 0..20 {
        let mut pool = world.pool(&format!("p{round}"), &format!("{round}.0/24"), &[]);
        let address = address.replace(".0.1", &format!(".{round}.1"));
        pool.data["spec"]["ips"] = json!([address]);
        let made = pools.create(&PostParams::default(), &pool).await.unwrap();
        let name = made.name_any();
        let without = Patch::Merge(json!({ "spec": { "ips": [] } }));
        let claims = json!({ address.as_str(): { "pod": "ns/p", "podUid": "u" } }).to_string();
        let claim = Patch::Merge(json!({
            "metadata": { "resourceVersion": made.resource_version() },
            "status": { "allocatedIPs": claims, "allocatedIPCount": 1 },
        }));
        let (removed, claimed) = tokio::join!(
            pools.patch(&name, &params, &without),
            pools.patch_status(&name, &params, &claim)
        );
        assert_ne!(removed.is_ok(), claimed.is_ok(), "{removed:?} {claimed:?}");
    }
    world.end().await;
}
