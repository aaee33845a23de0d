//! The simulated API server, driven by kube-rs and by kubectl.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use std::process::Command;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Config};
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use serde_json::{Value, json};

async fn start() -> (Cluster, Client) {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    (cluster, Client::try_from(config).unwrap())
}

fn configmap(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "k": value } })).unwrap()
}

fn widgets(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("test.io", "v1", "Widget"));
    Api::all_with(client.clone(), &resource)
}

async fn define_widgets(client: &Client) {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "widgets.test.io" },
        "spec": {
            "group": "test.io", "scope": "Cluster",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "additionalPrinterColumns": [{ "name": "SIZE", "type": "integer", "jsonPath": ".spec.size" }],
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "required": ["size"], "properties": {
                        "size": { "type": "integer", "minimum": 1 },
                        "on": { "type": "boolean", "default": false },
                        "fixed": { "type": "string",
                            "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "is not changeable" }] },
                    } },
                    "status": { "type": "object", "properties": {
                        "mine": { "type": "string" }, "theirs": { "type": "string" }, "count": { "type": "integer" },
                    } },
                } } },
            }],
        },
    }))
    .unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
}

fn widget(spec: Value) -> DynamicObject {
    serde_json::from_value(
        json!({ "apiVersion": "test.io/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": spec }),
    )
    .unwrap()
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("no answer from the API server: {other}"),
    }
}

#[tokio::test]
async fn a_stale_write_is_refused() {
    let (_cluster, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let first = api
        .create(&PostParams::default(), &configmap("c", "1"))
        .await
        .unwrap();
    let mut second = first.clone();
    second.data = configmap("c", "2").data;
    api.replace("c", &PostParams::default(), &second).await.unwrap();
    let stale = api
        .replace("c", &PostParams::default(), &first)
        .await
        .unwrap_err();
    let patch =
        json!({ "metadata": { "resourceVersion": first.metadata.resource_version }, "data": { "k": "3" } });
    let stale_patch = api
        .patch("c", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap_err();
    let again = api
        .create(&PostParams::default(), &configmap("c", "1"))
        .await
        .unwrap_err();
    assert_eq!([stale, stale_patch, again].map(code), [409; 3]);
    assert_eq!(api.get("c").await.unwrap().data.unwrap()["k"], "2");
}

#[tokio::test]
async fn a_watch_sees_everything_after_a_list_and_410_after_compaction() {
    let (cluster, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    api.create(&PostParams::default(), &configmap("a", "1"))
        .await
        .unwrap();
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut seen = watcher(api.clone(), config).applied_objects().boxed();
        let first = tokio::time::timeout(Duration::from_secs(10), seen.try_next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(first.metadata.name.as_deref(), Some("a"));
        api.patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({ "data": { "k": rand::random::<u32>().to_string() } })),
        )
        .await
        .unwrap();
        let next = tokio::time::timeout(Duration::from_secs(10), seen.try_next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_ne!(next.metadata.resource_version, first.metadata.resource_version);
    }
    cluster.compact();
    let events: Vec<_> = api
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap()
        .take(1)
        .collect()
        .await;
    assert!(
        matches!(&events[0], Ok(kube::core::WatchEvent::Error(status)) if status.code == 410),
        "{events:?}"
    );
}

#[tokio::test]
async fn schemas_validate_fill_in_and_prune() {
    let (_cluster, client) = start().await;
    define_widgets(&client).await;
    let api = widgets(&client);
    let refused = api
        .create(&PostParams::default(), &widget(json!({ "size": 0 })))
        .await
        .unwrap_err();
    let made = api
        .create(
            &PostParams::default(),
            &widget(json!({ "size": 1, "unknown": 1, "fixed": "a" })),
        )
        .await
        .unwrap();
    assert_eq!(made.data["spec"], json!({ "size": 1, "on": false, "fixed": "a" }));
    let changed = json!({ "spec": { "fixed": "b" } });
    let immutable = api
        .patch("w", &PatchParams::default(), &Patch::Merge(changed))
        .await
        .unwrap_err();
    assert_eq!([refused, immutable].map(code), [422; 2]);
}

#[tokio::test]
async fn status_and_spec_are_written_apart_and_only_spec_counts_generations() {
    let (_cluster, client) = start().await;
    define_widgets(&client).await;
    let api = widgets(&client);
    api.create(&PostParams::default(), &widget(json!({ "size": 1 })))
        .await
        .unwrap();
    let both = json!({ "spec": { "size": 2 }, "status": { "mine": "x" } });
    let main = api
        .patch("w", &PatchParams::default(), &Patch::Merge(&both))
        .await
        .unwrap();
    let status = api
        .patch_status(
            "w",
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": { "size": 9 }, "status": { "mine": "y" } })),
        )
        .await
        .unwrap();
    assert_eq!(
        (main.data.get("status"), main.metadata.generation),
        (None, Some(2))
    );
    assert_eq!(
        (&status.data["spec"]["size"], &status.data["status"]["mine"]),
        (&json!(2), &json!("y"))
    );
    assert_eq!(status.metadata.generation, Some(2));
}

#[tokio::test]
async fn appliers_keep_their_own_fields_and_conflict_over_shared_ones() {
    let (_cluster, client) = start().await;
    define_widgets(&client).await;
    let api = widgets(&client);
    api.create(&PostParams::default(), &widget(json!({ "size": 1 })))
        .await
        .unwrap();
    let status = |status: Value| json!({ "apiVersion": "test.io/v1", "kind": "Widget", "status": status });
    let apply = |manager: &str, body: Value| {
        let (api, params) = (api.clone(), PatchParams::apply(manager));
        async move { api.patch_status("w", &params, &Patch::Apply(status(body))).await }
    };
    apply("one", json!({ "mine": "1", "count": 1 })).await.unwrap();
    api.patch_status(
        "w",
        &PatchParams::default(),
        &Patch::Merge(json!({ "status": { "theirs": "2" } })),
    )
    .await
    .unwrap();
    let both = apply("one", json!({ "mine": "3" })).await.unwrap();
    assert_eq!(both.data["status"], json!({ "mine": "3", "theirs": "2" }));
    assert_eq!(code(apply("two", json!({ "mine": "4" })).await.unwrap_err()), 409);
}

#[tokio::test]
async fn finalizers_and_grace_hold_deletion_up() {
    let (_cluster, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut held = configmap("c", "1");
    held.metadata.finalizers = Some(vec!["test.io/f".to_owned()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    api.delete("c", &DeleteParams::default()).await.unwrap();
    assert!(api.get("c").await.unwrap().metadata.deletion_timestamp.is_some());
    api.patch(
        "c",
        &PatchParams::default(),
        &Patch::Merge(json!({ "metadata": { "finalizers": null } })),
    )
    .await
    .unwrap();
    assert!(api.get_opt("c").await.unwrap().is_none());
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] } })).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        pods.get("p")
            .await
            .unwrap()
            .metadata
            .deletion_grace_period_seconds,
        Some(30)
    );
    pods.delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test]
