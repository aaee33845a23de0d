//! The `Table` form that `kubectl get` asks for.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::kind::Kind;

/// Columns of a kind: name, path, priority.
fn columns(kind: &Kind) -> Vec<(String, String, i64)> {
    let own = |rows: &[(&str, &str, i64)]| {
        rows.iter()
            .map(|(name, path, priority)| ((*name).to_owned(), (*path).to_owned(), *priority))
            .collect::<Vec<_>>()
    };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => own(&[
            ("Status", ".status.phase", 0),
            ("IP", ".status.podIP", 1),
            ("Node", ".spec.nodeName", 1),
        ]),
        ("", "Namespace") => own(&[("Status", ".status.phase", 0)]),
        ("", "Event") => own(&[
            ("Type", ".type", 0),
            ("Reason", ".reason", 0),
            ("Object", ".involvedObject.name", 0),
            ("Message", ".message", 0),
        ]),
        ("coordination.k8s.io", "Lease") => own(&[("Holder", ".spec.holderIdentity", 0)]),
        _ => kind
            .columns
            .iter()
            .map(|column| {
                let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
                (
                    text("name"),
                    text("jsonPath"),
                    column["priority"].as_i64().unwrap_or(0),
                )
            })
            .collect(),
    }
}

/// Follows the subset of JSONPath that printer columns use: `.a.b[0].c` and `.a['b.c']`.
pub(crate) fn follow<'a>(object: &'a Value, path: &str) -> &'a Value {
    let mut at = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let Some((key, after)) = after.split_once("']") else {
                return &Value::Null;
            };
            (at, rest) = (&at[key.replace('\\', "").as_str()], after);
        } else if let Some(after) = rest.strip_prefix('[') {
            let Some((index, after)) = after.split_once(']') else {
                return &Value::Null;
            };
            (at, rest) = (
                index.parse::<usize>().map_or(&Value::Null, |index| &at[index]),
                after,
            );
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            if end == 0 {
                return &Value::Null;
            }
            (at, rest) = (&at[&plain[..end]], &plain[end..]);
        }
    }
    at
}

fn age(object: &Value) -> String {
    let created = object["metadata"]["creationTimestamp"]
        .as_str()
        .and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    let Some(created) = created else {
        return "<unknown>".to_owned();
    };
    let seconds = (Utc::now() - created.with_timezone(&Utc)).num_seconds().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// The table of some objects; `whole` puts whole objects into the rows, not only their metadata.
pub(crate) fn table(kind: &Kind, objects: &[&Value], version: &str, whole: bool) -> Value {
    let columns = columns(kind);
    let mut definitions = vec![
        json!({ "name": "Name", "type": "string", "format": "name", "description": "Name", "priority": 0 }),
    ];
    definitions.extend(columns.iter().map(|(name, _, priority)| {
        json!({ "name": name, "type": "string", "format": "", "description": name, "priority": priority })
    }));
    definitions
        .push(json!({ "name": "Age", "type": "string", "format": "", "description": "Age", "priority": 0 }));
    let row = |object: &&Value| {
        let mut cells = vec![object["metadata"]["name"].clone()];
        cells.extend(columns.iter().map(|(_, path, _)| match follow(object, path) {
            Value::Null => json!(""),
            value @ (Value::Array(_) | Value::Object(_)) => json!(value.to_string()),
            value => value.clone(),
        }));
        cells.push(json!(age(object)));
        let shown = if whole { (*object).clone() } else { partial(object) };
        json!({ "cells": cells, "object": shown })
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": { "resourceVersion": version },
        "columnDefinitions": definitions,
        "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

/// An object's metadata alone.
pub(crate) fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}
