//! Laws of the annotations that choose pools by NIC.

use serde_json::json;

use crate::scene::{Scene, names, order_of, pool};

const POD: &str = "ipam.spidernet.io/ippool";
const PODS: &str = "ipam.spidernet.io/ippools";

fn scene(nics: &str) -> Scene {
    let pools = ["a", "b", "c"].map(|name| pool(name, json!({})));
    Scene::new(&pools).configured(&["c"], &[]).annotated(PODS, nics)
}

/// A00005.
#[test]
fn pools_by_nic_beat_pools_of_the_pod() {
    let both = scene(r#"[{"interface":"eth0","ipv4":["a"]}]"#).annotated(POD, r#"{"ipv4":["b"]}"#);
    assert_eq!(both.order(), ["a"]);
}

/// A00010: every NIC is given what is written for it, and the default route as its item says.
#[test]
fn each_nic_has_its_own_pools_and_its_own_word_on_the_gateway() {
    let mut scene = scene(
        r#"[{"interface":"eth0","ipv4":["a"],"cleangateway":true},{"interface":"net1","ipv4":["b"],"ipv6":null}]"#,
    );
    assert_eq!(
        (scene.order(), scene.select().unwrap().clean_gateway),
        (names(&["a"]), Some(true))
    );
    scene.nic = "net1";
    assert_eq!(
        (scene.order(), scene.select().unwrap().clean_gateway),
        (names(&["b"]), None)
    );
    assert_eq!(
        scene.select_all().unwrap().len(),
        1,
        "named items are for later ADDs"
    );
}

/// A00013, A00014, A00003.
#[test]
fn nics_that_are_missing_doubled_or_half_named_are_refused_with_the_form_that_is_right() {
    let cases = [
        (r#"[{"interface":"net1","ipv4":["a"]}]"#, "\"eth0\""),
        (
            r#"[{"interface":"eth0","ipv4":["a"]},{"interface":"eth0","ipv4":["b"]}]"#,
            "named twice",
        ),
        (
            r#"[{"interface":"eth0","ipv4":["a"]},{"ipv4":["b"]}]"#,
            "1 of 2 items",
        ),
        (r#"[{"interface":"eth0"}]"#, "no pool is named"),
        (r#"[{"interface":"eth0","ipv4":[" "]}]"#, "empty"),
        (r#"[{"interface":"eth0","ipv4":"a"}]"#, "expected a sequence"),
        ("[]", "no item"),
        ("{}", "expected a sequence"),
        ("", "EOF"),
    ];
    for (nics, part) in cases {
        let refusal = scene(nics).refusal();
        assert!(
            refusal.contains(PODS) && refusal.contains(part) && refusal.contains("write "),
            "{nics}: {refusal}"
        );
    }
}

/// Reference §2.2: items without NICs are slots, and slot 0 is the NIC in question.
#[test]
fn items_without_nics_are_slots_in_their_order_each_with_its_own_network() {
    let mut scene = scene(r#"[{"ipv4":["a"]},{"ipv4":["b"],"cleangateway":false},{"ipv4":["c"]}]"#);
    let slots = scene.select_all().unwrap();
    let orders: Vec<_> = slots.iter().map(order_of).collect();
    assert_eq!(orders, [names(&["a"]), names(&["b"]), names(&["c"])]);
    assert_eq!(slots[1].clean_gateway, Some(false));

    scene.pools = ["a", "b", "c"]
        .map(|name| {
            std::sync::Arc::new(
                serde_json::from_value(pool(name, json!({ "multusName": [format!("ns/{name}")] }))).unwrap(),
            )
        })
        .to_vec();
    scene.network = Some("ns/a");
    scene.further_networks = names(&["ns/b"]);
    let refusal = scene.select_all().unwrap_err().to_string();
    assert!(
        refusal.contains("of 2 filtered out: [c: spec.multusName"),
        "{refusal}"
    );
    scene.further_networks = names(&["ns/b", "ns/c"]);
    assert_eq!(scene.select_all().unwrap().len(), 3);
}

#[test]
fn a_pod_that_asks_for_a_subnet_is_told_that_the_feature_is_off_whatever_else_it_asks_for() {
    for key in ["subnet", "subnets"] {
        let key = format!("ipam.spidernet.io/{key}");
        let refusal = scene(r#"[{"interface":"eth0","ipv4":["a"]}]"#)
            .annotated(&key, "{}")
            .refusal();
        assert!(
            refusal.contains(&key) && refusal.contains("feature is off"),
            "{refusal}"
        );
    }
}
