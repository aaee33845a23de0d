//! The watches against a simulated API server.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
#[path = "support/world.rs"]
mod world;

use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::ClusterView;
use orbweaver_agent::store::Calls;
use orbweaver_agent::watch;
use orbweaver_agent::watch::view::{KubeView, Observer, Watched};
use orbweaver_api::address_set::Family;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_cluster_sim::faults::Fault;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use world::{NODE, PATIENCE, World, run, until};

/// Watches of a world, without an agent around them.
struct Watching {
    watched: Arc<Watched>,
    view: KubeView,
    _tasks: JoinSet<&'static str>,
}

impl Watching {
    async fn start(world: &World) -> Self {
        let watched = Arc::new(Watched::default());
        let tasks = watch::start(&world.client, NODE, &watched);
        watched.complete(PATIENCE).await.unwrap();
        let view = KubeView::new(
            watched.clone(),
            NODE.into(),
            world.client.clone(),
            Calls::default(),
        );
        Self {
            watched,
            view,
            _tasks: tasks,
        }
    }
}

/// Remembers what it was told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn pool_observed(&self, pool: Arc<SpiderIPPool>) {
        self.0.lock().push(format!("seen {}", pool.name_any()));
    }

    fn pool_deleted(&self, name: &str) {
        self.0.lock().push(format!("gone {name}"));
    }

    fn reserved_changed(&self) {
        self.0.lock().push("reserved".to_owned());
    }
}

impl Told {
    async fn hears(&self, what: &str) {
        until(what, async || {
            self.0.lock().iter().any(|told| told == what).then_some(())
        })
        .await;
    }
}

#[test]
fn a_bad_object_does_not_stop_the_watch() {
    run(async |world| {
        world.define(false, None).await;
        let bad = |name: &str| json!({ "metadata": { "name": name }, "spec": { "subnet": 7 } });
        world
            .raw("SpiderIPPool", "spiderippools", bad("bad-at-start"))
            .await;
        let watching = Watching::start(&world).await;
        world.plain_pool("first").await;
        world.raw("SpiderIPPool", "spiderippools", bad("bad-later")).await;
        world.plain_pool("second").await;
        until("the pool after the bad ones", async || {
            watching.view.pool("second")
        })
        .await;
        assert!(watching.view.pool("first").is_some());
        assert_eq!(watching.view.pools().len(), 2);
    });
}

#[test]
fn a_pool_that_turns_bad_keeps_its_last_good_version() {
    run(async |world| {
        world.define(false, None).await;
        world.plain_pool("p").await;
        let watching = Watching::start(&world).await;
        let broken = json!({ "spec": { "ips": "10.6.0.1" } });
        world
            .pools()
            .patch_metadata("p", &PatchParams::default(), &Patch::Merge(&broken))
            .await
            .unwrap();
        world.plain_pool("after").await;
        until("the change after the bad one", async || {
            watching.view.pool("after")
        })
        .await;
        assert_eq!(watching.view.pool("p").unwrap().spec.ips, ["10.6.0.10-10.6.0.20"]);
    });
}

#[test]
fn what_went_while_the_watch_was_away_is_told_as_gone() {
    run(async |world| {
        world.define(true, None).await;
        world.plain_pool("stays").await;
        world.plain_pool("goes").await;
        let watching = Watching::start(&world).await;
        let told = Arc::new(Told::default());
        watching.watched.observe(told.clone());
        told.hears("seen goes").await;
        // Away: what happens now is only found by listing again.
        world.fault("watch", "spiderippools", 1, Fault::Refuse(410));
        world.simulated.faults().drop_watches();
        world
            .pools()
            .delete("goes", &DeleteParams::default())
            .await
            .unwrap();
        world.simulated.compact();
        told.hears("gone goes").await;
        assert!(watching.view.pool("stays").is_some());
        assert!(watching.view.pool("goes").is_none());
    });
}

#[test]
fn reserved_addresses_follow_their_objects() {
    run(async |world| {
        world.define(true, None).await;
        let reserved =
            |name: &str, ip: &str| json!({ "metadata": { "name": name }, "spec": { "ips": [ip] } });
        world
            .raw(
                "SpiderReservedIP",
                "spiderreservedips",
                reserved("a", "10.6.0.1-10.6.0.4"),
            )
            .await;
        world
            .raw("SpiderReservedIP", "spiderreservedips", reserved("b", "fd00::1"))
            .await;
        let watching = Watching::start(&world).await;
        assert_eq!(watching.view.reserved(Family::V4).count(), 4);
        assert_eq!(watching.view.reserved(Family::V6).count(), 1);
        let told = Arc::new(Told::default());
        watching.watched.observe(told.clone());
        let api: Api<orbweaver_api::reserved_ip::SpiderReservedIP> = Api::all(world.client.clone());
        api.delete("a", &DeleteParams::default()).await.unwrap();
        told.hears("reserved").await;
        assert!(watching.view.reserved(Family::V4).is_empty());
        assert_eq!(watching.view.reserved(Family::V6).count(), 1);
    });
}

#[test]
fn only_this_nodes_pods_are_watched_and_others_can_be_asked_for() {
    run(async |world| {
        world.define(true, None).await;
        world.pod("mine").await;
        let mut other = world.pod("template").await;
        other.metadata.name = Some("other".to_owned());
        other.metadata.resource_version = None;
        other.metadata.uid = None;
        other.spec.as_mut().unwrap().node_name = Some("node-2".to_owned());
        let api: Api<k8s_openapi::api::core::v1::Pod> = Api::default_namespaced(world.client.clone());
        api.create(&PostParams::default(), &other).await.unwrap();
        let watching = Watching::start(&world).await;
        assert!(watching.view.pod("default", "mine").is_some());
        assert!(watching.view.pod("default", "other").is_none());
        let deadline = Deadline::after(PATIENCE);
        assert!(
            watching
                .view
                .live_pod("default", "other", deadline)
                .await
                .unwrap()
                .is_some()
        );
        assert!(
            watching
                .view
                .live_pod("default", "absent", deadline)
                .await
                .unwrap()
                .is_none()
        );
        assert!(watching.view.node().is_some());
        assert!(watching.view.namespace("default").is_some());
    });
}
