//! One version of the pool object.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use orbweaver_api::pool::SpiderIPPool;
use serde_json::{Value, json};

/// Addresses that operations name; the last two are not the pool's to give.
pub(crate) const HOSTS: u8 = 8;
pub(crate) const GIVEN: u8 = HOSTS - 2;

pub(crate) fn address(host: u8) -> IpAddr {
    IpAddr::from([10, 7, 0, 10 + host])
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) version: u64,
    pub(crate) generation: i64,
    pub(crate) observed: i64,
    pub(crate) claims: BTreeMap<IpAddr, String>,
    pub(crate) ledger: BTreeMap<IpAddr, (String, i64)>,
}

impl Object {
    pub(crate) fn render(&self, marked: bool) -> Arc<SpiderIPPool> {
        let claims: serde_json::Map<String, Value> = self
            .claims
            .iter()
            .map(|(address, uid)| (address.to_string(), json!({ "pod": "ns/p", "podUid": uid })))
            .collect();
        let entries: serde_json::Map<String, Value> = self
            .ledger
            .iter()
            .map(|(address, (node, vlan))| {
                let entry = json!({ "mac": "fa:16:3e:00:00:01", "vlan": vlan, "node": node });
                (address.to_string(), entry)
            })
            .collect();
        let mut object = json!({
            "metadata": {
                "name": "p", "uid": "u", "resourceVersion": self.version.to_string(),
                "generation": self.generation,
            },
            "spec": {
                "subnet": "10.7.0.0/24",
                "ips": [format!("{}-{}", address(0), address(GIVEN))],
                "excludeIPs": [address(GIVEN).to_string()],
            },
            "status": { "allocatedIPs": Value::Object(claims).to_string() },
        });
        if marked {
            object["metadata"]["labels"] = json!({ "ipam.spidernet.io/iaas-provider": "c" });
            object["status"]["ipMetaData"] = json!({
                "metadata": json!({ "scope": "", "ips": entries }).to_string(),
                "observedGeneration": self.observed,
            });
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }
}
