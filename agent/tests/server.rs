//! The server on a real unix socket, in front of a scripted service.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/scripted.rs"]
mod scripted;

use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::grpc as wire;
use prost::Message;
use scripted::{Fixture, Scripted, add_arguments, near, request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tonic::{Code, Request};

const PATIENCE: Duration = Duration::from_secs(20);

fn grpc_add(pod: &str) -> wire::AddRequest {
    wire::AddRequest {
        attachment: Some(wire::Attachment {
            container_id: "c-1".to_owned(),
            nic: "eth0".to_owned(),
            pod_namespace: "ns".to_owned(),
            pod_name: pod.to_owned(),
            pod_uid: "u-1".to_owned(),
            ..wire::Attachment::default()
        }),
        default_ipv4_pools: vec!["p4".to_owned()],
        request_id: "id-1".to_owned(),
        ..wire::AddRequest::default()
    }
}

#[tokio::test]
async fn grpc_and_openapi_are_served_side_by_side() {
    let agent = Fixture::start().await;
    let mut grpc = agent.grpc().await;
    let arguments = add_arguments("pod");
    let (over_grpc, (status, over_http)) = tokio::join!(
        grpc.add(grpc_add("pod")),
        agent.post("POST", "/v1/ipam/ip", &arguments)
    );
    let address = &over_grpc.unwrap().into_inner().addresses[0];
    assert_eq!(
        (address.version, address.address.as_str(), address.vlan),
        (4, "10.6.0.3/16", 100)
    );
    assert_eq!(status, 200);
    assert_eq!(over_http["ips"][0]["address"], "10.6.0.3/16");
}

#[tokio::test]
async fn an_add_over_openapi_has_spiderpools_shape() {
    let agent = Fixture::start().await;
    let mut arguments = add_arguments("pod");
    arguments["defaultIPv4IPPool"] = json!(["p4"]);
    arguments["defaultIPv6IPPool"] = Value::Null;
    arguments["cleanGateway"] = json!(true);
    let (status, body) = agent.post("POST", "/v1/ipam/ip", &arguments).await;
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "ips": [{
                "version": 4, "address": "10.6.0.3/16", "nic": "eth0", "ipPool": "p4",
                "gateway": "10.6.0.1", "vlan": 100, "mac": "fa:16:3e:aa:bb:cc",
                "enableGatewayDetection": false, "enableIPConflictDetection": false,
            }],
            "routes": [{ "ifName": "eth0", "dst": "10.7.0.0/16", "gw": "10.6.0.2" }],
        })
    );
    let seen = agent.service.adds.lock().pop().unwrap();
    assert_eq!(seen.attachment.uid, "u-1");
    assert_eq!(seen.attachment.netns, "/var/run/netns/x");
    assert_eq!(seen.default_ipv4_pools, ["p4"]);
    assert!(seen.clean_gateway);
}

#[tokio::test]
async fn a_failure_over_openapi_is_a_500_with_a_string() {
    let agent = Fixture::start().await;
    let (status, body) = agent.post("POST", "/v1/ipam/ip", &add_arguments("full")).await;
    assert_eq!(status, 500);
    assert!(
        body.as_str().unwrap().contains("all IP addresses used out"),
        "{body}"
    );
}

