//! The plugin's binary against an agent that answers what it is told to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

#[path = "fake_agent/server.rs"]
mod fake_agent;
#[path = "golden/plugin.rs"]
mod plugin;

use fake_agent::{Call, FakeAgent, Mood};
use orbweaver_api::grpc::{AddResponse, Address, Attachment, Failure, Route};
use plugin::{Plugin, network};
use prost::Message;
use serde_json::{Value, json};
use tonic::{Code, Status};

fn address(nic: &str, address: &str, gateway: &str) -> Address {
    Address {
        version: if address.contains(':') { 6 } else { 4 },
        address: address.into(),
        nic: nic.into(),
        pool: "shop".into(),
        gateway: gateway.into(),
        vlan: 100,
        mac: "fa:16:3e:aa:bb:cc".into(),
    }
}

fn answer() -> AddResponse {
    let route = |nic: &str, dst: &str| Route {
        nic: nic.into(),
        dst: dst.into(),
        gw: "10.6.0.2".into(),
    };
    AddResponse {
        addresses: vec![
            address("net1", "192.0.2.9/24", "192.0.2.1"),
            address("eth0", "10.6.0.3/16", "10.6.0.1"),
            address("eth0", "fd00::3/64", "fd00::1"),
        ],
        routes: vec![route("net1", "10.9.0.0/16"), route("eth0", "172.16.0.0/12")],
    }
}

fn attachment() -> Attachment {
    Attachment {
        container_id: "c1".into(),
        nic: "eth0".into(),
        netns: "/run/netns/c1".into(),
        pod_namespace: "shop".into(),
        pod_name: "cart-0".into(),
        pod_uid: "u1".into(),
    }
}

#[test]
fn an_add_prints_the_result_in_the_version_of_the_configuration() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let ended = Plugin::new("ADD", &network(version, agent.folder())).run();
        assert!(ended.success && ended.stderr.is_empty(), "{ended:?}");
        let (v4, v6) = match version.as_bytes()[0] {
            b'0' => (r#""version":"4","#, r#""version":"6","#),
            _ => ("", ""),
        };
        let wanted = [
            &format!(r#"{{"cniVersion":"{version}","#),
            r#""interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],"#,
            &format!(r#""ips":[{{{v4}"interface":0,"address":"10.6.0.3/16","gateway":"10.6.0.1"}},"#),
            &format!(r#"{{{v6}"interface":0,"address":"fd00::3/64","gateway":"fd00::1"}}],"#),
            r#""routes":[{"dst":"172.16.0.0/12","gw":"10.6.0.2"},"#,
            r#"{"dst":"0.0.0.0/0","gw":"10.6.0.1"},{"dst":"::/0","gw":"fd00::1"}],"dns":{}}"#,
            "\n",
        ];
        assert_eq!(ended.stdout, wanted.concat());
    }
}

#[test]
fn an_add_tells_the_agent_everything_it_was_told() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let mut network = network("1.0.0", agent.folder());
    network["ipam"]["default_ipv4_ippool"] = json!(["a", "b*"]);
    network["ipam"]["default_ipv6_ippool"] = json!(["c"]);
    network["ipam"]["clean_gateway"] = json!(true);
    network["ipam"]["match_master_subnet"] = json!(true);
    assert!(Plugin::new("ADD", &network).run().success);
    let [Call::Add(seen)] = &agent.calls()[..] else {
        panic!("{:?}", agent.calls())
    };
    assert_eq!(seen.attachment, Some(attachment()));
    assert_eq!(
        (&seen.default_ipv4_pools[..], &seen.default_ipv6_pools[..]),
        (&["a".into(), "b*".into()][..], &["c".into()][..])
    );
    assert!(seen.clean_gateway && seen.match_master_subnet);

    let log = std::fs::read_to_string(agent.folder().join("cni.log")).unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["request_id"], seen.request_id);
    assert_eq!(line["message"], "allocated 10.6.0.3/16, fd00::3/64");
    assert_eq!(
        (&line["command"], &line["pod"]),
        (&json!("ADD"), &json!("shop/cart-0"))
    );
}

#[test]
fn the_agent_gets_less_time_than_the_hundred_seconds_of_the_whole_run() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    assert!(
        Plugin::new("ADD", &network("1.0.0", agent.folder()))
            .run()
            .success
    );
    let timeouts = agent.timeouts();
    let micros: u64 = timeouts[0]
        .strip_suffix('u')
        .unwrap_or_else(|| panic!("{timeouts:?}"))
        .parse()
        .unwrap();
    assert!((90_000_000..100_000_000).contains(&micros), "{micros}");
}

