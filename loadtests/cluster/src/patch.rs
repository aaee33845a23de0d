//! Merge, JSON and strategic merge patches.

use serde_json::{Map, Value};

use crate::error::ApiError;

/// How a patch body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Kubernetes's own, for built-in resources.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// From the content type.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => Some(Self::Merge),
            "application/json-patch+json" => Some(Self::Json),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// Applies a patch other than server-side apply.
pub(crate) fn patched(kind: PatchKind, object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let mut object = object.clone();
    match kind {
        PatchKind::Merge => json_patch::merge(&mut object, patch),
        PatchKind::Strategic => strategic(&mut object, patch, ""),
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| ApiError::bad_request(format!("not a JSON patch: {error}")))?;
            json_patch::patch(&mut object, &patch).map_err(|error| {
                ApiError::new(
                    http::StatusCode::UNPROCESSABLE_ENTITY,
                    "Invalid",
                    format!("the JSON patch does not apply: {error}"),
                )
            })?;
        }
        PatchKind::Apply => return Err(ApiError::bad_request("server-side apply is not a plain patch")),
    }
    Ok(object)
}

/// Lists that are merged by a key, as the built-in types declare them.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "initContainers" | "ephemeralContainers" | "env" | "volumes" | "imagePullSecrets" => {
            Some("name")
        }
        "ownerReferences" => Some("uid"),
        "conditions" | "addresses" => Some("type"),
        "volumeMounts" => Some("mountPath"),
        "podIPs" => Some("ip"),
        _ => None,
    }
}

fn strategic(target: &mut Value, patch: &Value, name: &str) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => strategic_object(target, patch),
        (Value::Array(target), Value::Array(patch)) if merge_key(name).is_some() => {
            strategic_list(target, patch, merge_key(name).unwrap_or_default());
        }
        (Value::Array(target), Value::Array(patch)) if name == "finalizers" => {
            let new: Vec<Value> = patch
                .iter()
                .filter(|item| !target.contains(item))
                .cloned()
                .collect();
            target.extend(new);
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn strategic_object(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(items), Some(gone)) = (
                target.get_mut(list).and_then(Value::as_array_mut),
                value.as_array(),
            ) {
                items.retain(|item| !gone.contains(item));
            }
        } else if key.starts_with("$setElementOrder/") || key == "$retainKeys" || key == "$patch" {
        } else if value.is_null() {
            target.remove(key);
        } else {
            let place = target.entry(key.clone()).or_insert(if value.is_object() {
                Value::Object(Map::new())
            } else {
                Value::Null
            });
            strategic(place, value, key);
        }
    }
}

fn strategic_list(target: &mut Vec<Value>, patch: &[Value], key: &str) {
    for item in patch {
        let place = target.iter().position(|one| one[key] == item[key]);
        match (item["$patch"] == "delete", place) {
            (true, Some(place)) => {
                target.remove(place);
            }
            (true, None) => {}
            (false, Some(place)) => strategic(&mut target[place], item, ""),
            (false, None) => target.push(item.clone()),
        }
    }
}
