//! One write, from its body to its answer.

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::Shared;
use crate::admission::{self, Change};
use crate::deletion;
use crate::error::ApiError;
use crate::handler::{Body, answer, form, header, key_of, shown};
use crate::lifecycle;
use crate::ops::Write;
use crate::patch::PatchKind;
use crate::route::{Query, Target};
use crate::watch::Form;

fn parse(content_type: &str, body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    if content_type.contains("protobuf") {
        let message = "the body of the request was in an unknown format - accepted media types include: application/json";
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        ));
    }
    if content_type.contains("yaml") {
        return serde_yaml::from_slice(body)
            .map_err(|error| ApiError::bad_request(format!("the body is not YAML: {error}")));
    }
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))
}

/// A custom resource must say what it is; a built-in one is taken for what its path says.
fn check_type(target: &Target, body: &Value) -> Result<(), ApiError> {
    let kind = &target.kind;
    let is = |field: &str, expected: &str| {
        body[field] == expected || (body[field].is_null() && kind.schema.is_none())
    };
    if is("kind", &kind.kind) && is("apiVersion", &kind.api_version()) {
        return Ok(());
    }
    let message = format!(
        "the object provided is unrecognized (must be of type {} of {}): its kind is {} and its apiVersion {}",
        kind.kind,
        kind.api_version(),
        body["kind"],
        body["apiVersion"]
    );
    Err(ApiError::bad_request(message))
}

/// Creates, replaces, patches or deletes.
pub(crate) async fn write(
    shared: &Shared,
    parts: &Parts,
    target: &Target,
    query: &Query,
    verb: &str,
    body: &[u8],
) -> Result<Response<Body>, ApiError> {
    let content_type = header(parts, &CONTENT_TYPE);
    let body = parse(content_type, body)?;
    if matches!(verb, "create" | "update") || PatchKind::of(content_type) == Some(PatchKind::Apply) {
        check_type(target, &body)?;
    }
    let agent = header(parts, &USER_AGENT)
        .split(['/', ' '])
        .next()
        .unwrap_or("unknown");
    let manager = query.get("fieldManager");
    let mut key = key_of(target);
    if verb == "create" {
        body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut key.1);
    }
    let write = Write {
        kind: &target.kind,
        key,
        subresource: &target.subresource,
        manager: if manager.is_empty() { agent } else { manager },
        force: query.is_set("force"),
        dry_run: query.get("dryRun") == "All",
    };
    let store = &shared.store;
    let (code, object) = match verb {
        "create" => (
            StatusCode::CREATED,
            admission::write(shared, &write, Change::Create(body)).await?,
        ),
        "update" => (
            StatusCode::OK,
            admission::write(shared, &write, Change::Replace(body)).await?,
        ),
        "patch" => {
            let kind = PatchKind::of(content_type).ok_or_else(|| {
                let message = format!("content type {content_type:?} is no patch");
                ApiError::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "UnsupportedMediaType",
                    message,
                )
            })?;
            (
                StatusCode::OK,
                admission::write(shared, &write, Change::Patch(kind, body)).await?,
            )
        }
        "delete" => return delete(shared, &write, query, &body, form(parts), target).await,
        _ => {
            return Err(ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "method not allowed",
            ));
        }
    };
    if target.kind.kind == "CustomResourceDefinition" {
        store.reload_definitions();
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        removed_by_write(shared, target, &object);
    }
    Ok(answer(code, &shown(target, &object, form(parts))))
}

/// An update that took the last finalizer off removed the object.
fn removed_by_write(shared: &Shared, target: &Target, object: &Value) {
    lifecycle::after_delete(&shared.store, &target.kind, object);
    lifecycle::after_removal(&shared.store, object);
}

async fn delete(
    shared: &Shared,
    write: &Write<'_>,
    query: &Query,
    options: &Value,
    form: Form,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    let grace = query
        .number("gracePeriodSeconds")
        .or_else(|| options["gracePeriodSeconds"].as_i64());
    if !write.key.1.is_empty() {
        admission::may_delete(shared, write).await?;
        let left = deletion::delete(&shared.store, write, options, grace)?;
        lifecycle::after_delete(&shared.store, write.kind, &left);
        lifecycle::after_removal(&shared.store, &left);
        return Ok(answer(StatusCode::OK, &shown(target, &left, form)));
    }
    let selector = query.selector()?;
    for object in shared
        .store
        .list(&write.kind.key(), target.namespace.as_deref())
        .1
    {
        if selector.matches(&object) {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let one = Write {
                key: (text("namespace"), text("name")),
                ..write.clone()
            };
            admission::may_delete(shared, &one).await?;
            let left = deletion::delete(&shared.store, &one, options, grace)?;
            lifecycle::after_delete(&shared.store, one.kind, &left);
            lifecycle::after_removal(&shared.store, &left);
        }
    }
    Ok(answer(
        StatusCode::OK,
        &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }),
    ))
}