#[test]
fn late_and_repeated_dels_without_netns_and_result_succeed() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let mut first = network("1.0.0", agent.folder());
    first["prevResult"] = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.6.0.3/16"}]});
    assert!(Plugin::new("DEL", &first).run().is_silent_success());
    let late = Plugin::new("DEL", &network("1.0.0", agent.folder())).env("CNI_NETNS", "");
    assert!(late.run().is_silent_success());
    assert!(late.env("CNI_ARGS", "").run().is_silent_success());

    let seen: Vec<Attachment> = agent
        .calls()
        .into_iter()
        .map(|call| match call {
            Call::Del(request) => request.attachment.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    let late = Attachment {
        netns: String::new(),
        ..attachment()
    };
    let bare = Attachment {
        container_id: "c1".into(),
        nic: "eth0".into(),
        ..Attachment::default()
    };
    assert_eq!(seen, [attachment(), late, bare]);
}

#[test]
fn a_del_that_the_agent_did_not_confirm_is_an_error_to_be_tried_again() {
    let moods = [
        Mood::Refuses(Status::internal("disk")),
        Mood::Refuses(Status::invalid_argument("pod")),
    ];
    for mood in moods {
        let agent = FakeAgent::start(mood);
        let ended = Plugin::new("DEL", &network("1.0.0", agent.folder())).run();
        assert_eq!(ended.code_and_msg().0, 11, "{ended:?}");
    }
}

#[test]
fn a_dead_socket_is_named_with_what_to_check() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let listen_and_die = || drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    for round in 0..2 {
        for (command, code) in [
            ("ADD", 11),
            ("DEL", 11),
            ("CHECK", 11),
            ("STATUS", 50),
            ("GC", 11),
        ] {
            let mut network = network("1.1.0", folder.path());
            network["prevResult"] = json!({"ips": [{"address": "10.6.0.3/16"}]});
            network["cni.dev/valid-attachments"] = json!([]);
            let error = Plugin::new(command, &network).run().error();
            assert_eq!(error["code"], code, "{error}");
            assert!(
                error["msg"].as_str().unwrap().contains(socket.to_str().unwrap()),
                "{error}"
            );
            assert!(
                error["details"]
                    .as_str()
                    .unwrap()
                    .contains("ipam_unix_socket_path"),
                "{error}"
            );
        }
        if round == 0 {
            listen_and_die();
        }
    }
}

#[test]
fn a_refusal_carries_the_agents_explanation() {
    let failure = Failure {
        stage: "claim".into(),
        reason: "exhausted".into(),
        temporary: true,
        remedy: "add addresses to pool shop".into(),
        request_id: "00ff".into(),
    };
    let status = Status::with_details(
        Code::ResourceExhausted,
        "no free address",
        failure.encode_to_vec().into(),
    );
    let agent = FakeAgent::start(Mood::Refuses(status));
    let ended = Plugin::new("ADD", &network("0.4.0", agent.folder())).run();
    let [Call::Add(seen)] = &agent.calls()[..] else {
        panic!()
    };
    let id = &seen.request_id;
    assert_eq!(
        ended.stdout,
        [
            r#"{"cniVersion":"0.4.0","code":11,"msg":"no free address","details":"stage: claim; reason: exhausted; "#,
            r"temporary: yes, asking again may succeed; remedy: add addresses to pool shop; request id: ",
            id,
            "\"}\n",
        ]
        .concat()
    );
}

#[test]
fn an_answer_without_an_address_for_the_nic_is_an_error() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let ended = Plugin::new("ADD", &network("1.0.0", agent.folder()))
        .env("CNI_IFNAME", "eth7")
        .run();
    let (_, msg) = ended.code_and_msg();
    assert!(
        msg.contains("no Interface eth7 IP allocation found") && msg.contains("net1"),
        "{msg}"
    );
}

#[test]
fn a_check_asks_about_the_addresses_of_the_previous_result() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let mut network = network("1.0.0", agent.folder());
    network["prevResult"] = json!({
        "interfaces": [{"name": "br0"}, {"name": "eth0"}],
        "ips": [{"interface": 1, "address": "10.6.0.3/16"}, {"interface": 0, "address": "10.7.0.3/16"}],
    });
    assert!(Plugin::new("CHECK", &network).run().is_silent_success());
    let [Call::Check(seen)] = &agent.calls()[..] else {
        panic!()
    };
    assert_eq!(
        (&seen.addresses[..], &seen.attachment),
        (&["10.6.0.3/16".into()][..], &Some(attachment()))
    );
}

