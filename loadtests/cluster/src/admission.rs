//! Writes that webhooks have a say in: mutating ones first, then the schema, then validating ones, then the write if
//! nobody else wrote meanwhile. Entries of one kind are called one after the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;

use crate::Shared;
use crate::error::ApiError;
use crate::kind::ResourceKey;
use crate::ops::{self, Write};
use crate::patch::{self, PatchKind};
use crate::store::Store;
use crate::webhook::{self, Asked, Entries};

/// How often a write is tried again because somebody else wrote between reading and writing.
const ATTEMPTS: usize = 20;
/// `timeoutSeconds` of an entry without one.
const TIMEOUT: u64 = 10;

/// A change that a client asks for.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// `POST`.
    Create(Value),
    /// `PUT`.
    Replace(Value),
    /// `PATCH`.
    Patch(PatchKind, Value),
}

/// Clients of webhooks, by the bundle that they trust.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<HashMap<String, reqwest::Client>>);

fn plain(store: &Store, write: &Write<'_>, change: Change) -> Result<Arc<Value>, ApiError> {
    match change {
        Change::Create(object) => ops::create(store, write, object),
        Change::Replace(object) => ops::replace(store, write, object),
        Change::Patch(kind, body) => ops::patch(store, write, kind, &body),
    }
}

/// Writes, if every webhook concerned agrees.
pub(crate) async fn write(
    shared: &Shared,
    write: &Write<'_>,
    change: Change,
) -> Result<Arc<Value>, ApiError> {
    let store = &shared.store;
    let entries = Entries::of(store, write.kind, write.subresource);
    if entries.is_empty() {
        return plain(store, write, change);
    }
    let tentative = Write {
        dry_run: true,
        ..write.clone()
    };
    for _ in 0..ATTEMPTS {
        let existing = store.get(&write.kind.key(), &write.key);
        let object = plain(store, &tentative, change.clone())?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        if existing.as_deref().map(version).unwrap_or_default() != version(&object) {
            continue;
        }
        let mut object = Arc::unwrap_or_clone(object);
        admit(shared, write, &entries, &mut object, existing.as_deref()).await?;
        if write.dry_run {
            return Ok(Arc::new(object));
        }
        match ops::commit(store, write, existing.as_deref(), object) {
            Err(error) if error.reason == "Conflict" => {}
            done => return done,
        }
    }
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    Err(ApiError::conflict(&write.kind.resource(), &write.key.1, why))
}

/// Asks whether an object may be deleted.
pub(crate) async fn may_delete(shared: &Shared, write: &Write<'_>) -> Result<(), ApiError> {
    let entries = Entries::of(&shared.store, write.kind, write.subresource);
    let existing = shared.store.get(&write.kind.key(), &write.key);
    match existing {
        Some(existing) if !entries.is_empty() => {
            admit(shared, write, &entries, &mut Value::Null, Some(&existing)).await
        }
        _ => Ok(()),
    }
}

async fn admit(
    shared: &Shared,
    write: &Write<'_>,
    entries: &Entries,
    object: &mut Value,
    existing: Option<&Value>,
) -> Result<(), ApiError> {
    let key = (String::new(), write.key.0.clone());
    let namespace = shared.store.get(&ResourceKey::new("", "namespaces"), &key);
    let operation = match (object.is_null(), existing) {
        (true, _) => "DELETE",
        (false, None) => "CREATE",
        (false, Some(_)) => "UPDATE",
    };
    let all = entries.mutating.iter().map(|entry| (true, entry));
    for (mutates, entry) in all.chain(entries.validating.iter().map(|entry| (false, entry))) {
        let asked = Asked {
            kind: write.kind,
            subresource: write.subresource,
            operation,
            object,
            old: existing.unwrap_or(&Value::Null),
            namespace: namespace.as_deref().unwrap_or(&Value::Null),
        };
        if !webhook::matches(entry, &asked)? {
            continue;
        }
        let operations = call(&shared.callers, entry, &asked, write.dry_run).await?;
        if mutates && !operations.is_null() {
            *object = patch::patched(PatchKind::Json, object, &operations)?;
        }
    }
    Ok(())
}

/// The JSON patch of one webhook's answer; null when it has none, or when it failed and that is to be ignored.
async fn call(callers: &Callers, entry: &Value, asked: &Asked<'_>, dry_run: bool) -> Result<Value, ApiError> {
    let name = entry["name"].as_str().unwrap_or_default();
    let effects = entry["sideEffects"].as_str().unwrap_or_default();
    if dry_run && !matches!(effects, "None" | "NoneOnDryRun") {
        let why = format!("admission webhook {name:?} does not support dry run");
        return Err(ApiError::bad_request(why));
    }
    let answer = match send(callers, entry, &webhook::review(asked, &ops::new_uid(), dry_run)).await {
        Ok(answer) => answer,
        Err(_) if entry["failurePolicy"] == "Ignore" => return Ok(Value::Null),
        Err(why) => {
            let text = format!("Internal error occurred: failed calling webhook {name:?}: {why}");
            return Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                text,
            ));
        }
    };
    let response = &answer["response"];
    if response["allowed"] != true {
        return Err(webhook::refused(name, &response["status"]));
    }
    let Some(encoded) = response["patch"].as_str() else {
        return Ok(Value::Null);
    };
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    serde_json::from_slice(&decoded).map_err(|error| {
        let text = format!("Internal error occurred: webhook {name:?} sent no JSON patch: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", text)
    })
}

async fn send(callers: &Callers, entry: &Value, review: &Value) -> Result<Value, String> {
    let url = entry["clientConfig"]["url"]
        .as_str()
        .ok_or("only clientConfig.url is simulated")?;
    let client = callers.client(entry["clientConfig"]["caBundle"].as_str().unwrap_or_default())?;
    let seconds = entry["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT);
    let request = client
        .post(url)
        .timeout(Duration::from_secs(seconds))
        .json(review);
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    let code = answer.status();
    if !code.is_success() {
        let text = answer.text().await.unwrap_or_default();
        return Err(format!("it answered {code}: {text}"));
    }
    let answer: Value = answer.json().await.map_err(|error| error.to_string())?;
    if answer["response"]["uid"] != review["request"]["uid"] {
        return Err("the answer is another question's".to_owned());
    }
    Ok(answer)
}

impl Callers {
    fn client(&self, bundle: &str) -> Result<reqwest::Client, String> {
        if let Some(client) = self.0.lock().get(bundle) {
            return Ok(client.clone());
        }
        // Whoever was first decides; all of them are ring in this workspace.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
        let roots = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string())?;
        let built = reqwest::Client::builder().no_proxy().tls_certs_only(roots);
        let client = built.build().map_err(|error| error.to_string())?;
        self.0.lock().insert(bundle.to_owned(), client.clone());
        Ok(client)
    }
}
