use super::*;

fn address(nic: &str, address: &str, gateway: &str) -> grpc::Address {
    grpc::Address {
        version: if address.contains(':') { 6 } else { 4 },
        address: address.into(),
        nic: nic.into(),
        pool: "p".into(),
        gateway: gateway.into(),
        vlan: 100,
        mac: "fa:16:3e:aa:bb:cc".into(),
    }
}

fn route(nic: &str, dst: &str, gw: &str) -> grpc::Route {
    grpc::Route {
        nic: nic.into(),
        dst: dst.into(),
        gw: gw.into(),
    }
}

fn answer() -> AddResponse {
    AddResponse {
        addresses: vec![
            address("net1", "192.0.2.9/24", "192.0.2.1"),
            address("eth0", "10.6.0.3/16", "10.6.0.1"),
            address("eth0", "fd00::3/64", ""),
        ],
        routes: vec![
            route("eth0", "172.16.0.0/12", "10.6.0.2"),
            route("net1", "0.0.0.0/0", "192.0.2.1"),
        ],
    }
}

fn printed(answer: &AddResponse, version: Version) -> String {
    AddResult::new(answer, "eth0", "/run/netns/n")
        .unwrap()
        .print(version)
}

#[test]
fn versions_before_1_0_mark_the_family_and_later_ones_do_not() {
    for version in [Version::V0_3_0, Version::V0_3_1, Version::V0_4_0] {
        assert_eq!(
            printed(&answer(), version),
            format!(
                r#"{{"cniVersion":"{version}","interfaces":[{{"name":"eth0","sandbox":"/run/netns/n"}}],"ips":[{{"version":"4","interface":0,"address":"10.6.0.3/16","gateway":"10.6.0.1"}},{{"version":"6","interface":0,"address":"fd00::3/64"}}],"routes":[{{"dst":"172.16.0.0/12","gw":"10.6.0.2"}},{{"dst":"0.0.0.0/0","gw":"10.6.0.1"}}],"dns":{{}}}}"#
            )
        );
    }
    for version in [Version::V1_0_0, Version::V1_1_0] {
        assert_eq!(
            printed(&answer(), version),
            format!(
                r#"{{"cniVersion":"{version}","interfaces":[{{"name":"eth0","sandbox":"/run/netns/n"}}],"ips":[{{"interface":0,"address":"10.6.0.3/16","gateway":"10.6.0.1"}},{{"interface":0,"address":"fd00::3/64"}}],"routes":[{{"dst":"172.16.0.0/12","gw":"10.6.0.2"}},{{"dst":"0.0.0.0/0","gw":"10.6.0.1"}}],"dns":{{}}}}"#
            )
        );
    }
}

#[test]
fn mac_and_vlan_stay_out_of_the_result() {
    let text = printed(&answer(), Version::V1_0_0);
    assert!(
        !text.contains("fa:16") && !text.contains("100") && !text.contains("vlan"),
        "{text}"
    );
}

#[test]
fn without_a_gateway_there_is_no_default_route() {
    let only = AddResponse {
        addresses: vec![address("eth0", "10.6.0.3/16", "")],
        routes: vec![],
    };
    assert_eq!(AddResult::new(&only, "eth0", "/n").unwrap().routes, []);
}

#[test]
fn a_default_route_of_the_agent_is_not_doubled() {
    let mut answer = answer();
    answer.routes = vec![route("eth0", "0.0.0.0/0", "10.6.0.254")];
    let routes = AddResult::new(&answer, "eth0", "/n").unwrap().routes;
    assert_eq!(
        routes,
        [("0.0.0.0/0".parse().unwrap(), Some("10.6.0.254".parse().unwrap()))]
    );
}

#[test]
fn both_families_get_their_default_route() {
    let both = AddResponse {
        addresses: vec![
            address("eth0", "10.6.0.3/16", "10.6.0.1"),
            address("eth0", "fd00::3/64", "fd00::1"),
        ],
        routes: vec![],
    };
    let text = printed(&both, Version::V1_0_0);
    assert!(
        text.contains(r#"{"dst":"0.0.0.0/0","gw":"10.6.0.1"},{"dst":"::/0","gw":"fd00::1"}"#),
        "{text}"
    );
}

#[test]
fn an_answer_for_other_nics_is_an_error_that_names_them() {
    let error = AddResult::new(&answer(), "eth7", "/n").unwrap_err().to_string();
    assert!(
        error.contains("no Interface eth7 IP allocation found") && error.contains("net1"),
        "{error}"
    );
    let error = AddResult::new(&AddResponse::default(), "eth0", "/n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("no NIC at all"), "{error}");
}

#[test]
fn a_malformed_answer_is_refused_with_the_value() {
    let mut wrong_family = address("eth0", "10.6.0.3/16", "");
    wrong_family.version = 6;
    let addresses = [
        (wrong_family, "version 6"),
        (address("eth0", "10.6.0.3", ""), "10.6.0.3"),
        (address("eth0", "10.6.0.3/33", ""), "/33"),
        (address("eth0", "10.6.0.3/16", "fd00::1"), "fd00::1"),
        (address("eth0", "10.6.0.3/16", "gateway"), "gateway"),
    ];
    for (address, part) in addresses {
        let answer = AddResponse {
            addresses: vec![address],
            routes: vec![],
        };
        let error = AddResult::new(&answer, "eth0", "/n").unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for (dst, gw) in [("10.0.0.0", ""), ("::/0", "10.6.0.1"), ("10.0.0.0/8", "x")] {
        let mut answer = answer();
        answer.routes = vec![route("eth0", dst, gw)];
        assert!(AddResult::new(&answer, "eth0", "/n").is_err(), "{dst} {gw}");
    }
}
