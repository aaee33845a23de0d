//! The chart in a cluster: everything can be applied, and with a dead controller others go on.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client, Config, ResourceExt};
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use serde_json::{Value, json};

use crate::helm::{NAMESPACE, Rendering, chart, render, renderings};

/// A fresh cluster with the chart's definitions, those of the operators that the chart knows, and the namespaces.
async fn cluster() -> (Cluster, Client) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let definitions = std::fs::read_dir(chart().join("crds")).unwrap().map(|entry| {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        serde_yaml::from_str::<Value>(&text).unwrap()
    });
    let foreign = [
        definition("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
        definition("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
        definition("cert-manager.io", "Certificate", "certificates"),
    ];
    let namespaces = [NAMESPACE, "monitoring", "jobs"].map(
        |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } } }),
    );
    for object in definitions.chain(foreign).chain(namespaces) {
        apply(&client, &object).await;
    }
    (cluster, client)
}

fn definition(group: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

/// Applies an object and returns its version.
async fn apply(client: &Client, object: &Value) -> String {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let types = object.types.clone().unwrap();
    let name = format!("{} {}", types.kind, object.name_any());
    let kind = types
        .try_into()
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let (resource, served) = discovery
        .resolve_gvk(&kind)
        .unwrap_or_else(|| panic!("{name}: the cluster does not serve this kind"));
    let api: Api<DynamicObject> = match (served.scope, object.namespace()) {
        (Scope::Cluster, None) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (scope, namespace) => panic!("{name}: is {scope:?}, and in namespace {namespace:?}"),
    };
    let params = PatchParams::apply("helm").force();
    let applied = api
        .patch(&object.name_any(), &params, &Patch::Apply(&object))
        .await;
    let applied = applied.unwrap_or_else(|error| panic!("{name}: {error}"));
    applied.resource_version().unwrap()
}

/// When Helm makes an object: hooks before, webhooks last, hooks of the end.
fn turn(object: &Value) -> usize {
    let hook = object["metadata"]["annotations"]["helm.sh/hook"].as_str();
    let webhook = object["kind"].as_str().unwrap().ends_with("WebhookConfiguration");
    match hook {
        Some("pre-install") => 0,
        None if !webhook => 1,
        None => 2,
        Some("post-delete") => 3,
        Some(other) => panic!("what is a {other}?"),
    }
}

async fn install(client: &Client, rendering: &Rendering) -> Vec<(Value, String)> {
    let mut objects = rendering.objects();
    objects.sort_by_key(turn);
    let mut applied = Vec::new();
    for object in objects {
        let version = apply(client, &object).await;
        applied.push((object, version));
    }
    applied
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_applied_and_again_without_a_change() {
    for (file, rendering) in renderings() {
        let (cluster, client) = cluster().await;
        let applied = install(&client, &rendering).await;
        for (object, version) in applied {
            if turn(&object) == 0 {
                // Made once; now a webhook would be asked, and nobody is there.
                continue;
            }
            let again = apply(&client, &object).await;
            assert_eq!(
                again, version,
                "{file}: {} {}",
                object["kind"], object["metadata"]["name"]
            );
        }
        cluster.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_dead_controller_pods_are_made_everywhere_and_pools_are_not_changed() {
    let (cluster, client) = cluster().await;
    let inject = "spiderpoolController: {podResourceInject: {enabled: true}}";
    install(&client, &render(inject)).await;
    for namespace in ["kube-system", NAMESPACE, "jobs"] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "main", "image": "none" }] },
        }))
        .unwrap();
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let made = pods.create(&PostParams::default(), &pod).await;
        assert!(made.is_ok(), "{namespace}: {made:?}");
    }
    let pool: orbweaver_api::pool::SpiderIPPool =
        serde_yaml::from_str(include_str!("../../../examples/plain.yaml")).unwrap();
    let refused = Api::all(client)
        .create(&PostParams::default(), &pool)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("webhook"), "{refused}");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_the_guide_to_installing_can_be_applied() {
    let (cluster, client) = cluster().await;
    let networks = definition(
        "k8s.cni.cncf.io",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
    );
    apply(&client, &networks).await;
    let guide = include_str!("../../../docs/install.md");
    let blocks = guide
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let mut applied = 0;
    for block in blocks {
        apply(&client, &serde_yaml::from_str(block).unwrap()).await;
        applied += 1;
    }
    assert_eq!(applied, 2);
    cluster.shutdown().await;
}
