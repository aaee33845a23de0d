//! Pods with several NICs (reference §9.3).

use orbweaver_api::annotation::POD_POOLS;
use orbweaver_loadtests::kubelet::Answer;
use orbweaver_loadtests::workload::Template;
use serde_json::{Value, json};

use crate::scene::{Scene, addresses, ippools, v4};
use crate::stage::{Node, law};

/// Where the default route of an answer goes; `None`: nowhere.
fn default_route(answer: &Answer) -> Option<String> {
    let routes = answer.json["routes"].as_array()?;
    let mut defaults = routes.iter().filter(|route| route["dst"] == "0.0.0.0/0");
    let gateway = defaults.next()?["gw"].as_str()?.to_owned();
    assert!(defaults.next().is_none(), "{routes:?}");
    Some(gateway)
}

fn annotated(items: &Value) -> Template {
    Template::annotated(&[(POD_POOLS, items.clone())])
}

/// A00011.
#[test]
fn a_nic_has_the_pools_default_route_unless_its_gateway_is_cleaned() {
    law(async |scene| {
        let (first, second) = (
            scene.pool("first", v4(80, 10, 19)).await,
            scene.pool("second", v4(81, 10, 19)).await,
        );
        let items = json!([
            { "interface": "eth0", "ipv4": [first], "cleangateway": false },
            { "interface": "net1", "ipv4": [second], "cleangateway": true },
            { "interface": "net2", "ipv4": [second] },
        ]);
        let pod = scene.pod("p", Node::A, annotated(&items)).await;
        let kubelet = scene.stage.kubelet(Node::A);
        // The item's word counts, the configuration's where the item has none.
        let mut configuration = kubelet.configuration();
        configuration["ipam"]["clean_gateway"] = json!(true);
        for (nic, route) in [("eth0", Some("10.80.0.1")), ("net1", None), ("net2", None)] {
            let answer = kubelet.call("ADD", &pod, nic, &configuration).await.unwrap();
            assert!(answer.success, "{nic}: {}", answer.text());
            assert_eq!(default_route(&answer).as_deref(), route, "{nic}");
            assert_eq!(answer.json["ips"][0]["gateway"].as_str(), route, "{nic}");
            let again = kubelet.call("ADD", &pod, nic, &configuration).await.unwrap();
            assert_eq!(
                (&again.json["ips"], &again.json["routes"]),
                (&answer.json["ips"], &answer.json["routes"])
            );
        }
    });
}

/// A00012: which NIC the default route is used through is the coordinator's affair.
#[test]
fn the_default_route_nic_annotation_changes_no_answer() {
    law(async |scene| {
        let (first, second) = (
            scene.pool("first", v4(82, 10, 19)).await,
            scene.pool("second", v4(83, 10, 19)).await,
        );
        let template = ippools(&[("eth0", &first), ("net1", &second)]);
        let mut routed = template.clone();
        let key = "ipam.spidernet.io/default-route-nic".to_owned();
        routed.annotations.insert(key, "net1".to_owned());
        for (name, template) in [("without", template), ("with", routed)] {
            let pod = scene.pod(name, Node::A, template).await;
            for (nic, gateway) in [("eth0", "10.82.0.1"), ("net1", "10.83.0.1")] {
                let answer = scene.added(Node::A, &pod, nic).await;
                assert_eq!(
                    default_route(&answer).as_deref(),
                    Some(gateway),
                    "{nic} of {name}"
                );
            }
        }
    });
}

/// A00013.
#[test]
fn a_nic_that_ippools_does_not_name_is_refused() {
    law(async |scene| {
        let pool = scene.pool("p", v4(84, 10, 19)).await;
        let pod = scene.pod("p", Node::A, ippools(&[("net1", &pool)])).await;
        scene
            .refused(Node::A, &pod, "eth0", &[POD_POOLS, "\"eth0\"", "net1"])
            .await;
        assert!(scene.claimed(&pool).await.is_empty());
        assert_eq!(scene.add(Node::A, &pod, "net1").await, ["10.84.0.10"]);
    });
}

