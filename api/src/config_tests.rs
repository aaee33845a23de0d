use serde_json::json;

use super::*;

fn read(raw: &Value) -> ConfFile {
    serde_json::from_value(raw.clone()).unwrap()
}

fn provider(section: &Value) -> Result<Option<ProviderConfig>, ConfigError> {
    read(&json!({ "iaasNetworkProvider": section })).provider()
}

#[test]
fn an_empty_file_is_all_defaults_and_has_no_provider() {
    let file = read(&json!({}));
    assert_eq!(file, ConfFile::default());
    assert_eq!(file.check(), Ok(()));
    assert_eq!(file.provider(), Ok(None));
}

#[test]
fn a_section_without_content_is_all_defaults() {
    let hollow = json!({
        "podResourceInject": null,
        "agent": { "networkResourcePlugin": null },
        "iaasNetworkProvider": { "serverUrl": null, "service": null, "tls": null, "httpRequestTimeout": null },
    });
    assert_eq!(read(&hollow), ConfFile::default());
    assert_eq!(
        read(&json!({ "agent": null, "iaasNetworkProvider": null })),
        ConfFile::default()
    );
}

#[test]
fn a_url_and_a_service_both_lead_to_the_provider() {
    let base = |section: Value| provider(&section).unwrap().map(|provider| provider.base_url);
    let service = json!({ "name": "p", "namespace": "n" });
    for (section, expected) in [
        (
            json!({ "serverUrl": " http://p:80/base " }),
            Some("http://p:80/base"),
        ),
        (json!({ "service": service }), Some("https://p.n.svc:8443")),
        (
            json!({ "service": { "name": "p", "namespace": "n", "port": 9 } }),
            Some("https://p.n.svc:9"),
        ),
        (
            json!({ "serverUrl": "https://u", "service": service }),
            Some("https://u"),
        ),
        (json!({ "enabled": false, "serverUrl": "https://u" }), None),
        (json!({ "enabled": false, "serverUrl": "nonsense" }), None),
        (
            json!({ "enabled": true, "serverUrl": "https://u" }),
            Some("https://u"),
        ),
    ] {
        assert_eq!(base(section.clone()).as_deref(), expected, "{section}");
    }
}

#[test]
fn what_is_set_reaches_the_caller() {
    let section = json!({
        "serverUrl": "https://p",
        "httpRequestTimeout": "1m30s",
        "tls": { "caFile": "/ca", "certFile": "/cert", "keyFile": "/key", "insecureSkipVerify": true },
    });
    let expected = ProviderConfig {
        base_url: "https://p".to_owned(),
        http_request_timeout: GoDuration::from_secs(90),
        ca_file: Some("/ca".into()),
        client_cert: Some("/cert".into()),
        client_key: Some("/key".into()),
        insecure_skip_verify: true,
    };
    assert_eq!(provider(&section), Ok(Some(expected)));
    let bare = provider(&json!({ "serverUrl": "https://p" })).unwrap().unwrap();
    assert_eq!(bare.http_request_timeout, GoDuration::from_secs(50));
    assert!(!bare.insecure_skip_verify, "never by default");
}

