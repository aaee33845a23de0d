//! HTTP: the seed's two calls, and what the reference's mock shows (reference §6.8).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use orbweaver_api::provider::{ALLOCATE_PATH, RELEASE_PATH, TIMEOUT_HEADER};
use serde_json::{Value, json};

use crate::Shared;
use crate::exchange::{Asked, Reply, exchange};
use crate::faults::CallKind;
use crate::provider::Provider;

/// Largest request body.
const LARGEST_BODY: usize = 1 << 20;

/// How long a client may take to send its body.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Path in front of an address whose sub-ENI is shown.
const CACHE_PATH: &str = "/v1/apis/network.iaas.io/status/ips-cache/";

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed on purpose")]
pub(crate) struct Closed;

/// Answers one request.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    provider: Arc<Provider>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Closed> {
    let path = request.uri().path().to_owned();
    let kind = match path.as_str() {
        ALLOCATE_PATH => Some(CallKind::Allocate),
        RELEASE_PATH => Some(CallKind::Release),
        _ => None,
    };
    match (kind, request.method()) {
        (Some(kind), &Method::POST) => call(shared, provider, kind, path, request).await,
        (Some(_), _) => Ok(text(StatusCode::METHOD_NOT_ALLOWED, "use POST")),
        (None, &Method::GET) if path == "/healthz" => Ok(text(StatusCode::OK, "ok")),
        (None, &Method::GET) if path == "/records" => Ok(records(&shared)),
        (None, &Method::POST) if path == "/reset" => {
            shared.calls.reset();
            Ok(text(StatusCode::NO_CONTENT, ""))
        }
        (None, &Method::GET) if path.starts_with(CACHE_PATH) => {
            Ok(cached(&shared, path.trim_start_matches(CACHE_PATH)))
        }
        (None, _) => Ok(text(StatusCode::NOT_FOUND, "there is nothing at this path")),
    }
}

/// The work belongs to the provider: a client that goes away changes nothing.
async fn call(
    shared: Arc<Shared>,
    provider: Arc<Provider>,
    kind: CallKind,
    path: String,
    request: Request<Incoming>,
) -> Result<Response<Body>, Closed> {
    let budget = request
        .headers()
        .get(TIMEOUT_HEADER)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let body = to_bytes(Body::new(request.into_body()), LARGEST_BODY);
    let body = match tokio::time::timeout(BODY_WITHIN, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string())),
        Err(_) => return Ok(text(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    };
    let asked = Asked {
        kind,
        path,
        budget,
        body: body.to_vec(),
    };
    let work = provider.spawn(exchange(shared, provider.clone(), asked));
    match work.await {
        Ok(Some(Reply::Answer(answer))) => Ok(respond(answer)),
        Ok(Some(Reply::Close) | None) | Err(_) => Err(Closed),
    }
}

fn respond(answer: crate::exchange::Answered) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = if answer.json {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn shown(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = text(status, &value.to_string());
    let kind = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn records(shared: &Shared) -> Response<Body> {
    let value = json!({ "records": shared.calls.recorded(), "counters": shared.counters() });
    shown(StatusCode::OK, &value)
}

fn cached(shared: &Shared, address: &str) -> Response<Body> {
    let Ok(address) = address.parse::<IpAddr>() else {
        return text(StatusCode::BAD_REQUEST, "the path must end in an IP address");
    };
    let Some(sub_eni) = shared.cloud.describe(address) else {
        return text(StatusCode::NOT_FOUND, "the address has no sub-ENI");
    };
    let entry = json!({
        "ipAddress": sub_eni.address, "ipv6Address": sub_eni.ipv6, "nodeName": sub_eni.node(),
        "parentNicMac": sub_eni.parent_nic_mac(), "subnet": sub_eni.subnet, "mac": sub_eni.mac,
        "vlanID": sub_eni.vlan(), "poolName": sub_eni.pool,
    });
    shown(StatusCode::OK, &json!({ "entry": entry }))
}
