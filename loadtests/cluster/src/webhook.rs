//! Which entries of webhook configurations a write concerns. Pure.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kind::{Kind, ResourceKey};
use crate::selector::Selector;
use crate::store::Store;

/// Group of webhook configurations; they themselves are never admitted by webhooks.
const GROUP: &str = "admissionregistration.k8s.io";

/// The configurations' entries that may concern a kind, in the order of calling.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) mutating: Vec<Value>,
    pub(crate) validating: Vec<Value>,
}

impl Entries {
    /// Entries of every configuration with a rule for this kind.
    pub(crate) fn of(store: &Store, kind: &Kind, subresource: &str) -> Self {
        if kind.group == GROUP {
            return Self::default();
        }
        let entries = |plural: &str| {
            let configurations = store.list(&ResourceKey::new(GROUP, plural), None).1;
            let all = configurations
                .iter()
                .flat_map(|one| one["webhooks"].as_array().cloned().unwrap_or_default());
            all.filter(|entry| rules(entry).any(|rule| names_kind(rule, kind, subresource)))
                .collect()
        };
        Self {
            mutating: entries("mutatingwebhookconfigurations"),
            validating: entries("validatingwebhookconfigurations"),
        }
    }

    /// True when no webhook can be concerned.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}

fn rules(entry: &Value) -> impl Iterator<Item = &Value> {
    entry["rules"].as_array().into_iter().flatten()
}

fn has(list: &Value, wanted: &str) -> bool {
    let mut all = list.as_array().into_iter().flatten();
    all.any(|one| one == "*" || one == wanted)
}

fn names_kind(rule: &Value, kind: &Kind, subresource: &str) -> bool {
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !kind.namespaced,
        Some("Namespaced") => kind.namespaced,
        _ => true,
    };
    let mut resources = rule["resources"].as_array().into_iter().flatten();
    let resource = resources.any(|one| {
        let (plural, sub) = one
            .as_str()
            .map_or(("", ""), |text| text.split_once('/').unwrap_or((text, "")));
        (plural == "*" || plural == kind.plural) && (sub == subresource || sub == "*")
    });
    scope && resource && has(&rule["apiGroups"], &kind.group) && has(&rule["apiVersions"], &kind.version)
}

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) subresource: &'a str,
    pub(crate) operation: &'a str,
    /// As it will be; null for a deletion.
    pub(crate) object: &'a Value,
    /// As it is; null for a creation.
    pub(crate) old: &'a Value,
    /// The namespace object; null for cluster-wide kinds.
    pub(crate) namespace: &'a Value,
}

/// True when an entry wants to be asked.
pub(crate) fn matches(entry: &Value, asked: &Asked<'_>) -> Result<bool, ApiError> {
    let wants = rules(entry).any(|rule| {
        names_kind(rule, asked.kind, asked.subresource) && has(&rule["operations"], asked.operation)
    });
    if !wants {
        return Ok(false);
    }
    let objects = selector(&entry["objectSelector"])?;
    let selected = |object: &Value| !object.is_null() && objects.matches(object);
    if !selected(asked.object) && !selected(asked.old) {
        return Ok(false);
    }
    // Whatever has no namespace is in every selector's.
    let is_namespace = asked.kind.group.is_empty() && asked.kind.kind == "Namespace";
    let holder = match (is_namespace, asked.object.is_null()) {
        (true, false) => asked.object,
        (true, true) => asked.old,
        (false, _) => asked.namespace,
    };
    Ok(holder.is_null() || selector(&entry["namespaceSelector"])?.matches(holder))
}

/// A `LabelSelector`, read as the query of a list.
fn selector(selector: &Value) -> Result<Selector, ApiError> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for one in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = one["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = one["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        parts.push(match one["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    Selector::parse(&parts.join(","), "")
}

/// The `AdmissionReview` to send.
pub(crate) fn review(asked: &Asked<'_>, uid: &str, dry_run: bool) -> Value {
    let kind = asked.kind;
    let shown = if asked.object.is_null() {
        asked.old
    } else {
        asked.object
    };
    let metadata = &shown["metadata"];
    let gvk = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
    let gvr = json!({ "group": kind.group, "version": kind.version, "resource": kind.plural });
    let mut request = json!({
        "uid": uid, "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
        "name": metadata["name"], "operation": asked.operation, "dryRun": dry_run,
        "userInfo": { "username": "admin", "groups": ["system:masters", "system:authenticated"] },
        "object": asked.object, "oldObject": asked.old, "options": null,
    });
    if kind.namespaced {
        request["namespace"] = metadata["namespace"].clone();
    }
    if !asked.subresource.is_empty() {
        request["subResource"] = json!(asked.subresource);
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
}

/// What a refusal becomes on its way to the client.
pub(crate) fn refused(name: &str, status: &Value) -> ApiError {
    let message = status["message"].as_str().unwrap_or("no explanation was given");
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ApiError {
        code: status["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok())
            .unwrap_or(400),
        reason: match status["reason"].as_str() {
            Some("Invalid") => "Invalid",
            _ => "Forbidden",
        },
        message: format!("admission webhook {name:?} denied the request: {message}"),
        causes: causes
            .map(|cause| (text(&cause["field"]), text(&cause["message"])))
            .collect(),
    }
}
