//! Webhook configurations of the simulated API server, as far as no webhook needs to answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use serde_json::{Value, json};

/// A cluster whose config maps ask a webhook that nobody serves.
async fn start(entry: Value) -> (Cluster, Client) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    let mut webhook = json!({
        "name": "w.test.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "clientConfig": { "url": "https://127.0.0.1:1/w" },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "DELETE"] }],
    });
    json_patch::merge(&mut webhook, &entry);
    let configuration = json!({ "metadata": { "name": "w" }, "webhooks": [webhook] });
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration).unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &configuration)
        .await
        .unwrap();
    (cluster, client)
}

async fn create(client: &Client, name: &str, labels: Value) -> Option<u16> {
    let object = json!({ "metadata": { "name": name, "labels": labels } });
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_refuses_unless_that_is_to_be_ignored() {
    let (_cluster, client) = start(json!({})).await;
    assert_eq!(create(&client, "a", json!({})).await, Some(500));
    let (_cluster, client) = start(json!({ "failurePolicy": "Ignore" })).await;
    assert_eq!(create(&client, "a", json!({})).await, None);
}

#[tokio::test]
async fn a_webhook_is_asked_only_about_what_it_selects() {
    let selector = json!({ "matchExpressions": [{ "key": "skip", "operator": "DoesNotExist" }] });
    let (_cluster, client) = start(json!({ "objectSelector": selector })).await;
    assert_eq!(create(&client, "a", json!({ "skip": "" })).await, None);
    assert_eq!(create(&client, "b", json!({})).await, Some(500));

    let name = "kubernetes.io/metadata.name";
    let elsewhere =
        json!({ "matchExpressions": [{ "key": name, "operator": "NotIn", "values": ["default"] }] });
    let (_cluster, client) = start(json!({ "namespaceSelector": elsewhere })).await;
    assert_eq!(create(&client, "a", json!({})).await, None);
}

#[tokio::test]
async fn operations_are_told_apart_and_configurations_are_never_asked_about() {
    let selector = json!({ "matchLabels": { "hold": "yes" } });
    let (_cluster, client) = start(json!({ "objectSelector": selector })).await;
    assert_eq!(create(&client, "a", json!({})).await, None);
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let labels = json!({ "metadata": { "labels": { "hold": "yes" } } });
    api.patch("a", &PatchParams::default(), &Patch::Merge(&labels))
        .await
        .unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap_err();
    let all: Api<ValidatingWebhookConfiguration> = Api::all(client);
    all.delete("w", &DeleteParams::default()).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_dry_run_asks_no_webhook_with_side_effects() {
    let (_cluster, client) = start(json!({ "sideEffects": "Some", "failurePolicy": "Ignore" })).await;
    let object: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry, &object).await.unwrap_err();
    api.create(&PostParams::default(), &object).await.unwrap();
}
