//! How the demo tells its story.

use super::step::{STAGES, Step};

/// One step, with what the plugin printed.
pub(super) fn narrate(step: &Step) -> String {
    let result = if step.success { "gets" } else { "is refused:" };
    let json = serde_json::to_string(&step.plugin).unwrap_or_default();
    format!(
        "\n* {} (node {}, pool {}) {result}\n   {json}",
        step.title, step.node, step.pool
    )
}

/// All steps: what was asked, what came, what it cost, where the time went.
pub(super) fn table(steps: &[Step]) -> String {
    let head = [
        "what was asked",
        "address",
        "MAC",
        "VLAN",
        "provider calls",
        "API requests",
        "time by stage (ms)",
        "whole (ms)",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for step in steps {
        let stages: Vec<String> = STAGES
            .iter()
            .filter_map(|stage| step.stages_ms.get(*stage).map(|ms| (stage, *ms)))
            .filter(|(_, ms)| *ms >= 0.1)
            .map(|(stage, ms)| format!("{stage} {ms:.1}"))
            .collect();
        rows.push([
            step.title.clone(),
            step.address.clone().unwrap_or_else(|| "-".to_owned()),
            step.mac.clone().unwrap_or_else(|| "-".to_owned()),
            step.vlan.map_or_else(|| "-".to_owned(), |vlan| vlan.to_string()),
            step.provider_calls.to_string(),
            step.api_requests.to_string(),
            stages.join(", "),
            format!("{:.0}", step.took_ms),
        ]);
    }
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let line = |row: &[String; 8]| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut text = vec![String::new(), line(&rows[0]), format!("|{}|", rule.join("|"))];
    text.extend(rows[1..].iter().map(line));
    text.push(String::new());
    text.join("\n")
}
