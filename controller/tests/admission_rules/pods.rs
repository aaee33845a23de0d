//! What pods get (reference §5.2.6, §7, H00001).

use std::collections::BTreeMap;

use orbweaver_api::annotation::{MULTUS_DEFAULT_NETWORK, MULTUS_NETWORKS};
use orbweaver_controller::admission::finding::Finding;
use orbweaver_controller::admission::pod_mutation::{
    self, NETWORK_INJECT, NetworkConfig, RDMA_INJECT, Surroundings,
};
use serde_json::{Value, json};

fn config(name: &str, marks: &[(&str, &str)], spec: &Value) -> NetworkConfig {
    let marks = marks
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    NetworkConfig {
        namespace: "nets".to_owned(),
        network: name.to_owned(),
        marks: vec![marks.collect()],
        spec: serde_json::from_value(spec.clone()).unwrap(),
    }
}

fn vlan(name: &str, mode: &str, masters: &[&str]) -> NetworkConfig {
    let spec = json!({ "cniType": "vlan", "vlan": { "master": masters, "vlanMode": mode } });
    config(name, &[], &spec)
}

fn sriov(name: &str, key: &str, value: &str, resource: &str) -> NetworkConfig {
    let sriov = json!({ "resourceName": resource, "ippools": { "ipv4": ["p"] } });
    config(
        name,
        &[(key, value)],
        &json!({ "cniType": "sriov", "sriov": sriov }),
    )
}

fn pod(annotations: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": { "annotations": annotations }, "spec": { "containers": [{ "name": "a" }, { "name": "b" }] },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn patch(
    pod: &Value,
    of_namespace: &Value,
    configs: &[NetworkConfig],
) -> Result<BTreeMap<String, Value>, Finding> {
    let annotations = serde_json::from_value(of_namespace.clone()).unwrap();
    let around = Surroundings {
        namespace: "ns",
        annotations: &annotations,
        configs,
    };
    let operations = pod_mutation::patch(pod, around)?;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Ok(operations
        .iter()
        .map(|one| (text(&one["path"]), one["value"].clone()))
        .collect())
}

fn resources(pod: &Value, configs: &[NetworkConfig]) -> Option<Value> {
    let mut all = patch(pod, &json!({}), configs).unwrap();
    let resources = all.remove("/spec/containers/0/resources");
    assert!(all.is_empty(), "{all:?}");
    resources
}

fn networks(text: &str) -> Value {
    json!({ MULTUS_NETWORKS: text })
}

#[test]
fn every_master_counts_once_and_every_provider_network_takes_a_sub_eni() {
    let configs = [
        vlan("a", "auto", &["eth1"]),
        vlan("b", "auto", &["eth1"]),
        vlan("c", "manual", &["eth2", "eth3"]),
        config(
            "d",
            &[],
            &json!({ "cniType": "ipoib", "ipoib": { "master": "ib0" } }),
        ),
        config("e", &[], &json!({ "cniType": "ovs", "ovs": { "bridge": "br" } })),
    ];
    let annotations = json!({
        MULTUS_DEFAULT_NETWORK: "nets/a", MULTUS_NETWORKS: "nets/b,nets/b@net9,nets/c,nets/d,nets/e,other/f",
    });
    let all = json!({
        "spidernet.io/eth1-nic": "1", "spidernet.io/eth2-nic": "1", "spidernet.io/eth3-nic": "1",
        "spidernet.io/ib0-nic": "1", "spidernet.io/sub-eni": "2",
    });
    let expected = json!({ "limits": all, "requests": all });
    assert_eq!(
        resources(&pod(&annotations, &json!({})), &configs),
        Some(expected)
    );
}

#[test]
fn a_pod_without_networks_of_ours_is_left_as_it_is() {
    let configs = [vlan("a", "auto", &["eth1"])];
    for annotations in [json!({}), networks("nets/other"), networks("a")] {
        assert_eq!(
            resources(&pod(&annotations, &json!({})), &configs),
            None,
            "{annotations}"
        );
    }
    let on_host = json!({ "hostNetwork": true });
    assert_eq!(resources(&pod(&networks("nets/a"), &on_host), &configs), None);
    let mirror = json!({ MULTUS_NETWORKS: "nets/a", "kubernetes.io/config.mirror": "x" });
    assert_eq!(resources(&pod(&mirror, &json!({})), &configs), None);
    assert_eq!(
        resources(&pod(&networks("nets/a"), &json!({ "containers": [] })), &configs),
        None
    );
}

