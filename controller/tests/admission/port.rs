//! The port itself, without an API server in front.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orbweaver_cluster_sim::faults::Fault;
use orbweaver_controller::admission::Settings;
use orbweaver_controller::admission::review::Hook;
use reqwest::{Certificate, StatusCode};
use serde_json::{Value, json};

use crate::world::{World, until};

struct Port {
    world: World,
    http: reqwest::Client,
}

async fn port() -> Port {
    let mut world = World::bare().await;
    world.add_server(Settings::default()).await;
    let server = &world.servers[0];
    let roots = Certificate::from_pem_bundle(&server.identity.material().trust.unwrap()).unwrap();
    let http = reqwest::Client::builder()
        .tls_certs_only(roots)
        .no_proxy()
        .resolve("localhost", server.address)
        .build()
        .unwrap();
    let port = Port { world, http };
    until("the port is ready", async || {
        (port.get("/readyz").await == StatusCode::OK).then_some(())
    })
    .await;
    port
}

impl Port {
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.world.servers[0].address.port())
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
    let port = port().await;
    let answer = port
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
    let port = port().await;
    let answer = port
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
async fn what_cannot_be_read_is_refused_or_left_alone() {
    let port = port().await;
    let mut object = pool("p", "10.0.0.0/24", &[]);
    object["spec"]["ips"] = json!(7);
    assert_eq!(
        port.ask(Hook::ValidatePool, creation(&object)).await["allowed"],
        false
    );
    let mutated = port.ask(Hook::MutatePool, creation(&object)).await;
    assert_eq!((&mutated["allowed"], mutated.get("patch")), (&json!(true), None));
    let status = json!({ "uid": "u", "operation": "UPDATE", "subResource": "status", "object": object, "oldObject": object });
    assert_eq!(port.ask(Hook::ValidatePool, status).await["allowed"], true);
    let deletion = json!({ "uid": "u", "operation": "DELETE", "object": null, "oldObject": object });
    assert_eq!(port.ask(Hook::ValidatePool, deletion).await["allowed"], true);
    let reserved = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP",
        "metadata": { "name": "r" }, "spec": { "ips": ["x"] },
    });
    assert_eq!(
        port.ask(Hook::ValidateReserved, creation(&reserved)).await["allowed"],
        false
    );
}

#[tokio::test]
async fn a_body_that_is_no_review_or_too_large_is_told_so() {
    let port = port().await;
    assert_eq!(port.send(b"{}".to_vec()).await, StatusCode::BAD_REQUEST);
    assert_eq!(
        port.send(vec![b' '; (3 << 20) + 1]).await,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(port.get("/healthz").await, StatusCode::OK);
}

#[tokio::test]
async fn a_port_that_closes_answers_what_it_was_asked() {
    let mut port = port().await;
    // It takes its time, so that the question is open when the port is told to close.
    let late = Fault::Delay(Duration::from_millis(300));
    if !port.world.spoil("get", "configmaps", late) {
        return port.world.end().await;
    }
    let server = port.world.servers.remove(0);
    let url = format!(
        "https://localhost:{}{}",
        server.address.port(),
        Hook::ValidatePool.path()
    );
    let pool = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "subnet": "10.0.0.0/24", "ipVersion": 4, "ips": ["10.0.0.1"] } });
    let review = json!({ "request": creation(&pool) });
    let asking = tokio::spawn(port.http.post(url).json(&review).send());
    until("the question has arrived", async || {
        port.world.has_asked("get", "configmaps").then_some(())
    })
    .await;
    server.stop().await;
    assert_eq!(asking.await.unwrap().unwrap().status(), StatusCode::OK);
}
