//! What controllers of a real cluster do in the background: dependents of owners that are gone go, and so does
//! the content of namespaces that are deleted.

use serde_json::{Value, json};

use crate::deletion;
use crate::kind::{Kind, ResourceKey};
use crate::ops::Write;
use crate::store::{ObjectKey, Outcome, Store};

fn write(kind: &Kind, key: ObjectKey) -> Write<'_> {
    Write {
        kind,
        key,
        subresource: "",
        manager: "cluster-sim",
        force: false,
        dry_run: false,
    }
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// After `gone` was removed: dependents that name its UID, and none that lives, are deleted.
pub(crate) fn collect_dependents(store: &Store, gone: &Value) {
    let uid = &gone["metadata"]["uid"];
    let namespace = gone["metadata"]["namespace"].as_str();
    for kind in store.kinds().iter() {
        for object in store.list(&kind.key(), namespace).1 {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let only_owner = owners.is_some_and(|owners| owners.len() == 1 && owners[0]["uid"] == *uid);
            if only_owner {
                // One that is gone already is what was wanted.
                let _ = deletion::delete(store, &write(kind, key_of(&object)), &json!({}), None)
                    .map(|left| after_delete(store, kind, &left));
            }
        }
    }
}

/// After a delete: what hangs on the object goes when it is really gone.
pub(crate) fn after_delete(store: &Store, kind: &Kind, left: &Value) {
    let key = key_of(left);
    if store
        .get(&kind.key(), &key)
        .is_none_or(|now| now["metadata"]["uid"] != left["metadata"]["uid"])
    {
        collect_dependents(store, left);
        if kind.kind == "CustomResourceDefinition" {
            store.reload_definitions();
        }
    } else if kind.group.is_empty() && kind.kind == "Namespace" {
        empty_namespace(store, &key.1);
    }
}

/// Deletes what a terminating namespace holds, then the namespace itself once it is empty.
pub(crate) fn empty_namespace(store: &Store, name: &str) {
    let mut left = 0;
    for kind in store.kinds().iter().filter(|kind| kind.namespaced) {
        for object in store.list(&kind.key(), Some(name)).1 {
            let _ = deletion::delete(store, &write(kind, key_of(&object)), &json!({}), None)
                .map(|left| after_delete(store, kind, &left));
        }
        left += store.list(&kind.key(), Some(name)).1.len();
    }
    if left == 0 {
        let key = (String::new(), name.to_owned());
        // Gone already is what was wanted.
        let _ = store.update(
            &ResourceKey::new("", "namespaces"),
            &key,
            |existing| match existing {
                Some(namespace) if namespace["metadata"]["deletionTimestamp"].is_string() => {
                    Ok(Outcome::Remove(namespace.as_ref().clone()))
                }
                _ => Err(crate::error::ApiError::not_found("namespaces", name)),
            },
        );
    }
}

/// After an object left a namespace: a namespace that waits to be empty may go.
pub(crate) fn after_removal(store: &Store, removed: &Value) {
    let Some(namespace) = removed["metadata"]["namespace"].as_str() else {
        return;
    };
    let key = (String::new(), namespace.to_owned());
    let waiting = store.get(&ResourceKey::new("", "namespaces"), &key);
    if waiting.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_string()) {
        empty_namespace(store, namespace);
    }
}
