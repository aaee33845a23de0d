//! Server-side apply: who owns which field, conflicts, and removal of fields that are applied no more.
//!
//! Ownership is kept as `fieldsV1` down to leaves and whole lists (lists are atomic, except `ownerReferences`
//! and `finalizers`, which apply sets as a whole for their manager).

use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// Merges an applied configuration into an object and brings `managedFields` up to date.
pub(crate) fn applied(
    object: Option<&Value>,
    configuration: &Value,
    manager: &str,
    subresource: &str,
    force: bool,
    now: &str,
) -> Result<Value, ApiError> {
    let mut result = object.cloned().unwrap_or_else(|| json!({ "metadata": {} }));
    let mut managers = take_managers(&mut result);
    let mut configuration = configuration.clone();
    if let Some(metadata) = configuration.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "managedFields",
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
        ] {
            metadata.remove(field);
        }
    }
    let wanted = fields_of(&configuration);
    let is_own = |entry: &Value| {
        entry["manager"] == manager
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    };
    let conflicts = conflicts(&managers, &result, &configuration, &wanted, &is_own);
    if !conflicts.is_empty() && !force {
        let causes = conflicts
            .iter()
            .map(|(other, path)| (path.clone(), format!("conflict with {other:?}")))
            .collect();
        let message = format!("Apply failed with {} conflict(s): {conflicts:?}", conflicts.len());
        return Err(ApiError {
            code: 409,
            reason: "Conflict",
            message,
            causes,
        });
    }
    for entry in managers.iter_mut().filter(|entry| !is_own(entry)) {
        for (_, path) in &conflicts {
            remove_field(&mut entry["fieldsV1"], path);
        }
    }
    if let Some(previous) = managers.iter().find(|entry| is_own(entry)) {
        let others: Vec<&Value> = managers
            .iter()
            .filter(|entry| !is_own(entry))
            .map(|entry| &entry["fieldsV1"])
            .collect();
        drop_abandoned(&mut result, &previous["fieldsV1"], &wanted, &others);
    }
    merge(&mut result, &configuration);
    managers.retain(|entry| !is_own(entry));
    managers.push(entry(manager, "Apply", subresource, &configuration, &wanted, now));
    managers.retain(|entry| {
        entry["fieldsV1"]
            .as_object()
            .is_some_and(|fields| !fields.is_empty())
    });
    result["metadata"]["managedFields"] = Value::Array(managers);
    Ok(result)
}

/// Notes that an ordinary write changed these fields.
pub(crate) fn updated(
    before: Option<&Value>,
    after: &mut Value,
    manager: &str,
    subresource: &str,
    now: &str,
) {
    let mut managers = take_managers(after);
    if let Some(before) = before {
        let kept = before
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array);
        managers = kept.cloned().unwrap_or_default();
    }
    let mut changed = json!({});
    difference(before.unwrap_or(&Value::Null), after, &mut changed);
    if let Value::Object(metadata) = &mut changed["metadata"] {
        for field in [
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
            "managedFields",
            "name",
            "namespace",
        ] {
            metadata.remove(field);
        }
    }
    let mut wanted = fields_of(&changed);
    let is_own = |entry: &Value| {
        entry["manager"] == manager
            && entry["operation"] == "Update"
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    };
    if wanted.as_object().is_some_and(|fields| !fields.is_empty()) {
        for entry in managers.iter_mut().filter(|entry| !is_own(entry)) {
            for path in leaves(&wanted, "") {
                remove_field(&mut entry["fieldsV1"], &path);
            }
        }
        if let Some(own) = managers.iter().find(|entry| is_own(entry)) {
            merge(&mut wanted, &own["fieldsV1"]);
        }
        managers.retain(|entry| !is_own(entry));
        let note = entry(manager, "Update", subresource, after, &wanted, now);
        managers.push(note);
    }
    managers.retain(|entry| {
        entry["fieldsV1"]
            .as_object()
            .is_some_and(|fields| !fields.is_empty())
    });
    after["metadata"]["managedFields"] = Value::Array(managers);
}

fn entry(
    manager: &str,
    operation: &str,
    subresource: &str,
    object: &Value,
    fields: &Value,
    now: &str,
) -> Value {
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": object["apiVersion"],
        "time": now, "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    if !subresource.is_empty() {
        entry["subresource"] = json!(subresource);
    }
    entry
}

