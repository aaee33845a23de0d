//! Every metric of the Provider: its name and its one recording function.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use super::CallClass;
use super::outcome::Call;
use super::report::Outcome;
use crate::metrics::{Kind, Metric};

const CALLS: &str = "orbweaver_provider_calls_total";
const DURATION: &str = "orbweaver_provider_call_duration_seconds";
const IN_FLIGHT: &str = "orbweaver_provider_calls_in_flight";
const QUEUE_WAIT: &str = "orbweaver_provider_queue_wait_seconds";
const BUDGET: &str = "orbweaver_provider_budget_at_send_seconds";
const LATE: &str = "orbweaver_provider_late_answers_total";

/// The table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: CALLS,
        kind: Kind::Counter,
        unit: "calls",
        labels: &["call", "outcome"],
        help: "Calls to the network provider. call: allocate, release. outcome: ok, rejected, unknown, not_sent.",
    },
    Metric {
        name: DURATION,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["call", "outcome"],
        help: "Time from the start of a call to its outcome, without the queue. call: allocate, release. outcome: ok, \
               rejected, unknown, not_sent (for these: time in the queue).",
    },
    Metric {
        name: IN_FLIGHT,
        kind: Kind::Gauge,
        unit: "calls",
        labels: &["class"],
        help: "Calls to the network provider being made. class: pod_start, undo, release.",
    },
    Metric {
        name: QUEUE_WAIT,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["class"],
        help: "Time a call waited before it was made. class: pod_start, undo, release.",
    },
    Metric {
        name: BUDGET,
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["call"],
        help: "What was left of the budget when a call was sent. call: allocate, release.",
    },
    Metric {
        name: LATE,
        kind: Kind::Counter,
        unit: "answers",
        labels: &["call"],
        help: "Answers of the network provider whose caller had gone away. call: allocate, release.",
    },
];

/// A call has its outcome.
pub fn call_finished(call: Call, outcome: Outcome, took: Duration) {
    counter!(CALLS, "call" => call.label(), "outcome" => outcome.label()).increment(1);
    histogram!(DURATION, "call" => call.label(), "outcome" => outcome.label()).record(took);
}

/// A class has so many calls in flight.
#[allow(clippy::cast_precision_loss)]
pub fn in_flight(class: CallClass, calls: usize) {
    gauge!(IN_FLIGHT, "class" => class.label()).set(calls as f64);
}

/// A call leaves the queue to be made.
pub fn waited(class: CallClass, waited: Duration) {
    histogram!(QUEUE_WAIT, "class" => class.label()).record(waited);
}

/// A call is being sent.
pub fn budget_at_send(call: Call, budget: Duration) {
    histogram!(BUDGET, "call" => call.label()).record(budget);
}

/// An answer came for a caller who had gone away.
pub fn answered_late(call: Call) {
    counter!(LATE, "call" => call.label()).increment(1);
}
