use super::*;

fn provider(section: &str) -> Result<Option<ProviderHttpOptions>, String> {
    ConfFile::parse(&format!("iaasNetworkProvider:\n{section}"))
        .and_then(|file| file.provider())
        .map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_is_all_defaults() {
    let file = ConfFile::parse("").unwrap();
    assert!(file.enable_ipv4 && file.enable_ipv6);
    assert!(file.provider().unwrap().is_none());
    assert!(file.unknown_keys().is_empty());
}

#[test]
fn spiderpools_own_file_is_read_without_complaint() {
    let file = ConfFile::parse(
        "ipamUnixSocketPath: /run/x.sock\nenableIPv4: true\nenableIPv6: false\nenableStatefulSet: true\n\
         podResourceInject:\n  enabled: false\nagent:\n  networkResourcePlugin: {}\n",
    )
    .unwrap();
    assert_eq!(
        file.ipam_unix_socket_path.as_deref(),
        Some(Path::new("/run/x.sock"))
    );
    assert!(!file.enable_ipv6);
    assert!(file.unknown_keys().is_empty());
}

#[test]
fn unknown_keys_are_named() {
    let file = ConfFile::parse("enableIpv4: true\niaasNetworkProvider:\n  serverURL: http://x\n").unwrap();
    assert_eq!(
        file.unknown_keys(),
        ["enableIpv4", "iaasNetworkProvider.serverURL"]
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_fatal_and_named() {
    let error = ConfFile::parse("enableIPv4: perhaps").unwrap_err().to_string();
    assert!(error.contains("enableIPv4"), "{error}");
    assert!(matches!(
        ConfFile::parse("enableIPv4: false\nenableIPv6: false"),
        Err(FileError::NoFamily)
    ));
}

#[test]
fn the_request_timeout_obeys_the_seeds_rules() {
    let timeout = |text: &str| {
        provider(&format!(
            "  serverUrl: http://p\n  httpRequestTimeout: {text:?}\n"
        ))
        .map(|options| options.unwrap().request_timeout)
    };
    assert_eq!(timeout(""), Ok(Duration::from_secs(50)));
    assert_eq!(timeout("1m"), Ok(Duration::from_secs(60)));
    assert_eq!(timeout("99.9s"), Ok(Duration::from_millis(99_900)));
    for (text, why) in [
        ("0s", "must be positive"),
        ("-1s", "must be positive"),
        ("2m", "static limit 2m0s"),
        ("100s", "CNI client timeout 1m40s"),
        ("fifty", "not a duration"),
        ("50", "not a duration"),
    ] {
        let error = timeout(text).unwrap_err();
        assert!(
            error.starts_with("invalid iaasNetworkProvider.httpRequestTimeout") && error.contains(why),
            "{error}"
        );
    }
    assert!(
        provider("  httpRequestTimeout: 2m\n").is_err(),
        "checked without a provider too"
    );
}

#[test]
fn the_provider_is_found_by_url_or_by_service() {
    let url = |section: &str| provider(section).map(|options| options.map(|options| options.base_url));
    assert_eq!(
        url("  serverUrl: http://1.2.3.4:80/x\n"),
        Ok(Some("http://1.2.3.4:80/x".to_owned()))
    );
    assert_eq!(
        url("  service: {name: p, namespace: n, port: 8443}\n"),
        Ok(Some("https://p.n.svc:8443".to_owned()))
    );
    assert_eq!(url("  enabled: false\n  serverUrl: http://p\n"), Ok(None));
    assert!(url("  enabled: true\n").is_err());
    assert!(url("  service: {name: p}\n").is_err());
    assert!(
        url("  serverUrl: ftp://p\n")
            .unwrap_err()
            .contains("must start with http:// or https://")
    );
    assert!(
        url("  serverUrl: http://\n")
            .unwrap_err()
            .contains("host is empty")
    );
}
