//! The admission port over TLS, in front of the simulated cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config as KubeConfig};
use orbweaver_api::crd;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use orbweaver_controller::admission::Settings;
use orbweaver_controller::admission::certificate::{Identity, Source};
use orbweaver_controller::admission::review::Hook;
use orbweaver_controller::admission::server::{WebhookConfig, WebhookServer};
use reqwest::{Certificate, StatusCode};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn self_made() -> Source {
    Source::SelfMade(vec!["localhost".to_owned()])
}

struct World {
    _simulated: Cluster,
    pools: Api<SpiderIPPool>,
    server: WebhookServer,
    http: reqwest::Client,
}

async fn world() -> World {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let simulated = Cluster::start(ClusterOptions::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&simulated.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = KubeConfig::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    for definition in crd::all().unwrap() {
        let definitions = Api::all(client.clone());
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
    }
    let config = WebhookConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        source: self_made(),
        settings: Settings::default(),
    };
    let server = WebhookServer::start(&config, client.clone()).await.unwrap();
    let root = Certificate::from_der(&server.identity.chain()[0]).unwrap();
    let http = reqwest::Client::builder()
        .tls_certs_only([root])
        .no_proxy()
        .resolve("localhost", server.address)
        .build()
        .unwrap();
    let world = World {
        _simulated: simulated,
        pools: Api::all(client),
        server,
        http,
    };
    let ready = async {
        while world.get("/readyz").await != StatusCode::OK {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), ready).await.unwrap();
    world
}

impl World {
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.address.port())
    }

    async fn get(&self, path: &str) -> StatusCode {
        self.http.get(self.url(path)).send().await.unwrap().status()
    }

    async fn ask(&self, hook: Hook, request: Value) -> Value {
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        let answer = self.http.post(self.url(hook.path())).json(&review);
        let answer: Value = answer.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["uid"], request["uid"]);
        answer["response"].clone()
    }

    async fn send(&self, body: Vec<u8>) -> StatusCode {
        let url = self.url(Hook::ValidatePool.path());
        self.http.post(url).body(body).send().await.unwrap().status()
    }
}

fn pool(name: &str, subnet: &str, ips: &[&str]) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": { "name": name },
        "spec": { "subnet": subnet, "ips": ips },
    })
}

fn creation(object: &Value) -> Value {
    json!({ "uid": "u-1", "operation": "CREATE", "name": object["metadata"]["name"], "object": object, "oldObject": null })
}

#[tokio::test]
async fn a_pool_is_completed_by_a_json_patch() {
    let world = world().await;
    let answer = world
        .ask(
            Hook::MutatePool,
            creation(&pool("p", "10.0.0.0/24", &["10.0.0.2", "10.0.0.1"])),
        )
        .await;
    assert_eq!(
        (&answer["allowed"], &answer["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    let patch = STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
    let patch: Vec<Value> = serde_json::from_slice(&patch).unwrap();
    let ips = patch
        .iter()
        .find(|operation| operation["path"] == "/spec/ips")
        .unwrap();
    assert_eq!(ips["value"], json!(["10.0.0.1-10.0.0.2"]));
}

#[tokio::test]
async fn a_refusal_lists_every_field() {
    let world = world().await;
    let answer = world
        .ask(
            Hook::ValidatePool,
            creation(&pool("p", "10.0.0.0/24", &["10.0.9.1", "x"])),
        )
        .await;
    assert_eq!(
        (&answer["allowed"], &answer["status"]["code"]),
        (&json!(false), &json!(422))
    );
    let causes = answer["status"]["details"]["causes"].as_array().unwrap();
    let fields: Vec<_> = causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["spec.ips[0]", "spec.ips[1]"]);
}

#[tokio::test]
async fn a_pool_that_the_cluster_has_is_respected() {
    let world = world().await;
    let there = serde_json::from_value(pool("there", "10.0.0.0/16", &[])).unwrap();
    world.pools.create(&PostParams::default(), &there).await.unwrap();
    let seen = async {
        loop {
            let answer = world
                .ask(Hook::ValidatePool, creation(&pool("p", "10.0.1.0/24", &[])))
                .await;
            if answer["allowed"] == false {
                return answer["status"]["message"].as_str().unwrap().to_owned();
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let message = timeout(Duration::from_secs(30), seen).await.unwrap();
    assert!(message.contains("overlap with IPPool there"), "{message}");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_or_left_alone() {
    let world = world().await;
    let mut object = pool("p", "10.0.0.0/24", &[]);
    object["spec"]["ips"] = json!(7);
    assert_eq!(
        world.ask(Hook::ValidatePool, creation(&object)).await["allowed"],
        false
    );
    let mutated = world.ask(Hook::MutatePool, creation(&object)).await;
    assert_eq!((&mutated["allowed"], mutated.get("patch")), (&json!(true), None));
    let status = json!({ "uid": "u", "operation": "UPDATE", "subResource": "status", "object": object, "oldObject": object });
    assert_eq!(world.ask(Hook::ValidatePool, status).await["allowed"], true);
    let deletion = json!({ "uid": "u", "operation": "DELETE", "object": null, "oldObject": object });
    assert_eq!(world.ask(Hook::ValidatePool, deletion).await["allowed"], true);
    let reserved = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP",
        "metadata": { "name": "r" }, "spec": { "ips": ["x"] },
    });
    assert_eq!(
        world.ask(Hook::ValidateReserved, creation(&reserved)).await["allowed"],
        false
    );
}

#[tokio::test]
async fn a_body_that_is_no_review_or_too_large_is_told_so() {
    let world = world().await;
    assert_eq!(world.send(b"{}".to_vec()).await, StatusCode::BAD_REQUEST);
    assert_eq!(
        world.send(vec![b' '; (3 << 20) + 1]).await,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(world.get("/healthz").await, StatusCode::OK);
}

#[test]
fn a_self_made_certificate_is_renewed_in_time() {
    let identity = Identity::new(self_made()).unwrap();
    let first = identity.chain();
    assert!(!identity.refresh(SystemTime::now() + 59 * DAY).unwrap());
    assert!(identity.refresh(SystemTime::now() + 61 * DAY).unwrap());
    assert_ne!(identity.chain(), first);
}

fn write_pair(directory: &Path) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
}

#[test]
fn a_given_certificate_is_read_again_and_a_broken_one_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    write_pair(directory.path());
    let (chain, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let identity = Identity::new(Source::Files {
        chain: chain.clone(),
        key,
    })
    .unwrap();
    let first = identity.chain();
    assert!(!identity.refresh(SystemTime::now()).unwrap());
    write_pair(directory.path());
    assert!(identity.refresh(SystemTime::now()).unwrap());
    let second = identity.chain();
    assert_ne!(second, first);
    std::fs::write(&chain, "nonsense").unwrap();
    assert!(identity.refresh(SystemTime::now()).is_err());
    assert_eq!(identity.chain(), second);
}