#[tokio::test]
async fn a_failure_over_grpc_says_stage_reason_and_remedy() {
    let agent = Fixture::start().await;
    let status = agent.grpc().await.add(grpc_add("full")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let failure = wire::Failure::decode(status.details()).unwrap();
    assert_eq!(failure.reason, "exhausted");
    assert_eq!(failure.stage, "claim");
    assert_eq!(failure.request_id, "id-1");
    assert!(failure.temporary && !failure.remedy.is_empty());
}

#[tokio::test]
async fn a_del_needs_neither_netns_nor_an_answer() {
    let agent = Fixture::start().await;
    let mut arguments = add_arguments("pod");
    arguments.as_object_mut().unwrap().remove("netNamespace");
    assert_eq!(
        agent.post("DELETE", "/v1/ipam/ip", &arguments).await,
        (200, Value::Null)
    );
    let message = wire::DelRequest {
        attachment: grpc_add("pod").attachment,
        ..Default::default()
    };
    agent.grpc().await.del(message).await.unwrap();
    let seen = std::mem::take(&mut *agent.service.dels.lock());
    assert_eq!(seen.len(), 2);
    assert!(
        seen.iter()
            .all(|del| del.attachment.netns.is_empty() && del.attachment.uid == "u-1")
    );
    assert!(!seen[1].request_id.is_empty(), "a request without an id gets one");
}

#[tokio::test]
async fn check_status_and_gc_answer_as_they_should() {
    let agent = Fixture::start().await;
    let mut grpc = agent.grpc().await;
    let mut check = wire::CheckRequest {
        addresses: vec!["10.6.0.3/16".to_owned()],
        ..Default::default()
    };
    grpc.check(check.clone()).await.unwrap();
    check.addresses.clear();
    assert_eq!(grpc.check(check).await.unwrap_err().code(), Code::InvalidArgument);
    grpc.status(wire::StatusRequest::default()).await.unwrap();
    let gc = grpc.gc(wire::GcRequest::default()).await.unwrap_err();
    assert_eq!(gc.code(), Code::Unimplemented);
    for path in [
        "/v1/ipam/healthy",
        "/v1/runtime/startup",
        "/v1/runtime/readiness",
        "/v1/runtime/liveness",
    ] {
        assert_eq!(agent.get(path).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn the_endpoint_of_a_pod_has_spiderpools_shape() {
    let agent = Fixture::start().await;
    let path =
        |namespace: &str, name: &str| format!("/v1/workloadendpoint?podNamespace={namespace}&podName={name}");
    let (status, body) = agent.get(&path("ns", "pod")).await;
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "podNamespace": "ns", "podName": "pod", "podUID": "u-1", "node": "n",
            "interfaces": [{
                "interface": "eth0", "ipv4": "10.6.0.3/16", "mac": "fa:16:3e:aa:bb:cc", "vlan": 100,
                "ipv4Pool": "p4", "ipv4Gateway": "10.6.0.1",
                "routes": [{ "ifName": "eth0", "dst": "10.7.0.0/16", "gw": "10.6.0.2" }],
            }],
        })
    );
    assert_eq!(agent.get(&path("ns", "absent")).await.0, 404);
    assert_eq!(agent.get(&path("ns", "unreachable")).await.0, 500);
    assert_eq!(agent.get(&path("", "pod")).await.0, 400);
    assert_eq!(agent.get("/v1/workloadendpoint").await.0, 400);
}

#[tokio::test]
async fn the_budget_of_a_request_is_the_headers() {
    let agent = Fixture::start().await;
    let body = add_arguments("pod").to_string();
    agent.http(request("POST", "/v1/ipam/ip", body.clone())).await;
    let mut short = request("POST", "/v1/ipam/ip", body.clone());
    short
        .headers_mut()
        .insert("x-request-timeout-ms", "30000".parse().unwrap());
    agent.http(short).await;
    let mut wrong = request("POST", "/v1/ipam/ip", body);
    wrong
        .headers_mut()
        .insert("x-request-timeout-ms", "soon".parse().unwrap());
    let (status, text) = agent.http(wrong).await;
    assert_eq!(status, 500);
    assert!(text.as_str().unwrap().contains("x-request-timeout-ms"), "{text}");
    let mut timed = Request::new(grpc_add("pod"));
    timed.set_timeout(Duration::from_secs(20));
    agent.grpc().await.add(timed).await.unwrap();
    let seen: Vec<_> = agent.service.adds.lock().iter().map(|add| add.deadline).collect();
    assert_eq!(seen.len(), 3);
    for (deadline, seconds) in seen.into_iter().zip([100, 30, 20]) {
        assert!(
            near(deadline, Duration::from_secs(seconds)),
            "{deadline:?} is not {seconds}s away"
        );
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused() {
    let agent = Fixture::start().await;
    let huge = format!("{{\"podName\":\"{}\"}}", "x".repeat(70 * 1024));
    for (body, expected) in [("{", 400), ("[]", 422), ("{}", 422), (huge.as_str(), 413)] {
        let (status, text) = agent.http(request("POST", "/v1/ipam/ip", body.to_owned())).await;
        assert_eq!(status, expected, "{text}");
        assert!(text.is_string());
    }
    let mut message = grpc_add("pod");
    message.default_ipv4_pools = vec!["x".repeat(70 * 1024)];
    let status = agent.grpc().await.add(message).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert!(agent.service.adds.lock().is_empty());
}

#[tokio::test]
async fn garbage_ends_its_own_connection_only() {
    let agent = Fixture::start().await;
    let mut grpc = agent.grpc().await;
    let garbage: Vec<u8> = (0..64 * 1024).map(|index: u32| (index * 7 % 251) as u8).collect();
    for first in ["", "GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = agent.connect().await;
        // The server may hang up before it has read everything.
        let _ = stream.write_all(first.as_bytes()).await;
        let _ = stream.write_all(&garbage).await;
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("the connection stays open")
            .ok();
    }
    grpc.add(grpc_add("pod")).await.unwrap();
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let agent = Fixture::start().await;
    let mut stream = agent.connect().await;
    let _ = stream.write_all(b"POST /v1/ipam/ip HTTP/1.1\r\nx: ").await;
    let _ = stream.write_all(&vec![b'a'; 32 * 1024]).await;
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .unwrap()
        .ok();
    assert!(
        answer.starts_with(b"HTTP/1.1 431"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn a_connection_too_many_is_closed_and_the_others_stay() {
    let agent = Fixture::with(Scripted::default(), 1).await;
    let mut grpc = agent.grpc().await;
    grpc.add(grpc_add("pod")).await.unwrap();
    let mut surplus = agent.connect().await;
    let read = timeout(PATIENCE, surplus.read(&mut [0; 1])).await.unwrap();
    assert_eq!(read.unwrap(), 0);
    grpc.add(grpc_add("pod")).await.unwrap();
}

#[tokio::test]
async fn a_stop_lets_requests_in_flight_end() {
    let gate = Arc::new(Semaphore::new(0));
    let service = Scripted {
        slow_may_end: Some(gate.clone()),
        slow_began: Notify::new(),
        ..Scripted::default()
    };
    let agent = Fixture::with(service, 16).await;
    let mut grpc = agent.grpc().await;
    let running = tokio::spawn(async move { grpc.add(grpc_add("slow")).await });
    agent.service.slow_began.notified().await;
    let stopping = tokio::spawn(agent.server.stop(PATIENCE));
    let path = agent.path.clone();
    timeout(PATIENCE, async {
        while path.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the socket stays although the server stops");
    assert!(!stopping.is_finished());
    gate.add_permits(1);
    running.await.unwrap().unwrap();
    timeout(PATIENCE, stopping).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_than_its_grace() {
    let gate = Arc::new(Semaphore::new(0));
    let service = Scripted {
        slow_may_end: Some(gate),
        ..Scripted::default()
    };
    let agent = Fixture::with(service, 16).await;
    let mut grpc = agent.grpc().await;
    let running = tokio::spawn(async move { grpc.add(grpc_add("slow")).await });
    agent.service.slow_began.notified().await;
    timeout(PATIENCE, agent.server.stop(Duration::from_millis(50)))
        .await
        .unwrap();
    assert!(running.await.unwrap().is_err());
}

#[tokio::test]
async fn a_dropped_server_cuts_its_connections_off() {
    let gate = Arc::new(Semaphore::new(0));
    let service = Scripted {
        slow_may_end: Some(gate),
        ..Scripted::default()
    };
    let agent = Fixture::with(service, 16).await;
    let mut grpc = agent.grpc().await;
    let running = tokio::spawn(async move { grpc.add(grpc_add("slow")).await });
    agent.service.slow_began.notified().await;
    drop(agent.server);
    assert!(timeout(PATIENCE, running).await.unwrap().unwrap().is_err());
}
