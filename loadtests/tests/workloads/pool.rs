//! What a pool says about who may use it (reference §9.1).

use orbweaver_api::annotation::MULTUS_DEFAULT_NETWORK;
use orbweaver_loadtests::workload::Template;
use serde_json::json;

use crate::scene::{ippool, v4, with};
use crate::stage::{Node, law};

fn on_network(pool: &str, network: &str) -> Template {
    let mut template = ippool(&[pool]);
    let annotation = MULTUS_DEFAULT_NETWORK.to_owned();
    template.annotations.insert(annotation, network.to_owned());
    template
}

/// D00005.
#[test]
fn a_disabled_pool_gives_nothing_and_takes_back_what_it_gave() {
    law(async |scene| {
        let pool = scene.pool("p", v4(20, 10, 19)).await;
        let early = scene.pod("early", Node::A, ippool(&[&pool])).await;
        scene.add(Node::A, &early, "eth0").await;
        let disabled = |pool: &serde_json::Value| {
            pool["dropped"]
                .as_str()
                .is_some_and(|why| why.contains("disabled"))
        };
        scene
            .change_pool(&pool, json!({ "disable": true }), "disabled", disabled)
            .await;
        let late = scene.pod("late", Node::A, ippool(&[&pool])).await;
        scene.refused(Node::A, &late, "eth0", &[&pool, "disabled"]).await;
        assert_eq!(
            scene.add(Node::A, &early, "eth0").await,
            ["10.20.0.10"],
            "what it gave stays"
        );
        scene.end(Node::A, &early).await;
        assert!(scene.claimed(&pool).await.is_empty());
        let enabled = |pool: &serde_json::Value| pool["dropped"].is_null();
        scene
            .change_pool(&pool, json!({ "disable": false }), "enabled", enabled)
            .await;
        assert_eq!(scene.add(Node::A, &late, "eth0").await, ["10.20.0.10"]);
    });
}

/// D00009.
#[test]
fn a_pool_for_a_network_serves_a_nic_of_that_network() {
    law(async |scene| {
        let spec = with(v4(21, 10, 19), json!({ "multusName": ["nets/fast"] }));
        let pool = scene.pool("p", spec).await;
        let pod = scene.pod("p", Node::A, on_network(&pool, "nets/fast")).await;
        assert_eq!(scene.add(Node::A, &pod, "eth0").await, ["10.21.0.10"]);
    });
}

/// D00010.
#[test]
fn a_pool_for_a_network_is_refused_to_a_nic_of_another_or_of_none() {
    law(async |scene| {
        let spec = with(v4(22, 10, 19), json!({ "multusName": ["nets/fast"] }));
        let pool = scene.pool("p", spec).await;
        let other = scene.pod("other", Node::A, on_network(&pool, "nets/slow")).await;
        let words = [&pool, "spec.multusName", "nets/slow"];
        scene.refused(Node::A, &other, "eth0", &words).await;
        let none = scene.pod("none", Node::A, ippool(&[&pool])).await;
        let words = [&pool, "spec.multusName", "not known"];
        scene.refused(Node::A, &none, "eth0", &words).await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// D00011.
#[test]
fn a_pool_with_node_names_serves_pods_of_these_nodes() {
    law(async |scene| {
        let spec = with(
            v4(23, 10, 19),
            json!({ "nodeName": [scene.node(Node::A), scene.node(Node::V4)] }),
        );
        let pool = scene.pool("p", spec).await;
        for (node, address) in [(Node::A, "10.23.0.10"), (Node::V4, "10.23.0.11")] {
            let name = address.replace('.', "-");
            let pod = scene.pod(&name, node, ippool(&[&pool])).await;
            assert_eq!(scene.add(node, &pod, "eth0").await, [address]);
        }
    });
}

/// D00012.
#[test]
fn a_pool_with_node_names_is_refused_to_pods_of_other_nodes() {
    law(async |scene| {
        let spec = with(v4(24, 10, 19), json!({ "nodeName": [scene.node(Node::A)] }));
        let pool = scene.pool("p", spec).await;
        let pod = scene.pod("p", Node::B, ippool(&[&pool])).await;
        let node = scene.node(Node::B);
        scene
            .refused(Node::B, &pod, "eth0", &[&pool, "spec.nodeName", &node])
            .await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// D00013.
#[test]
fn node_names_beat_node_affinity() {
    law(async |scene| {
        let selectors = json!({
            "nodeName": [scene.node(Node::A)], "nodeAffinity": { "matchLabels": { "zone": "b" } },
        });
        let pool = scene.pool("p", with(v4(25, 10, 19), selectors)).await;
        let named = scene.pod("named", Node::A, ippool(&[&pool])).await;
        assert_eq!(scene.add(Node::A, &named, "eth0").await, ["10.25.0.10"]);
        let labelled = scene.pod("labelled", Node::B, ippool(&[&pool])).await;
        scene
            .refused(Node::B, &labelled, "eth0", &[&pool, "spec.nodeName"])
            .await;
    });
}

/// D00014.
#[test]
fn a_pool_with_namespace_names_serves_pods_of_these_namespaces() {
    law(async |scene| {
        let other = scene.another_namespace(json!({})).await;
        let spec = with(
            v4(26, 10, 19),
            json!({ "namespaceName": [scene.namespace, other] }),
        );
        let pool = scene.pool("p", spec).await;
        for (namespace, address) in [(&scene.namespace, "10.26.0.10"), (&other, "10.26.0.11")] {
            let pod = scene.pod_in(namespace, "p", Node::A, ippool(&[&pool])).await;
            assert_eq!(scene.add(Node::A, &pod, "eth0").await, [address]);
        }
    });
}

/// D00015.
#[test]
fn a_pool_with_namespace_names_is_refused_to_pods_of_other_namespaces() {
    law(async |scene| {
        let spec = with(v4(27, 10, 19), json!({ "namespaceName": ["elsewhere"] }));
        let pool = scene.pool("p", spec).await;
        let pod = scene.pod("p", Node::A, ippool(&[&pool])).await;
        let words = [&pool, "spec.namespaceName", &scene.namespace];
        scene.refused(Node::A, &pod, "eth0", &words).await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// D00016.
#[test]
fn namespace_names_beat_namespace_affinity() {
    law(async |scene| {
        let other = scene
            .another_namespace(json!({ "labels": { "team": "red" } }))
            .await;
        let selectors = json!({
            "namespaceName": [scene.namespace], "namespaceAffinity": { "matchLabels": { "team": "red" } },
        });
        let pool = scene.pool("p", with(v4(28, 10, 19), selectors)).await;
        let named = scene.pod("named", Node::A, ippool(&[&pool])).await;
        assert_eq!(scene.add(Node::A, &named, "eth0").await, ["10.28.0.10"]);
        let labelled = scene.pod_in(&other, "labelled", Node::A, ippool(&[&pool])).await;
        scene
            .refused(Node::A, &labelled, "eth0", &[&pool, "spec.namespaceName"])
            .await;
    });
}
