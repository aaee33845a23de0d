use std::time::Duration;

use super::*;

fn provider_of(section: &str) -> Result<Option<ProviderHttpOptions>, String> {
    parse(&format!("iaasNetworkProvider:\n{section}"))
        .and_then(|(file, _)| provider(&file))
        .map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_is_all_defaults() {
    let (file, unknown_keys) = parse("").unwrap();
    assert_eq!(file, ConfFile::default());
    assert!(provider(&file).unwrap().is_none());
    assert!(unknown_keys.is_empty());
    for nothing in ["", " \"\""] {
        let (file, _) = parse(&format!("ipamUnixSocketPath:{nothing}\n")).unwrap();
        assert_eq!(file, ConfFile::default());
    }
}

#[test]
fn spiderpools_own_file_is_read_without_complaint() {
    let (file, unknown_keys) = parse(
        "ipamUnixSocketPath: /run/x.sock\nenableIPv4: true\nenableIPv6: false\nenableStatefulSet: true\n\
         podResourceInject:\n  enabled: false\nagent:\n  networkResourcePlugin: {}\n",
    )
    .unwrap();
    assert_eq!(file.ipam_unix_socket_path, Path::new("/run/x.sock"));
    assert!(!file.enable_ipv6);
    assert!(unknown_keys.is_empty());
}

#[test]
fn unknown_keys_are_named() {
    let (_, unknown_keys) = parse("enableIpv4: true\niaasNetworkProvider:\n  serverURL: http://x\n").unwrap();
    assert_eq!(unknown_keys, ["enableIpv4", "iaasNetworkProvider.serverURL"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_fatal_and_named() {
    let error = crate::store::chain(&parse("enableIPv4: perhaps").unwrap_err());
    assert!(error.contains("enableIPv4"), "{error}");
    let neither = parse("enableIPv4: false\nenableIPv6: false");
    assert!(matches!(neither, Err(FileError::Rule(ConfigError::NoFamily))));
}

#[test]
fn an_invalid_provider_keeps_the_agent_from_starting_even_when_no_provider_is_used() {
    for text in ["0s", "-1s", "2m", "100s", "fifty", "50"] {
        let error = provider_of(&format!("  httpRequestTimeout: {text}\n")).unwrap_err();
        assert!(
            error.starts_with("invalid iaasNetworkProvider.httpRequestTimeout"),
            "{error}"
        );
    }
    assert!(provider_of("  enabled: true\n").is_err());
    assert!(provider_of("  service: {name: p}\n").is_err());
    assert!(provider_of("  serverUrl: ftp://p\n").is_err());
    assert!(provider_of("  serverUrl: https://p\n  tls: {certFile: /c}\n").is_err());
}

#[test]
fn what_the_file_says_of_the_provider_is_what_is_called() {
    let all = "  service: {name: p, namespace: n}\n  httpRequestTimeout: 20s\n  \
               tls: {caFile: /ca, certFile: /c, keyFile: /k, insecureSkipVerify: true}\n";
    let options = provider_of(all).unwrap().unwrap();
    assert_eq!(options.base_url, "https://p.n.svc:8443");
    assert_eq!(options.request_timeout, Duration::from_secs(20));
    assert_eq!(options.ca_file.as_deref(), Some(Path::new("/ca")));
    assert_eq!(options.client_certificate.as_deref(), Some(Path::new("/c")));
    assert_eq!(options.client_key.as_deref(), Some(Path::new("/k")));
    assert!(options.insecure_skip_verify);
    assert!(
        provider_of("  enabled: false\n  serverUrl: http://p\n")
            .unwrap()
            .is_none()
    );
}
