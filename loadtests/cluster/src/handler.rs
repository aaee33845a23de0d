//! One request, from its head to its answer.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};

use crate::Shared;
use crate::counters::Asked;
use crate::discovery;
use crate::error::ApiError;
use crate::faults::Fault;
use crate::route::{self, Query, Target};
use crate::table;
use crate::watch::{self, Form};
use crate::write;

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The largest request body: what a real server takes.
const MAX_BODY: usize = 3 << 20;

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(crate) fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn refusal(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(code, &error.status())
}

pub(crate) fn header<'a>(parts: &'a Parts, name: &http::HeaderName) -> &'a str {
    parts
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Serves a request. An error closes the connection: that is how lost replies look.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (parts, body) = request.into_parts();
    if header(&parts, &AUTHORIZATION) != format!("Bearer {}", shared.token) {
        let error = ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
        return Ok(refusal(&error));
    }
    let path = parts.uri.path().to_owned();
    if matches!(path.as_str(), "/healthz" | "/livez" | "/readyz") {
        return Ok(Response::new(full("ok")));
    }
    let kinds = shared.store.kinds();
    if let Some(body) = discovery::answer(&kinds, &path) {
        return Ok(answer(StatusCode::OK, &body));
    }
    let Some(target) = route::target(&kinds, &path) else {
        return Ok(refusal(&ApiError::no_such_path()));
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let asked = asked(&parts, &target, &query);
    shared.counters.asked(asked.clone());
    let fault = shared.faults.hit(asked.verb, &target.kind.plural);
    match &fault {
        Some(Fault::Delay(delay)) => tokio::time::sleep(*delay).await,
        Some(Fault::Refuse(code)) => {
            let code = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Ok(refusal(&ApiError::new(code, "Injected", "injected fault")));
        }
        Some(Fault::Disconnect) => return Err(io::Error::other("injected fault: disconnected")),
        Some(Fault::LoseReply) | None => {}
    }
    if !shared.latency.is_zero() {
        tokio::time::sleep(shared.latency).await;
    }
    let response = respond(&shared, &parts, body, target, &query, asked.verb)
        .await
        .unwrap_or_else(|error| {
            shared.counters.refuse(asked, error.code);
            refusal(&error)
        });
    if fault == Some(Fault::LoseReply) {
        return Err(io::Error::other("injected fault: reply lost"));
    }
    Ok(response)
}

fn asked(parts: &Parts, target: &Target, query: &Query) -> Asked {
    let verb = match (&parts.method, &target.name) {
        (&Method::GET, _) if query.is_set("watch") => "watch",
        (&Method::GET, Some(_)) => "get",
        (&Method::GET, None) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, _) => "delete",
        _ => "other",
    };
    let slash = if target.subresource.is_empty() { "" } else { "/" };
    let agent = header(parts, &USER_AGENT);
    Asked {
        verb,
        group: target.kind.group.clone(),
        namespace: target.namespace.clone().unwrap_or_default(),
        resource: format!("{}{slash}{}", target.kind.plural, target.subresource),
        client: agent.split(['/', ' ']).next().unwrap_or_default().to_owned(),
    }
}

pub(crate) fn form(parts: &Parts) -> Form {
    let accept = header(parts, &ACCEPT);
    if accept.contains("as=Table") {
        Form::Table
    } else if accept.contains("as=PartialObjectMetadata") {
        Form::Partial
    } else {
        Form::Whole
    }
}

async fn respond(
    shared: &Arc<Shared>,
    parts: &Parts,
    body: Incoming,
    target: Target,
    query: &Query,
    verb: &str,
) -> Result<Response<Body>, ApiError> {
    let form = form(parts);
    match verb {
        "watch" => {
            let watch = query.watch(target, form)?;
            let lines = watch::stream(shared.clone(), watch).map(|line| line.map(Frame::data));
            let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
            response
                .headers_mut()
                .insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            Ok(response)
        }
        "get" => {
            let key = key_of(&target);
            let object = shared.store.get(&target.kind.key(), &key);
            let object = object.ok_or_else(|| ApiError::not_found(&target.kind.resource(), &key.1))?;
            Ok(answer(StatusCode::OK, &shown(&target, &object, form)))
        }
        "list" => list(shared, &target, query, form),
        _ => {
            let body = read_body(body).await?;
            write::write(shared, parts, &target, query, verb, &body).await
        }
    }
}

pub(crate) fn key_of(target: &Target) -> (String, String) {
    (
        target.namespace.clone().unwrap_or_default(),
        target.name.clone().unwrap_or_default(),
    )
}

pub(crate) fn shown(target: &Target, object: &Value, form: Form) -> Value {
    match form {
        Form::Whole => object.clone(),
        Form::Partial => table::partial(object),
        Form::Table => table::table(
            &target.kind,
            &[object],
            object["metadata"]["resourceVersion"].as_str().unwrap_or_default(),
            false,
        ),
    }
}

fn list(shared: &Shared, target: &Target, query: &Query, form: Form) -> Result<Response<Body>, ApiError> {
    let selector = query.selector()?;
    let (version, objects) = shared.store.list(&target.kind.key(), target.namespace.as_deref());
    let limit = query
        .number::<usize>("limit")
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let from = query.number::<usize>("continue").unwrap_or(0);
    let wanted: Vec<&Value> = objects
        .iter()
        .map(AsRef::as_ref)
        .filter(|object| selector.matches(object))
        .collect();
    let page: Vec<&Value> = wanted.iter().skip(from).take(limit).copied().collect();
    let left = wanted.len().saturating_sub(from.saturating_add(page.len()));
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if left > 0 {
        metadata["continue"] = json!((from + page.len()).to_string());
        metadata["remainingItemCount"] = json!(left);
    }
    let body = match form {
        Form::Table => {
            let mut body = table::table(&target.kind, &page, &version.to_string(), false);
            body["metadata"] = metadata;
            body
        }
        Form::Partial => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "items": page.into_iter().map(table::partial).collect::<Vec<_>>(),
        }),
        Form::Whole => json!({
            "kind": format!("{}List", target.kind.kind), "apiVersion": target.kind.api_version(), "metadata": metadata,
            "items": page,
        }),
    };
    Ok(answer(StatusCode::OK, &body))
}

async fn read_body(body: Incoming) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, MAX_BODY).collect().await;
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("the body cannot be read: {error}"),
            )
        })
}
