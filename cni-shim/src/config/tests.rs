use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(command: Command, value: &Value) -> Result<Config, Error> {
    let network = decode(value.to_string().as_bytes())?;
    let version = version(&network, command)?;
    Config::read(network, version, command)
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = read(
        Command::Add,
        &json!({"cniVersion": "1.0.0", "ipam": {"type": "spiderpool"}}),
    )
    .unwrap();
    assert_eq!(config.socket, PathBuf::from("/var/run/spidernet/spiderpool.sock"));
    assert_eq!(
        config.log.path,
        PathBuf::from("/var/log/spidernet/spiderpool.log")
    );
    assert_eq!(
        (
            config.log.max_megabytes,
            config.log.max_days,
            config.log.max_count
        ),
        (100, 30, 10)
    );
    assert_eq!(config.log.level, Level::Info);
    assert!(!config.clean_gateway && !config.match_master_subnet);
    assert!(config.default_ipv4_pools.is_empty() && config.default_ipv6_pools.is_empty());
    assert!(config.unknown.is_empty());
}

#[test]
fn every_key_is_read() {
    let config = read(
        Command::Add,
        &json!({"cniVersion": "0.3.1", "ipam": {
            "type": "spiderpool", "log_level": "WARN", "log_file_path": "/l", "log_file_max_size": 0,
            "log_file_max_age": 0, "log_file_max_count": -1, "default_ipv4_ippool": ["a", "b*"],
            "default_ipv6_ippool": ["c"], "clean_gateway": true, "match_master_subnet": true,
            "ipam_unix_socket_path": "/s", "log_levle": "x",
        }}),
    )
    .unwrap();
    assert_eq!(config.version, Version::V0_3_1);
    assert_eq!(
        (config.log.level, config.log.path.to_str()),
        (Level::Warn, Some("/l"))
    );
    assert_eq!(
        (
            config.log.max_megabytes,
            config.log.max_days,
            config.log.max_count
        ),
        (100, 0, 10)
    );
    assert_eq!(config.default_ipv4_pools, ["a", "b*"]);
    assert_eq!(config.default_ipv6_pools, ["c"]);
    assert!(config.clean_gateway && config.match_master_subnet);
    assert_eq!(config.socket.to_str(), Some("/s"));
    assert_eq!(config.unknown, ["\"log_levle\""]);
}

#[test]
fn a_bad_value_is_refused_with_field_value_and_remedy() {
    let long = format!("/{}", "s".repeat(SOCKET_PATH_MAX));
    let table = [
        ("log_level", json!("loud"), "\"loud\"", "debug"),
        ("log_level", json!(3), "3", "string"),
        ("log_file_path", json!("var/log"), "\"var/log\"", "absolute"),
        ("log_file_max_size", json!("100"), "\"100\"", "whole number"),
        ("log_file_max_age", json!(1.5), "1.5", "whole number"),
        (
            "log_file_max_count",
            json!(1_u64 << 32),
            "4294967296",
            "less than",
        ),
        ("default_ipv4_ippool", json!("v4"), "\"v4\"", "list"),
        ("default_ipv4_ippool", json!([""]), "\"\"", "list"),
        ("default_ipv6_ippool", json!([6]), "6", "list"),
        ("clean_gateway", json!("true"), "\"true\"", "without quotes"),
        ("match_master_subnet", json!(1), "1", "true or false"),
        ("ipam_unix_socket_path", json!(long), "\"/ss", "107"),
        ("ipam_unix_socket_path", json!("run/x"), "\"run/x\"", "absolute"),
    ];
    for (key, value, found, remedy) in table {
        let error = read(
            Command::Add,
            &json!({"cniVersion": "1.0.0", "ipam": {key: value}}),
        )
        .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.code(Some(Command::Add)), 7, "{text}");
        assert!(
            text.starts_with(&format!("ipam.{key} is {found}")) && text.contains(remedy),
            "{text}"
        );
    }
}

#[test]
fn only_an_add_insists_on_the_ipam_section() {
    let bare = json!({"cniVersion": "1.1.0"});
    for command in [Command::Del, Command::Check, Command::Gc, Command::Status] {
        assert_eq!(
            read(command, &bare).unwrap().socket,
            PathBuf::from(DEFAULT_SOCKET)
        );
    }
    assert_eq!(read(Command::Add, &bare).unwrap_err().code(None), 7);
    assert_eq!(
        read(Command::Del, &json!({"cniVersion": "1.1.0", "ipam": []}))
            .unwrap_err()
            .code(None),
        7
    );
}

#[test]
fn a_verb_is_refused_in_versions_that_do_not_have_it() {
    let offered = |command: Command| -> Vec<&str> {
        let named = Version::ALL.iter().map(|version| version.name());
        named
            .filter(|name| read(command, &json!({"cniVersion": name, "ipam": {}})).is_ok())
            .collect()
    };
    assert_eq!(
        offered(Command::Add),
        ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
    );
    assert_eq!(
        offered(Command::Del),
        ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
    );
    assert_eq!(offered(Command::Check), ["0.4.0", "1.0.0", "1.1.0"]);
    assert_eq!(offered(Command::Gc), ["1.1.0"]);
    assert_eq!(offered(Command::Status), ["1.1.0"]);
}

#[test]
fn an_unknown_version_lists_the_supported_ones() {
    for version in [json!("0.2.0"), json!("2.0.0"), json!(""), json!(1), Value::Null] {
        let error = read(Command::Add, &json!({"cniVersion": version, "ipam": {}})).unwrap_err();
        assert_eq!(error.code(None), 1);
        assert!(
            error.to_string().contains("0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"),
            "{error}"
        );
    }
    assert!(read(Command::Del, &json!({})).is_ok());
}

#[test]
fn stdin_that_is_no_object_is_a_decoding_error() {
    let deep = "[".repeat(100_000);
    for text in [
        "",
        " \n",
        "{",
        "[]",
        "null",
        "7",
        "{\"a\":}",
        "\u{feff}{}",
        deep.as_str(),
    ] {
        assert_eq!(decode(text.as_bytes()).unwrap_err().code(None), 6, "{text:.20}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(?s).{0,20}".prop_map(Value::from),
        "/.{0,120}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(interfaces|ips|[a-z]{1,3})", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_configuration_makes_the_reader_panic(
        version in prop_oneof![json_value(), Just(json!("1.0.0"))],
        ipam in prop::collection::btree_map(
            "(type|log_level|log_file_path|log_file_max_(size|age|count)|default_ipv[46]_ippool|clean_gateway|match_master_subnet|ipam_unix_socket_path)",
            json_value(), 0..10),
    ) {
        let value = json!({"cniVersion": version, "ipam": ipam});
        for command in Command::ALL {
            let _ = read(command, &value);
        }
    }
}
