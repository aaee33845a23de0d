use orbweaver_api::provider::SubEniRequest;
use proptest::prelude::*;

use super::*;

fn wanted(ipv4: &str, ipv6: &str) -> SubEniRequest {
    SubEniRequest {
        parent_nic_mac: "fa:16:3e:11:22:33".into(),
        subnet: "10.0.0.0/24".into(),
        ipv4_address: ipv4.into(),
        ipv6_address: ipv6.into(),
        ..SubEniRequest::default()
    }
}

fn request(items: &[(&str, &str)]) -> AllocateRequest {
    AllocateRequest {
        node_name: "worker-1".into(),
        sub_eni_requests: items.iter().map(|(ipv4, ipv6)| wanted(ipv4, ipv6)).collect(),
        ..AllocateRequest::default()
    }
}

fn answered(ipv4: &str, ipv6: &str, mac: &str, vlan: Option<i64>) -> SubEniResponse {
    SubEniResponse {
        ipv4_address: ipv4.into(),
        ipv6_address: ipv6.into(),
        mac_address: mac.into(),
        vlan_id: vlan,
        ..SubEniResponse::default()
    }
}

fn verdict(asks: &[(&str, &str)], answers: Vec<SubEniResponse>) -> Result<Vec<BoundSubEni>, String> {
    let response = AllocateResponse {
        sub_eni_responses: answers,
        ..AllocateResponse::default()
    };
    let questions = asked(&request(asks)).expect("the request is fine");
    check(&questions, &response).map_err(|wrong| wrong.to_string())
}

#[test]
fn answers_come_back_in_the_order_of_the_questions() {
    let bound = verdict(
        &[("10.0.0.10", "fd00::10"), ("10.0.0.11", ""), ("", "fd00::12")],
        vec![
            answered("", "fd00:0::12", "", None),
            answered("10.0.0.10", "fd00:0:0::10", "FA:16:3E:AA:BB:CC", Some(100)),
            answered("10.0.0.11", "", "", Some(0)),
        ],
    )
    .expect("a right answer");
    let plain = |ipv4: Option<&str>, ipv6: Option<&str>| BoundSubEni {
        ipv4: ipv4.map(|text| text.parse().expect("v4")),
        ipv6: ipv6.map(|text| text.parse().expect("v6")),
        mac: None,
        vlan: None,
    };
    let first = BoundSubEni {
        mac: Some("fa:16:3e:aa:bb:cc".parse().expect("mac")),
        vlan: Some(100),
        ..plain(Some("10.0.0.10"), Some("fd00::10"))
    };
    assert_eq!(
        bound,
        [
            first,
            plain(Some("10.0.0.11"), None),
            plain(None, Some("fd00::12"))
        ]
    );
}

/// What is asked, what is answered, how the verdict begins.
type Row<'a> = (&'a [(&'a str, &'a str)], Vec<SubEniResponse>, &'a str);

#[test]
fn a_wrong_answer_is_refused_and_says_what_is_wrong() {
    let pair = ("10.0.0.10", "fd00::10");
    let table: &[Row] = &[
        (
            &[pair],
            vec![],
            "address 10.0.0.10 was asked for but not answered",
        ),
        (
            &[("", "fd00::1")],
            vec![],
            "address fd00::1 was asked for but not answered",
        ),
        (
            &[pair],
            vec![answered("10.0.0.9", "fd00::10", "", None)],
            "address 10.0.0.9 was answered but not asked for",
        ),
        (
            &[("10.0.0.10", "")],
            vec![answered("10.0.0.10", "fd00::10", "", None)],
            "address fd00::10 was answered but not asked for",
        ),
        (
            &[("", "fd00::1")],
            vec![answered("", "fd00::2", "", None)],
            "address fd00::2 was answered but not asked for",
        ),
        (
            &[pair],
            vec![answered("10.0.0.10", "fd00::11", "", None)],
            "10.0.0.10 was asked for with fd00::10 but answered with fd00::11",
        ),
        (
            &[pair],
            vec![answered("10.0.0.10", "", "", None)],
            "10.0.0.10 was answered without fd00::10",
        ),
        (
            &[pair],
            vec![answered("", "fd00::10", "", None)],
            "fd00::10 was answered without 10.0.0.10",
        ),
        (
            &[("10.0.0.10", "")],
            vec![
                answered("10.0.0.10", "", "", None),
                answered("10.0.0.10", "", "", None),
            ],
            "address 10.0.0.10 was answered twice",
        ),
        (
            &[pair],
            vec![answered("", "", "", None)],
            "subEniResponses[0] names no address",
        ),
        (
            &[pair],
            vec![answered("10.0.0.10/24", "", "", None)],
            "subEniResponses[0].ipv4Address \"10.0.0.10/24\" is not an address",
        ),
        (
            &[pair],
            vec![answered("10.0.0.10", "x", "", None)],
            "subEniResponses[0].ipv6Address \"x\" is not an address",
        ),
        (
            &[("10.0.0.10", "")],
            vec![answered("10.0.0.10", "", "fa:16:3e", None)],
            "macAddress of 10.0.0.10: \"fa:16:3e\" is not a MAC address",
        ),
    ];
    for (asks, answers, expected) in table {
        let said = verdict(asks, answers.clone()).expect_err(expected);
        assert!(
            said.starts_with(expected),
            "{said:?} should start with {expected:?}"
        );
    }
}

