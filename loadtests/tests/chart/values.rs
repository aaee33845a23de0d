//! What values are refused, what values of Spiderpool do, and what becomes of them.

use orbweaver_api::pool::SpiderIPPool;
use orbweaver_controller::admission::{Settings, pool_mutation, pool_rules};
use orbweaver_controller::config::file::check_text;
use serde_json::Value;

use crate::helm::{RELEASE, render, render_file, renderings};

/// Values, and what the message must contain: the name of the value, and what would be right.
const NONSENSE: &[(&str, &[&str])] = &[
    ("ipam: {enableIPv4: 'yes'}", &["/ipam/enableIPv4", "want boolean"]),
    (
        "ipam: {enableIpv4: true}",
        &["/ipam", "enableIpv4", "not allowed"],
    ),
    ("spiderpoolagent: {}", &["spiderpoolagent", "not allowed"]),
    (
        "ipam: {enableIPv4: false, enableIPv6: false}",
        &["ipam.enableIPv4", "set at least one"],
    ),
    (
        "iaasNetworkProvider: {serverUrl: 'provider:80'}",
        &["/iaasNetworkProvider/serverUrl", "https?"],
    ),
    (
        "iaasNetworkProvider: {serverUrl: 'https://'}",
        &["/iaasNetworkProvider/serverUrl"],
    ),
    (
        "iaasNetworkProvider: {httpRequestTimeout: 50}",
        &["/iaasNetworkProvider/httpRequestTimeout", "want string"],
    ),
    (
        "iaasNetworkProvider: {httpRequestTimeout: fast}",
        &["/iaasNetworkProvider/httpRequestTimeout"],
    ),
    (
        "iaasNetworkProvider: {httpRequestTimeout: 100s}",
        &["httpRequestTimeout \"100s\"", "less than 100s"],
    ),
    (
        "iaasNetworkProvider: {httpRequestTimeout: 1m40s}",
        &["httpRequestTimeout", "less than 100s"],
    ),
    (
        "iaasNetworkProvider: {httpRequestTimeout: 0s}",
        &["httpRequestTimeout", "more than 0s"],
    ),
    (
        "iaasNetworkProvider: {service: {name: p}}",
        &["iaasNetworkProvider.service.namespace", "needed"],
    ),
    (
        "iaasNetworkProvider: {service: {name: p, namespace: n, port: 0}}",
        &["/iaasNetworkProvider/service/port", "minimum"],
    ),
    (
        "iaasNetworkProvider: {tls: {clientCertificate: true}}",
        &["tls.clientCertificate", "tls.secretName"],
    ),
    (
        "{iaasNetworkProvider: {serverUrl: 'http://p'}, ipam: {enableGatewayDetection: true}}",
        &["ipam.enableGatewayDetection", "must be false"],
    ),
    (
        "{iaasNetworkProvider: {serverUrl: 'http://p'}, ipam: {enableIPConflictDetection: true}}",
        &["ipam.enableIPConflictDetection"],
    ),
    (
        "global: {ipamUNIXSocketHostPath: run/agent.sock}",
        &["/global/ipamUNIXSocketHostPath"],
    ),
    (
        "global: {ipamUNIXSocketHostPath: /agent.sock}",
        &["/global/ipamUNIXSocketHostPath"],
    ),
    ("global: {cniBinHostPath: opt/cni}", &["/global/cniBinHostPath"]),
    (
        "global: {commonLabels: {a: 1}}",
        &["/global/commonLabels/a", "want string"],
    ),
    (
        "spiderpoolAgent: {image: {tag: 'a b'}}",
        &["/spiderpoolAgent/image/tag"],
    ),
    (
        "spiderpoolAgent: {image: {digest: sha256:1}}",
        &["/spiderpoolAgent/image/digest"],
    ),
    (
        "spiderpoolAgent: {image: {repository: spidernet-io/spiderpool/spiderpool-agent}}",
        &["spiderpoolAgent.image.repository", "an image of Orbweaver"],
    ),
    (
        "spiderpoolAgent: {prometheus: {port: 70000}}",
        &["/spiderpoolAgent/prometheus/port", "maximum"],
    ),
    (
        "spiderpoolAgent: {debug: {logLevel: loud}}",
        &["/spiderpoolAgent/debug/logLevel"],
    ),
    (
        "spiderpoolAgent: {securityContext: {privileged: true}}",
        &["/spiderpoolAgent/securityContext/privileged"],
    ),
    (
        "spiderpoolController: {replicas: 0}",
        &["/spiderpoolController/replicas", "minimum"],
    ),
    (
        "spiderpoolController: {replicas: 2, podDisruptionBudget: {minAvailable: 2}}",
        &["podDisruptionBudget.minAvailable 2", "below the replicas"],
    ),
    (
        "spiderpoolController: {webhookPort: 5721}",
        &["webhookPort", "two ports"],
    ),
    (
        "spiderpoolController: {tls: {method: self}}",
        &[
            "/spiderpoolController/tls/method",
            "'auto', 'certmanager', 'provided'",
        ],
    ),
    (
        "spiderpoolController: {tls: {method: certmanager}}",
        &["tls.certmanager.issuerName"],
    ),
    (
        "spiderpoolController: {tls: {method: provided}}",
        &["tls.provided.tlsCa"],
    ),
    (
        "spiderpoolController: {tls: {method: provided, provided: {tlsCa: YQ==, tlsKey: YQ==}}}",
        &["tlsCert and tlsKey", "give both"],
    ),
    (
        "spiderpoolController: {podResourceInject: {namespacesExclude: [Big]}}",
        &["/spiderpoolController/podResourceInject/namespacesExclude/0"],
    ),
    (
        "clusterDefaultPool: {installIPv4IPPool: true}",
        &["clusterDefaultPool.ipv4Subnet is empty"],
    ),
    (
        "clusterDefaultPool: {installIPv4IPPool: true, ipv4Subnet: 10.0.0.0/8}",
        &["clusterDefaultPool.ipv4IPRanges is empty"],
    ),
    (
        "clusterDefaultPool: {ipv4Subnet: 10.0.0.0/33}",
        &["/clusterDefaultPool/ipv4Subnet"],
    ),
    (
        "{clusterDefaultPool: {installIPv6IPPool: true, ipv6Subnet: 'fd00::/64', ipv6IPRanges: ['fd00::1']}, ipam: {enableIPv6: false}}",
        &["ipam.enableIPv6 is false"],
    ),
];

