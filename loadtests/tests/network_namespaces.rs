//! Debian's CNI plugins delegate their addresses to the real plugin and the real agent, in network namespaces.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking; the harness is shared"
)]

#[path = "../../cni-shim/tests/netns/node.rs"]
mod node;

use node::{Node, Pod};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::programs;
use orbweaver_loadtests::simulation::Simulation;
use serde_json::json;

const PLAIN: &str = include_str!("../../examples/plain.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn the_interface_gets_address_gateway_and_routes_and_del_gives_them_back() {
    let Some(host) = Node::new(&programs::find("orbweaver-cni").unwrap()) else {
        return;
    };
    host.add_uplink("uplink");
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let pool = simulation.apply_pool(PLAIN).await.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kinds = [
        ("0.4.0", json!({ "type": "bridge", "bridge": "br0" })),
        ("1.0.0", json!({ "type": "macvlan", "master": "uplink" })),
        ("0.3.1", json!({ "type": "ptp" })),
    ];
    for (version, mut network) in kinds {
        let kind = network["type"].as_str().unwrap().to_owned();
        network["cniVersion"] = json!(version);
        network["name"] = json!("pods");
        network["ipam"] = json!({
            "type": "spiderpool", "ipam_unix_socket_path": agent.socket(),
            "log_file_path": simulation.folder().join("plugin.log"),
        });
        let sandbox = simulation
            .create_pod(&kind, agent.node(), &[&pool])
            .await
            .unwrap();
        let arguments = format!(
            "K8S_POD_UID={};IgnoreUnknown=1;K8S_POD_NAME={};K8S_POD_NAMESPACE={}",
            sandbox.uid, sandbox.name, sandbox.namespace
        );
        let pod = Pod::new(&sandbox.container, &arguments);
        host.cni(&pod, "ADD", &network)
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(pod.addresses("eth0"), ["10.6.0.10/16"], "{kind}");
        let routes = pod.routes(4);
        for (dst, gateway) in [("default", "10.6.0.1"), ("172.30.0.0/16", "10.6.0.2")] {
            assert!(
                routes.contains(&(dst.to_owned(), gateway.to_owned())),
                "{kind}: {dst} via {gateway} in {routes:?}"
            );
        }
        assert_eq!(
            simulation.picture().await.unwrap().claims().unwrap().len(),
            1,
            "{kind}"
        );

        simulation.delete_pod(&sandbox.name).await.unwrap();
        host.cni(&pod, "DEL", &network)
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        simulation.finish_pod(&sandbox.name).await.unwrap();
        host.late_del(&pod, &network)
            .unwrap_or_else(|error| panic!("{kind}, late: {error}"));
        assert_eq!(pod.links(), Vec::<String>::new(), "{kind}");
        assert!(
            simulation.picture().await.unwrap().claims().unwrap().is_empty(),
            "{kind}"
        );
    }
    simulation.finish().await.unwrap();
}
