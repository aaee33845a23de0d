//! What each verb does to an object.

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::apply;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::patch::{self, PatchKind};
use crate::schema;
use crate::store::{ObjectKey, Outcome, Store};
use std::sync::Arc;

/// A write, as its request says.
#[derive(Clone, Debug)]
pub(crate) struct Write<'a> {
    /// The resource.
    pub(crate) kind: &'a Kind,
    /// Namespace and name.
    pub(crate) key: ObjectKey,
    /// `status`, or empty.
    pub(crate) subresource: &'a str,
    /// `fieldManager`, else the start of the user agent.
    pub(crate) manager: &'a str,
    /// `force` of server-side apply.
    pub(crate) force: bool,
    /// `dryRun=All`.
    pub(crate) dry_run: bool,
}

/// Now, as Kubernetes prints it.
pub(crate) fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub(crate) fn new_uid() -> String {
    let bits: u128 = rand::random();
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-4{}-a{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// `POST`.
pub(crate) fn create(store: &Store, write: &Write<'_>, mut object: Value) -> Result<Arc<Value>, ApiError> {
    let mut key = write.key.clone();
    if key.1.is_empty() {
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
        if prefix.is_empty() {
            let cause = (
                "metadata.name".to_owned(),
                "Required value: name or generateName is required".to_owned(),
            );
            return Err(ApiError::invalid(&write.kind.kind, "", vec![cause]));
        }
        key.1 = format!("{prefix}{:05x}", rand::random::<u32>() % 0x10_0000);
        object["metadata"]["name"] = json!(key.1);
    }
    check_namespace(store, write.kind, &key.0)?;
    if object["metadata"]["resourceVersion"]
        .as_str()
        .is_some_and(|version| !version.is_empty())
    {
        return Err(ApiError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    store.update(&write.kind.key(), &key, |existing| {
        if existing.is_some() {
            return Err(ApiError::already_exists(&write.kind.resource(), &key.1));
        }
        let object = born(write, object, &key)?;
        Ok(if write.dry_run {
            Outcome::Same(object)
        } else {
            Outcome::Keep(object)
        })
    })
}

fn check_namespace(store: &Store, kind: &Kind, namespace: &str) -> Result<(), ApiError> {
    if !kind.namespaced {
        return Ok(());
    }
    let key = (String::new(), namespace.to_owned());
    match store.get(&crate::kind::ResourceKey::new("", "namespaces"), &key) {
        None => Err(ApiError::not_found("namespaces", namespace)),
        Some(found) if found["metadata"]["deletionTimestamp"].is_string() => Err(ApiError::new(
            http::StatusCode::FORBIDDEN,
            "Forbidden",
            format!("namespace {namespace} is being terminated: no new content can be created in it"),
        )),
        Some(_) => Ok(()),
    }
}

/// The first state of an object.
fn born(write: &Write<'_>, mut object: Value, key: &ObjectKey) -> Result<Value, ApiError> {
    let kind = write.kind;
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata["name"] = json!(key.1);
    if kind.namespaced {
        metadata["namespace"] = json!(key.0);
    }
    metadata["uid"] = json!(new_uid());
    metadata["creationTimestamp"] = json!(now());
    metadata["generation"] = json!(1);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    if kind.status_subresource && kind.schema.is_some() {
        remove(&mut object, "status");
    }
    defaults(kind, &mut object);
    validate(kind, &mut object, None, &key.1)?;
    if object["metadata"]["managedFields"].is_null() {
        apply::updated(None, &mut object, write.manager, write.subresource, &now());
    }
    Ok(object)
}

fn remove(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}

fn defaults(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            if object["status"]["phase"].is_null() {
                object["status"]["phase"] = json!("Pending");
            }
            let spec = &mut object["spec"];
            for (field, value) in [
                ("restartPolicy", json!("Always")),
                ("terminationGracePeriodSeconds", json!(30)),
            ] {
                if spec[field].is_null() {
                    spec[field] = value;
                }
            }
        }
        ("", "Namespace") => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = object["metadata"]["name"].clone();
            object["status"] = json!({ "phase": "Active" });
        }
        ("apiextensions.k8s.io", _) => {
            let condition = |name: &str| json!({ "type": name, "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": now() });
            object["status"] = json!({
                "conditions": [condition("NamesAccepted"), condition("Established")],
                "acceptedNames": object["spec"]["names"],
                "storedVersions": object["spec"]["versions"].as_array().into_iter().flatten()
                    .map(|version| version["name"].clone()).collect::<Vec<_>>(),
            });
        }
        _ => {}
    }
}

fn validate(kind: &Kind, object: &mut Value, before: Option<&Value>, name: &str) -> Result<(), ApiError> {
    let Some(schema) = &kind.schema else { return Ok(()) };
    let findings = schema::apply(schema, object, before);
    if findings.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(&kind.kind, name, findings))
    }
}

/// `PUT`.
pub(crate) fn replace(store: &Store, write: &Write<'_>, object: Value) -> Result<Arc<Value>, ApiError> {
    store.update(&write.kind.key(), &write.key, |existing| {
        let existing = existing.ok_or_else(|| ApiError::not_found(&write.kind.resource(), &write.key.1))?;
        changed(write, existing, object, false)
    })
}

