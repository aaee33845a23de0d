//! Whole workloads that end without a word from kubelet: the controller collects what they held. Ids are those of
//! the reference §9.6.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::kubelet::{Kubelet, Sandbox};
use orbweaver_loadtests::process::Program;
use orbweaver_loadtests::simulation::{PATIENCE, Simulation};
use orbweaver_loadtests::wait::until;
use orbweaver_loadtests::workload::{Kind, Template, Workload};
use serde_json::json;

const PLAIN: &str = include_str!("../../examples/plain.yaml");

/// Collects as fast as its clock's seconds allow.
async fn start_collector(simulation: &Simulation) -> Program {
    let quick = [
        ("--webhook-listen", "127.0.0.1:0"),
        ("--gc-interval", "1"),
        ("--gc-gap", "1"),
        ("--gc-grace", "1"),
    ];
    simulation.start_controller_with(&quick).await.unwrap()
}

struct Scene {
    simulation: Simulation,
    kubelet: Kubelet,
    node: String,
    pool: String,
}

impl Scene {
    fn template(&self) -> Template {
        Template::annotated(&[("ipam.spidernet.io/ippool", json!({ "ipv4": [self.pool] }))])
    }

    async fn workload(&self, namespace: &str, kind: Kind, name: &str) -> Workload {
        let client = &self.simulation.client;
        Workload::create(client, namespace, kind, name, self.template())
            .await
            .unwrap()
    }

    async fn started(&self, workload: &mut Workload) -> Sandbox {
        let sandbox = workload.pod(&self.node).await.unwrap();
        let answer = self.kubelet.add(&sandbox, "eth0").await.unwrap();
        assert!(answer.success, "{}", answer.text());
        sandbox
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.simulation.client.clone(), namespace)
    }

    /// Deleted by force: kubelet is not asked, and no DEL comes.
    async fn vanish(&self, sandbox: &Sandbox) {
        let now = DeleteParams::default().grace_period(0);
        self.pods(&sandbox.namespace)
            .delete(&sandbox.name, &now)
            .await
            .unwrap();
    }

    /// UIDs that hold an address of the pool.
    async fn holders(&self) -> Result<Vec<String>, String> {
        let picture = self.simulation.picture().await;
        let claims = picture.and_then(|picture| picture.claims());
        let claims = claims.map_err(|error| error.to_string())?;
        let mut holders: Vec<String> = claims.into_values().collect();
        holders.sort();
        Ok(holders)
    }

    async fn only(&self, what: &str, living: &[&Sandbox]) {
        let mut expected: Vec<String> = living.iter().map(|sandbox| sandbox.uid.clone()).collect();
        expected.sort();
        until(what, PATIENCE, || async {
            let holders = self.holders().await?;
            (holders == expected)
                .then_some(())
                .ok_or_else(|| format!("{holders:?} instead of {expected:?}"))
        })
        .await
        .unwrap();
    }
}

/// G00003, G00004, G00006, G00010, G00011, G00012: on one pool, beside a pod that lives.
async fn each_kind_is_collected(scene: &Scene) {
    let own = scene.simulation.namespace.clone();
    let mut kept = scene.workload(&own, Kind::Deployment, "kept").await;
    let lives = scene.started(&mut kept).await;

    let mut deployment = scene.workload(&own, Kind::Deployment, "gone").await;
    let gone = scene.started(&mut deployment).await;
    let mut daemons = scene.workload(&own, Kind::DaemonSet, "daemon").await;
    let daemon = scene.started(&mut daemons).await;
    let mut job = scene.workload(&own, Kind::Job, "job").await;
    let finished = scene.started(&mut job).await;
    let mut sets = [
        scene.workload(&own, Kind::StatefulSet, "a").await,
        scene.workload(&own, Kind::StatefulSet, "b").await,
    ];
    sets[0].scale(2).await.unwrap();
    let away = [
        scene.started(&mut sets[0]).await,
        scene.started(&mut sets[0]).await,
        scene.started(&mut sets[1]).await,
    ];
    for sandbox in [&gone, &daemon].into_iter().chain(&away) {
        scene.vanish(sandbox).await;
    }
    let done = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
    let pods = scene.pods(&own);
    pods.patch_status(&finished.name, &PatchParams::default(), &done)
        .await
        .unwrap();
    let [first, second, other] = &away;
    scene
        .only(
            "who lives or comes back keeps, the others do not",
            &[&lives, first, second, other],
        )
        .await;
    sets[0].scale(1).await.unwrap();
    scene
        .only(
            "the ordinal that is scaled away is collected",
            &[&lives, first, other],
        )
        .await;
    let again = sets[0].pod_at(0, &scene.node).await.unwrap();
    let answer = scene.kubelet.add(&again, "eth0").await.unwrap();
    assert!(answer.success, "{}", answer.text());
    scene
        .only("and the one that came back keeps", &[&lives, &again, other])
        .await;
}

/// G00001, G00002, G00008: whole namespaces, while agent and controller are killed again and again.
#[tokio::test(flavor = "multi_thread")]
async fn what_ended_without_a_word_is_collected_and_nothing_else() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let pool = simulation.apply_pool(PLAIN).await.unwrap();
    let mut agent = simulation.add_node("n1", "").await.unwrap();
    let mut controller = start_collector(&simulation).await;
    let scene = Scene {
        kubelet: simulation.kubelet(&agent).unwrap(),
        node: agent.node().to_owned(),
        simulation,
        pool,
    };
    each_kind_is_collected(&scene).await;

    let before = scene.holders().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(scene.simulation.client.clone());
    let own = scene.simulation.namespace.clone();
    let mut mine = scene.workload(&own, Kind::Pod, "same").await;
    let stays = scene.started(&mut mine).await;
    for round in 0..2 {
        let name = scene.simulation.name(&format!("other{round}"));
        let other = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        namespaces.create(&PostParams::default(), &other).await.unwrap();
        let mut namesake = scene.workload(&name, Kind::Pod, "same").await;
        let sandbox = scene.started(&mut namesake).await;
        controller.kill().await.unwrap();
        agent.kill().await.unwrap();
        scene.vanish(&sandbox).await;
        namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
        controller.restart().await.unwrap();
        agent.restart().await.unwrap();
        let mut expected = before.clone();
        expected.push(stays.uid.clone());
        expected.sort();
        until("the namespace's addresses are free", PATIENCE, || async {
            let holders = scene.holders().await?;
            (holders == expected)
                .then_some(())
                .ok_or_else(|| format!("{holders:?} instead of {expected:?}"))
        })
        .await
        .unwrap();
    }
    assert!(controller.stop().await.unwrap().success());
    scene.simulation.finish().await.unwrap();
}
