//! The life of pods' addresses, through the real plugin and real agents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use kube::Api;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cloud_sim::faults::{CallKind, Fault};
use orbweaver_loadtests::kubelet::Sandbox;
use orbweaver_loadtests::simulation::Simulation;
use serde_json::json;

const PLAIN: &str = include_str!("../../examples/plain.yaml");
const GLOBAL: &str = include_str!("../../examples/spare.yaml");
const SINGLE: &str = include_str!("../../examples/global.yaml");

fn quick() -> CloudOptions {
    CloudOptions::quick()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_gives_address_gateway_and_routes_and_a_del_gives_them_back() {
    let mut simulation = Simulation::start(quick()).await.unwrap();
    let pool = simulation.apply_pool(PLAIN).await.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let answer = kubelet.add(&sandbox, "eth0").await.unwrap();
    assert!(answer.success, "{}", answer.text());
    assert_eq!(
        answer.json["ips"],
        json!([{ "address": "10.6.0.10/16", "gateway": "10.6.0.1", "interface": 0 }])
    );
    let routes = answer.json["routes"].as_array().unwrap();
    assert!(
        routes.contains(&json!({ "dst": "172.30.0.0/16", "gw": "10.6.0.2" })),
        "{routes:?}"
    );
    assert!(
        routes.contains(&json!({ "dst": "0.0.0.0/0", "gw": "10.6.0.1" })),
        "{routes:?}"
    );

    let endpoints: Api<SpiderEndpoint> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    let endpoint = endpoints.get("p").await.unwrap();
    assert_eq!(
        endpoint.metadata.finalizers.as_deref(),
        Some(&["spiderpool.spidernet.io".to_owned()][..])
    );
    assert_eq!(
        endpoint.metadata.owner_references.as_ref().unwrap()[0].uid,
        sandbox.uid
    );
    assert_eq!(
        (
            endpoint.status.current.uid.as_str(),
            endpoint.status.current.node.as_str()
        ),
        (sandbox.uid.as_str(), agent.node())
    );
    assert!(
        kubelet
            .check(&sandbox, "eth0", &answer.json)
            .await
            .unwrap()
            .success
    );
    assert_eq!(
        simulation.picture().await.unwrap().audit().unwrap(),
        Vec::<String>::new()
    );

    simulation.end_pod(&kubelet, &sandbox).await.unwrap();
    for late in [sandbox.late(), sandbox.late()] {
        assert!(
            kubelet.del(&late, "eth0").await.unwrap().success,
            "a late DEL succeeds"
        );
    }
    let picture = simulation.picture().await.unwrap();
    assert!(
        picture.claims().unwrap().is_empty() && picture.endpoints.is_empty(),
        "{picture:?}"
    );
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_add_answers_the_same_with_mac_and_vlan_and_calls_nobody() {
    let mut simulation = Simulation::start(quick()).await.unwrap();
    let pool = simulation.apply_pool(GLOBAL).await.unwrap();
    simulation
        .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
        .await
        .unwrap();
    let mut agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let first = kubelet.add(&sandbox, "eth0").await.unwrap();
    assert!(first.success, "{}", first.text());
    let calls = simulation.cloud.calls().recorded().len();
    let endpoints: Api<SpiderEndpoint> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    let before = endpoints.get("p").await.unwrap().status;
    assert!(before.current.ips[0].mac.is_some() && before.current.ips[0].vlan.is_some());
    for restart in [false, true] {
        if restart {
            agent.kill().await.unwrap();
            agent.restart().await.unwrap();
        }
        let again = kubelet
            .add(&Sandbox::of(&sandbox.namespace, "p", &sandbox.uid), "eth0")
            .await
            .unwrap();
        assert_eq!(again.json["ips"], first.json["ips"], "after a restart: {restart}");
        assert_eq!(endpoints.get("p").await.unwrap().status, before);
    }
    assert_eq!(simulation.cloud.calls().recorded().len(), calls);
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_del_of_an_old_sandbox_leaves_a_living_pod_alone() {
    let mut simulation = Simulation::start(quick()).await.unwrap();
    let pool = simulation.apply_pool(PLAIN).await.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let old = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let first = kubelet.add(&old, "eth0").await.unwrap();
    assert!(kubelet.del(&old, "eth0").await.unwrap().success);
    let new = Sandbox::of(&old.namespace, "p", &old.uid);
    let second = kubelet.add(&new, "eth0").await.unwrap();
    assert!(kubelet.del(&old, "eth0").await.unwrap().success);
    assert_eq!(first.address(), second.address());
    let picture = simulation.picture().await.unwrap();
    assert_eq!(
        (picture.claims().unwrap().len(), picture.audit().unwrap()),
        (1, Vec::new())
    );

    // A namesake with another UID: the old pod's late DELs do not touch it.
    simulation.end_pod(&kubelet, &new).await.unwrap();
    let namesake = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    assert!(kubelet.add(&namesake, "eth0").await.unwrap().success);
    assert!(kubelet.del(&new.late(), "eth0").await.unwrap().success);
    let picture = simulation.picture().await.unwrap();
    assert_eq!(
        (picture.claims().unwrap().len(), picture.audit().unwrap()),
        (1, Vec::new())
    );
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_or_is_late_leaves_no_claim_and_the_retry_succeeds() {
    let mut simulation = Simulation::start(CloudOptions {
        worst_case: Duration::from_millis(500),
        ..quick()
    })
    .await
    .unwrap();
    let pool = simulation.apply_pool(GLOBAL).await.unwrap();
    simulation
        .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
        .await
        .unwrap();
    let conf = format!(
        "iaasNetworkProvider:\n  serverUrl: {}\n  httpRequestTimeout: 1s\n",
        simulation.cloud.url()
    );
    let agent = simulation.add_node("n1", &conf).await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let faults = [
        (Fault::Refuse(500), "returned status 500"),
        (Fault::Hang, "exceeded configured timeout 1s"),
        (Fault::LoseReply, "allocate API call failed"),
    ];
    for (fault, text) in faults {
        simulation
            .cloud
            .faults()
            .add(CallKind::Allocate, 1, fault.clone());
        let failed = kubelet
            .add(&Sandbox::of(&sandbox.namespace, "p", &sandbox.uid), "eth0")
            .await
            .unwrap();
        assert!(
            !failed.success && failed.text().contains(text),
            "{fault:?}: {failed:?}"
        );
        let picture = simulation.picture().await.unwrap();
        assert!(
            picture.claims().unwrap().is_empty() && picture.endpoints.is_empty(),
            "{fault:?}: {picture:?}"
        );
    }
    let on = format!("\"{}\"", agent.node());
    simulation
        .await_ledger(&pool, "what the lost call made", move |text| text.contains(&on))
        .await
        .unwrap();
    let again = kubelet
        .add(&Sandbox::of(&sandbox.namespace, "p", &sandbox.uid), "eth0")
        .await
        .unwrap();
    assert!(again.success, "{}", again.text());
    assert_eq!(
        simulation.cloud.calls().recorded().len(),
        3,
        "one call for each failed ADD, and none for the hit"
    );
    assert_eq!(
        simulation.picture().await.unwrap().audit().unwrap(),
        Vec::<String>::new()
    );
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sub_eni_is_hit_on_its_node_and_stolen_from_another() {
    let mut simulation = Simulation::start(quick()).await.unwrap();
    let pool = simulation.apply_pool(SINGLE).await.unwrap();
    simulation
        .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
        .await
        .unwrap();
    let mut kubelets = Vec::new();
    let mut agents = Vec::new();
    for node in ["n1", "n2"] {
        let agent = simulation.add_node(node, "").await.unwrap();
        kubelets.push(simulation.kubelet(&agent).unwrap());
        agents.push(agent);
    }
    for (pod, node, calls) in [("cold", 0, 1), ("hit", 0, 1), ("steal", 1, 2)] {
        let sandbox = simulation
            .create_pod(pod, agents[node].node(), &[&pool])
            .await
            .unwrap();
        let answer = kubelets[node].add(&sandbox, "eth0").await.unwrap();
        assert!(answer.success, "{pod}: {}", answer.text());
        assert_eq!(simulation.cloud.calls().recorded().len(), calls, "{pod}");
        let on = agents[node].node().to_owned();
        simulation
            .await_ledger(&pool, "it is bound", move |text| text.contains(&on))
            .await
            .unwrap();
        let second = simulation
            .create_pod(&format!("{pod}-late"), agents[node].node(), &[&pool])
            .await
            .unwrap();
        let refused = kubelets[node].add(&second, "eth0").await.unwrap();
        assert!(
            !refused.success && refused.text().contains("used out"),
            "{pod}: {refused:?}"
        );
        simulation.end_pod(&kubelets[node], &sandbox).await.unwrap();
    }
    assert_eq!(
        simulation.cloud.calls().recorded().len(),
        2,
        "no DEL in a marked pool calls the provider"
    );
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_is_not_ready_fails_closed_with_a_temporary_error() {
    let mut simulation = Simulation::start(CloudOptions {
        pools: false,
        ..quick()
    })
    .await
    .unwrap();
    let pool = simulation.apply_pool(GLOBAL).await.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let refused = kubelet.add(&sandbox, "eth0").await.unwrap();
    assert_eq!(
        (refused.success, refused.code()),
        (false, Some(11)),
        "{refused:?}"
    );
    assert!(
        refused.text().contains("metadata not ready"),
        "{}",
        refused.text()
    );
    assert!(simulation.picture().await.unwrap().claims().unwrap().is_empty());
    assert!(simulation.cloud.calls().recorded().is_empty());
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marked_pool_whose_parent_nic_is_unknown_fails_the_add() {
    let mut simulation = Simulation::start(quick()).await.unwrap();
    let pool = simulation
        .apply_pool(&GLOBAL.replace("parent-nic: eth1", "parent-nic: none0"))
        .await
        .unwrap();
    simulation
        .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
        .await
        .unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let refused = kubelet.add(&sandbox, "eth0").await.unwrap();
    assert!(
        !refused.success && refused.text().contains("none0"),
        "{refused:?}"
    );
    assert!(simulation.picture().await.unwrap().claims().unwrap().is_empty());
    simulation.finish().await.unwrap();
}
