//! Wrong input: a clear CNI error each, and the agent lives on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::kubelet::{Answer, Kubelet, Sandbox};
use orbweaver_loadtests::simulation::Simulation;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const PLAIN: &str = include_str!("../../examples/plain.yaml");

fn refused(what: &str, answer: &Answer, texts: &[&str]) {
    assert!(!answer.success, "{what} succeeded: {answer:?}");
    assert!(
        answer.code().is_some_and(|code| code > 0),
        "{what}: no CNI error: {answer:?}"
    );
    for text in texts {
        assert!(
            answer.text().contains(text),
            "{what}: {text:?} is not in {:?}",
            answer.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_input_gets_a_clear_error_and_the_agent_lives_on() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let pool = simulation.apply_pool(PLAIN).await.unwrap();
    let mut agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let node = agent.node().to_owned();

    let known = simulation.create_pod("known", &node, &[&pool]).await.unwrap();
    let broken = kubelet
        .call_text("ADD", &known, "eth0", "{\"cniVersion\": \"1.0.0\", ")
        .await
        .unwrap();
    refused("a broken conflist", &broken, &[]);
    assert_eq!(broken.code(), Some(6));
    let oversize = format!("{{\"pad\": \"{}\"}}", "x".repeat(2 << 20));
    refused(
        "an oversize request",
        &kubelet.call_text("ADD", &known, "eth0", &oversize).await.unwrap(),
        &[],
    );

    let wrong = json!({ "name": "wrong", "annotations": { "ipam.spidernet.io/ippool": "{\"ipv4\": 5}" } });
    let wrong = simulation.create_pod_with(wrong, &node).await.unwrap();
    refused(
        "a wrong annotation",
        &kubelet.add(&wrong, "eth0").await.unwrap(),
        &["ipam.spidernet.io/ippool", "write {"],
    );
    let absent = simulation
        .create_pod("absent-pool", &node, &["nowhere"])
        .await
        .unwrap();
    refused(
        "an absent pool",
        &kubelet.add(&absent, "eth0").await.unwrap(),
        &["nowhere", "does not exist"],
    );
    let nobody = Sandbox::of(&simulation.namespace, "nobody", "0000");
    refused(
        "an absent pod",
        &kubelet.add(&nobody, "eth0").await.unwrap(),
        &["nobody"],
    );
    let unnamed = simulation.create_pod("unnamed", &node, &[]).await.unwrap();
    if simulation.cluster.is_some() {
        refused(
            "no pool at all",
            &kubelet.add(&unnamed, "eth0").await.unwrap(),
            &["no IPPool available"],
        );
    }

    let mut dead: Kubelet = kubelet.clone();
    dead.socket = simulation.folder().join("dead.sock");
    let dead = dead.add(&known, "eth0").await.unwrap();
    refused("a dead socket", &dead, &["dead.sock"]);
    assert_eq!(dead.code(), Some(11));

    noise(agent.socket()).await;
    assert!(agent.program().pid().is_some());
    agent.ready().await.unwrap();
    let answer = kubelet.add(&known, "eth0").await.unwrap();
    assert!(answer.success, "{}", answer.text());
    assert_eq!(
        simulation.picture().await.unwrap().audit().unwrap(),
        Vec::<String>::new()
    );
    assert!(agent.stop().await.unwrap().success(), "SIGTERM ends it with 0");
    simulation.finish().await.unwrap();
}

/// 64 KiB of garbage; the agent closes that connection.
async fn noise(socket: &std::path::Path) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let garbage: Vec<u8> = (0..64 << 10).map(|_| rand::random()).collect();
    // It may close before all of it is taken.
    let _ = stream.write_all(&garbage).await;
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the agent keeps a connection that sent garbage");
}
