//! What would be collected, and why: a table for people. Nothing is written.

use std::fmt::Write;

use k8s_openapi::jiff::Timestamp;

use crate::collection::Policy;
use crate::collection::backing::{self, Holder};
use crate::collection::engine::Failure;
use crate::collection::facts::Snapshot;
use crate::collection::rules::{Opinion, judge_all};

/// One row for each claim, in the order of pools and addresses.
pub fn table(seen: &Snapshot, policy: &Policy, has_provider: bool, now: Timestamp) -> String {
    let mut rows = vec![["POOL", "ADDRESS", "POD", "UID", "VERDICT", "WHY", "HOW"].map(str::to_owned)];
    for ((pool, address), (claim, opinion)) in judge_all(seen, policy, now) {
        let (verdict, why, how) = match opinion {
            Opinion::Keep(keep) => ("keep", keep.label(), String::new()),
            Opinion::Abandoned(cause) => {
                let holder = Holder {
                    claim: claim.clone(),
                    places: [(pool.clone(), address)].into(),
                };
                let (verdict, how) = match backing::releases(&holder, seen, has_provider) {
                    Ok(requests) if requests.is_empty() => ("collect", "unclaim".to_owned()),
                    Ok(requests) => {
                        let node = requests.first().map_or("", |request| &request.node_name);
                        (
                            "collect",
                            format!("release at the provider (node {node}), then unclaim"),
                        )
                    }
                    Err(obstacle) => ("stuck", Failure::from(obstacle).to_string()),
                };
                (verdict, cause.label(), how)
            }
        };
        let texts = [
            &pool,
            &address.to_string(),
            &claim.pod,
            &claim.pod_uid,
            verdict,
            why,
            &how,
        ];
        rows.push(texts.map(|text: &str| text.to_owned()));
    }
    let mut text = aligned(&rows);
    for pool in &seen.unreadable {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "pool {pool}: its claims cannot be read, none of them is collected"
        );
    }
    text
}

fn aligned(rows: &[[String; 7]]) -> String {
    let mut widths = [0; 7];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
