//! Every metric of the agent's own parts (server, stores, watches): its name and its one recording function.
//!
//! Labels are closed sets. `docs/metrics.md` is compared with [`METRICS`].

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use orbweaver_actors::metrics::{Kind, Metric};

const REQUESTS: &str = "orbweaver_agent_requests_total";
const REQUEST_DURATION: &str = "orbweaver_agent_request_duration_seconds";
const CONNECTIONS: &str = "orbweaver_agent_connections";
const CONNECTIONS_CLOSED: &str = "orbweaver_agent_connections_closed_total";
const API_REQUESTS: &str = "orbweaver_api_requests_total";
const API_DURATION: &str = "orbweaver_api_request_duration_seconds";
const WATCH_ERRORS: &str = "orbweaver_watch_errors_total";
const WATCH_INVALID: &str = "orbweaver_watch_invalid_objects_total";
const PARENT_NICS: &str = "orbweaver_parent_nic_publications_total";

/// The table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: REQUESTS,
        kind: Kind::Counter,
        unit: "requests",
        labels: &["verb", "transport", "result"],
        help: "Requests answered. verb: add, del, check, status. transport: grpc, openapi. result: ok, or the reason of the error.",
    },
    Metric {
        name: REQUEST_DURATION,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["verb", "result"],
        help: "From the request's headers to its answer. verb: add, del, check, status. result: ok, error.",
    },
    Metric {
        name: CONNECTIONS,
        kind: Kind::Gauge,
        unit: "connections",
        labels: &[],
        help: "Open connections on the unix socket.",
    },
    Metric {
        name: CONNECTIONS_CLOSED,
        kind: Kind::Counter,
        unit: "connections",
        labels: &["reason"],
        help: "Connections on the unix socket that ended. reason: done, peer (wrong user), full, idle, broken (not HTTP, or cut off).",
    },
    Metric {
        name: API_REQUESTS,
        kind: Kind::Counter,
        unit: "requests",
        labels: &["verb", "resource", "outcome"],
        help: "Requests to the API server. verb: get, list, watch, create, update, patch, delete. resource: the plural, with /status for the subresource. outcome: ok, conflict, not_found, throttled, refused, server_error, unreachable, abandoned (nobody waited any more).",
    },
    Metric {
        name: API_DURATION,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["verb", "resource"],
        help: "Time until the API server's response headers. verb, resource: as above.",
    },
    Metric {
        name: WATCH_ERRORS,
        kind: Kind::Counter,
        unit: "errors",
        labels: &["resource"],
        help: "Lists and watches that failed and are tried again.",
    },
    Metric {
        name: WATCH_INVALID,
        kind: Kind::Counter,
        unit: "objects",
        labels: &["resource"],
        help: "Watched objects that cannot be read; the last good version stays in use.",
    },
    Metric {
        name: PARENT_NICS,
        kind: Kind::Counter,
        unit: "writes",
        labels: &["outcome"],
        help: "Writes of status.parentNic. outcome: ok, unresolved (no such link), failed (API server).",
    },
];

/// What a client asks of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// CNI ADD.
    Add,
    /// CNI DEL.
    Del,
    /// CNI CHECK.
    Check,
    /// CNI STATUS, and the health probe of the OpenAPI.
    Status,
}

impl Verb {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Del => "del",
            Self::Check => "check",
            Self::Status => "status",
        }
    }
}

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `orbweaver.ipam.v1`.
    Grpc,
    /// Spiderpool's OpenAPI v1.
    OpenApi,
}

impl Transport {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::OpenApi => "openapi",
        }
    }
}

/// Installs the process's recorder if there is none; `None` when somebody else's is there already.
/// Histograms of seconds span a fast claim (1 ms) to the whole CNI budget (100 s).
pub fn install() -> Option<PrometheusHandle> {
    const SECONDS: &[f64] = &[
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 100.0,
    ];
    const ITEMS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_items".to_owned()), ITEMS))
        .and_then(PrometheusBuilder::install_recorder)
        .ok()
}

/// A request was answered; `result` is `ok` or the reason of the error.
pub fn request_answered(verb: Verb, transport: Transport, result: &'static str, took: Duration) {
    counter!(REQUESTS, "verb" => verb.label(), "transport" => transport.label(), "result" => result)
        .increment(1);
    let result = if result == "ok" { "ok" } else { "error" };
    histogram!(REQUEST_DURATION, "verb" => verb.label(), "result" => result).record(took);
}

/// A connection opened (`1.0`) or closed (`-1.0`).
pub fn connections(change: f64) {
    gauge!(CONNECTIONS).increment(change);
}

/// A connection ended.
pub fn connection_closed(reason: &'static str) {
    counter!(CONNECTIONS_CLOSED, "reason" => reason).increment(1);
}

/// The API server answered, or did not.
pub fn api_answered(verb: &'static str, resource: &str, outcome: &'static str, took: Duration) {
    counter!(API_REQUESTS, "verb" => verb, "resource" => resource.to_owned(), "outcome" => outcome)
        .increment(1);
    histogram!(API_DURATION, "verb" => verb, "resource" => resource.to_owned()).record(took);
}

/// A list or watch failed.
pub fn watch_failed(resource: &'static str) {
    counter!(WATCH_ERRORS, "resource" => resource).increment(1);
}

/// A watched object cannot be read.
pub fn watched_invalid(resource: &'static str) {
    counter!(WATCH_INVALID, "resource" => resource).increment(1);
}

/// A parent NIC was, or could not be, published.
pub fn parent_nic_published(outcome: &'static str) {
    counter!(PARENT_NICS, "outcome" => outcome).increment(1);
}
