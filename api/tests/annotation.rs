//! The parsers of pool lists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use orbweaver_api::annotation::{
    NAMESPACE_IPV4_POOLS, POD_POOL, PoolLists, parse_nic_pools, parse_pool_names, parse_routes,
};
use proptest::prelude::*;

#[test]
fn a_pods_lists_keep_their_order() {
    let lists = PoolLists::parse(POD_POOL, r#"{"ipv4":["b","a","b-*"],"ipv6":["c"]}"#).unwrap();
    assert_eq!(lists.ipv4, ["b", "a", "b-*"]);
    assert_eq!(lists.ipv6, ["c"]);
    assert_eq!(
        PoolLists::parse(POD_POOL, r#"{"ipv6":["c"]}"#).unwrap().ipv4,
        [""; 0]
    );
    let null = PoolLists::parse(POD_POOL, r#"{"ipv4":["a"],"ipv6":null}"#).unwrap();
    assert_eq!(null.ipv6, [""; 0], "Go reads it so");
    assert_eq!(
        parse_pool_names(NAMESPACE_IPV4_POOLS, r#"["b","a"]"#).unwrap(),
        ["b", "a"]
    );
}

#[test]
fn a_refusal_names_annotation_value_and_form() {
    for text in [
        "",
        "p",
        "{}",
        "[]",
        "null",
        r#"{"ipv4":[]}"#,
        r#"{"ipv4":[""]}"#,
        r#"{"ipv4":[" "],"ipv6":["a"]}"#,
        r#"{"ipv4":"a"}"#,
        r#"{"ipv4":[1]}"#,
    ] {
        let error = PoolLists::parse(POD_POOL, text).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(POD_POOL) && said.contains(&format!("{text:?}")),
            "{said}"
        );
        assert!(said.contains(r#"{"ipv4":["pool"]"#), "{said}");
    }
    for text in ["", "p", "[]", "{}", "null", r#"[""]"#, "[1]"] {
        let said = parse_pool_names(NAMESPACE_IPV4_POOLS, text)
            .unwrap_err()
            .to_string();
        assert!(
            said.contains(NAMESPACE_IPV4_POOLS) && said.contains(r#"["pool"]"#),
            "{said}"
        );
    }
}

/// An array in an object's place would be read by position.
#[test]
fn an_array_is_no_object_and_a_key_that_comes_twice_is_no_list() {
    for text in [r#"[["a"]]"#, r#"[["a"],["b"]]"#] {
        PoolLists::parse(POD_POOL, text).unwrap_err();
    }
    for text in [r#"{"ipv4":["a"],"ipv4":["b"]}"#, r#"{"ipv4":["a"],"IPv4":["b"]}"#] {
        let said = PoolLists::parse(POD_POOL, text).unwrap_err().to_string();
        assert!(said.contains("duplicate field"), "{said}");
    }
    parse_nic_pools(r#"[["eth0",["a"]]]"#).unwrap_err();
    parse_routes(r#"[["10.0.0.0/8","10.0.0.1"]]"#).unwrap_err();
}

/// A family must not get lost over the case of its key.
#[test]
fn keys_are_read_in_any_case_as_go_reads_them() {
    let lists = PoolLists::parse(POD_POOL, r#"{"IPv4":["a"],"ipv6":["b"]}"#).unwrap();
    assert_eq!(
        (lists.ipv4, lists.ipv6),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    let nics =
        parse_nic_pools(r#"[{"Interface":"eth0","IPV4":["a"],"cleanGateway":true,"other":1}]"#).unwrap();
    assert_eq!(
        (nics[0].interface.as_str(), nics[0].clean_gateway),
        ("eth0", Some(true))
    );
    assert_eq!(nics[0].pools.ipv4, ["a"]);
}

#[test]
fn a_route_is_given_out_as_the_kernel_takes_it() {
    let routes = parse_routes(r#"[{"dst":"10.1.2.3/16","gw":"10.0.0.1"}]"#).unwrap();
    assert_eq!(routes[0].dst.to_string(), "10.1.0.0/16");
}

#[test]
fn a_refusal_quotes_little_of_a_long_word() {
    let text = format!(r#"{{"ipv4":"{}"}}"#, "x".repeat(100_000));
    let said = PoolLists::parse(POD_POOL, &text).unwrap_err().to_string();
    assert!(said.len() < 1000, "{} bytes", said.len());
}

#[test]
fn a_refusal_shows_a_readable_piece_of_a_long_value() {
    let error = parse_pool_names(NAMESPACE_IPV4_POOLS, &"\u{1f577}".repeat(10_000)).unwrap_err();
    assert_eq!(error.value.chars().count(), 200);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = PoolLists::parse(POD_POOL, &text);
        let _ = parse_pool_names(NAMESPACE_IPV4_POOLS, &text);
    }
}
