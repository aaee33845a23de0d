//! StatefulSets whose pods come back (reference §9.3, §2.6, §2.7).

use orbweaver_loadtests::workload::{Kind, Template};

use crate::scene::{Scene, ippool, ippools, v4};
use crate::stage::{Node, law};

const NICS: [&str; 2] = ["eth0", "net1"];

async fn adds(scene: &Scene, node: Node, pod: &orbweaver_loadtests::kubelet::Sandbox) -> Vec<String> {
    let mut all = Vec::new();
    for nic in NICS {
        all.extend(scene.add(node, pod, nic).await);
    }
    all
}

/// Create, restart on another node, pool change, scale away.
async fn keeps_its_addresses(scene: &mut Scene, template: impl Fn([&str; 2]) -> Template, net: u8) {
    let mut pools = Vec::new();
    for place in 0..3 {
        pools.push(scene.pool(&format!("p{place}"), v4(net + place, 10, 19)).await);
    }
    let old = template([&pools[0], &pools[1]]);
    let mut set = scene.workload(Kind::StatefulSet, "db", old).await;
    set.scale(2).await.unwrap();
    let (a, b) = (scene.node(Node::A), scene.node(Node::B));
    let neighbour = set.pod_at(0, &a).await.unwrap();
    let neighbours = adds(scene, Node::A, &neighbour).await;
    let first = set.pod_at(1, &a).await.unwrap();
    let addresses = adds(scene, Node::A, &first).await;
    assert_eq!(
        addresses,
        [format!("10.{net}.0.11"), format!("10.{}.0.11", net + 1)]
    );

    scene.end_all(Node::A, &first, &NICS).await;
    let intruder = scene
        .pod("intruder", Node::A, template([&pools[0], &pools[1]]))
        .await;
    let others = adds(scene, Node::A, &intruder).await;
    assert_eq!(
        others,
        [format!("10.{net}.0.12"), format!("10.{}.0.12", net + 1)],
        "what waits for the pod goes to nobody else"
    );
    scene.audit().await;
    scene.end_all(Node::A, &intruder, &NICS).await;
    let second = set.pod_at(1, &b).await.unwrap();
    assert_eq!(adds(scene, Node::B, &second).await, addresses, "on another node");
    let endpoint = scene.endpoint("db-1").await.unwrap();
    assert_eq!(
        (&endpoint.status.current.uid, &endpoint.status.current.node),
        (&second.uid, &b)
    );
    let named: Vec<&str> = endpoint
        .status
        .current
        .ips
        .iter()
        .map(|nic| nic.interface.as_str())
        .collect();
    assert_eq!(named, NICS);
    scene.audit().await;

    set.roll(template([&pools[0], &pools[2]])).await.unwrap();
    scene.end_all(Node::B, &second, &NICS).await;
    let third = set.pod_at(1, &b).await.unwrap();
    let changed = adds(scene, Node::B, &third).await;
    assert_eq!(
        changed[1],
        format!("10.{}.0.10", net + 2),
        "the pool that is named now"
    );
    assert!(changed[0].starts_with(&format!("10.{net}.0.")), "{changed:?}");
    assert_eq!(scene.claimed(&pools[0]).await.len(), 2);
    assert_eq!(scene.claimed(&pools[1]).await, neighbours[1..]);
    scene.audit().await;

    set.scale(1).await.unwrap();
    scene.end_all(Node::B, &third, &NICS).await;
    assert!(scene.endpoint("db-1").await.is_none());
    assert_eq!(scene.claimed(&pools[0]).await, neighbours[..1]);
    assert!(scene.claimed(&pools[2]).await.is_empty());
}

/// A00017.
#[test]
fn a_stateful_set_with_named_nics_keeps_its_addresses_until_its_pools_change() {
    let template = |pools: [&str; 2]| ippools(&[("eth0", pools[0]), ("net1", pools[1])]);
    law(async |scene| keeps_its_addresses(scene, template, 100).await);
}

/// A00018.
#[test]
fn a_stateful_set_with_nameless_nics_keeps_its_addresses_until_its_pools_change() {
    let template = |pools: [&str; 2]| ippools(&[("", pools[0]), ("", pools[1])]);
    law(async |scene| keeps_its_addresses(scene, template, 104).await);
}

/// The sub-ENI follows the pod with one provider call, and stays where the pod stays with none.
#[test]
fn a_stateful_set_on_a_global_pool_returns_on_another_node_with_exactly_one_provider_call() {
    law(async |scene| {
        let pool = scene.global_pool("global", v4(108, 10, 19)).await;
        let calls = |scene: &Scene| {
            let recorded = scene.stage.simulation.cloud.calls().recorded();
            let mine = recorded
                .iter()
                .filter(|call| call.body.to_string().contains(&pool));
            mine.count()
        };
        let set = scene.workload(Kind::StatefulSet, "db", ippool(&[&pool])).await;
        let mut address = None;
        for (node, made) in [(Node::A, 1), (Node::B, 2), (Node::B, 2), (Node::A, 3)] {
            let pod = set.pod_at(0, &scene.node(node)).await.unwrap();
            let got = scene.add(node, &pod, "eth0").await;
            assert_eq!(&got, address.get_or_insert(got.clone()), "on {node:?}");
            assert_eq!(calls(scene), made, "on {node:?}");
            let endpoint = scene.endpoint("db-0").await.unwrap();
            let nic = &endpoint.status.current.ips[0];
            assert!(nic.mac.is_some() && nic.vlan.is_some(), "{nic:?}");
            let on = format!("\"{}\"", scene.node(node));
            let simulation = &scene.stage.simulation;
            let bound = simulation.await_ledger(&pool, "it is bound", move |text| text.contains(&on));
            bound.await.unwrap();
            scene.audit().await;
            scene.end(node, &pod).await;
            scene.audit().await;
        }
    });
}
