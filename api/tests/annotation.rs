//! The parsers of pool lists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use orbweaver_api::annotation::{NAMESPACE_IPV4_POOLS, POD_POOL, PoolLists, parse_pool_names};
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
