//! `docs/metrics.md` and the code say the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use orbweaver_actors::metrics::{Kind, Metric};

fn line(metric: &Metric) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
    format!(
        "| `{}` | {kind} | {} | {} | {} |",
        metric.name,
        metric.unit,
        labels.join(", "),
        metric.help
    )
}

#[test]
fn every_metric_is_documented_and_nothing_else() {
    let code: BTreeSet<String> = [
        orbweaver_actors::metrics::METRICS,
        orbweaver_actors::provider::metrics::METRICS,
        orbweaver_agent::metrics::METRICS,
        orbweaver_controller::metrics::METRICS,
    ]
    .into_iter()
    .flatten()
    .map(line)
    .collect();
    let documented: BTreeSet<String> = include_str!("../../docs/metrics.md")
        .lines()
        .filter(|line| line.starts_with("| `orbweaver_"))
        .map(str::to_owned)
        .collect();
    let missing: Vec<&String> = code.difference(&documented).collect();
    let stale: Vec<&String> = documented.difference(&code).collect();
    assert!(
        missing.is_empty(),
        "docs/metrics.md lacks these lines:\n{missing:#?}"
    );
    assert!(
        stale.is_empty(),
        "docs/metrics.md has lines that no code stands behind:\n{stale:#?}"
    );
}
