//! The plugin below Debian's main CNI plugins, in network namespaces. Needs root, iproute2 and
//! containernetworking-plugins; says so and passes without them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

#[path = "fake_agent/server.rs"]
mod fake_agent;
#[path = "netns/node.rs"]
mod node;

use std::path::Path;

use fake_agent::{Call, FakeAgent, Mood};
use node::{Node, Pod};
use orbweaver_api::grpc::{AddResponse, Address, Route};
use serde_json::{Value, json};

const CNI_ARGS: &str = "K8S_POD_UID=u1;IgnoreUnknown=1;K8S_POD_NAME=cart-0;K8S_POD_NAMESPACE=shop";
const SHIM: &str = env!("CARGO_BIN_EXE_orbweaver-cni");

fn agent() -> FakeAgent {
    let address = |version, address: &str, gateway: &str| Address {
        version,
        address: address.into(),
        nic: "eth0".into(),
        pool: "shop".into(),
        gateway: gateway.into(),
        ..Address::default()
    };
    FakeAgent::start(Mood::Serves(AddResponse {
        addresses: vec![
            address(4, "10.6.0.3/16", "10.6.0.1"),
            address(6, "fd00:6::3/64", "fd00:6::1"),
        ],
        routes: vec![
            Route {
                nic: "eth0".into(),
                dst: "172.16.0.0/12".into(),
                gw: "10.6.0.2".into(),
            },
            Route {
                nic: "eth0".into(),
                dst: "fd00:7::/64".into(),
                gw: "fd00:6::2".into(),
            },
        ],
    }))
}

fn network(version: &str, agent: &FakeAgent, main: &Value) -> Value {
    let mut network = json!({
        "cniVersion": version,
        "name": "pods",
        "ipam": {
            "type": "spiderpool",
            "ipam_unix_socket_path": agent.socket(),
            "log_file_path": agent.folder().join("cni.log"),
        },
    });
    for (key, value) in main.as_object().unwrap() {
        network[key] = value.clone();
    }
    network
}

fn has_everything(pod: &Pod) {
    assert_eq!(pod.links(), ["eth0"]);
    assert_eq!(pod.addresses("eth0"), ["10.6.0.3/16", "fd00:6::3/64"]);
    let (v4, v6) = (pod.routes(4), pod.routes(6));
    let wanted = [
        (&v4, "default", "10.6.0.1"),
        (&v4, "172.16.0.0/12", "10.6.0.2"),
        (&v6, "default", "fd00:6::1"),
        (&v6, "fd00:7::/64", "fd00:6::2"),
    ];
    for (routes, dst, gateway) in wanted {
        assert!(
            routes.contains(&(dst.to_owned(), gateway.to_owned())),
            "{dst} via {gateway} in {routes:?}"
        );
    }
}

/// ADD, CHECK where the version has it, DEL, and the two late DELs of a kubelet.
fn lives_and_dies(node: &Node, agent: &FakeAgent, mut network: Value) {
    let pod = Pod::new("c1", CNI_ARGS);
    let result = node.cni(&pod, "ADD", &network).unwrap();
    has_everything(&pod);
    network["prevResult"] = result;
    let has_check = network["cniVersion"] != "0.3.1";
    if has_check {
        node.cni(&pod, "CHECK", &network).unwrap();
    }

    node.cni(&pod, "DEL", &network).unwrap();
    assert_eq!(pod.links(), [""; 0]);
    network.as_object_mut().unwrap().remove("prevResult");
    node.late_del(&pod, &network).unwrap();
    node.late_del(&pod, &network).unwrap();

    let verbs: Vec<&str> = agent
        .calls()
        .iter()
        .map(|call| match call {
            Call::Add(_) => "ADD",
            Call::Del(_) => "DEL",
            Call::Check(check) => {
                assert_eq!(check.addresses, ["10.6.0.3/16", "fd00:6::3/64"]);
                "CHECK"
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let wanted: &[&str] = if has_check {
        &["ADD", "CHECK", "DEL", "DEL", "DEL"]
    } else {
        &["ADD", "DEL", "DEL", "DEL"]
    };
    assert_eq!(verbs, wanted);
}

#[test]
fn a_bridged_pod_gets_what_the_agent_gave_and_gives_it_back() {
    let Some(node) = Node::new(Path::new(SHIM)) else {
        return;
    };
    let agent = agent();
    let main = json!({"type": "bridge", "bridge": "orb0", "isGateway": true});
    lives_and_dies(&node, &agent, network("0.4.0", &agent, &main));
}

#[test]
fn a_macvlan_pod_gets_what_the_agent_gave_and_gives_it_back() {
    let Some(node) = Node::new(Path::new(SHIM)) else {
        return;
    };
    node.add_uplink("uplink");
    let agent = agent();
    let main = json!({"type": "macvlan", "master": "uplink", "mode": "bridge"});
    lives_and_dies(&node, &agent, network("1.0.0", &agent, &main));
}

#[test]
fn a_ptp_pod_gets_what_the_agent_gave_and_gives_it_back() {
    let Some(node) = Node::new(Path::new(SHIM)) else {
        return;
    };
    let agent = agent();
    lives_and_dies(&node, &agent, network("0.3.1", &agent, &json!({"type": "ptp"})));
}

#[test]
fn a_refused_pod_is_left_without_an_interface_and_its_del_succeeds() {
    let Some(node) = Node::new(Path::new(SHIM)) else {
        return;
    };
    let refusing = FakeAgent::start(Mood::Refuses(tonic::Status::resource_exhausted(
        "no free address",
    )));
    let main = json!({"type": "bridge", "bridge": "orb0"});
    let pod = Pod::new("c1", CNI_ARGS);
    let error = node
        .cni(&pod, "ADD", &network("1.0.0", &refusing, &main))
        .unwrap_err();
    assert!(error.contains("no free address"), "{error}");
    let serving = agent();
    node.cni(&pod, "DEL", &network("1.0.0", &serving, &main)).unwrap();
    assert_eq!(pod.links(), [""; 0]);
    assert!(
        matches!(serving.calls()[..], [Call::Del(_)]),
        "{:?}",
        serving.calls()
    );
}