fn take_managers(object: &mut Value) -> Vec<Value> {
    let managers = object.pointer_mut("/metadata/managedFields").map(Value::take);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    managers
        .and_then(|managers| managers.as_array().cloned())
        .unwrap_or_default()
}

/// The tree of fields of a configuration: `f:` keys, leaves and lists end in `{}`.
fn fields_of(value: &Value) -> Value {
    let mut fields = Map::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "apiVersion" | "kind") {
            fields.insert(format!("f:{key}"), tree(value));
        }
    }
    if let Some(Value::Object(metadata)) = fields.get_mut("f:metadata") {
        metadata.remove("f:name");
        metadata.remove("f:namespace");
        if metadata.is_empty() {
            fields.remove("f:metadata");
        }
    }
    Value::Object(fields)
}

fn tree(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (format!("f:{key}"), tree(value)))
                .collect(),
        ),
        _ => json!({}),
    }
}

/// Paths of leaves, as `.spec.subnet`.
fn leaves(fields: &Value, path: &str) -> Vec<String> {
    let Some(map) = fields.as_object().filter(|map| !map.is_empty()) else {
        return if path.is_empty() {
            Vec::new()
        } else {
            vec![path.to_owned()]
        };
    };
    map.iter()
        .flat_map(|(key, value)| leaves(value, &format!("{path}\u{1f}{key}")))
        .collect()
}

fn keys(path: &str) -> impl Iterator<Item = &str> {
    path.split('\u{1f}').filter(|key| !key.is_empty())
}

fn owns(fields: &Value, path: &str) -> bool {
    let mut at = fields;
    for key in keys(path) {
        match at.get(key) {
            Some(next) => at = next,
            None => return at.as_object().is_some_and(Map::is_empty) && !std::ptr::eq(at, fields),
        }
    }
    true
}

fn value_at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    keys(path).try_fold(object, |at, key| at.get(key.strip_prefix("f:").unwrap_or(key)))
}

fn conflicts(
    managers: &[Value],
    object: &Value,
    configuration: &Value,
    wanted: &Value,
    is_own: &dyn Fn(&Value) -> bool,
) -> Vec<(String, String)> {
    let mut conflicts = Vec::new();
    for path in leaves(wanted, "") {
        let same = value_at(object, &path) == value_at(configuration, &path);
        for entry in managers
            .iter()
            .filter(|entry| !same && !is_own(entry) && owns(&entry["fieldsV1"], &path))
        {
            conflicts.push((
                entry["manager"].as_str().unwrap_or_default().to_owned(),
                path.clone(),
            ));
        }
    }
    conflicts
}

fn remove_field(fields: &mut Value, path: &str) {
    let all: Vec<&str> = keys(path).collect();
    remove_key(fields, &all);
}

fn remove_key(fields: &mut Value, path: &[&str]) {
    let (Some(map), Some((key, rest))) = (fields.as_object_mut(), path.split_first()) else {
        return;
    };
    if rest.is_empty() {
        map.remove(*key);
    } else if let Some(next) = map.get_mut(*key) {
        remove_key(next, rest);
        if next.as_object().is_some_and(Map::is_empty) {
            map.remove(*key);
        }
    }
}

/// Fields that this manager applied before, applies no more, and nobody else owns are removed.
fn drop_abandoned(object: &mut Value, previous: &Value, wanted: &Value, others: &[&Value]) {
    for path in leaves(previous, "") {
        if owns(wanted, &path) || others.iter().any(|fields| owns(fields, &path)) {
            continue;
        }
        let plain: Vec<&str> = keys(&path)
            .map(|key| key.strip_prefix("f:").unwrap_or(key))
            .collect();
        remove_key(object, &plain);
    }
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// What `after` has that `before` has not, or has otherwise.
fn difference(before: &Value, after: &Value, changed: &mut Value) {
    for (key, value) in after.as_object().into_iter().flatten() {
        let old = before.get(key).unwrap_or(&Value::Null);
        if old == value {
            continue;
        }
        if value.is_object() {
            let mut inner = json!({});
            difference(old, value, &mut inner);
            changed[key] = inner;
        } else {
            changed[key] = value.clone();
        }
    }
}
