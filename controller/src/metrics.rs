//! Every metric of the controller: its name and its one recording function.
//!
//! Labels are closed sets. `docs/metrics.md` is compared with [`METRICS`].

use metrics::{counter, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use orbweaver_actors::metrics::{Kind, Metric};

const BUNDLE_WRITES: &str = "orbweaver_controller_ca_bundle_writes_total";
const CERTIFICATE_ERRORS: &str = "orbweaver_controller_certificate_errors_total";
const REVIEWS: &str = "orbweaver_controller_admission_reviews_total";
const LEADER: &str = "orbweaver_controller_leader";
const LEADERSHIPS: &str = "orbweaver_controller_leaderships_total";
const LEASE_ERRORS: &str = "orbweaver_controller_lease_errors_total";
const POOLS: &str = "orbweaver_controller_pools";
const POOL_WRITES: &str = "orbweaver_controller_pool_writes_total";
const POOLS_INVALID: &str = "orbweaver_controller_invalid_pools_total";
const WATCH_ERRORS: &str = "orbweaver_controller_watch_errors_total";

/// The table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: REVIEWS,
        kind: Kind::Counter,
        unit: "reviews",
        labels: &["hook", "outcome"],
        help: "Admission reviews. hook: mutate_pool, validate_pool, mutate_reserved_ip, validate_reserved_ip, mutate_pod. outcome: allowed, refused, malformed, not_ready, undecided (the cluster did not answer in time).",
    },
    Metric {
        name: BUNDLE_WRITES,
        kind: Kind::Counter,
        unit: "writes",
        labels: &["outcome"],
        help: "Writes of caBundle into a webhook configuration of ours. outcome: ok, failed.",
    },
    Metric {
        name: CERTIFICATE_ERRORS,
        kind: Kind::Counter,
        unit: "errors",
        labels: &[],
        help: "Renewals of the webhook's certificate that failed; the old one stays in use.",
    },
    Metric {
        name: LEADER,
        kind: Kind::Gauge,
        unit: "boolean",
        labels: &[],
        help: "1 while this replica leads.",
    },
    Metric {
        name: LEADERSHIPS,
        kind: Kind::Counter,
        unit: "terms",
        labels: &[],
        help: "Times this replica began to lead.",
    },
    Metric {
        name: LEASE_ERRORS,
        kind: Kind::Counter,
        unit: "errors",
        labels: &[],
        help: "Reads and writes of the lease that failed or took too long; conflicts are not errors.",
    },
    Metric {
        name: POOLS,
        kind: Kind::Gauge,
        unit: "pools",
        labels: &[],
        help: "Pools that the leader watches.",
    },
    Metric {
        name: POOL_WRITES,
        kind: Kind::Counter,
        unit: "writes",
        labels: &["action", "outcome"],
        help: "Writes of pools. action: counters, finalizer. outcome: ok, conflict, gone, failed.",
    },
    Metric {
        name: POOLS_INVALID,
        kind: Kind::Counter,
        unit: "pools",
        labels: &["reason"],
        help: "Pools found unusable, once per content. reason: unreadable, family, ips, exclude_ips, claims.",
    },
    Metric {
        name: WATCH_ERRORS,
        kind: Kind::Counter,
        unit: "errors",
        labels: &["resource"],
        help: "Lists and watches that failed and are tried again.",
    },
];

/// Installs the process's recorder; `None` when there is one already.
pub fn install() -> Option<PrometheusHandle> {
    let handle = PrometheusBuilder::new().install_recorder().ok()?;
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
    gauge!(LEADER).set(0.0);
    Some(handle)
}

/// This replica begins or ends to lead.
pub fn leads(leads: bool) {
    gauge!(LEADER).set(if leads { 1.0 } else { 0.0 });
    if leads {
        counter!(LEADERSHIPS).increment(1);
    }
}

/// An admission review was answered.
pub fn reviewed(hook: &'static str, outcome: &'static str) {
    counter!(REVIEWS, "hook" => hook, "outcome" => outcome).increment(1);
}

/// `caBundle` of a webhook configuration was written, or not.
pub fn bundle_written(outcome: &'static str) {
    counter!(BUNDLE_WRITES, "outcome" => outcome).increment(1);
}

/// The webhook's certificate could not be renewed.
pub fn certificate_failed() {
    counter!(CERTIFICATE_ERRORS).increment(1);
}

/// The lease could not be read or written.
pub fn lease_failed() {
    counter!(LEASE_ERRORS).increment(1);
}

/// So many pools are watched.
#[allow(clippy::cast_precision_loss)] // far below 2^52 pools
pub fn pools(count: usize) {
    gauge!(POOLS).set(count as f64);
}

/// A pool was written, or not.
pub fn pool_written(action: &'static str, outcome: &'static str) {
    counter!(POOL_WRITES, "action" => action, "outcome" => outcome).increment(1);
}

/// A pool cannot be used.
pub fn pool_invalid(reason: &'static str) {
    counter!(POOLS_INVALID, "reason" => reason).increment(1);
}

/// A watch failed.
pub fn watch_failed(resource: &'static str) {
    counter!(WATCH_ERRORS, "resource" => resource).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_controllers_and_there_once() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            assert!(
                metric.name.starts_with("orbweaver_controller_"),
                "{}",
                metric.name
            );
            let counts = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counts, "{}", metric.name);
        }
    }
}
