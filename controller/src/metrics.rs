//! Every metric of the controller: its name and its one recording function.
//!
//! Labels are closed sets. `docs/metrics.md` is compared with [`METRICS`].

use metrics::{counter, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use orbweaver_actors::metrics::{Kind, Metric};

const BUNDLE_WRITES: &str = "orbweaver_controller_ca_bundle_writes_total";
const CERTIFICATE_ERRORS: &str = "orbweaver_controller_certificate_errors_total";
const REVIEWS: &str = "orbweaver_controller_admission_reviews_total";
const GC_COLLECTED: &str = "orbweaver_controller_gc_collected_claims_total";
const GC_ENDPOINTS: &str = "orbweaver_controller_gc_collected_endpoints_total";
const GC_FAILURES: &str = "orbweaver_controller_gc_failures_total";
const GC_ROUNDS: &str = "orbweaver_controller_gc_rounds_total";
const GC_SUSPECTS: &str = "orbweaver_controller_gc_suspects";
const LEADER: &str = "orbweaver_controller_leader";
const LEADERSHIPS: &str = "orbweaver_controller_leaderships_total";
const LEASE_ERRORS: &str = "orbweaver_controller_lease_errors_total";
const POOL_ADDRESSES: &str = "orbweaver_controller_pool_addresses";
const POOL_CLAIMS: &str = "orbweaver_controller_pool_claims";
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
        name: GC_COLLECTED,
        kind: Kind::Counter,
        unit: "claims",
        labels: &["reason"],
        help: "Claims that had to be collected: a DEL did not do it. reason: pod_gone, pod_replaced, finished, evicted, terminating, node_not_ready, node_gone, scaled_away, owner_gone, namespace_gone, no_pod.",
    },
    Metric {
        name: GC_ENDPOINTS,
        kind: Kind::Counter,
        unit: "endpoints",
        labels: &[],
        help: "Endpoints removed that held nothing, of pods that are gone.",
    },
    Metric {
        name: GC_FAILURES,
        kind: Kind::Counter,
        unit: "failures",
        labels: &["reason"],
        help: "Times that what should go could not be collected. reason: read, write (API server), node_unknown, no_endpoint, no_provider, release_in_flight, provider_rejected, provider_unknown, unreadable (claims of a pool).",
    },
    Metric {
        name: GC_ROUNDS,
        kind: Kind::Counter,
        unit: "rounds",
        labels: &["outcome"],
        help: "Looks at the whole cluster. outcome: ok, failed (a list did not come).",
    },
    Metric {
        name: GC_SUSPECTS,
        kind: Kind::Gauge,
        unit: "claims",
        labels: &[],
        help: "Claims and endpoints that look abandoned and wait for the second look.",
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
        name: POOL_ADDRESSES,
        kind: Kind::Gauge,
        unit: "addresses",
        labels: &["pool"],
        help: "Addresses that a pool gives out, by its spec; 0 once it is gone, or this replica does not lead.",
    },
    Metric {
        name: POOL_CLAIMS,
        kind: Kind::Gauge,
        unit: "claims",
        labels: &["pool"],
        help: "Addresses of a pool that are claimed; 0 once it is gone, or this replica does not lead.",
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

/// A pool has so many addresses, and so many of them are claimed.
#[allow(clippy::cast_precision_loss)] // a /64 need not be told to the last address
pub fn pool_counted(pool: &str, total: i64, claims: usize) {
    gauge!(POOL_ADDRESSES, "pool" => pool.to_owned()).set(total as f64);
    gauge!(POOL_CLAIMS, "pool" => pool.to_owned()).set(claims as f64);
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

/// A claim had to be collected.
pub fn gc_collected(reason: &'static str) {
    counter!(GC_COLLECTED, "reason" => reason).increment(1);
}

/// An endpoint had to be removed.
pub fn gc_endpoint() {
    counter!(GC_ENDPOINTS).increment(1);
}

/// Something could not be collected.
pub fn gc_failed(reason: &'static str) {
    counter!(GC_FAILURES, "reason" => reason).increment(1);
}

/// A look at the cluster came about, or not.
pub fn gc_round(outcome: &'static str) {
    counter!(GC_ROUNDS, "outcome" => outcome).increment(1);
}

/// So much looks abandoned.
#[allow(clippy::cast_precision_loss)] // far below 2^52 claims
pub fn gc_suspects(count: usize) {
    gauge!(GC_SUSPECTS).set(count as f64);
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
