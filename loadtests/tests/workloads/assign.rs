//! Every kind of workload gets addresses (reference §9.4).

use orbweaver_api::annotation::{POD_POOL, POD_POOLS, POD_SUBNET};
use orbweaver_loadtests::workload::{Kind, Template};
use serde_json::json;

use crate::scene::{Scene, ippool, v4, v6};
use crate::stage::{Node, law};

/// Pods on nodes of each family set, and back again; their endpoints name the top controller.
async fn gets_addresses(scene: &mut Scene, kind: Kind) {
    let four = scene.pool("four", v4(1, 10, 19)).await;
    let six = scene.pool("six", v6(1, 10, 19)).await;
    let pods = if kind == Kind::Pod { 1 } else { 2 };
    for (run, node) in [Node::V4, Node::V6, Node::A].into_iter().enumerate() {
        let both = json!({ "ipv4": [four], "ipv6": [six] });
        let name = format!("{}-{run}", kind.name().to_lowercase());
        let mut workload = scene
            .workload(kind, &name, Template::annotated(&[(POD_POOL, both)]))
            .await;
        if kind == Kind::StatefulSet {
            workload.scale(pods).await.unwrap();
        }
        let mut made = Vec::new();
        for pod in 0..pods {
            let sandbox = workload.pod(&scene.node(node)).await.unwrap();
            let last = 10 + pod;
            let mut expected = Vec::new();
            if node.families().0 {
                expected.push(format!("10.1.0.{last}"));
            }
            if node.families().1 {
                expected.push(format!("fd00:0:0:1::{last}"));
            }
            assert_eq!(
                scene.add(node, &sandbox, "eth0").await,
                expected,
                "{name} on {node:?}"
            );
            let endpoint = scene.endpoint(&sandbox.name).await.unwrap();
            assert_eq!(
                (
                    endpoint.status.owner_controller_type.as_str(),
                    endpoint.status.owner_controller_name.as_str(),
                    endpoint.status.current.node.as_str(),
                ),
                (kind.name(), workload.name(), scene.node(node).as_str())
            );
            made.push(sandbox);
        }
        scene.audit().await;
        if kind == Kind::StatefulSet {
            workload.scale(0).await.unwrap();
        }
        for sandbox in &made {
            scene.end(node, sandbox).await;
        }
        assert!(scene.claimed(&four).await.is_empty() && scene.claimed(&six).await.is_empty());
    }
}

/// E00001.
#[test]
fn a_pod_gets_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::Pod).await);
}

/// E00002.
#[test]
fn pods_of_a_deployment_get_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::Deployment).await);
}

/// E00003.
#[test]
fn pods_of_a_stateful_set_get_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::StatefulSet).await);
}

/// E00004.
#[test]
fn pods_of_a_daemon_set_get_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::DaemonSet).await);
}

/// E00005.
#[test]
fn pods_of_a_job_get_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::Job).await);
}

/// E00005, where a CronJob made the Job.
#[test]
fn pods_of_a_cron_job_get_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::CronJob).await);
}

/// E00006.
#[test]
fn pods_of_a_replica_set_get_addresses_of_the_families_that_are_on() {
    law(async |scene| gets_addresses(scene, Kind::ReplicaSet).await);
}

/// E00007: about 1 MB, as much as an API server takes.
#[test]
fn a_pod_with_a_very_large_yaml_gets_an_address() {
    law(async |scene| {
        let pool = scene.pool("p", v4(2, 10, 19)).await;
        let mut template = ippool(&[&pool]);
        for part in 0..20 {
            let pad = "x".repeat(10_000);
            template.annotations.insert(format!("pad-{part}"), pad);
        }
        let long = "y".repeat(10_000);
        let env: Vec<_> = (0..80)
            .map(|part| json!({ "name": format!("PAD_{part}"), "value": long }))
            .collect();
        template
            .containers
            .push(json!({ "name": "main", "image": "none", "env": env }));
        let pod = scene.pod("large", Node::A, template).await;
        assert_eq!(scene.add(Node::A, &pod, "eth0").await, ["10.2.0.10"]);
        scene.end(Node::A, &pod).await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// E00008.
#[test]
fn an_exhausted_pool_fails_the_pod_until_an_address_is_free() {
    law(async |scene| {
        let pool = scene.pool("p", v4(3, 10, 10)).await;
        let holder = scene.pod("holder", Node::A, ippool(&[&pool])).await;
        let waiter = scene.pod("waiter", Node::B, ippool(&[&pool])).await;
        assert_eq!(scene.add(Node::A, &holder, "eth0").await, ["10.3.0.10"]);
        for _ in 0..2 {
            scene
                .refused(Node::B, &waiter, "eth0", &[&pool, "used out"])
                .await;
        }
        assert!(scene.endpoint("waiter").await.is_none());
        scene.end(Node::A, &holder).await;
        assert_eq!(scene.add(Node::B, &waiter, "eth0").await, ["10.3.0.10"]);
    });
}

/// E00009.
#[test]
fn ippools_with_one_family_give_that_family_alone_in_a_dual_stack_cluster() {
    law(async |scene| {
        let four = scene.pool("four", v4(4, 10, 19)).await;
        let six = scene.pool("six", v6(4, 10, 19)).await;
        for (name, item, address) in [
            (
                "four",
                json!({ "interface": "eth0", "ipv4": [four] }),
                "10.4.0.10",
            ),
            (
                "six",
                json!({ "interface": "eth0", "ipv6": [six] }),
                "fd00:0:0:4::10",
            ),
        ] {
            let template = Template::annotated(&[(POD_POOLS, json!([item]))]);
            let pod = scene.pod(name, Node::A, template).await;
            assert_eq!(scene.add(Node::A, &pod, "eth0").await, [address]);
            let endpoint = scene.endpoint(name).await.unwrap();
            let nic = &endpoint.status.current.ips[0];
            assert_eq!(nic.ipv4.is_some(), name == "four");
            assert_eq!(nic.ipv6.is_some(), name == "six");
        }
    });
}

/// E00010: there are no subnets to take a family from, and a pod that asks for one is not served otherwise.
#[test]
fn a_subnet_annotation_is_refused_with_what_to_write_instead() {
    law(async |scene| {
        let pool = scene.pool("p", v4(5, 10, 19)).await;
        let mut template = ippool(&[&pool]);
        let subnet = json!({ "ipv4": ["s4"] }).to_string();
        template.annotations.insert(POD_SUBNET.to_owned(), subnet);
        let pod = scene.pod("p", Node::A, template).await;
        let words = [POD_SUBNET, "SpiderSubnet feature is off", POD_POOL];
        scene.refused(Node::A, &pod, "eth0", &words).await;
        assert!(scene.claimed(&pool).await.is_empty());
    });
}
