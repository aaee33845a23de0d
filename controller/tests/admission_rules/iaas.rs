//! Pools of a network provider, and pairs (reference §6.6).

use serde_json::{Value, json};

use crate::{MARK, NIC, PAIR, claimed, create, marked, object, only, pool, update};

#[test]
fn a_marked_pool_stays_pinned_or_not() {
    let global = marked(&json!({ MARK: "c", NIC: "eth1" }), &json!({}));
    let pinned = marked(&json!({ MARK: "c", NIC: "eth1" }), &json!({ "nodeName": ["n"] }));
    let text = "cannot add or remove 'spec.nodeName' on an IaaS pool";
    only(&update(&global, &pinned), "spec.nodeName", text);
    only(&update(&pinned, &global), "spec.nodeName", text);
    let unmarked = marked(&json!({ NIC: "eth1" }), &json!({ "nodeName": ["n"] }));
    only(&update(&global, &unmarked), "spec.nodeName", text);
}

#[test]
fn a_node_level_pool_has_one_node_and_one_parent_nic() {
    let nodes =
        |annotations: Value, nodes: Value| create(&marked(&annotations, &json!({ "nodeName": nodes })), &[]);
    assert_eq!(nodes(json!({ MARK: "c", NIC: "eth1" }), json!(["n"])), []);
    let text = "must be pinned to exactly one node";
    only(
        &nodes(json!({ MARK: "c", NIC: "eth1" }), json!(["n", "m"])),
        "spec.nodeName",
        text,
    );
    let nic = format!("metadata.annotations[{NIC}]");
    only(&nodes(json!({ MARK: "c" }), json!(["n"])), &nic, "which NIC");
    for wrong in ["", "eth1,eth2", "eth1 eth2"] {
        only(
            &nodes(json!({ MARK: "c", NIC: wrong }), json!(["n"])),
            &nic,
            "one NIC",
        );
    }
}

#[test]
fn the_mark_and_the_nic_of_a_pool_in_use_stay() {
    let old = claimed(marked(&json!({ MARK: "c", NIC: "eth1" }), &json!({})));
    for (key, after) in [
        (MARK, json!({ NIC: "eth1" })),
        (MARK, json!({ MARK: "d", NIC: "eth1" })),
        (NIC, json!({ MARK: "c" })),
        (NIC, json!({ MARK: "c", NIC: "eth2" })),
    ] {
        let text = format!("cannot modify annotation {key} while the IPPool has allocated IPs");
        only(
            &update(&old, &marked(&after, &json!({}))),
            &format!("metadata.annotations[{key}]"),
            &text,
        );
    }
    let bare = claimed(pool(&json!({})));
    assert_eq!(
        update(&bare, &marked(&json!({ MARK: "c", NIC: "eth1" }), &json!({}))),
        []
    );
}

#[test]
fn a_pair_fits_together() {
    let field = format!("metadata.annotations[{PAIR}]");
    let v4 = |partner: &str, fields: Value| marked(&json!({ PAIR: partner }), &fields);
    let six = |ips: Value| {
        vec![object(
            "six",
            &json!({}),
            &json!({ "ipVersion": 6, "subnet": "fd00::/64", "ips": ips }),
        )]
    };
    let wide = six(json!(["fd00::-fd00::ffff:ffff:ffff:ffff"]));
    assert_eq!(create(&v4("six", json!({})), &wide), []);
    assert_eq!(create(&v4("not-there", json!({})), &wide), []);
    only(
        &create(&v4("p", json!({})), &wide),
        &field,
        "cannot reference itself as a pair pool",
    );
    let text = "v4 pool p static capacity (11) must be <= v6 pool six static capacity (10)";
    only(
        &create(&v4("six", json!({})), &six(json!(["fd00::1-fd00::a"]))),
        &field,
        text,
    );
    only(
        &create(&v4("six", json!({ "nodeName": ["n"] })), &wide),
        "spec.nodeName",
        "pair pool",
    );
    let affinity = json!({ "podAffinity": { "matchLabels": { "a": "b" } } });
    only(
        &create(&v4("six", affinity), &wide),
        "spec.podAffinity",
        "pair pool",
    );
    let four = object(
        "four",
        &json!({}),
        &json!({ "ipVersion": 4, "subnet": "10.7.0.0/24", "ips": [] }),
    );
    only(
        &create(&v4("four", json!({})), &[four]),
        &field,
        "opposite IP version",
    );
}

#[test]
fn a_pair_is_judged_from_both_of_its_ends() {
    let six = json!({ "ipVersion": 6, "subnet": "fd00::/64", "ips": ["fd00::1-fd00::f"] });
    let paired = vec![object("six", &json!({ PAIR: "p" }), &six)];
    let text = "v4 pool p static capacity (17) must be <= v6 pool six static capacity (15)";
    let field = format!("metadata.annotations[{PAIR}]");
    only(
        &create(&pool(&json!({ "ips": ["10.0.0.10-10.0.0.26"] })), &paired),
        &field,
        text,
    );
    let four = vec![marked(
        &json!({ PAIR: "six" }),
        &json!({ "ips": ["10.0.0.10-10.0.0.26"] }),
    )];
    only(&create(&object("six", &json!({}), &six), &four), &field, text);
    assert_eq!(create(&pool(&json!({})), &paired), []);
}