async fn dependents_go_with_their_owner_and_selectors_and_pages_hold() {
    let (_cluster, client) = start().await;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let owner = api
        .create(&PostParams::default(), &configmap("owner", "1"))
        .await
        .unwrap();
    for index in 0..5 {
        let mut one = configmap(&format!("d{index}"), "1");
        one.metadata.labels = Some([("index".to_owned(), index.to_string())].into());
        one.metadata.owner_references = Some(vec![kube::Resource::owner_ref(&owner, &()).unwrap()]);
        api.create(&PostParams::default(), &one).await.unwrap();
    }
    let chosen = api
        .list(&ListParams::default().labels("index in (1,2),index!=2"))
        .await
        .unwrap();
    assert_eq!(chosen.items.len(), 1);
    let page = api.list(&ListParams::default().limit(4)).await.unwrap();
    let rest = api
        .list(
            &ListParams::default()
                .limit(4)
                .continue_token(page.metadata.continue_.as_deref().unwrap()),
        )
        .await
        .unwrap();
    assert_eq!((page.items.len(), rest.items.len()), (4, 2));
    api.delete("owner", &DeleteParams::default()).await.unwrap();
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works() {
    let (cluster, client) = start().await;
    define_widgets(&client).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let manifest = folder.path().join("w.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: test.io/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n",
    )
    .unwrap();
    let kubectl = |arguments: &[&str]| {
        let run = Command::new("kubectl")
            .env("KUBECONFIG", &kubeconfig)
            .env("HOME", folder.path())
            .args(arguments)
            .output();
        run.map(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                output.status.success(),
                "{arguments:?}: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            text
        })
    };
    if kubectl(&["version", "--client"]).is_err() {
        println!("skipped: kubectl is not installed");
        return;
    }
    let file = manifest.to_str().unwrap();
    kubectl(&["apply", "-f", file]).unwrap();
    kubectl(&["apply", "-f", file, "--server-side", "--force-conflicts"]).unwrap();
    assert!(kubectl(&["get", "wd"]).unwrap().contains("SIZE"));
    kubectl(&[
        "patch",
        "wd",
        "w",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"mine":"k"}}"#,
    ])
    .unwrap();
    assert_eq!(
        kubectl(&["get", "wd", "w", "-o", "jsonpath={.status.mine}"]).unwrap(),
        "k"
    );
    assert!(kubectl(&["describe", "wd", "w"]).unwrap().contains("Size:"));
    kubectl(&["delete", "wd", "w"]).unwrap();
    assert!(kubectl(&["get", "pods", "-A"]).unwrap().is_empty());
}

#[tokio::test]
async fn a_custom_resource_must_say_what_it_is() {
    let (_cluster, client) = start().await;
    define_widgets(&client).await;
    let request =
        http::Request::post("/apis/test.io/v1/widgets").body(b"{\"metadata\":{\"name\":\"w\"}}".to_vec());
    let refused = client.request::<Value>(request.unwrap()).await.unwrap_err();
    assert_eq!(code(refused), 400);
}
