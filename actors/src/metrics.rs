//! Every metric of the Supervisor and the Pool: its name and its one recording function.
//!
//! Labels are closed sets. Names, units and labels stand in `docs/metrics.md`, which a test compares with
//! [`METRICS`].

use std::time::Duration;

use metrics::{counter, gauge, histogram};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One line of `docs/metrics.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As exported.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// `seconds`, `items`, ...
    pub unit: &'static str,
    /// Label names; the values are closed sets, given in `help`.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

const MAILBOX_WAIT: &str = "orbweaver_actor_mailbox_wait_seconds";
const RESTARTS: &str = "orbweaver_actor_restarts_total";
const BATCH: &str = "orbweaver_pool_batch_items";
const COMMITS: &str = "orbweaver_pool_commits_total";
const CONFLICTS: &str = "orbweaver_pool_conflicts_total";
const CLAIMS: &str = "orbweaver_pool_claims_total";
const UNCLAIMS: &str = "orbweaver_pool_unclaims_total";
const SKIPPED: &str = "orbweaver_ledger_skipped_entries";
const WAITING: &str = "orbweaver_pool_waiting_items";
const ROLLBACKS: &str = "orbweaver_rollbacks_total";
const STAGE: &str = "orbweaver_stage_duration_seconds";
const IN_FLIGHT: &str = "orbweaver_requests_in_flight";

/// The table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: MAILBOX_WAIT,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["actor"],
        help: "Time a message waited in an actor's mailbox. actor: pool, supervisor.",
    },
    Metric {
        name: RESTARTS,
        kind: Kind::Counter,
        unit: "restarts",
        labels: &["actor", "reason"],
        help: "Actors rebuilt. actor: pool. reason: panic, stop.",
    },
    Metric {
        name: BATCH,
        kind: Kind::Histogram,
        unit: "items",
        labels: &["pool"],
        help: "Claims and unclaims in one write of a pool.",
    },
    Metric {
        name: COMMITS,
        kind: Kind::Counter,
        unit: "writes",
        labels: &["pool", "outcome"],
        help: "Writes of a pool's claims. outcome: ok, conflict, unknown, failed.",
    },
    Metric {
        name: CONFLICTS,
        kind: Kind::Counter,
        unit: "conflicts",
        labels: &["pool"],
        help: "Writes refused because the pool changed meanwhile.",
    },
    Metric {
        name: CLAIMS,
        kind: Kind::Counter,
        unit: "claims",
        labels: &["pool", "kind"],
        help: "Claims answered. kind: plain, prewarmed, hit, cold, steal, found (the pod held the address already), taken_over (the pod came back and had it in its earlier life).",
    },
    Metric {
        name: UNCLAIMS,
        kind: Kind::Counter,
        unit: "claims",
        labels: &["pool", "reason"],
        help: "Claims taken back. reason: release, rollback, abandoned (the caller went away).",
    },
    Metric {
        name: SKIPPED,
        kind: Kind::Gauge,
        unit: "entries",
        labels: &["pool"],
        help: "Ledger entries set aside because they contradict themselves.",
    },
    Metric {
        name: WAITING,
        kind: Kind::Gauge,
        unit: "items",
        labels: &["pool"],
        help: "Claims and unclaims waiting for the next write.",
    },
    Metric {
        name: ROLLBACKS,
        kind: Kind::Counter,
        unit: "addresses",
        labels: &["reason", "outcome"],
        help: "Claims given back because their ADD failed. reason: rejected, unknown, not_sent, other. outcome: ok, failed.",
    },
    Metric {
        name: STAGE,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["verb", "stage"],
        help: "Time an ADD or DEL spent in a stage. verb: add, del. stage: admission, pod, selection, claim, parent_nic, provider, endpoint, release.",
    },
    Metric {
        name: IN_FLIGHT,
        kind: Kind::Gauge,
        unit: "requests",
        labels: &["verb"],
        help: "Requests being served. verb: add, del.",
    },
];

/// A message waited in a mailbox.
pub fn mailbox_waited(actor: &'static str, waited: Duration) {
    histogram!(MAILBOX_WAIT, "actor" => actor).record(waited);
}

/// An actor is being rebuilt.
pub fn actor_restarted(actor: &'static str, reason: &'static str) {
    counter!(RESTARTS, "actor" => actor, "reason" => reason).increment(1);
}

/// A pool's write begins.
#[allow(clippy::cast_precision_loss)]
pub fn batch_sent(pool: &str, items: usize) {
    histogram!(BATCH, "pool" => pool.to_owned()).record(items as f64);
}

/// A pool's write ended.
pub fn write_finished(pool: &str, outcome: &'static str) {
    counter!(COMMITS, "pool" => pool.to_owned(), "outcome" => outcome).increment(1);
    if outcome == "conflict" {
        counter!(CONFLICTS, "pool" => pool.to_owned()).increment(1);
    }
}

/// A claim was answered.
pub fn claim_answered(pool: &str, kind: &'static str) {
    counter!(CLAIMS, "pool" => pool.to_owned(), "kind" => kind).increment(1);
}

/// A claim was taken back.
pub fn claim_taken_back(pool: &str, reason: &'static str) {
    counter!(UNCLAIMS, "pool" => pool.to_owned(), "reason" => reason).increment(1);
}

/// A pool's ledger was read.
#[allow(clippy::cast_precision_loss)]
pub fn ledger_read(pool: &str, skipped: usize) {
    gauge!(SKIPPED, "pool" => pool.to_owned()).set(skipped as f64);
}

/// Items wait for a pool's next write.
#[allow(clippy::cast_precision_loss)]
pub fn waiting(pool: &str, items: usize) {
    gauge!(WAITING, "pool" => pool.to_owned()).set(items as f64);
}

/// A failed ADD gave a claim back, or could not.
pub fn rolled_back(reason: &'static str, outcome: &'static str) {
    counter!(ROLLBACKS, "reason" => reason, "outcome" => outcome).increment(1);
}

/// A request left a stage.
pub fn stage_passed(verb: &'static str, stage: crate::error::Stage, took: Duration) {
    histogram!(STAGE, "verb" => verb, "stage" => stage.label()).record(took);
}

/// A request begins (`1.0`) or ends (`-1.0`).
pub fn in_flight(verb: &'static str, change: f64) {
    gauge!(IN_FLIGHT, "verb" => verb).increment(change);
}
