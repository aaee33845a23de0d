//! An explanation for people.

use std::fmt::Write;

use orbweaver_actors::supervisor::explain::{Explanation, NicExplanation, PoolExplanation};

/// A page of text; the last line is the verdict.
pub fn render(of: &Explanation) -> String {
    let mut page = String::new();
    let network = of.network.as_deref().unwrap_or("unknown");
    line(
        &mut page,
        &format!(
            "pod {} (UID {}), NIC {}, node {}, network {network}",
            of.pod, of.uid, of.nic, of.node
        ),
    );
    if let Some(nic) = &of.recorded {
        let addresses: Vec<&str> = [&nic.ipv4, &nic.ipv6]
            .into_iter()
            .filter_map(|text| text.as_deref())
            .collect();
        line(
            &mut page,
            &format!(
                "\nIts endpoint names {} already: another ADD answers the same. A new pod would go through this:",
                addresses.join(" and ")
            ),
        );
    }
    if let Some(endpoint) = &of.comes_back_to {
        line(
            &mut page,
            &format!(
                "\nIt comes back under its name: what SpiderEndpoint {endpoint} names for it in pools named below is taken over first, whatever their filters say."
            ),
        );
    }
    line(
        &mut page,
        "\nplaces that may name pools, the first that does decides:",
    );
    for word in &of.sources {
        let mark = if word.decides { "=>" } else { "  " };
        line(
            &mut page,
            &format!("{mark} {}: {}", word.source, word.says.as_deref().unwrap_or("-")),
        );
    }
    for nic in &of.nics {
        nic_lines(&mut page, nic);
    }
    let verdict = match &of.refusal {
        None => "an ADD goes on and claims, in this order, where an address is left".to_owned(),
        Some(refusal) => format!("an ADD is refused: {refusal}"),
    };
    line(&mut page, &format!("\n{verdict}"));
    page
}

fn line(page: &mut String, text: &str) {
    let _ = writeln!(page, "{text}");
}

fn nic_lines(page: &mut String, nic: &NicExplanation) {
    let class = nic.class.as_deref().unwrap_or("-");
    line(page, &format!("\nNIC {}, class that counts: {class}", nic.nic));
    for pool in &nic.pools {
        pool_lines(page, nic, pool);
    }
    for order in &nic.order {
        line(
            page,
            &format!("  order of {}: {}", order.family, order.pools.join(", ")),
        );
    }
}

fn pool_lines(page: &mut String, nic: &NicExplanation, pool: &PoolExplanation) {
    let place = nic
        .order
        .iter()
        .find_map(|order| order.pools.iter().position(|name| *name == pool.pool));
    let became = match (&pool.dropped, place) {
        (Some(why), _) => format!("dropped, {why}"),
        (None, Some(place)) => format!("candidate {}", place + 1),
        (None, None) => "candidate".to_owned(),
    };
    let count = |number: Option<i64>| number.map_or("?".to_owned(), |number| number.to_string());
    line(
        page,
        &format!(
            "  {} ({}, {}, {} of {} in use): {became}",
            pool.pool,
            pool.family,
            pool.class,
            count(pool.used),
            count(pool.total)
        ),
    );
    if !pool.filters.is_empty() {
        let words = pool.filters.iter().map(|verdict| match verdict.drops {
            None => format!("{} ok", verdict.filter),
            Some(_) => format!("{} DROPS", verdict.filter),
        });
        line(
            page,
            &format!("      filters: {}", words.collect::<Vec<_>>().join(", ")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_says_who_decides_what_every_pool_became_and_how_it_ends() {
        let explanation: Explanation = serde_json::from_value(json!({
            "pod": "shop/web", "uid": "u", "nic": "eth0", "node": "n1", "network": null,
            "recorded": { "interface": "eth0", "ipv4": "10.7.0.20/24" }, "comesBackTo": "shop/web",
            "sources": [
                { "source": "the pod's annotation", "says": "{\"ipv4\":[\"g\"]}", "decides": true },
                { "source": "the CNI configuration", "says": null, "decides": false },
            ],
            "nics": [{
                "nic": "eth0", "class": "provider pool",
                "pools": [
                    { "pool": "g", "family": "IPv4", "class": "provider pool", "used": 3, "total": 10,
                      "filters": [{ "filter": "disable", "drops": null }], "dropped": null },
                    { "pool": "h", "family": "IPv4", "class": "provider pool", "used": null, "total": null,
                      "filters": [{ "filter": "disable", "drops": "it is disabled" }], "dropped": "it is disabled" },
                ],
                "order": [{ "family": "IPv4", "pools": ["g"] }], "refusal": null,
            }],
            "refusal": "no IPPool available",
        }))
        .unwrap();
        let page = render(&explanation);
        for expected in [
            "pod shop/web (UID u), NIC eth0, node n1, network unknown",
            "names 10.7.0.20/24 already",
            "SpiderEndpoint shop/web",
            "=> the pod's annotation: {\"ipv4\":[\"g\"]}",
            "   the CNI configuration: -",
            "NIC eth0, class that counts: provider pool",
            "g (IPv4, provider pool, 3 of 10 in use): candidate 1",
            "h (IPv4, provider pool, ? of ? in use): dropped, it is disabled",
            "filters: disable DROPS",
            "order of IPv4: g",
        ] {
            assert!(page.contains(expected), "{expected:?} is not in\n{page}");
        }
        assert!(
            page.trim_end()
                .ends_with("an ADD is refused: no IPPool available"),
            "{page}"
        );
    }
}
