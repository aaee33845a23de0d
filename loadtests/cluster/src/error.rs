//! What the server refuses with: Kubernetes's `Status`.

use http::StatusCode;
use serde_json::{Value, json};

/// A refusal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// Kubernetes's reason, as `Conflict`.
    pub reason: &'static str,
    /// Text.
    pub message: String,
    /// Field paths with messages, for `Invalid`.
    pub causes: Vec<(String, String)>,
}

impl ApiError {
    /// Any refusal.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: code.as_u16(),
            reason,
            message: message.into(),
            causes: Vec::new(),
        }
    }

    /// 404.
    pub fn not_found(resource: &str, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("{resource} {name:?} not found"),
        )
    }

    /// 404 for a path that serves nothing.
    pub fn no_such_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 409 on a write.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// 409 on a create.
    pub fn already_exists(resource: &str, name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{resource} {name:?} already exists"),
        )
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 422 with every finding.
    pub fn invalid(kind: &str, name: &str, causes: Vec<(String, String)>) -> Self {
        let all: Vec<String> = causes
            .iter()
            .map(|(field, message)| format!("{field}: {message}"))
            .collect();
        let message = format!("{kind} {name:?} is invalid: {}", all.join(", "));
        Self {
            code: 422,
            reason: "Invalid",
            message,
            causes,
        }
    }

    /// 410.
    pub fn gone(version: u64) -> Self {
        Self::new(
            StatusCode::GONE,
            "Expired",
            format!("too old resource version: {version}"),
        )
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let causes: Vec<Value> = self
            .causes
            .iter()
            .map(|(field, message)| json!({ "reason": "FieldValueInvalid", "field": field, "message": message }))
            .collect();
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
            "details": { "causes": causes },
        })
    }
}