#[test]
fn gc_passes_the_valid_attachments_on_and_refuses_to_guess_them() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let mut network = network("1.1.0", agent.folder());
    let ended = Plugin::new("GC", &network).run();
    let (code, msg) = ended.code_and_msg();
    assert!(code == 7 && msg.contains("cni.dev/valid-attachments"), "{msg}");
    assert_eq!(agent.calls(), []);

    network["cni.dev/valid-attachments"] = json!([{"containerID": "c9", "ifname": "eth0"}]);
    let gc = Plugin::new("GC", &network)
        .env("CNI_CONTAINERID", "")
        .env("CNI_IFNAME", "")
        .env("CNI_NETNS", "");
    assert!(gc.env("CNI_ARGS", "").run().is_silent_success());
    let [Call::Gc(seen)] = &agent.calls()[..] else {
        panic!()
    };
    assert_eq!(
        (seen.valid[0].container_id.as_str(), seen.valid[0].nic.as_str()),
        ("c9", "eth0")
    );
}

#[test]
fn status_is_silent_when_the_agent_serves_and_50_when_it_does_not() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    assert!(
        Plugin::new("STATUS", &network("1.1.0", agent.folder()))
            .run()
            .is_silent_success()
    );
    assert_eq!(
        std::fs::read_to_string(agent.folder().join("cni.log")).unwrap(),
        ""
    );
    let agent = FakeAgent::start(Mood::Refuses(Status::unavailable("still reading pools")));
    let ended = Plugin::new("STATUS", &network("1.1.0", agent.folder())).run();
    assert_eq!(ended.code_and_msg(), (50, "still reading pools".to_owned()));
}

#[test]
fn a_broken_configuration_gets_the_code_that_says_what_is_broken() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let good = network("1.0.0", agent.folder());
    let with = |change: fn(&mut Value)| {
        let mut network = good.clone();
        change(&mut network);
        network.to_string()
    };
    let conflist = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [good]}).to_string();
    let truncated = good.to_string()[..40].to_owned();
    let table = [
        ("empty", String::new(), 6, "empty"),
        ("truncated", truncated, 6, "JSON"),
        ("list", "[]".to_owned(), 6, "object"),
        ("oversize", " ".repeat(2 << 20), 6, "larger than 1048576"),
        ("conflist", conflist, 7, "ipam is absent"),
        (
            "version",
            with(|network| network["cniVersion"] = json!("0.2.0")),
            1,
            "0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
        ),
        (
            "level",
            with(|network| network["ipam"]["log_level"] = json!("loud")),
            7,
            "ipam.log_level is \"loud\": use one of",
        ),
    ];
    for (name, stdin, code, part) in table {
        let ended = Plugin::new("ADD", &good).stdin(stdin).run();
        let (found, msg) = ended.code_and_msg();
        assert!(found == code && msg.contains(part), "{name}: {ended:?}");
    }
    assert_eq!(agent.calls(), []);
}

#[test]
fn a_wrong_environment_is_code_4_and_names_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let network = network("1.0.0", folder.path());
    let table = [
        ("CNI_COMMAND", ""),
        ("CNI_COMMAND", "UPDATE"),
        ("CNI_CONTAINERID", ""),
        ("CNI_CONTAINERID", "../c1"),
        ("CNI_NETNS", ""),
        ("CNI_IFNAME", ""),
        ("CNI_IFNAME", "a/b"),
        ("CNI_ARGS", "K8S_POD_NAME"),
        ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=cart-0"),
    ];
    for (variable, value) in table {
        let (code, msg) = Plugin::new("ADD", &network)
            .env(variable, value)
            .run()
            .code_and_msg();
        assert!(
            code == 4 && msg.contains(variable),
            "{variable}={value}: {code} {msg}"
        );
    }
}

#[test]
fn a_log_that_cannot_be_written_is_a_warning_and_no_failure() {
    let agent = FakeAgent::start(Mood::Serves(answer()));
    let mut network = network("1.0.0", agent.folder());
    network["ipam"]["log_file_path"] = json!(agent.socket().join("cni.log"));
    for command in ["ADD", "DEL"] {
        let ended = Plugin::new(command, &network).run();
        assert!(
            ended.success && ended.stderr.contains("continuing without the log file"),
            "{ended:?}"
        );
    }
}

#[test]
fn version_answers_without_configuration() {
    let ended = Plugin::new("VERSION", &Value::Null).stdin("").run();
    assert_eq!(
        ended.stdout,
        "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n"
    );
    assert!(ended.success && ended.stderr.is_empty());
}
