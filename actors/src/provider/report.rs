//! What is said about a call when it ends: one log line, its metrics, and what a person can do.

use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::provider::{AllocateRequest, ReleaseRequest};

use super::metrics;
use super::outcome::Call;
use crate::error::ProviderError;

/// How a call ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done.
    Ok,
    /// See [`ProviderError::Rejected`].
    Rejected,
    /// See [`ProviderError::Unknown`].
    Unknown,
    /// See [`ProviderError::NotSent`].
    NotSent,
}

impl Outcome {
    /// The label of a result.
    pub fn of<T>(result: &Result<T, ProviderError>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(ProviderError::Rejected(_)) => Self::Rejected,
            Err(ProviderError::Unknown { .. }) => Self::Unknown,
            Err(ProviderError::NotSent(_)) => Self::NotSent,
        }
    }

    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
            Self::NotSent => "not_sent",
        }
    }

    /// What a person can do.
    fn remedy(self) -> &'static str {
        match self {
            Self::Ok => "none needed",
            Self::Rejected => "read the provider's answer and its log; the addresses are free again",
            Self::Unknown => {
                "check the provider's health and the network to it; the addresses are kept until it must have ended"
            }
            Self::NotSent => {
                "see what spent the budget, or which queue is full; nothing reached the provider"
            }
        }
    }
}

/// What is logged about a call.
#[derive(Clone, Debug)]
pub(super) struct CallFacts {
    pub(super) call: Call,
    pod: String,
    node: String,
    addresses: String,
    pub(super) request_id: Arc<str>,
}

impl CallFacts {
    pub(super) fn of_allocate(request: &AllocateRequest, request_id: Arc<str>) -> Self {
        let items = request.sub_eni_requests.iter();
        let addresses: Vec<&str> = items
            .flat_map(|item| [item.ipv4_address.as_str(), item.ipv6_address.as_str()])
            .filter(|address| !address.is_empty())
            .collect();
        Self {
            call: Call::Allocate,
            pod: format!("{}/{}", request.pod_namespace, request.pod_name),
            node: request.node_name.clone(),
            addresses: addresses.join(","),
            request_id,
        }
    }

    pub(super) fn of_release(request: &ReleaseRequest, request_id: Arc<str>) -> Self {
        Self {
            call: Call::Release,
            pod: format!("{}/{}", request.pod_namespace, request.pod_name),
            node: request.node_name.clone(),
            addresses: request.ip_address.clone(),
            request_id,
        }
    }

    /// The call ended.
    pub(super) fn finished<T>(&self, result: &Result<T, ProviderError>, took: Duration) {
        let outcome = Outcome::of(result);
        metrics::call_finished(self.call, outcome, took);
        let Self {
            call,
            pod,
            node,
            addresses,
            request_id,
        } = self;
        let (call, outcome_label, ms) = (call.label(), outcome.label(), took.as_millis());
        match result {
            Ok(_) => {
                tracing::info!(call, %pod, %node, %addresses, outcome = outcome_label, ms, %request_id, "provider call");
            }
            Err(why) => tracing::warn!(
                call, %pod, %node, %addresses, outcome = outcome_label, ms, %request_id, %why,
                remedy = outcome.remedy(), "provider call failed"
            ),
        }
    }

    /// The caller had gone when the answer came. An unknown outcome is no answer: the caller, who left at the same
    /// deadline, knows as much.
    pub(super) fn unheard(&self, outcome: Outcome) {
        if matches!(outcome, Outcome::Ok | Outcome::Rejected) {
            metrics::answered_late(self.call);
            let Self {
                call,
                pod,
                addresses,
                request_id,
                ..
            } = self;
            tracing::warn!(
                call = call.label(), %pod, %addresses, outcome = outcome.label(), %request_id,
                "the provider's answer found no caller; the pod's next attempt or the garbage collector settles it"
            );
        }
    }
}