#[test]
fn a_wrong_value_is_refused_with_its_key_its_value_and_the_reason() {
    for (section, start, reason) in [
        (
            json!({ "serverUrl": "p:80" }),
            "serverUrl \"p:80\"",
            "must start with http:// or https://",
        ),
        (
            json!({ "serverUrl": 8080 }),
            "serverUrl \"8080\"",
            "must start with http:// or https://",
        ),
        (
            json!({ "serverUrl": "http://" }),
            "serverUrl \"http://\"",
            "host is empty",
        ),
        (
            json!({ "enabled": true }),
            "serverUrl \"\"",
            "neither serverUrl nor service.name",
        ),
        (
            json!({ "service": { "name": "p" } }),
            "service.namespace \"\"",
            "DNS label",
        ),
        (
            json!({ "service": { "name": "p/x", "namespace": "n" } }),
            "service.name \"p/x\"",
            "DNS label",
        ),
        (
            json!({ "service": { "name": "p", "namespace": "n", "port": 0 } }),
            "service.port \"0\"",
            "1 to 65535",
        ),
        (
            json!({ "httpRequestTimeout": "fast" }),
            "httpRequestTimeout \"fast\"",
            "is not a duration",
        ),
        (
            json!({ "httpRequestTimeout": 50 }),
            "httpRequestTimeout \"50\"",
            "a unit is missing",
        ),
        (
            json!({ "httpRequestTimeout": "0s" }),
            "httpRequestTimeout \"0s\"",
            "timeout must be positive",
        ),
        (
            json!({ "httpRequestTimeout": "-1s" }),
            "httpRequestTimeout \"-1s\"",
            "timeout must be positive",
        ),
        (
            json!({ "httpRequestTimeout": "2m" }),
            "httpRequestTimeout \"2m\"",
            "must be less than static limit 2m0s",
        ),
        (
            json!({ "httpRequestTimeout": "100s" }),
            "httpRequestTimeout \"100s\"",
            "must be less than CNI client timeout 1m40s",
        ),
        (
            json!({ "serverUrl": "https://p", "tls": { "certFile": "/c" } }),
            "tls.keyFile \"\"",
            "set both or none",
        ),
    ] {
        let error = provider(&section).unwrap_err().to_string();
        let start = format!("invalid iaasNetworkProvider.{start}: ");
        assert!(
            error.starts_with(&start) && error.contains(reason),
            "{section} gives {error}"
        );
    }
}

#[test]
fn a_wrong_timeout_is_fatal_even_without_a_provider() {
    let section = json!({ "enabled": false, "httpRequestTimeout": "2m" });
    assert!(provider(&section).is_err());
    let file = read(&json!({ "iaasNetworkProvider": section }));
    assert!(matches!(file.check(), Err(ConfigError::Provider(_))));
}

#[test]
fn a_file_that_gives_no_address_is_refused() {
    let file = read(&json!({ "enableIPv4": false, "enableIPv6": false }));
    assert_eq!(file.check(), Err(ConfigError::NoFamily));
    assert_eq!(read(&json!({ "enableIPv4": false })).check(), Ok(()));
}

#[test]
fn every_key_of_the_reference_is_known_and_others_are_listed_by_path() {
    let raw = json!({
        "ipamUnixSocketPath": "/s", "enableIPv4": true, "enableIPv6": true, "tuneSysctlConfig": true,
        "enableStatefulSet": true, "enableKubevirtStaticIP": true, "enableSpiderSubnet": true,
        "enableAutoPoolForApplication": true, "enableCleanOutdatedEndpoint": false,
        "enableIPConflictDetection": false, "enableGatewayDetection": false,
        "clusterSubnetDefaultFlexibleIPNumber": 1, "clusterSubnetAutoPoolDefaultRedundantIPNumber": 1,
        "enableValidatingResourcesDeletedWebhook": false,
        "podResourceInject": { "enabled": false, "namespacesExclude": [], "namespacesInclude": [] },
        "agent": { "networkResourcePlugin": {
            "enabled": false, "kubeletRootDir": "/k",
            "devicePluginAffinity": { "nodeSelector": { "matchLabels": { "any": "thing" } } },
            "resourceAdvertisement": { "subENI": { "rules": [{ "defaultMaxCount": 0 }] } },
        } },
        "iaasNetworkProvider": {
            "enabled": false, "serverUrl": "", "httpRequestTimeout": "50s",
            "service": { "name": "p", "namespace": "n", "port": 8443 },
            "tls": { "caFile": "/c", "certFile": "/c", "keyFile": "/k", "insecureSkipVerify": false },
        },
    });
    assert_eq!(read(&raw).unknown_keys(&raw), Vec::<String>::new());
    let misspelt = json!({
        "enableIpv4": true,
        "iaasNetworkProvider": { "serverURL": "http://p", "tls": { "ca": "/c" } },
    });
    assert_eq!(
        read(&misspelt).unknown_keys(&misspelt),
        [
            "enableIpv4",
            "iaasNetworkProvider.serverURL",
            "iaasNetworkProvider.tls.ca"
        ]
    );
}
