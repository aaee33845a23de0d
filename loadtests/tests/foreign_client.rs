//! A client that knows nothing but Spiderpool's OpenAPI v1 drives the agent over its socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::simulation::Simulation;
use serde_json::{Value, json};
use tokio::net::UnixStream;

const GLOBAL: &str = include_str!("../../examples/spare.yaml");

/// One connection for each call, as go-swagger clients without keep-alive do.
async fn call(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let text = body.map(Value::to_string).unwrap_or_default();
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("connection", "close")
        .body(Full::new(Bytes::from(text)))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    connection.await.unwrap().unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_openapi_client_gets_and_gives_back_an_address() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let pool = simulation.apply_pool(GLOBAL).await.unwrap();
    simulation
        .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
        .await
        .unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let socket = agent.socket();
    assert_eq!(call(socket, "GET", "/v1/ipam/healthy", None).await.0, 200);
    let arguments = json!({
        "containerID": sandbox.container, "ifName": "eth0", "netNamespace": sandbox.netns,
        "podNamespace": sandbox.namespace, "podName": sandbox.name, "podUID": sandbox.uid,
    });
    let (code, added) = call(socket, "POST", "/v1/ipam/ip", Some(&arguments)).await;
    assert_eq!(code, 200, "{added}");
    let ip = &added["ips"][0];
    assert_eq!(
        (&ip["version"], &ip["nic"], &ip["ipPool"], &ip["gateway"]),
        (&json!(4), &json!("eth0"), &json!(pool), &json!("10.9.0.1"))
    );

    let path = format!(
        "/v1/workloadendpoint?podNamespace={}&podName=p",
        sandbox.namespace
    );
    let (code, endpoint) = call(socket, "GET", &path, None).await;
    let nic = &endpoint["interfaces"][0];
    assert_eq!((code, &nic["ipv4"]), (200, &ip["address"]), "{endpoint}");
    assert!(
        nic["mac"].as_str().is_some_and(|mac| !mac.is_empty()) && nic["vlan"].as_i64() > Some(0),
        "{endpoint}"
    );

    let (code, text) = call(socket, "POST", "/v1/ipam/ip", Some(&json!({ "ifName": "eth0" }))).await;
    assert!(code >= 400 && text.is_string(), "{code} {text}");
    simulation.delete_pod("p").await.unwrap();
    assert_eq!(
        call(socket, "DELETE", "/v1/ipam/ip", Some(&arguments)).await.0,
        200
    );
    simulation.finish_pod("p").await.unwrap();
    assert_eq!(
        call(socket, "DELETE", "/v1/ipam/ip", Some(&arguments)).await.0,
        200,
        "again"
    );
    assert!(simulation.picture().await.unwrap().claims().unwrap().is_empty());
    simulation.finish().await.unwrap();
}
