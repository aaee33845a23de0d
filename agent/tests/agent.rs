//! Whole agents against a simulated cluster.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
#[path = "support/world.rs"]
mod world;

use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use orbweaver_agent::agent::{self, RunningAgent};
use orbweaver_agent::config::Config;
use orbweaver_api::grpc as wire;
use orbweaver_api::grpc::ipam_client::IpamClient;
use orbweaver_cluster_sim::faults::Fault;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::Endpoint;
use world::{NODE, PATIENCE, World, run, until};

async fn start(world: &World) -> RunningAgent {
    agent::start(config(world), &world.host).await.unwrap()
}

fn config(world: &World) -> Config {
    let socket = world.folder.path().join("agent.sock");
    let mut config = Config::of_node(NODE, world.access.clone(), socket);
    config.admin_listen = Some("127.0.0.1:0".parse().unwrap());
    config
}

fn attachment(pod: &Pod, container_id: &str) -> wire::Attachment {
    wire::Attachment {
        container_id: container_id.to_owned(),
        nic: "eth0".to_owned(),
        netns: "/var/run/netns/x".to_owned(),
        pod_namespace: "default".to_owned(),
        pod_name: pod.name_any(),
        pod_uid: pod.uid().unwrap(),
    }
}

async fn grpc(agent: &RunningAgent) -> IpamClient<tonic::transport::Channel> {
    let path = agent.socket().to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    IpamClient::new(
        Endpoint::from_static("http://agent")
            .connect_with_connector(connector)
            .await
            .unwrap(),
    )
}

#[test]
fn nothing_is_served_before_the_caches_are_complete() {
    run(async |world| {
        world.define(true, None).await;
        world.fault("list", "spiderippools", u64::MAX, Fault::Refuse(503));
        let config = config(&world);
        let socket = config.socket.clone();
        let starting = agent::start(config, &world.host);
        let mut starting = std::pin::pin!(starting);
        let refused_twice = until("two refused lists of pools", async || {
            (world.requests("list", "spiderippools") >= 2).then_some(())
        });
        tokio::select! {
            _ = starting.as_mut() => panic!("it serves although it has not seen the pools"),
            () = refused_twice => {}
        }
        assert!(!socket.exists());
        assert_eq!(world.requests("list", "spiderendpoints"), 0);
        world.simulated.faults().clear();
        let agent = timeout(PATIENCE, starting).await.unwrap().unwrap();
        UnixStream::connect(agent.socket()).await.unwrap();
        assert_eq!(agent.ready().await, Ok(()));
        agent.stop().await;
        assert!(!socket.exists(), "the socket stays after the stop");
    });
}

#[test]
fn lists_that_never_complete_are_named() {
    run(async |world| {
        world.define(true, None).await;
        world.fault("list", "spiderippools", u64::MAX, Fault::Refuse(503));
        let mut config = config(&world);
        config.start_budget = Duration::from_millis(300);
        let error = agent::start(config, &world.host).await.unwrap_err().to_string();
        assert!(error.contains("spiderippools"), "{error}");
    });
}

#[test]
fn an_absent_multus_definition_is_no_obstacle() {
    run(async |world| {
        world.define(true, Some("spidermultusconfigs")).await;
        start(&world).await.stop().await;
    });
}

#[test]
fn a_second_agent_does_not_take_the_socket() {
    run(async |world| {
        world.define(true, None).await;
        let first = start(&world).await;
        let error = agent::start(config(&world), &world.host)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("another agent listens"), "{error}");
        grpc(&first)
            .await
            .status(wire::StatusRequest::default())
            .await
            .unwrap();
        first.stop().await;
    });
}