#[test]
fn nonsense_is_refused_by_the_values_name() {
    for (values, words) in NONSENSE {
        let error = render(values)
            .error
            .unwrap_or_else(|| panic!("{values} was taken"));
        for word in *words {
            assert!(error.contains(word), "{values}: {word:?} is not in {error:?}");
        }
    }
}

#[test]
fn a_values_file_of_spiderpool_is_taken_and_the_notes_tell_what_does_nothing() {
    let rendering = render_file("spiderpool.yaml");
    let told = rendering.notes();
    for ignored in [
        "coordinator:",
        "multus.multusCNI.install:",
        "plugins:",
        "rdma:",
        "spiderpoolAgent.networkResourcePlugin:",
        "spiderpoolAgent.tuneSysctlConfig:",
    ] {
        assert!(told.contains(ignored), "{ignored}: {told}");
    }
    assert!(
        !render("{}").notes().contains("do nothing here"),
        "nobody asked for any of that"
    );
}

/// Names and selectors are those of Spiderpool's chart: selectors cannot be changed, and a release that is upgraded in
/// place keeps its pools, because its uninstall hook, which deletes them, does not run.
#[test]
fn a_release_of_spiderpool_is_upgraded_in_place() {
    let rendering = render("{}");
    for (kind, name) in [
        ("DaemonSet", "spiderpool-agent"),
        ("Deployment", "spiderpool-controller"),
    ] {
        let expected = serde_json::json!({
            "app.kubernetes.io/name": "spiderpool",
            "app.kubernetes.io/instance": RELEASE,
            "app.kubernetes.io/component": name,
        });
        let object = rendering.object(kind, name);
        assert_eq!(object["spec"]["selector"]["matchLabels"], expected);
    }
}

fn conf(objects: &[Value]) -> String {
    let maps = objects.iter().filter(|object| object["kind"] == "ConfigMap");
    let texts: Vec<&str> = maps.filter_map(|map| map["data"]["conf.yml"].as_str()).collect();
    assert_eq!(texts.len(), 1);
    texts[0].to_owned()
}

#[test]
fn conf_yml_starts_both_programs_and_has_no_key_that_nobody_knows() {
    for (file, rendering) in renderings() {
        let text = conf(&rendering.objects());
        let agent = orbweaver_agent::config::file::parse(&text);
        agent.unwrap_or_else(|e| panic!("{file}: {e}"));
        let checked = check_text(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(
            checked.unknown_keys.is_empty(),
            "{file}: {:?}",
            checked.unknown_keys
        );
    }
}

#[test]
fn the_provider_of_the_values_is_the_provider_of_the_agent() {
    let rendering = render_file("everything.yaml");
    let checked = check_text(&conf(&rendering.objects())).unwrap();
    let provider = checked.file.provider().unwrap().unwrap();
    assert_eq!(provider.base_url, "https://provider.cloud.svc:9443");
    assert_eq!(provider.http_request_timeout.to_string(), "1m30s");
    let agent = rendering.object("DaemonSet", "spiderpool-agent");
    let spec = &agent["spec"]["template"]["spec"];
    let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts
        .iter()
        .find(|mount| mount["name"] == "provider")
        .expect("the secret is mounted");
    let folder = mount["mountPath"].as_str().unwrap();
    for file in [provider.ca_file, provider.client_cert, provider.client_key] {
        assert!(file.unwrap().starts_with(folder));
    }
    let none = check_text(&conf(&render("{}").objects())).unwrap();
    assert!(none.file.provider().unwrap().is_none());
}

/// It is made before the webhooks are there. And it is never made anew: what Helm deletes before it makes it takes its
/// claims along.
#[test]
fn a_default_pool_is_what_the_webhooks_would_have_made_of_it_and_is_never_deleted() {
    for file in ["everything.yaml", "spiderpool.yaml"] {
        let pools = render_file(file).of_kind("SpiderIPPool");
        assert!(!pools.is_empty());
        for pool in pools {
            let annotations = pool["metadata"]["annotations"].clone();
            assert_eq!(annotations["helm.sh/hook"], "pre-install");
            assert_eq!(annotations["helm.sh/hook-delete-policy"], "hook-failed");
            assert_eq!(annotations["helm.sh/resource-policy"], "keep");
            let pool: SpiderIPPool = serde_json::from_value(pool).unwrap();
            assert_eq!(pool_mutation::patch(&pool), Vec::<Value>::new(), "{file}");
            let findings = pool_rules::create(&pool, std::iter::empty(), Settings::default());
            assert!(findings.is_empty(), "{file}: {findings:?}");
        }
    }
}

#[test]
fn the_chart_has_the_version_of_the_programs() {
    let text = std::fs::read_to_string(crate::helm::chart().join("Chart.yaml")).unwrap();
    let chart: Value = serde_yaml::from_str(&text).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}
