//! Spiderpool's OpenAPI v1 (reference §3.4), so that its plugin, vlan-cni and other clients work unchanged.
//!
//! An error's body is a JSON string. 500 is what these clients expect of every failure of the service;
//! 4xx is for a request that cannot be read.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::IpamError;
use orbweaver_actors::request::{AddRequest, DelRequest};
use orbweaver_api::openapi::{ENDPOINT_PATH, HEALTHY_PATH, IP_PATH, IPS_PATH, IpamAddArgs, IpamDelArgs};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use tracing::info_span;

use crate::metrics::{Transport, Verb};
use crate::server::observed::{observe, span};
use crate::server::service::{IpamService, ready_by};
use crate::server::{BODY_LIMIT, budget, request_id};

/// What a client may take to send a body of [`BODY_LIMIT`].
const BODY_TIME: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Api {
    service: Arc<dyn IpamService>,
}

/// Query of `GET /workloadendpoint`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndpointQuery {
    pod_namespace: String,
    pod_name: String,
}

/// The API's routes.
pub fn routes(service: Arc<dyn IpamService>) -> Router {
    Router::new()
        .route(IP_PATH, post(add).delete(del))
        .route(IPS_PATH, post(nothing).delete(batch_del))
        .route(HEALTHY_PATH, get(health))
        .route("/v1/runtime/startup", get(health))
        .route("/v1/runtime/readiness", get(health))
        .route("/v1/runtime/liveness", get(nothing))
        .route(ENDPOINT_PATH, get(endpoint))
        .with_state(Api { service })
}

async fn add(State(api): State<Api>, headers: HeaderMap, body: Body) -> Response {
    let arguments: IpamAddArgs = match read(body).await {
        Ok(arguments) => arguments,
        Err(refusal) => return refusal,
    };
    let request_id = request_id::of("", &headers);
    let attachment = wire::of_add(&arguments);
    let nic = attachment.nic.clone();
    let span = span(Verb::Add, &attachment, &request_id);
    let serve = async {
        api.service
            .add(AddRequest {
                attachment,
                default_ipv4_pools: arguments.default_ipv4_pools,
                default_ipv6_pools: arguments.default_ipv6_pools,
                clean_gateway: arguments.clean_gateway,
                deadline: deadline(&headers)?,
                request_id,
            })
            .await
    };
    match observe(Verb::Add, Transport::OpenApi, span, serve).await {
        Ok(allocated) => Json(wire::added(allocated, &nic)).into_response(),
        Err(error) => failed(&error),
    }
}

async fn del(State(api): State<Api>, headers: HeaderMap, body: Body) -> Response {
    let arguments: IpamDelArgs = match read(body).await {
        Ok(arguments) => arguments,
        Err(refusal) => return refusal,
    };
    let request_id = request_id::of("", &headers);
    let attachment = wire::of_del(arguments);
    let span = span(Verb::Del, &attachment, &request_id);
    let serve = async {
        api.service
            .del(DelRequest {
                attachment,
                deadline: deadline(&headers)?,
                request_id,
            })
            .await
    };
    match observe(Verb::Del, Transport::OpenApi, span, serve).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => failed(&error),
    }
}

async fn health(State(api): State<Api>, headers: HeaderMap) -> Response {
    let request_id = request_id::of("", &headers);
    let span = info_span!("request", verb = "status", request_id = &*request_id);
    let serve = async { ready_by(api.service.as_ref(), deadline(&headers)?).await };
    match observe(Verb::Status, Transport::OpenApi, span, serve).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => failed(&error),
    }
}

async fn endpoint(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<EndpointQuery>, QueryRejection>,
) -> Response {
    let Query(query) = query.unwrap_or_default();
    for (name, value) in [
        ("podNamespace", &query.pod_namespace),
        ("podName", &query.pod_name),
    ] {
        if value.is_empty() {
            return text(
                StatusCode::BAD_REQUEST,
                &format!("query parameter {name} is empty"),
            );
        }
    }
    let deadline = match deadline(&headers) {
        Ok(deadline) => deadline,
        Err(error) => return text(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let (namespace, name) = (query.pod_namespace.as_str(), query.pod_name.as_str());
    match api.service.endpoint(namespace, name, deadline).await {
        Ok(Some(endpoint)) => Json(wire::endpoint_status(&endpoint)).into_response(),
        Ok(None) => text(
            StatusCode::NOT_FOUND,
            &format!("pod {namespace}/{name} has no SpiderEndpoint"),
        ),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Spiderpool answers 200 and does nothing.
async fn nothing() -> StatusCode {
    StatusCode::OK
}

/// Spiderpool's plugin asks for this after it found an address in use. Orbweaver leaves such probes to the
/// network (they must be off with a provider), and a failing client is better than one that believes it.
async fn batch_del() -> Response {
    text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "not supported: releasing all addresses of a pod at once; DELETE /v1/ipam/ip releases those of a NIC",
    )
}

fn deadline(headers: &HeaderMap) -> Result<Deadline, IpamError> {
    budget::of(headers)
        .map(Deadline::after)
        .map_err(|error| IpamError::InvalidRequest(error.to_string().into()))
}

/// Reads a JSON body of bounded size in bounded time.
async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Response> {
    let body = match timeout(BODY_TIME, axum::body::to_bytes(body, BODY_LIMIT)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let why = format!("the body cannot be read, or is larger than {BODY_LIMIT} bytes: {error}");
            return Err(text(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        Err(_) => return Err(text(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    };
    let refuse = |status| {
        move |error: serde_json::Error| {
            text(
                status,
                &format!("the body is not the message that belongs here: {error}"),
            )
        }
    };
    let mut message: Value = serde_json::from_slice(&body).map_err(refuse(StatusCode::BAD_REQUEST))?;
    // Go's clients write an absent list as null.
    if let Value::Object(fields) = &mut message {
        fields.retain(|_, value| !value.is_null());
    }
    // go-openapi's servers answer 422 for what is JSON but not the message.
    serde_json::from_value(message).map_err(refuse(StatusCode::UNPROCESSABLE_ENTITY))
}

fn failed(error: &IpamError) -> Response {
    text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

fn text(status: StatusCode, message: &str) -> Response {
    (status, Json(message)).into_response()
}