/// A00014.
#[test]
fn a_nic_that_ippools_names_twice_is_refused() {
    law(async |scene| {
        let pool = scene.pool("p", v4(85, 10, 19)).await;
        let template = ippools(&[("eth0", &pool), ("eth0", &pool)]);
        let pod = scene.pod("p", Node::A, template).await;
        scene.refused(Node::A, &pod, "eth0", &[POD_POOLS, "eth0"]).await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// A00015.
#[test]
fn patterns_in_ippools_mean_pools_by_name() {
    law(async |scene| {
        scene.pool("red-2", v4(86, 10, 10)).await;
        scene.pool("red-1", v4(87, 10, 10)).await;
        scene.pool("blue-1", v4(88, 10, 19)).await;
        let of = |pattern: &str| format!("{}-{pattern}", scene.namespace);
        let items = [("eth0", of("red-[12]")), ("net1", of("bl?e-*"))];
        let items = items.each_ref().map(|(nic, pattern)| (*nic, pattern.as_str()));
        let expected = [("10.87.0.10", "10.88.0.10"), ("10.86.0.10", "10.88.0.11")];
        for (pod, (first, second)) in ["one", "two"].into_iter().zip(expected) {
            let pod = scene.pod(pod, Node::A, ippools(&items)).await;
            assert_eq!(scene.add(Node::A, &pod, "eth0").await, [first]);
            assert_eq!(scene.add(Node::A, &pod, "net1").await, [second]);
        }
    });
}

/// One pod too many for the second NIC's pool tries five times; nothing of the first NIC's pool gets lost.
async fn tries_in_vain(scene: &mut Scene, names: [&str; 2], net: u8) {
    let wide = scene.pool("wide", v4(net, 10, 12)).await;
    let narrow = scene.pool("narrow", v4(net + 1, 10, 10)).await;
    let template = ippools(&[(names[0], &wide), (names[1], &narrow)]);
    let named = !names[0].is_empty();
    let lucky = scene.pod("lucky", Node::A, template.clone()).await;
    let unlucky = scene.pod("unlucky", Node::B, template).await;
    for nic in ["eth0", "net1"] {
        scene.add(Node::A, &lucky, nic).await;
    }
    let kept = if named { 2 } else { 1 };
    for _ in 0..5 {
        if named {
            assert_eq!(
                scene.add(Node::B, &unlucky, "eth0").await,
                [format!("10.{net}.0.11")]
            );
            scene
                .refused(Node::B, &unlucky, "net1", &[&narrow, "used out"])
                .await;
        } else {
            scene
                .refused(Node::B, &unlucky, "eth0", &[&narrow, "used out"])
                .await;
        }
        // The runtime takes its failed sandbox down again.
        let kubelet = scene.stage.kubelet(Node::B);
        assert!(kubelet.del(&unlucky, "eth0").await.unwrap().success);
        assert_eq!(scene.claimed(&wide).await.len(), kept);
    }
    scene.end_all(Node::A, &lucky, &["eth0", "net1"]).await;
    for nic in ["eth0", "net1"] {
        scene.add(Node::B, &unlucky, nic).await;
    }
    assert_eq!(
        (
            scene.claimed(&wide).await.len(),
            scene.claimed(&narrow).await.len()
        ),
        (1, 1)
    );
}

/// A00016, with NICs named.
#[test]
fn an_exhausted_pool_of_a_named_nic_does_not_drain_the_other_nics_pool() {
    law(async |scene| tries_in_vain(scene, ["eth0", "net1"], 90).await);
}

/// A00016, with items in order.
#[test]
fn an_exhausted_pool_of_a_nameless_item_does_not_drain_the_other_items_pool() {
    law(async |scene| tries_in_vain(scene, ["", ""], 92).await);
}

/// The two NICs of one pod on one pool get two addresses, and the same again.
#[test]
fn two_nics_on_one_pool_get_two_addresses() {
    law(async |scene| {
        let pool = scene.pool("p", v4(94, 10, 19)).await;
        let pod = scene
            .pod("p", Node::A, ippools(&[("eth0", &pool), ("net1", &pool)]))
            .await;
        for _ in 0..2 {
            let first = scene.added(Node::A, &pod, "eth0").await;
            let second = scene.added(Node::A, &pod, "net1").await;
            assert_eq!(
                [addresses(&first), addresses(&second)],
                [["10.94.0.10"], ["10.94.0.11"]]
            );
        }
    });
}
