//! The OpenAPI messages, name by name (reference §3.4).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use orbweaver_api::openapi::{
    Dns, InterfaceDetail, IpConfig, IpamAddArgs, IpamAddResponse, IpamBatchDelArgs, IpamDelArgs, Route,
    WorkloadEndpointStatus,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// All fields filled: what is read from `full` is written back alike.
fn round_trip<T: Serialize + DeserializeOwned>(full: &Value) {
    let message: T = serde_json::from_value(full.clone()).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), *full);
}

/// Exactly `required` are required.
fn requires<T: DeserializeOwned>(full: &Value, required: &[&str]) {
    for field in full.as_object().unwrap().keys() {
        let mut without = full.clone();
        without.as_object_mut().unwrap().remove(field);
        let read = serde_json::from_value::<T>(without).is_ok();
        assert_eq!(read, !required.contains(&field.as_str()), "without {field}");
    }
}

fn route() -> Value {
    json!({ "ifName": "eth0", "dst": "10.0.0.0/8", "gw": "10.6.0.1" })
}

#[test]
fn the_arguments_of_add_have_their_names() {
    let full = json!({
        "containerID": "c", "ifName": "eth0", "netNamespace": "/run/netns/x",
        "podNamespace": "ns", "podName": "p", "podUID": "u",
        "defaultIPv4IPPool": ["a"], "defaultIPv6IPPool": ["b"],
        "cleanGateway": true, "matchMasterSubnet": true,
    });
    round_trip::<IpamAddArgs>(&full);
    let required = [
        "containerID",
        "ifName",
        "netNamespace",
        "podNamespace",
        "podName",
        "podUID",
    ];
    requires::<IpamAddArgs>(&full, &required);
}

#[test]
fn the_arguments_of_del_have_their_names() {
    let full = json!({
        "containerID": "c", "ifName": "eth0", "netNamespace": "/run/netns/x",
        "podNamespace": "ns", "podName": "p", "podUID": "u",
    });
    round_trip::<IpamDelArgs>(&full);
    requires::<IpamDelArgs>(
        &full,
        &["containerID", "ifName", "podNamespace", "podName", "podUID"],
    );
    let full = json!({
        "containerID": "c", "netNamespace": "/run/netns/x",
        "podNamespace": "ns", "podName": "p", "podUID": "u", "isReleaseConflictIPs": true,
    });
    round_trip::<IpamBatchDelArgs>(&full);
    requires::<IpamBatchDelArgs>(&full, &["containerID", "podNamespace", "podName", "podUID"]);
}

#[test]
fn the_answer_to_add_has_its_names() {
    let full = json!({
        "version": 4, "address": "10.6.0.3/16", "nic": "eth0", "ipPool": "p", "gateway": "10.6.0.1",
        "vlan": 100, "mac": "fa:16:3e:00:00:12",
        "enableGatewayDetection": false, "enableIPConflictDetection": false,
    });
    round_trip::<IpConfig>(&full);
    requires::<IpConfig>(&full, &["version", "address", "nic"]);
    round_trip::<Route>(&route());
    requires::<Route>(&route(), &["ifName", "dst", "gw"]);
    let dns = json!({ "domain": "d", "nameservers": ["n"], "options": ["o"], "search": ["s"] });
    round_trip::<Dns>(&dns);
    requires::<Dns>(&dns, &[]);
    let answer = json!({ "ips": [full], "routes": [route()], "dns": dns });
    round_trip::<IpamAddResponse>(&answer);
    requires::<IpamAddResponse>(&answer, &["ips"]);
}

#[test]
fn an_endpoint_has_its_names() {
    let nic = json!({
        "interface": "eth0", "ipv4": "10.6.0.3/16", "ipv6": "fd00::3/64", "mac": "fa:16:3e:00:00:12", "vlan": 7,
        "ipv4Pool": "a", "ipv6Pool": "b", "ipv4Gateway": "10.6.0.1", "ipv6Gateway": "fd00::1", "routes": [route()],
    });
    round_trip::<InterfaceDetail>(&nic);
    requires::<InterfaceDetail>(&nic, &["interface"]);
    let endpoint =
        json!({ "podNamespace": "ns", "podName": "p", "podUID": "u", "node": "n", "interfaces": [nic] });
    round_trip::<WorkloadEndpointStatus>(&endpoint);
    let required = ["podNamespace", "podName", "podUID", "node", "interfaces"];
    requires::<WorkloadEndpointStatus>(&endpoint, &required);
}

#[test]
fn what_is_not_there_is_left_out() {
    let bare = InterfaceDetail {
        interface: "eth0".to_owned(),
        ..InterfaceDetail::default()
    };
    assert_eq!(
        serde_json::to_value(bare).unwrap(),
        json!({ "interface": "eth0" })
    );
    assert_eq!(
        serde_json::to_value(IpamAddResponse::default()).unwrap(),
        json!({ "ips": [] })
    );
    assert_eq!(serde_json::to_value(Dns::default()).unwrap(), json!({}));
}

#[test]
fn an_empty_list_of_a_go_client_is_null() {
    let arguments = json!({
        "containerID": "c", "ifName": "eth0", "netNamespace": "/run/netns/x",
        "podNamespace": "ns", "podName": "p", "podUID": "u",
        "defaultIPv4IPPool": null, "defaultIPv6IPPool": null,
    });
    let read: IpamAddArgs = serde_json::from_value(arguments).unwrap();
    assert_eq!(
        (read.default_ipv4_pools, read.default_ipv6_pools),
        (vec![], vec![])
    );
    let answer: IpamAddResponse =
        serde_json::from_value(json!({ "ips": [], "routes": null, "dns": null })).unwrap();
    assert_eq!(answer, IpamAddResponse::default());
    let dns: Dns =
        serde_json::from_value(json!({ "nameservers": null, "options": null, "search": null })).unwrap();
    assert_eq!(dns, Dns::default());
}
