//! Label selectors of pools (reference §9.5).

use orbweaver_api::annotation::NAMESPACE_IPV4_POOLS;
use orbweaver_loadtests::workload::{Kind, Template};
use serde_json::{Value, json};

use crate::scene::{ippool, v4, with};
use crate::stage::{Node, law};

/// True once the agent knows what the namespace's annotations say.
fn namespace_is_known(page: &Value) -> bool {
    let sources = page["sources"].as_array();
    sources.is_some_and(|sources| {
        let mut named = sources.iter().filter(|word| word["says"].is_string());
        named.any(|word| word["source"] == "the namespace's annotations")
    })
}

/// L00001.
#[test]
fn a_pool_with_node_affinity_serves_pods_of_matching_nodes() {
    law(async |scene| {
        let affinity =
            json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "c"] }] });
        let pool = scene
            .pool("p", with(v4(40, 10, 19), json!({ "nodeAffinity": affinity })))
            .await;
        let pod = scene.pod("p", Node::A, ippool(&[&pool])).await;
        assert_eq!(scene.add(Node::A, &pod, "eth0").await, ["10.40.0.10"]);
    });
}

/// L00002.
#[test]
fn a_pool_with_node_affinity_is_refused_to_pods_of_other_nodes() {
    law(async |scene| {
        let affinity = json!({ "nodeAffinity": { "matchLabels": { "zone": "a" } } });
        let pool = scene.pool("p", with(v4(41, 10, 19), affinity)).await;
        let pod = scene.pod("p", Node::B, ippool(&[&pool])).await;
        scene
            .refused(Node::B, &pod, "eth0", &[&pool, "spec.nodeAffinity"])
            .await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// L00003.
#[test]
fn a_pool_with_namespace_affinity_serves_pods_of_matching_namespaces() {
    law(async |scene| {
        let labels = json!({ "labels": { "team": "red" } });
        let red = scene.another_namespace(labels).await;
        let affinity = json!({ "namespaceAffinity": { "matchLabels": { "team": "red" } } });
        let pool = scene.pool("p", with(v4(42, 10, 19), affinity)).await;
        let pod = scene.pod_in(&red, "p", Node::A, ippool(&[&pool])).await;
        scene
            .await_explanation(Node::A, &pod, "the namespace's labels are known", |page| {
                page["refusal"].is_null() && page["uid"].is_string()
            })
            .await;
        assert_eq!(scene.add(Node::A, &pod, "eth0").await, ["10.42.0.10"]);
    });
}

/// L00004.
#[test]
fn a_pool_with_namespace_affinity_is_refused_to_pods_of_other_namespaces() {
    law(async |scene| {
        let blue = scene
            .another_namespace(json!({ "labels": { "team": "blue" } }))
            .await;
        let affinity = json!({ "namespaceAffinity": { "matchLabels": { "team": "red" } } });
        let pool = scene.pool("p", with(v4(43, 10, 19), affinity)).await;
        for namespace in [&blue, &scene.namespace] {
            let pod = scene.pod_in(namespace, "p", Node::A, ippool(&[&pool])).await;
            scene
                .refused(Node::A, &pod, "eth0", &[&pool, "spec.namespaceAffinity"])
                .await;
        }
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// L00005.
#[test]
fn a_pool_with_pod_affinity_serves_matching_pods() {
    law(async |scene| {
        let affinity = json!({ "podAffinity": { "matchLabels": { "tier": "web" } } });
        let pool = scene.pool("p", with(v4(44, 10, 19), affinity)).await;
        let template = ippool(&[&pool]).labelled("tier", "web");
        let mut deployment = scene.workload(Kind::Deployment, "web", template).await;
        for (node, address) in [(Node::A, "10.44.0.10"), (Node::B, "10.44.0.11")] {
            let pod = deployment.pod(&scene.node(node)).await.unwrap();
            assert_eq!(scene.add(node, &pod, "eth0").await, [address]);
        }
    });
}

/// L00006.
#[test]
fn a_pool_with_pod_affinity_is_refused_to_other_pods() {
    law(async |scene| {
        let affinity = json!({ "podAffinity": { "matchLabels": { "tier": "web" } } });
        let pool = scene.pool("p", with(v4(45, 10, 19), affinity)).await;
        let db = ippool(&[&pool]).labelled("tier", "db");
        for (name, template) in [("db", db), ("bare", ippool(&[&pool]))] {
            let pod = scene.pod(name, Node::A, template).await;
            scene
                .refused(Node::A, &pod, "eth0", &[&pool, "spec.podAffinity"])
                .await;
        }
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// L00007.
#[test]
fn a_daemon_set_over_two_zones_gets_each_zones_own_addresses() {
    law(async |scene| {
        let of_zone = |zone: &str| json!({ "nodeAffinity": { "matchLabels": { "zone": zone } } });
        let a = scene.pool("a", with(v4(46, 10, 19), of_zone("a"))).await;
        let b = scene.pool("b", with(v4(47, 10, 19), of_zone("b"))).await;
        let mut set = scene.workload(Kind::DaemonSet, "daemon", ippool(&[&a, &b])).await;
        for (node, address) in [(Node::A, "10.46.0.10"), (Node::B, "10.47.0.10")] {
            let pod = set.pod(&scene.node(node)).await.unwrap();
            assert_eq!(scene.add(node, &pod, "eth0").await, [address]);
        }
    });
}

/// L00008.
#[test]
fn a_stateful_set_on_a_pool_with_pod_affinity_keeps_its_address_over_a_restart_on_another_node() {
    law(async |scene| {
        let affinity = json!({ "podAffinity": { "matchLabels": { "tier": "db" } } });
        let pool = scene.pool("p", with(v4(48, 10, 19), affinity)).await;
        let template = ippool(&[&pool]).labelled("tier", "db");
        let set = scene.workload(Kind::StatefulSet, "db", template).await;
        let first = set.pod_at(0, &scene.node(Node::A)).await.unwrap();
        let address = scene.add(Node::A, &first, "eth0").await;
        scene.end(Node::A, &first).await;
        assert_eq!(scene.claimed(&pool).await, address, "it is kept for the pod");
        scene.audit().await;
        let other = scene
            .pod("other", Node::B, ippool(&[&pool]).labelled("tier", "db"))
            .await;
        assert_ne!(scene.add(Node::B, &other, "eth0").await, address);
        let second = set.pod_at(0, &scene.node(Node::B)).await.unwrap();
        assert_ne!(first.uid, second.uid);
        assert_eq!(scene.add(Node::B, &second, "eth0").await, address);
    });
}

/// L00009.
#[test]
fn a_namespace_may_have_many_pools_and_a_pool_many_namespaces() {
    law(async |scene| {
        let first = scene.pool("first", v4(49, 10, 10)).await;
        let shared = scene.pool("shared", v4(50, 10, 11)).await;
        let marks =
            |pools: &[&str]| json!({ "annotations": { NAMESPACE_IPV4_POOLS: json!(pools).to_string() } });
        scene.mark_namespace(marks(&[&first, &shared])).await;
        let other = scene.another_namespace(marks(&[&shared])).await;
        for (namespace, name, address) in [
            (&scene.namespace, "one", "10.49.0.10"),
            (&scene.namespace, "two", "10.50.0.10"),
            (&other, "three", "10.50.0.11"),
        ] {
            let pod = scene.pod_in(namespace, name, Node::A, Template::default()).await;
            scene
                .await_explanation(Node::A, &pod, "the namespace is known", namespace_is_known)
                .await;
            assert_eq!(scene.add(Node::A, &pod, "eth0").await, [address]);
        }
        let late = scene.pod("late", Node::A, Template::default()).await;
        scene
            .refused(Node::A, &late, "eth0", &[&first, &shared, "used out"])
            .await;
    });
}
