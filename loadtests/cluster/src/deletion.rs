//! `DELETE`: what goes at once, and what waits for finalizers or a grace period.

use std::sync::Arc;

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::ops::Write;
use crate::store::{Outcome, Store};

/// `DELETE`: gone at once, or terminating until finalizers and the grace period allow.
pub(crate) fn delete(
    store: &Store,
    write: &Write<'_>,
    options: &Value,
    grace: Option<i64>,
) -> Result<Arc<Value>, ApiError> {
    let kind = write.kind;
    store.update(&kind.key(), &write.key, |existing| {
        let existing = existing.ok_or_else(|| ApiError::not_found(&kind.resource(), &write.key.1))?;
        for field in ["uid", "resourceVersion"] {
            let wanted = options["preconditions"][field].as_str();
            if wanted.is_some_and(|wanted| existing["metadata"][field] != wanted) {
                let why = format!(
                    "Precondition failed: {field} in precondition: {wanted:?}, in object meta: {}",
                    existing["metadata"][field]
                );
                return Err(ApiError::conflict(&kind.resource(), &write.key.1, &why));
            }
        }
        let mut object = existing.as_ref().clone();
        let is_pod = kind.group.is_empty()
            && kind.kind == "Pod"
            && !object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        let grace = if is_pod {
            grace
                .or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64())
                .unwrap_or(30)
        } else {
            0
        };
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        let is_namespace = kind.group.is_empty() && kind.kind == "Namespace";
        if grace <= 0 && !finalizers && !is_namespace {
            return Ok(Outcome::Remove(object));
        }
        let terminating = object["metadata"]["deletionTimestamp"].is_string();
        let shorter = object["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .is_some_and(|left| grace < left);
        if terminating && !shorter {
            return Ok(Outcome::Same(object));
        }
        let at = Utc::now() + chrono::Duration::seconds(grace.max(0));
        object["metadata"]["deletionTimestamp"] = json!(at.to_rfc3339_opts(SecondsFormat::Secs, true));
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace.max(0));
        if is_namespace {
            object["status"]["phase"] = json!("Terminating");
        }
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(1);
        object["metadata"]["generation"] = json!(generation + 1);
        Ok(Outcome::Keep(object))
    })
}
