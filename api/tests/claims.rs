//! `status.allocatedIPs` as Go writes and reads it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use orbweaver_api::claims::{Claim, Claims, decode, encode};
use proptest::prelude::*;

fn claim(pod: &str, uid: &str) -> Claim {
    Claim {
        pod: pod.to_owned(),
        pod_uid: uid.to_owned(),
    }
}

#[test]
fn one_claim_is_written_as_go_writes_it() {
    let mut claims = Claims::new();
    claims.insert("10.6.0.3".parse().unwrap(), claim("ns/web-0", "4c7b"));
    assert_eq!(
        encode(&claims).unwrap(),
        r#"{"10.6.0.3":{"pod":"ns/web-0","podUid":"4c7b"}}"#
    );
}

#[test]
fn no_claims_are_the_absence_of_the_field() {
    assert_eq!(encode(&Claims::new()), None);
    for none in [None, Some(""), Some("  "), Some("{}")] {
        assert_eq!(decode(none).unwrap(), Claims::new(), "{none:?}");
    }
}

#[test]
fn what_older_releases_added_to_a_claim_is_passed_over() {
    let text = r#"{"fd00::1":{"interface":"eth0","pod":"ns/p","podUid":"u","containerID":"c"}}"#;
    let claims = decode(Some(text)).unwrap();
    assert_eq!(claims[&"fd00::1".parse::<IpAddr>().unwrap()], claim("ns/p", "u"));
}

#[test]
fn what_is_no_claim_map_is_refused_with_its_field() {
    for text in [
        "null",
        "[]",
        "{",
        r#""x""#,
        r#"{"10.0.0.1":null}"#,
        r#"{"10.0.0.1":{"pod":"ns/p"}}"#,
        r#"{"10.0.0.1":{"podUid":"u"}}"#,
        r#"{"10.0.0.1/24":{"pod":"ns/p","podUid":"u"}}"#,
        r#"{"":{"pod":"ns/p","podUid":"u"}}"#,
    ] {
        let error = decode(Some(text)).unwrap_err().to_string();
        assert!(
            error.contains("status.allocatedIPs") && error.contains("restore"),
            "{error}"
        );
    }
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        claims in prop::collection::btree_map(
            address(),
            (any::<String>(), any::<String>()).prop_map(|(pod, uid)| claim(&pod, &uid)),
            0..20,
        ),
    ) {
        prop_assert_eq!(decode(encode(&claims).as_deref()).unwrap(), claims);
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = decode(Some(&text));
    }
}
