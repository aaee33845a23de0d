//! Laws of pool selection: sources, class, filters, order. Ids are those of the reference §9.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

#[path = "selection/equivalence.rs"]
mod equivalence;
#[path = "selection/nics.rs"]
mod nics;
#[path = "selection/oracle.rs"]
mod oracle;
#[path = "selection/patterns.rs"]
mod patterns;
#[path = "selection/scene.rs"]
mod scene;

use orbweaver_actors::supervisor::selection::Class;
use scene::{Scene, labels, marked, names, pool};
use serde_json::json;

const POD: &str = "ipam.spidernet.io/ippool";

/// A00004, A00006.
#[test]
fn the_pod_beats_the_namespace_beats_the_configuration_beats_the_default() {
    let pools = ["pod", "ns", "conf"].map(|name| pool(name, json!({})));
    let pools = [pools.to_vec(), vec![pool("default", json!({ "default": true }))]].concat();
    let mut scene = Scene::new(&pools);
    assert_eq!(scene.order(), ["default"]);
    scene = scene.configured(&["conf"], &[]);
    assert_eq!(scene.order(), ["conf"]);
    for key in [
        "ipam.spidernet.io/defaultv4ippool",
        "ipam.spidernet.io/default-ipv4-ippool",
    ] {
        scene.namespace.annotations = labels(&[(key, r#"["ns"]"#)]);
        assert_eq!(scene.order(), ["ns"], "{key}");
    }
    scene = scene.annotated(POD, r#"{"ipv4":["pod"]}"#);
    assert_eq!(scene.order(), ["pod"]);
}

/// A00003.
#[test]
fn a_wrong_annotation_is_named_with_the_form_that_is_right() {
    for value in ["", "{", r#"{"ipv4":"p"}"#, "{}", r#"{"ipv4":[""]}"#] {
        let scene = Scene::new(&[]).annotated(POD, value);
        let refusal = scene.refusal();
        assert!(
            refusal.contains(POD) && refusal.contains(r#"{"ipv4":["pool"]"#),
            "{value}: {refusal}"
        );
    }
}

#[test]
fn what_is_configured_wrongly_is_told_by_name() {
    let six = json!({ "subnet": "fd00::/64" });
    let scene = |ipv4: &[&str]| {
        Scene::new(&[pool("four", json!({})), pool("six", six.clone())]).configured(ipv4, &[])
    };
    assert!(scene(&["none"]).refusal().contains("\"none\" does not exist"));
    assert!(scene(&["four", "four"]).refusal().contains("named twice"));
    assert!(scene(&["six"]).refusal().contains("is IPv6 but is named as IPv4"));
    assert!(
        Scene::new(&[])
            .refusal()
            .contains("no pool selection rules of any type are specified")
    );
}

/// D00005, D00011-D00016, L00001-L00006: each filter drops its pool, with a reason that names the field.
#[test]
fn every_filter_drops_its_pool_and_says_why() {
    let selector = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
    let cases = [
        (json!({ "disable": true }), "spec.disable"),
        (json!({ "nodeName": ["n2"] }), "spec.nodeName"),
        (
            json!({ "nodeAffinity": selector("zone", "b") }),
            "spec.nodeAffinity",
        ),
        (json!({ "namespaceName": ["bank"] }), "spec.namespaceName"),
        (
            json!({ "namespaceAffinity": selector("team", "b") }),
            "spec.namespaceAffinity",
        ),
        (json!({ "podAffinity": selector("app", "b") }), "spec.podAffinity"),
        (json!({ "multusName": ["other"] }), "spec.multusName"),
    ];
    for (spec, field) in cases {
        let scene = Scene::new(&[pool("p", spec), pool("q", json!({}))]).configured(&["p", "q"], &[]);
        assert_eq!(scene.order(), ["q"], "{field}");
        let dropped = &scene.select().unwrap().families[0].dropped;
        assert!(
            dropped[0].pool == "p" && dropped[0].reason.contains(field),
            "{dropped:?}"
        );
    }
    let mut terminating = pool("p", json!({}));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let refusal = Scene::new(&[terminating]).configured(&["p"], &[]).refusal();
    assert!(
        refusal.contains("filtered out") && refusal.contains("p: it is terminating"),
        "{refusal}"
    );
}

#[test]
fn every_filter_lets_its_match_through() {
    let selector = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
    let specs = [
        json!({ "nodeName": ["n0", "n1"] }),
        json!({ "nodeAffinity": selector("zone", "a") }),
        json!({ "namespaceName": ["shop"] }),
        json!({ "namespaceAffinity": selector("team", "a") }),
        json!({ "podAffinity": selector("app", "a") }),
        json!({ "multusName": ["kube-system/main"] }),
        json!({ "multusName": ["main"] }),
    ];
    for spec in specs {
        let mut scene = Scene::new(&[pool("p", spec.clone())]).configured(&["p"], &[]);
        scene.node.labels = labels(&[("zone", "a")]);
        scene.namespace.labels = labels(&[("team", "a")]);
        scene.pod.metadata.labels = Some(labels(&[("app", "a")]));
        scene.network = Some("kube-system/main");
        assert_eq!(scene.order(), ["p"], "{spec}");
    }
}

/// D00013, D00016.
#[test]
fn names_beat_selectors() {
    let wrong = json!({ "matchLabels": { "zone": "b" } });
    let spec = json!({
        "nodeName": ["n1"], "nodeAffinity": wrong, "namespaceName": ["shop"], "namespaceAffinity": wrong,
    });
    assert_eq!(
        Scene::new(&[pool("p", spec)]).configured(&["p"], &[]).order(),
        ["p"]
    );
}

#[test]
fn selectors_know_their_four_operators() {
    let expression = |operator: &str, values: &[&str]| json!({ "podAffinity": { "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] } });
    let cases = [
        ("In", &["a", "b"][..], true, false),
        ("NotIn", &["a"], false, true),
        ("Exists", &[], true, false),
        ("DoesNotExist", &[], false, true),
    ];
    for (operator, values, with, without) in cases {
        for (labelled, matches) in [(true, with), (false, without)] {
            let mut scene = Scene::new(&[pool("p", expression(operator, values))]).configured(&["p"], &[]);
            scene.pod.metadata.labels = labelled.then(|| labels(&[("app", "a")]));
            assert_eq!(
                scene.select().is_ok(),
                matches,
                "{operator}, labelled: {labelled}"
            );
        }
    }
    let unknown = Scene::new(&[pool("p", expression("Like", &["a"]))]).configured(&["p"], &[]);
    assert!(unknown.refusal().contains("\"Like\""));
}

#[test]
fn a_lower_class_is_ignored_on_every_node_even_when_the_higher_is_filtered_out() {
    let global = marked("global", json!({}));
    let elsewhere = marked("node", json!({ "nodeName": ["n2"] }));
    let plain = pool("plain", json!({}));
    let mixed = Scene::new(&[plain.clone(), global.clone(), elsewhere.clone()])
        .configured(&["plain", "global", "node"], &[]);
    let selection = mixed.select().unwrap();
    assert_eq!(
        (mixed.order(), selection.class),
        (names(&["global"]), Class::Marked)
    );
    assert!(
        selection.ignored[0].pool == "plain" && selection.ignored[0].reason.contains("provider pool"),
        "{:?}",
        selection.ignored
    );
    let only_elsewhere = Scene::new(&[plain, elsewhere]).configured(&["plain", "node"], &[]);
    assert!(
        only_elsewhere.refusal().contains("node: spec.nodeName"),
        "{}",
        only_elsewhere.refusal()
    );
}

#[test]
fn node_level_pools_come_before_global_ones_and_equals_keep_the_users_order() {
    let here = json!({ "nodeName": ["n1"] });
    let scene = Scene::new(&[
        marked("g2", json!({})),
        marked("g1", json!({})),
        marked("n2", here.clone()),
        marked("n1", here),
    ])
    .configured(&["g2", "g1", "n2", "n1"], &[]);
    assert_eq!(scene.order(), ["n2", "n1", "g2", "g1"]);
}

/// Reference §2.4.
#[test]
fn the_more_a_pool_says_of_its_users_the_earlier_it_is_tried() {
    let any = json!({ "matchExpressions": [{ "key": "x", "operator": "DoesNotExist" }] });
    let scene = Scene::new(&[
        pool("nothing", json!({})),
        pool("namespace-affinity", json!({ "namespaceAffinity": any })),
        pool("namespace", json!({ "namespaceName": ["shop"] })),
        pool("node-affinity", json!({ "nodeAffinity": any })),
        pool("node", json!({ "nodeName": ["n1"] })),
        pool("pod", json!({ "podAffinity": any })),
    ])
    .configured(
        &[
            "nothing",
            "namespace-affinity",
            "namespace",
            "node-affinity",
            "node",
            "pod",
        ],
        &[],
    );
    assert_eq!(
        scene.order(),
        [
            "pod",
            "node",
            "node-affinity",
            "namespace",
            "namespace-affinity",
            "nothing"
        ]
    );
}

/// E00009.
#[test]
fn only_the_families_that_are_configured_and_switched_on_are_given() {
    let pools = [
        pool("four", json!({})),
        pool("six", json!({ "subnet": "fd00::/64" })),
    ];
    let both = Scene::new(&pools).configured(&["four"], &["six"]);
    assert_eq!(both.order(), ["four", "six"]);
    assert_eq!(Scene::new(&pools).configured(&[], &["six"]).order(), ["six"]);
    for (enabled, expected) in [((true, false), "four"), ((false, true), "six")] {
        let mut scene = Scene::new(&pools).configured(&["four"], &["six"]);
        scene.enabled = enabled;
        assert_eq!(scene.order(), [expected]);
    }
    let mut off = Scene::new(&pools).configured(&["four"], &[]);
    off.enabled = (false, true);
    assert!(off.refusal().contains("switched off"));
}
