//! The admin port over HTTP.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
#[path = "support/scripted.rs"]
mod scripted;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use orbweaver_agent::admin::{AdminServer, Health, Phase};
use orbweaver_agent::metrics::{self, Transport, Verb};
use scripted::Scripted;
use tokio::net::TcpStream;

async fn get(server: &AdminServer, path: &str) -> (u16, String) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let driver = tokio::spawn(connection);
    let response = sender
        .send_request(scripted::request("GET", path, ""))
        .await
        .unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    driver.abort();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn readiness_follows_the_agents_life_and_liveness_does_not() {
    let health = Health::default();
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = AdminServer::start(listen, health.clone(), None).await.unwrap();
    assert_eq!(get(&server, "/readyz").await, (503, "starting".to_owned()));
    health.enter(Phase::Serving(Arc::new(Scripted::default())));
    for path in ["/readyz", "/v1/runtime/readiness", "/v1/runtime/startup"] {
        assert_eq!(get(&server, path).await, (200, "ok".to_owned()), "{path}");
    }
    health.enter(Phase::Stopping);
    assert_eq!(get(&server, "/readyz").await.0, 503);
    assert_eq!(get(&server, "/livez").await.0, 200);
    assert_eq!(
        get(&server, "/metrics").await.0,
        404,
        "no recorder of ours in this server"
    );
}

#[tokio::test]
async fn every_metric_of_the_table_can_be_scraped() {
    let recorder = metrics::install().expect("the only recorder of this process");
    assert!(
        metrics::install().is_none(),
        "a second agent does not take the recorder"
    );
    metrics::request_answered(Verb::Add, Transport::Grpc, "exhausted", Duration::from_millis(3));
    metrics::connections(1.0);
    metrics::connection_closed("idle");
    metrics::api_answered("get", "spiderippools", "ok", Duration::from_millis(3));
    metrics::watch_failed("pods");
    metrics::watched_invalid("pods");
    metrics::parent_nic_published("ok");
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = AdminServer::start(listen, Health::default(), Some(recorder))
        .await
        .unwrap();
    let (status, text) = get(&server, "/metrics").await;
    assert_eq!(status, 200);
    for metric in metrics::METRICS {
        assert!(
            text.contains(&format!("# TYPE {} ", metric.name)),
            "{} is missing in\n{text}",
            metric.name
        );
        for label in metric.labels {
            assert!(
                text.contains(&format!("{label}=\"")),
                "label {label} of {}",
                metric.name
            );
        }
    }
    assert!(
        text.contains(
            "orbweaver_agent_requests_total{verb=\"add\",transport=\"grpc\",result=\"exhausted\"} 1"
        )
    );
    assert!(text.contains(
        "orbweaver_agent_request_duration_seconds_bucket{verb=\"add\",result=\"error\",le=\"0.005\"} 1"
    ));
}