#[test]
fn the_parent_nic_of_this_nodes_pool_is_published() {
    run(async |world| {
        world.define(true, None).await;
        let agent = start(&world).await;
        let metadata = json!({
            "labels": { "ipam.spidernet.io/iaas-provider": "x" },
            "annotations": { "ipam.spidernet.io/parent-nic": "lo" },
        });
        let spec = json!({ "subnet": "10.6.0.0/16", "nodeName": [NODE] });
        world.pool("mine", metadata.clone(), spec).await;
        world
            .pool(
                "other",
                metadata,
                json!({ "subnet": "10.7.0.0/16", "nodeName": ["node-2"] }),
            )
            .await;
        let published = until("status.parentNic", async || {
            world.pools().get("mine").await.unwrap().status?.parent_nic
        })
        .await;
        assert_eq!(published.name, "lo");
        assert_eq!(published.mac.as_deref(), Some("00:00:00:00:00:00"));
        assert!(
            world
                .pools()
                .get("other")
                .await
                .unwrap()
                .status
                .is_none_or(|status| status.parent_nic.is_none())
        );
        agent.stop().await;
    });
}

#[test]
fn a_pod_gets_an_address_and_gives_it_back() {
    run(async |world| {
        world.define(true, None).await;
        world.plain_pool("p").await;
        let agent = start(&world).await;
        let pod = world.pod("a").await;
        let attachment = attachment(&pod, "c-1");
        let mut client = grpc(&agent).await;
        let add = wire::AddRequest {
            attachment: Some(attachment.clone()),
            ..Default::default()
        };
        let added = client.add(add.clone()).await.unwrap().into_inner();
        assert_eq!(added.addresses[0].address, "10.6.0.10/16");
        assert_eq!(
            client.add(add).await.unwrap().into_inner(),
            added,
            "asked again, the same answer"
        );
        assert!(world.endpoints().get_opt("a").await.unwrap().is_some());
        let api: Api<Pod> = Api::default_namespaced(world.client.clone());
        let now = DeleteParams::default().grace_period(0);
        api.delete("a", &now).await.unwrap();
        let del = wire::DelRequest {
            attachment: Some(attachment),
            ..Default::default()
        };
        client.del(del).await.unwrap();
        until("the claim is gone", async || {
            let status = world.pools().get("p").await.unwrap().status.unwrap();
            status.allocated_ips.is_none().then_some(())
        })
        .await;
        until("the endpoint is gone", async || {
            world
                .endpoints()
                .get_opt("a")
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
        agent.stop().await;
    });
}

#[test]
fn a_burst_of_pods_writes_each_endpoint_once_and_reads_nothing() {
    const PODS: usize = 60;
    run(async |world| {
        world.define(true, None).await;
        let spec = json!({ "subnet": "10.6.0.0/16", "ips": ["10.6.1.1-10.6.1.200"], "default": true });
        world.pool("p", json!({}), spec).await;
        let mut pods = Vec::new();
        for number in 0..PODS {
            pods.push(world.pod(&format!("pod-{number}")).await);
        }
        let agent = start(&world).await;
        let client = grpc(&agent).await;
        world.simulated.counters().reset();
        let adds = pods.iter().map(|pod| {
            let mut client = client.clone();
            let attachment = attachment(pod, "c-1");
            async move {
                let add = wire::AddRequest {
                    attachment: Some(attachment),
                    ..Default::default()
                };
                let added = client.add(add).await.unwrap().into_inner();
                added.addresses[0].address.clone()
            }
        });
        let addresses: std::collections::BTreeSet<String> =
            futures::future::join_all(adds).await.into_iter().collect();
        assert_eq!(addresses.len(), PODS, "an address was given twice");
        let requests = world.simulated.counters();
        let by_agent = |verb: &str| {
            requests.count(|asked| asked.verb == verb && asked.client.starts_with("orbweaver-agent"))
        };
        assert_eq!(by_agent("create"), PODS as u64);
        assert_eq!(
            by_agent("get") + by_agent("list") + by_agent("update"),
            0,
            "{:?}",
            requests.requests()
        );
        assert!(
            by_agent("patch") <= PODS as u64,
            "more writes of the pool than pods"
        );
        agent.stop().await;
    });
}