/// `PATCH`.
pub(crate) fn patch(
    store: &Store,
    write: &Write<'_>,
    kind: PatchKind,
    body: &Value,
) -> Result<Arc<Value>, ApiError> {
    if kind == PatchKind::Apply {
        check_namespace(store, write.kind, &write.key.0)?;
    }
    store.update(&write.kind.key(), &write.key, |existing| match (kind, existing) {
        (PatchKind::Apply, None) if write.subresource.is_empty() => {
            let object = apply::applied(None, body, write.manager, "", write.force, &now())?;
            let object = born(write, object, &write.key)?;
            Ok(if write.dry_run {
                Outcome::Same(object)
            } else {
                Outcome::Keep(object)
            })
        }
        (_, None) => Err(ApiError::not_found(&write.kind.resource(), &write.key.1)),
        (PatchKind::Apply, Some(existing)) => {
            let mut object = apply::applied(
                Some(existing),
                body,
                write.manager,
                write.subresource,
                write.force,
                &now(),
            )?;
            if let Some(version) = body["metadata"]["resourceVersion"].as_str() {
                object["metadata"]["resourceVersion"] = json!(version);
            }
            changed(write, existing, object, true)
        }
        (kind, Some(existing)) => changed(write, existing, patch::patched(kind, existing, body)?, false),
    })
}

/// Stores what a write was tried out to make of `existing`, unless that changed meanwhile.
pub(crate) fn commit(
    store: &Store,
    write: &Write<'_>,
    existing: Option<&Value>,
    mut object: Value,
) -> Result<Arc<Value>, ApiError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = (write.key.0.clone(), name);
    store.update(&write.kind.key(), &key, |now| match (now, existing) {
        (None, None) => {
            validate(write.kind, &mut object, None, &key.1)?;
            Ok(Outcome::Keep(object))
        }
        (Some(_), None) => Err(ApiError::already_exists(&write.kind.resource(), &key.1)),
        (None, Some(_)) => Err(ApiError::not_found(&write.kind.resource(), &key.1)),
        (Some(now), Some(existing)) => {
            object["metadata"]["resourceVersion"] = existing["metadata"]["resourceVersion"].clone();
            changed(write, now, object, true)
        }
    })
}

/// The next state of an object: checks the version, keeps what this write may not touch, counts generations.
fn changed(
    write: &Write<'_>,
    existing: &Value,
    mut object: Value,
    applied: bool,
) -> Result<Outcome, ApiError> {
    let kind = write.kind;
    let stated = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !stated.is_empty() && existing["metadata"]["resourceVersion"] != stated {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        return Err(ApiError::conflict(&kind.resource(), &write.key.1, why));
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && existing["metadata"]["uid"] != uid {
        return Err(ApiError::conflict(
            &kind.resource(),
            &write.key.1,
            "the UID in the request is another object's",
        ));
    }
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "name",
        "namespace",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        restore(&mut object["metadata"], &existing["metadata"], field);
    }
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    if write.subresource == "status" {
        let status = object["status"].take();
        let managers = object["metadata"]["managedFields"].take();
        object = existing.clone();
        object["metadata"]["managedFields"] = managers;
        if status.is_null() {
            remove(&mut object, "status");
        } else {
            object["status"] = status;
        }
    } else if kind.status_subresource {
        restore(&mut object, existing, "status");
    }
    validate(kind, &mut object, Some(existing), &write.key.1)?;
    if !applied {
        apply::updated(
            Some(existing),
            &mut object,
            write.manager,
            write.subresource,
            &now(),
        );
    }
    if same_but_for_times(&object, existing) {
        return Ok(Outcome::Same(existing.clone()));
    }
    if spec_changed(&object, existing) && write.subresource.is_empty() {
        let generation = existing["metadata"]["generation"].as_i64().unwrap_or(1);
        object["metadata"]["generation"] = json!(generation + 1);
    }
    if write.dry_run {
        return Ok(Outcome::Same(object));
    }
    let finalizers = object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let terminating = object["metadata"]["deletionTimestamp"].is_string();
    let waits = object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|grace| grace > 0);
    if terminating && !finalizers && !waits {
        return Ok(Outcome::Remove(object));
    }
    Ok(Outcome::Keep(object))
}

fn restore(object: &mut Value, existing: &Value, field: &str) {
    match existing.get(field) {
        Some(value) => object[field] = value.clone(),
        None => {
            remove(object, field);
        }
    }
}

fn spec_changed(object: &Value, existing: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        for field in ["metadata", "status", "apiVersion", "kind"] {
            remove(&mut rest, field);
        }
        rest
    };
    rest(object) != rest(existing)
}

fn same_but_for_times(object: &Value, existing: &Value) -> bool {
    let plain = |object: &Value| {
        let mut plain = object.clone();
        if let Some(metadata) = plain["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        plain
    };
    let owners = |object: &Value| {
        let managers = object["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let fields: Vec<Value> = managers
            .into_iter()
            .map(|entry| json!([entry["manager"], entry["fieldsV1"]]))
            .collect();
        fields
    };
    object["metadata"]["resourceVersion"] == existing["metadata"]["resourceVersion"]
        && owners(object) == owners(existing)
        && plain(object) == plain(existing)
}
