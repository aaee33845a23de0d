//! Which network a NIC is attached to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use orbweaver_api::annotation::{MULTUS_DEFAULT_NETWORK, MULTUS_NETWORKS};
use orbweaver_api::multus::{network_of, parse_networks};
use proptest::prelude::*;

fn read(text: &str) -> Vec<String> {
    let networks = parse_networks(text, "pod-ns").unwrap();
    let shown = |one: &orbweaver_api::multus::PodNetwork| {
        format!("{}/{}@{}", one.network.namespace, one.network.name, one.nic)
    };
    networks.iter().map(shown).collect()
}

#[test]
fn both_forms_say_the_same() {
    for (text, expected) in [
        ("macvlan", &["pod-ns/macvlan@net1"][..]),
        ("ns/macvlan", &["ns/macvlan@net1"]),
        ("ns/macvlan@eth1", &["ns/macvlan@eth1"]),
        (
            " a , ns/b@eth9 , c ",
            &["pod-ns/a@net1", "ns/b@eth9", "pod-ns/c@net3"],
        ),
        ("", &[]),
        ("a,,b", &["pod-ns/a@net1", "pod-ns/b@net2"]),
        ("[]", &[]),
        (r#"[{"name":"macvlan"}]"#, &["pod-ns/macvlan@net1"]),
        (r#"[{"name":"macvlan","namespace":"ns"}]"#, &["ns/macvlan@net1"]),
        (
            r#" [{"name":"a","namespace":""},{"name":"b","namespace":"ns","interface":"eth9","mac":"02:00:00:00:00:01"},{"name":"c","interface":""}]"#,
            &["pod-ns/a@net1", "ns/b@eth9", "pod-ns/c@net3"],
        ),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_names_no_network_is_refused_with_its_annotation() {
    for text in [
        "ns/",
        "/name",
        "a/b/c",
        "a@",
        "a@b@c",
        "@eth1",
        "[",
        r#"[{"namespace":"ns"}]"#,
        r#"[{"name":""}]"#,
        r#"[{"name":1}]"#,
    ] {
        let error = parse_networks(text, "pod-ns").unwrap_err();
        assert_eq!(error.annotation, MULTUS_NETWORKS, "{text}");
        assert!(error.to_string().contains("write"), "{error}");
    }
}

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn found(nic: &str, pairs: &[(&str, &str)], default: Option<&str>) -> Option<String> {
    let network = network_of(nic, &annotations(pairs), "pod-ns", default).unwrap();
    network.map(|network| format!("{}/{}", network.namespace, network.name))
}

#[test]
fn the_default_network_is_one_and_in_either_form() {
    let default = |text: &str| {
        let pod = annotations(&[(MULTUS_DEFAULT_NETWORK, text)]);
        let found = network_of("eth0", &pod, "pod-ns", None).ok().flatten();
        found.map(|network| format!("{}/{}", network.namespace, network.name))
    };
    for (text, expected) in [
        (r#"[{"name":"a","namespace":"ns"}]"#, Some("ns/a")),
        (r#" [{"Name":"a"}] "#, Some("kube-system/a")),
        ("a", Some("kube-system/a")),
        (" ns/a@eth0 ", Some("ns/a")),
        ("", None),
        ("a,b", None),
        (r#"{"name":"a"}"#, None),
        (r#"[["a","ns"]]"#, None),
        (r#"[{"name":"a"},{"name":"b"}]"#, None),
    ] {
        assert_eq!(default(text).as_deref(), expected, "{text}");
    }
    parse_networks(r#"{"name":"a"}"#, "ns").unwrap_err();
}

#[test]
fn the_first_nic_has_the_default_network_and_others_their_own() {
    let pod = [
        (MULTUS_DEFAULT_NETWORK, "ns/primary"),
        (MULTUS_NETWORKS, "a,ns/b@eth7"),
    ];
    assert_eq!(
        found("eth0", &pod, Some("ns/cluster")).as_deref(),
        Some("ns/primary")
    );
    assert_eq!(found("0", &pod, None).as_deref(), Some("ns/primary"));
    assert_eq!(found("net1", &pod, None).as_deref(), Some("pod-ns/a"));
    assert_eq!(found("eth7", &pod, None).as_deref(), Some("ns/b"));
    assert_eq!(found("net2", &pod, None), None);
    assert_eq!(
        found("eth0", &[], Some("ns/cluster")).as_deref(),
        Some("ns/cluster")
    );
    assert_eq!(
        found("eth0", &[], Some("cluster")).as_deref(),
        Some("kube-system/cluster")
    );
    assert_eq!(found("eth0", &[], None), None);
    assert_eq!(found("net1", &[], Some("ns/cluster")), None);
    let bare = [(MULTUS_DEFAULT_NETWORK, "primary")];
    assert_eq!(found("eth0", &bare, None).as_deref(), Some("kube-system/primary"));
    let wrong = annotations(&[(MULTUS_DEFAULT_NETWORK, "a/b/c")]);
    let error = network_of("eth0", &wrong, "pod-ns", None).unwrap_err();
    assert_eq!(error.annotation, MULTUS_DEFAULT_NETWORK);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), nic in "eth0|net1|0|") {
        let _ = parse_networks(&text, "ns");
        let both = annotations(&[(MULTUS_DEFAULT_NETWORK, &text), (MULTUS_NETWORKS, &text)]);
        let _ = network_of(&nic, &both, "ns", Some(&text));
    }

    #[test]
    fn no_text_of_its_letters_makes_it_panic(text in r#"[\[\]{}":,/@a-z ]{0,30}"#) {
        let _ = parse_networks(&text, "ns");
    }
}
