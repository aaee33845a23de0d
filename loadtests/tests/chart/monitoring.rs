//! Alerts and dashboard ask for metrics that exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::helm::{chart, render, render_file};

/// Names of metrics in a text, without the endings of a summary.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metrics = words.filter(|word| word.starts_with("orbweaver_"));
    metrics
        .map(|word| {
            word.trim_end_matches("_sum")
                .trim_end_matches("_count")
                .to_owned()
        })
        .collect()
}

fn known() -> BTreeSet<String> {
    [
        orbweaver_actors::metrics::METRICS,
        orbweaver_actors::provider::metrics::METRICS,
        orbweaver_agent::metrics::METRICS,
        orbweaver_controller::metrics::METRICS,
    ]
    .into_iter()
    .flatten()
    .map(|metric| metric.name.to_owned())
    .collect()
}

fn expressions(board: &Value) -> String {
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let texts: Vec<&str> = targets.filter_map(|target| target["expr"].as_str()).collect();
    assert!(texts.len() > 20);
    texts.join("\n")
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let alerts = std::fs::read_to_string(chart().join("files/alerts.yaml")).unwrap();
    // In texts an agent's crate is named as well, for a log filter.
    let asked = metrics_in(&alerts);
    assert!(asked.len() > 8, "{asked:?}");
    let map = render_file("everything.yaml").object("ConfigMap", "spiderpool-dashboard");
    let board: Value = serde_json::from_str(map["data"]["orbweaver.json"].as_str().unwrap()).unwrap();
    let shown = metrics_in(&expressions(&board));
    let unknown: Vec<&String> = asked
        .union(&shown)
        .filter(|name| !known().contains(*name))
        .collect();
    assert!(unknown.is_empty(), "no program has these metrics: {unknown:?}");
}

#[test]
fn no_two_panels_share_a_place() {
    let text = std::fs::read_to_string(chart().join("files/dashboard.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let mut taken = BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{}", panel["title"]);
            }
        }
    }
}

#[test]
fn an_alert_that_is_switched_off_is_not_there() {
    let names = |values: &str| -> Vec<String> {
        let rules = render(values).of_kind("PrometheusRule");
        let rules = rules
            .iter()
            .flat_map(|rule| rule["spec"]["groups"][0]["rules"].as_array().unwrap());
        rules
            .map(|rule| rule["alert"].as_str().unwrap().to_owned())
            .collect()
    };
    let on = "spiderpoolAgent: {prometheus: {prometheusRule: {install: true}}}";
    let off = "spiderpoolAgent: {prometheus: {prometheusRule: {install: true, enableWarningIPAMReleaseFailure: false}}}";
    let gone = "OrbweaverAddressesAreNotReleased".to_owned();
    assert!(names(on).contains(&gone));
    assert!(!names(off).contains(&gone));
    assert_eq!(names(off).len() + 1, names(on).len());
}

#[test]
fn a_monitor_finds_its_service_and_the_port() {
    let rendering = render_file("everything.yaml");
    for component in ["spiderpool-agent", "spiderpool-controller"] {
        let monitor = rendering.object("ServiceMonitor", component);
        let service = rendering.object("Service", component);
        for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(service["metadata"]["labels"][key], *value);
        }
        let port = &monitor["spec"]["endpoints"][0]["port"];
        let ports = service["spec"]["ports"].as_array().unwrap();
        assert!(ports.iter().any(|one| one["name"] == *port), "{component}");
    }
}