#[test]
fn what_a_container_says_itself_is_not_said_again() {
    let configs = [vlan("a", "auto", &["eth1"])];
    let own = |list: &str, kind: &str| {
        let container = json!({ "name": "own", "resources": { kind: { "spidernet.io/sub-eni": "3" } } });
        let mut spec =
            json!({ "containers": [{ "name": "first", "resources": { "limits": { "cpu": "1" } } }] });
        match list {
            "containers" => spec[list].as_array_mut().unwrap().push(container),
            _ => spec[list] = json!([container]),
        }
        pod(&networks("nets/a"), &spec)
    };
    for (list, kind) in [
        ("containers", "limits"),
        ("containers", "requests"),
        ("initContainers", "limits"),
    ] {
        let nic = json!({ "spidernet.io/eth1-nic": "1" });
        let expected = json!({ "limits": { "cpu": "1", "spidernet.io/eth1-nic": "1" }, "requests": nic });
        assert_eq!(
            resources(&own(list, kind), &configs),
            Some(expected),
            "{list} {kind}"
        );
    }
}

/// H00001.
#[test]
fn an_annotation_chooses_the_networks_that_are_marked_alike() {
    let configs = [
        sriov("b", NETWORK_INJECT, "gpu", "vendor/one"),
        sriov("a", NETWORK_INJECT, "gpu", "vendor/two"),
        sriov("c", NETWORK_INJECT, "cpu", "vendor/three"),
    ];
    let chosen = json!({ NETWORK_INJECT: "gpu", MULTUS_NETWORKS: "nets/old" });
    let all = patch(&pod(&chosen, &json!({})), &json!({}), &configs).unwrap();
    let expected = json!({ NETWORK_INJECT: "gpu", MULTUS_NETWORKS: "nets/a,nets/b" });
    assert_eq!(all["/metadata/annotations"], expected);
    let limits = json!({ "limits": { "vendor/one": "1", "vendor/two": "1" } });
    assert_eq!(all["/spec/containers/0/resources"], limits);
}

/// H00001.
#[test]
fn a_namespace_chooses_for_its_pods_and_rdma_goes_first() {
    let configs = [
        sriov("a", NETWORK_INJECT, "x", "vendor/a"),
        sriov("b", RDMA_INJECT, "x", "vendor/b"),
        sriov("c", RDMA_INJECT, "y", "vendor/c"),
    ];
    let networks = |own: Value, namespace: Value| {
        let all = patch(&pod(&own, &json!({})), &namespace, &configs).unwrap();
        all["/metadata/annotations"][MULTUS_NETWORKS].clone()
    };
    assert_eq!(networks(Value::Null, json!({ NETWORK_INJECT: "x" })), "nets/a");
    assert_eq!(
        networks(json!({ RDMA_INJECT: "y" }), json!({ RDMA_INJECT: "x" })),
        "nets/c"
    );
    assert_eq!(
        networks(json!({ NETWORK_INJECT: "x" }), json!({ RDMA_INJECT: "x" })),
        "nets/b"
    );
}

#[test]
fn a_choice_that_cannot_be_fulfilled_keeps_the_pod_from_being_made() {
    let no_pools = config(
        "a",
        &[(NETWORK_INJECT, "pools")],
        &json!({ "cniType": "sriov", "sriov": { "resourceName": "v/a" } }),
    );
    let no_name = config(
        "b",
        &[(NETWORK_INJECT, "name")],
        &json!({ "cniType": "macvlan", "macvlan": { "master": ["eth0"], "ippools": { "ipv6": ["p"] } } }),
    );
    let configs = [no_pools, no_name];
    for (value, text) in [
        (
            "nobody",
            "no spidermultusconfigs with annotation: cni.spidernet.io/network-resource-inject:nobody found",
        ),
        ("pools", "nets/a has no ippools"),
        ("name", "nets/b has no resource name"),
    ] {
        let finding = patch(
            &pod(&json!({ NETWORK_INJECT: value }), &json!({})),
            &json!({}),
            &configs,
        )
        .unwrap_err();
        assert!(finding.detail.contains(text), "{finding}");
        assert_eq!(finding.field, format!("metadata.annotations[{NETWORK_INJECT}]"));
    }
    let finding = patch(&pod(&networks("[{"), &json!({})), &json!({}), &configs).unwrap_err();
    assert_eq!(finding.field, format!("metadata.annotations[{MULTUS_NETWORKS}]"));
}
