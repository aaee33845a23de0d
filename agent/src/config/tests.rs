use super::*;

fn resolve(arguments: &[&str], variables: &[(&str, &str)], conf: &str) -> Result<Config, ConfigError> {
    let args = Args::try_parse_from([&["orbweaver-agent"], arguments].concat()).unwrap();
    let lookup = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Config::resolve(&args, &file::parse(conf).unwrap().0, &lookup)
}

#[test]
fn spiderpools_variables_are_enough() {
    let config = resolve(
        &[],
        &[
            ("SPIDERPOOL_NODE_NAME", "n"),
            ("SPIDERPOOL_POD_NAMESPACE", "spiderpool"),
            ("MULTUS_CLUSTER_NETWORK", "kube-system/default"),
            ("SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS", "70"),
        ],
        "",
    )
    .unwrap();
    assert_eq!(&*config.node_name, "n");
    assert_eq!(&*config.namespace, "spiderpool");
    assert_eq!(config.cluster_network.as_deref(), Some("kube-system/default"));
    assert_eq!(config.max_claims_per_pool, 70);
    assert_eq!(config.socket, PathBuf::from("/var/run/spidernet/spiderpool.sock"));
}

#[test]
fn a_flag_beats_the_file_and_the_variables() {
    let conf = "ipamUnixSocketPath: /from/conf.sock\nenableIPv6: false\n";
    let variables = [
        ("SPIDERPOOL_NODE_NAME", "n"),
        ("SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS", "70"),
    ];
    let config = resolve(&[], &variables, conf).unwrap();
    assert_eq!(config.socket, PathBuf::from("/from/conf.sock"));
    assert!(config.enable_ipv4 && !config.enable_ipv6);
    let flags = [
        "--socket=/from/flag.sock",
        "--node-name=m",
        "--max-claims-per-pool=3",
    ];
    let config = resolve(&flags, &variables, conf).unwrap();
    assert_eq!(config.socket, PathBuf::from("/from/flag.sock"));
    assert_eq!(&*config.node_name, "m");
    assert_eq!(config.max_claims_per_pool, 3);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let named = |arguments: &[&str], variables: &[(&str, &str)], name: &str| {
        let error = resolve(arguments, variables, "").unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    };
    named(&[], &[], "--node-name");
    named(&["--node-name="], &[], "--node-name");
    named(&["--node-name=a,b"], &[], "--node-name");
    named(
        &["--node-name=n", "--max-claims-per-pool=0"],
        &[],
        "--max-claims-per-pool",
    );
    named(&["--node-name=n", "--max-requests=0"], &[], "--max-requests");
    named(
        &["--node-name=n"],
        &[("SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS", "many")],
        "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS",
    );
}

/// Compares `docs/agent-flags.md` with the flags: one line each, with variable and default.
#[test]
fn every_flag_is_documented() {
    use clap::CommandFactory;

    let text = include_str!("../../../docs/agent-flags.md");
    let command = Args::command();
    let mut flags = 0;
    for argument in command.get_arguments() {
        let Some(flag) = argument.get_long() else { continue };
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("| `--{flag}`")))
            .unwrap_or_else(|| panic!("--{flag} has no line"));
        let variable = argument.get_env().unwrap().to_str().unwrap();
        assert!(line.contains(variable), "--{flag}: {variable} is not in {line}");
        assert!(variable.starts_with("ORBWEAVER_"), "{variable}");
        for default in argument.get_default_values() {
            let default = format!("`{}`", default.to_str().unwrap());
            assert!(
                line.contains(&default),
                "--{flag}: default {default} is not in {line}"
            );
        }
        flags += 1;
    }
    let documented = text.lines().filter(|line| line.starts_with("| `--")).count();
    assert_eq!(documented, flags, "a line for a flag that does not exist");
}