#[test]
fn a_vlan_id_is_from_1_to_4094_and_zero_means_keep() {
    let vlan = |id| {
        verdict(&[("10.0.0.10", "")], vec![answered("10.0.0.10", "", "", id)]).map(|bound| bound[0].vlan)
    };
    assert_eq!(vlan(None), Ok(None));
    assert_eq!(vlan(Some(0)), Ok(None));
    assert_eq!(vlan(Some(1)), Ok(Some(1)));
    assert_eq!(vlan(Some(4094)), Ok(Some(4094)));
    for outside in [-1, 4095, 65_536 + 5, i64::MIN, i64::MAX] {
        let said = vlan(Some(outside)).expect_err("outside");
        assert_eq!(
            said,
            format!("vlanId {outside} of 10.0.0.10 is not between 1 and 4094")
        );
    }
}

#[test]
fn two_sub_enis_on_one_parent_nic_never_share_a_vlan() {
    let asks = [("10.0.0.10", ""), ("10.0.0.11", "")];
    let answer = |parent: &str| {
        let second = SubEniResponse {
            parent_nic_mac: parent.into(),
            ..answered("10.0.0.11", "", "", Some(7))
        };
        verdict(&asks, vec![answered("10.0.0.10", "", "", Some(7)), second])
    };
    let said = answer("FA:16:3E:11:22:33").expect_err("one wire, one VLAN");
    assert!(
        said.starts_with("vlanId 7 of 10.0.0.11 is already the VLAN"),
        "{said}"
    );
    assert!(answer("fa:16:3e:11:22:44").is_ok(), "another NIC is another wire");
}

#[test]
fn a_request_without_what_the_contract_requires_is_not_sent() {
    let fault = |request: &AllocateRequest| asked(request).expect_err("malformed").to_string();
    let mut nameless = request(&[("10.0.0.1", "")]);
    nameless.node_name.clear();
    assert!(fault(&nameless).starts_with("nodeName is empty"));
    assert!(fault(&request(&[])).starts_with("subEniRequests is empty"));
    assert!(fault(&request(&[("", "")])).starts_with("subEniRequests[0] names no address"));
    assert!(fault(&request(&[("10.0.0.1/24", "")])).starts_with("subEniRequests[0].ipv4Address"));
    assert!(fault(&request(&[("", "fd00::g")])).starts_with("subEniRequests[0].ipv6Address"));
    let twice = fault(&request(&[("10.0.0.1", ""), ("10.0.0.1", "")]));
    assert_eq!(twice, "subEniRequests[1] asks for 10.0.0.1 a second time");
    let mut floating = request(&[("10.0.0.1", "")]);
    floating.sub_eni_requests[0].parent_nic_mac.clear();
    assert!(fault(&floating).starts_with("parentNicMac is empty"));
    let mut nowhere = request(&[("10.0.0.1", "")]);
    nowhere.sub_eni_requests[0].subnet.clear();
    assert!(fault(&nowhere).starts_with("subnet is empty"));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("10.0.0.1".into()),
        Just("fd00::1".into()),
        ".{0,12}"
    ]
}

fn any_answer() -> impl Strategy<Value = SubEniResponse> {
    (text(), text(), text(), any::<Option<i64>>())
        .prop_map(|(ipv4, ipv6, mac, vlan)| answered(&ipv4, &ipv6, &mac, vlan))
}

proptest! {
    #[test]
    fn whatever_is_answered_only_what_was_asked_is_bound(
        answers in prop::collection::vec(any_answer(), 0..4),
    ) {
        let asks = [("10.0.0.1", "fd00::1"), ("10.0.0.2", "")];
        if let Ok(bound) = verdict(&asks, answers) {
            prop_assert_eq!(bound.len(), 2);
            prop_assert!(bound.iter().all(|one| one.vlan.is_none_or(|vlan| (1..=4094).contains(&vlan))));
        }
    }

    #[test]
    fn a_complete_echo_in_any_order_is_accepted(order in Just([0_u8, 1, 2, 3]).prop_shuffle()) {
        let texts: Vec<String> = (0..4).map(|last| format!("10.0.0.{last}")).collect();
        let asks: Vec<(&str, &str)> = texts.iter().map(|text| (text.as_str(), "")).collect();
        let answers = order.iter().map(|last| answered(&format!("10.0.0.{last}"), "", "", None)).collect();
        let bound = verdict(&asks, answers).expect("complete");
        let got: Vec<String> = bound.iter().map(|one| one.ipv4.expect("v4").to_string()).collect();
        prop_assert_eq!(got, texts);
    }
}
