//! The ledger as the provider writes it (reference §6.3).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use orbweaver_api::ledger::DETACH_MARK;
use orbweaver_api::mac::Mac;
use orbweaver_api::pool::{IpMetaData, PoolMode};
use serde::{Deserialize, Serialize};

use crate::pool_view::PoolView;
use crate::sub_eni::SubEni;

/// Addresses that are about to be detached, and since when (RFC 3339).
pub type Marks = BTreeMap<IpAddr, String>;

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    scope: std::borrow::Cow<'a, str>,
    #[serde(default)]
    ips: BTreeMap<IpAddr, Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ipv6: Option<Ipv6Addr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mac: Option<Mac>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vlan: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detach_time: Option<String>,
}

/// `status.ipMetaData` of a pool with these sub-ENIs, for the pool's generation.
pub fn render<'a>(pool: &PoolView, sub_enis: impl Iterator<Item = &'a SubEni>, marks: &Marks) -> IpMetaData {
    let node_level = pool.mode == PoolMode::NodeLevel;
    let scope = pool.node.as_deref().filter(|_| node_level).unwrap_or_default();
    let mut envelope = Envelope {
        scope: scope.into(),
        ips: BTreeMap::new(),
    };
    let (mut ready, mut unready) = (0, 0);
    for sub_eni in sub_enis.filter(|sub_eni| pool.addresses.contains(sub_eni.address)) {
        let mark = marks.get(&sub_eni.address);
        let elsewhere = node_level && sub_eni.node() != Some(scope);
        if mark.is_none() && sub_eni.place.is_some() && !elsewhere {
            ready += 1;
        } else {
            unready += 1;
        }
        // A node-level ledger speaks of its own node only.
        if !elsewhere {
            envelope
                .ips
                .insert(sub_eni.address, entry(sub_eni, mark, node_level));
        }
    }
    IpMetaData {
        // Addresses and strings always print.
        metadata: serde_json::to_string(&envelope).ok(),
        observed_generation: Some(pool.generation),
        ready_ip_count: Some(ready),
        unready_ip_count: Some(unready),
    }
}

fn entry(sub_eni: &SubEni, mark: Option<&String>, node_level: bool) -> Entry {
    let detaching = mark.filter(|_| sub_eni.place.is_some());
    let vlan = match detaching {
        Some(_) => Some(DETACH_MARK),
        None => sub_eni.vlan().map(i64::from),
    };
    let status = match (&sub_eni.place, detaching) {
        (None, _) => "unbound",
        (Some(_), None) => "bound",
        (Some(_), Some(_)) => "detaching",
    };
    Entry {
        ipv6: sub_eni.ipv6,
        mac: Some(sub_eni.mac),
        vlan,
        node: sub_eni.node().filter(|_| !node_level).map(str::to_owned),
        status: Some(status.to_owned()),
        detach_time: detaching.cloned(),
    }
}

/// The marks of a ledger that an earlier provider wrote; none when it cannot be read.
pub fn marks(ledger: Option<&IpMetaData>) -> Marks {
    let text = ledger
        .and_then(|ledger| ledger.metadata.as_deref())
        .unwrap_or_default();
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else {
        return Marks::new();
    };
    envelope
        .ips
        .into_iter()
        .filter(|(_, entry)| entry.vlan == Some(DETACH_MARK))
        .map(|(address, entry)| (address, entry.detach_time.unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use orbweaver_api::ledger::{Binding, Expectation, Ledger};
    use serde_json::json;

    use super::*;
    use crate::pool_view::tests::view;
    use crate::sub_eni::Place;

    fn sub_eni(address: &str, node: Option<&str>) -> SubEni {
        SubEni {
            address: address.parse().unwrap(),
            ipv6: Some("fd00::1".parse().unwrap()),
            mac: Mac::new([0xfa, 0x17, 0, 0, 0, 1]),
            subnet: "10.0.0.0/24".to_owned(),
            pool: "p".to_owned(),
            place: node.map(|node| Place {
                node: node.to_owned(),
                parent_nic_mac: Mac::new([1; 6]),
                vlan: 9,
            }),
        }
    }

    fn pool(node: &[&str]) -> PoolView {
        let spec = json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.20"], "nodeName": node });
        view("p", true, spec, json!({}))
    }

    fn decoded(pool: &PoolView, written: &IpMetaData) -> Ledger {
        let expect = Expectation {
            generation: pool.generation,
            node_name: pool.node.as_deref(),
        };
        let ledger =
            Ledger::decode(written.metadata.as_deref(), written.observed_generation, expect).unwrap();
        assert_eq!(ledger.skipped().count(), 0, "{written:?}");
        ledger
    }

    #[test]
    fn a_new_global_pool_gets_an_empty_ledger_with_scope() {
        let written = render(&pool(&[]), std::iter::empty(), &Marks::new());
        assert_eq!(written.metadata.as_deref(), Some(r#"{"scope":"","ips":{}}"#));
        assert_eq!(written.observed_generation, Some(3));
    }

    #[test]
    fn every_state_is_read_by_the_agent_as_it_was_meant() {
        let pool = pool(&[]);
        let all = [
            sub_eni("10.0.0.10", Some("n1")),
            sub_eni("10.0.0.11", None),
            sub_eni("10.0.0.12", Some("n2")),
            sub_eni("10.0.0.99", Some("n2")),
        ];
        let marks = Marks::from([
            ("10.0.0.12".parse().unwrap(), "now".to_owned()),
            ("10.0.0.11".parse().unwrap(), "now".to_owned()),
        ]);
        let written = render(&pool, all.iter(), &marks);
        let ledger = decoded(&pool, &written);
        let binding = |address: &str| {
            ledger
                .entries
                .get(&address.parse().unwrap())
                .map(|entry| entry.binding.clone())
        };
        assert!(matches!(binding("10.0.0.10"), Some(Binding::Bound { node, vlan: 9, .. }) if node == "n1"));
        assert_eq!(binding("10.0.0.11"), Some(Binding::Unbound));
        assert_eq!(binding("10.0.0.12"), Some(Binding::Detaching));
        assert_eq!(binding("10.0.0.99"), None);
        assert_eq!(
            (written.ready_ip_count, written.unready_ip_count),
            (Some(1), Some(2))
        );
        let restored = super::marks(Some(&written));
        assert_eq!(
            restored.keys().collect::<Vec<_>>(),
            [&"10.0.0.12".parse::<IpAddr>().unwrap()]
        );
    }

    #[test]
    fn a_node_level_ledger_has_its_node_as_scope_and_names_none() {
        let pool = pool(&["n1"]);
        let all = [
            sub_eni("10.0.0.10", Some("n1")),
            sub_eni("10.0.0.11", Some("n2")),
            sub_eni("10.0.0.12", None),
        ];
        let written = render(&pool, all.iter(), &Marks::new());
        let ledger = decoded(&pool, &written);
        assert_eq!(ledger.entries.len(), 1);
        assert!(!written.metadata.unwrap().contains("node"));
        assert_eq!(
            (written.ready_ip_count, written.unready_ip_count),
            (Some(1), Some(2))
        );
    }
}
