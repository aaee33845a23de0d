//! Where pools are named, and what changes when they are named anew (reference §9.3).

use orbweaver_api::annotation::{NAMESPACE_IPV4_POOLS, NAMESPACE_IPV4_POOLS_SEED};
use orbweaver_loadtests::workload::{Kind, Template};
use serde_json::{Value, json};

use crate::scene::{Scene, addresses, ippool, ippools, v4, with};
use crate::stage::{Node, law};

/// True once the agent takes the pools from `source`.
fn decides(source: &str) -> impl Fn(&Value) -> bool {
    move |page| {
        let sources = page["sources"].as_array();
        let mut deciding = sources
            .into_iter()
            .flatten()
            .filter(|word| word["decides"] == true);
        deciding.any(|word| word["source"] == source)
    }
}

/// A00004.
#[test]
fn a_pods_annotation_beats_the_namespaces_and_that_the_cni_configuration() {
    law(async |scene| {
        let of_pod = scene.pool("pod", v4(60, 10, 19)).await;
        let of_namespace = scene.pool("namespace", v4(61, 10, 19)).await;
        let of_configuration = scene.pool("configuration", v4(62, 10, 19)).await;
        let mut kubelet = scene.stage.kubelet(Node::A).clone();
        kubelet.default_pools = vec![of_configuration];
        let value = json!([of_namespace]).to_string();
        scene
            .mark_namespace(json!({ "annotations": { NAMESPACE_IPV4_POOLS_SEED: value } }))
            .await;
        let bare = scene.another_namespace(json!({})).await;
        let plain = scene.pod("plain", Node::A, Template::default()).await;
        let annotated = scene.pod("annotated", Node::A, ippool(&[&of_pod])).await;
        let lost = scene.pod_in(&bare, "lost", Node::A, Template::default()).await;
        scene
            .await_explanation(
                Node::A,
                &plain,
                "the namespace decides",
                decides("the namespace's annotations"),
            )
            .await;
        for (pod, address) in [
            (&annotated, "10.60.0.10"),
            (&plain, "10.61.0.10"),
            (&lost, "10.62.0.10"),
        ] {
            let answer = kubelet.add(pod, "eth0").await.unwrap();
            assert_eq!(addresses(&answer), [address], "{}: {}", pod.name, answer.text());
        }
    });
}

/// A00006.
#[test]
fn the_namespaces_annotation_beats_the_clusters_default_pools() {
    law(async |scene| {
        let named = scene.pool("named", v4(63, 10, 19)).await;
        let default = json!({ "default": true, "namespaceName": [scene.namespace] });
        let default = scene.pool("default", with(v4(64, 10, 19), default)).await;
        let early = scene.pod("early", Node::A, Template::default()).await;
        assert_eq!(scene.add(Node::A, &early, "eth0").await, ["10.64.0.10"]);
        let value = json!([named]).to_string();
        scene
            .mark_namespace(json!({ "annotations": { NAMESPACE_IPV4_POOLS: value } }))
            .await;
        let late = scene.pod("late", Node::A, Template::default()).await;
        let source = decides("the namespace's annotations");
        scene
            .await_explanation(Node::A, &late, "the namespace decides", source)
            .await;
        assert_eq!(scene.add(Node::A, &late, "eth0").await, ["10.63.0.10"]);
        assert_eq!(scene.claimed(&default).await, ["10.64.0.10"]);
    });
}

/// A00008: the containers of a pod share one sandbox.
#[test]
fn an_annotated_pod_of_several_containers_gets_one_address() {
    law(async |scene| {
        let pool = scene.pool("p", v4(65, 10, 19)).await;
        let mut template = ippool(&[&pool]);
        template.containers = ["web", "sidecar", "log"]
            .map(|name| json!({ "name": name, "image": "none" }))
            .into();
        let pod = scene.pod("p", Node::A, template).await;
        assert_eq!(scene.add(Node::A, &pod, "eth0").await, ["10.65.0.10"]);
        assert_eq!(scene.claimed(&pool).await, ["10.65.0.10"]);
        scene.end(Node::A, &pod).await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// Pods of a workload before and after its pools are others; the NICs' addresses each time.
async fn changes(scene: &mut Scene, kind: Kind, net: u8, nics: &[&str]) {
    let mut pools = Vec::new();
    for (place, _) in nics.iter().enumerate() {
        for (offset, age) in ["old", "new"].into_iter().enumerate() {
            let net = net + u8::try_from(2 * place + offset).unwrap();
            let name = format!("{age}-{place}");
            pools.push((
                age,
                scene.pool(&name, v4(net, 10, 19)).await,
                format!("10.{net}.0.1"),
            ));
        }
    }
    let of = |age: &str| {
        pools
            .iter()
            .filter(move |(one, ..)| *one == age)
            .collect::<Vec<_>>()
    };
    let template = |age: &str| {
        let names: Vec<&str> = of(age).iter().map(|(_, name, _)| name.as_str()).collect();
        match nics {
            [_] => ippool(&names),
            _ => ippools(&nics.iter().copied().zip(names).collect::<Vec<_>>()),
        }
    };
    let mut workload = scene.workload(kind, "work", template("old")).await;
    if kind == Kind::StatefulSet {
        workload.scale(2).await.unwrap();
    }
    let nodes = [Node::A, Node::B];
    let mut made = Vec::new();
    for (last, node) in nodes.into_iter().enumerate() {
        let pod = workload.pod(&scene.node(node)).await.unwrap();
        for (nic, (_, _, prefix)) in nics.iter().zip(of("old")) {
            assert_eq!(scene.add(node, &pod, nic).await, [format!("{prefix}{last}")]);
        }
        made.push(pod);
    }
    workload.roll(template("new")).await.unwrap();
    for (place, (old, node)) in made.iter().zip(nodes).enumerate() {
        let node_name = scene.node(node);
        let new = if kind == Kind::StatefulSet {
            scene.end_all(node, old, nics).await;
            workload
                .pod_at(u32::try_from(place).unwrap(), &node_name)
                .await
                .unwrap()
        } else {
            workload.pod(&node_name).await.unwrap()
        };
        assert_eq!(new.name == old.name, kind == Kind::StatefulSet);
        for (nic, (_, _, prefix)) in nics.iter().zip(of("new")) {
            assert_eq!(scene.add(node, &new, nic).await, [format!("{prefix}{place}")]);
        }
        if kind != Kind::StatefulSet {
            scene.end_all(node, old, nics).await;
        }
    }
    for (age, pool, _) in &pools {
        let left = if *age == "old" { 0 } else { 2 };
        assert_eq!(scene.claimed(pool).await.len(), left, "{pool}");
    }
}

/// A00009.
#[test]
fn new_pods_of_a_deployment_follow_the_changed_annotation() {
    law(async |scene| changes(scene, Kind::Deployment, 66, &["eth0"]).await);
}

/// A00009.
#[test]
fn pods_of_a_stateful_set_that_come_back_follow_the_changed_annotation() {
    law(async |scene| changes(scene, Kind::StatefulSet, 68, &["eth0"]).await);
}

/// A00010.
#[test]
fn new_pods_of_a_deployment_with_several_nics_follow_the_changed_annotation() {
    law(async |scene| changes(scene, Kind::Deployment, 70, &["eth0", "net1"]).await);
}

/// A00010.
#[test]
fn pods_of_a_stateful_set_with_several_nics_that_come_back_follow_the_changed_annotation() {
    law(async |scene| changes(scene, Kind::StatefulSet, 74, &["eth0", "net1"]).await);
}
