//! Checks the invariants of design §8 that can be seen from outside, over pools, endpoints and pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use orbweaver_api::claims;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;

/// What is wrong; empty when nothing is.
pub type Findings = Vec<String>;

/// Everything that is there at one time.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Pools.
    pub pools: Vec<SpiderIPPool>,
    /// Endpoints of the namespaces looked at.
    pub endpoints: Vec<SpiderEndpoint>,
    /// Pods of the namespaces looked at.
    pub pods: Vec<Pod>,
    /// StatefulSets of the namespaces looked at: what their pods hold outlives the pods.
    pub stateful_sets: Vec<StatefulSet>,
}

impl Picture {
    /// Reads the cluster: pools named in `pools`, and what is in `namespace`.
    pub async fn take(client: &Client, pools: &[String], namespace: &str) -> Result<Self> {
        let mut found = Vec::new();
        for name in pools {
            found.extend(Api::<SpiderIPPool>::all(client.clone()).get_opt(name).await?);
        }
        let mut picture = Self {
            pools: found,
            ..Self::default()
        };
        picture.add_namespace(client, namespace).await?;
        Ok(picture)
    }

    /// Reads what is in one more namespace.
    pub async fn add_namespace(&mut self, client: &Client, namespace: &str) -> Result<()> {
        let all = ListParams::default();
        let endpoints = Api::namespaced(client.clone(), namespace).list(&all).await?;
        let pods = Api::namespaced(client.clone(), namespace).list(&all).await?;
        let sets = Api::namespaced(client.clone(), namespace).list(&all).await?;
        self.endpoints.extend(endpoints.items);
        self.pods.extend(pods.items);
        self.stateful_sets.extend(sets.items);
        Ok(())
    }

    /// Claims by pool and address.
    pub fn claims(&self) -> Result<BTreeMap<(String, IpAddr), String>> {
        let mut all = BTreeMap::new();
        for pool in &self.pools {
            let text = pool
                .status
                .as_ref()
                .and_then(|status| status.allocated_ips.as_deref());
            for (address, claim) in claims::decode(text)? {
                all.insert((pool.name_any(), address), claim.pod_uid);
            }
        }
        Ok(all)
    }

    /// What is wrong when nothing is in flight.
    pub fn audit(&self) -> Result<Findings> {
        let mut findings = Findings::new();
        let claims = self.claims()?;
        let alive: BTreeMap<String, String> = self
            .pods
            .iter()
            .map(|pod| (pod.uid().unwrap_or_default(), pod.name_any()))
            .collect();
        for ((pool, address), uid) in &claims {
            if !alive.contains_key(uid) && !self.is_wanted_back(uid) {
                findings.push(format!(
                    "{address} of pool {pool} is claimed by {uid}, which is no pod"
                ));
            }
        }
        self.audit_endpoints(&claims, &mut findings);
        self.audit_counts(&mut findings);
        Ok(findings)
    }

    /// True when a claim's pod is gone and its StatefulSet, which still counts its ordinal, will make it again;
    /// until then the endpoint keeps the UID of the life that ended.
    fn is_wanted_back(&self, uid: &str) -> bool {
        let mut endpoints = self.endpoints.iter();
        let Some(endpoint) = endpoints.find(|endpoint| endpoint.status.current.uid == uid) else {
            return false;
        };
        let status = &endpoint.status;
        let named = |set: &&StatefulSet| {
            set.metadata.name.as_ref() == Some(&status.owner_controller_name)
                && set.metadata.namespace == endpoint.metadata.namespace
        };
        let set = self.stateful_sets.iter().find(named);
        let Some(spec) = set.and_then(|set| set.spec.as_ref()) else {
            return false;
        };
        let name = endpoint.name_any();
        let ordinal = name
            .strip_prefix(&status.owner_controller_name)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|digits| digits.parse::<i32>().ok());
        let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
        let first = first.unwrap_or(0);
        status.owner_controller_type == "StatefulSet"
            && ordinal.is_some_and(|ordinal| {
                (first..first.saturating_add(spec.replicas.unwrap_or(1))).contains(&ordinal)
            })
    }

    fn audit_endpoints(&self, claims: &BTreeMap<(String, IpAddr), String>, findings: &mut Findings) {
        let mut holders: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut recorded = 0;
        for endpoint in &self.endpoints {
            let current = &endpoint.status.current;
            for nic in &current.ips {
                for (address, pool) in [(&nic.ipv4, &nic.ipv4_pool), (&nic.ipv6, &nic.ipv6_pool)] {
                    let (Some(address), Some(pool)) = (address, pool) else {
                        continue;
                    };
                    let bare = address.split('/').next().unwrap_or_default().to_owned();
                    let key = bare.parse().map(|address| (pool.clone(), address));
                    let holder = key.ok().and_then(|key| claims.get(&key));
                    if holder != Some(&current.uid) {
                        findings.push(format!(
                            "endpoint {} names {address} of pool {pool}, which is claimed by {holder:?}",
                            endpoint.name_any()
                        ));
                    }
                    recorded += 1;
                    if let Some(other) = holders.insert((pool.clone(), bare), endpoint.name_any()) {
                        findings.push(format!(
                            "{address} of pool {pool} is in endpoints {other} and {}",
                            endpoint.name_any()
                        ));
                    }
                }
            }
        }
        if recorded != claims.len() {
            findings.push(format!(
                "{} claims but {recorded} addresses in endpoints",
                claims.len()
            ));
        }
    }

    fn audit_counts(&self, findings: &mut Findings) {
        for pool in &self.pools {
            let status = pool.status.clone().unwrap_or_default();
            let claims = claims::decode(status.allocated_ips.as_deref())
                .map(|claims| claims.len())
                .unwrap_or_default();
            let counted = status.allocated_ip_count.unwrap_or(0);
            if i64::try_from(claims) != Ok(counted) {
                findings.push(format!(
                    "pool {} counts {counted} claims and has {claims}",
                    pool.name_any()
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn left_behind(owner: &str, ordinal: u32, sets: serde_json::Value) -> Findings {
        let name = format!("web-{ordinal}");
        let claims = json!({ "10.0.0.1": { "pod": format!("ns/{name}"), "podUid": "gone" } }).to_string();
        let pool = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": { "name": "pool" }, "spec": { "subnet": "10.0.0.0/24" },
            "status": { "allocatedIPs": claims, "allocatedIPCount": 1 },
        });
        let endpoint = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": { "name": name, "namespace": "ns" },
            "status": {
                "current": { "uid": "gone", "node": "n", "ips": [
                    { "interface": "eth0", "ipv4": "10.0.0.1/24", "ipv4Pool": "pool" },
                ] },
                "ownerControllerType": owner, "ownerControllerName": "web",
            },
        });
        let picture = Picture {
            pools: vec![serde_json::from_value(pool).unwrap()],
            endpoints: vec![serde_json::from_value(endpoint).unwrap()],
            pods: Vec::new(),
            stateful_sets: serde_json::from_value(sets).unwrap(),
        };
        picture.audit().unwrap()
    }

    #[test]
    fn only_what_a_stateful_set_wants_back_may_outlive_its_pod() {
        let set = |namespace: &str, spec: serde_json::Value| {
            let metadata = json!({ "name": "web", "namespace": namespace });
            let mut set = json!([{ "metadata": metadata, "spec": { "selector": {}, "template": {} } }]);
            for (key, value) in spec.as_object().unwrap() {
                set[0]["spec"][key] = value.clone();
            }
            set
        };
        let two = json!({ "replicas": 2 });
        assert_eq!(
            left_behind("StatefulSet", 1, set("ns", two.clone())),
            Findings::new()
        );
        let late = json!({ "replicas": 2, "ordinals": { "start": 5 } });
        assert_eq!(
            left_behind("StatefulSet", 6, set("ns", late.clone())),
            Findings::new()
        );
        for (owner, ordinal, sets) in [
            ("StatefulSet", 2, set("ns", two.clone())),
            ("StatefulSet", 1, set("ns", late)),
            ("StatefulSet", 1, set("other", two.clone())),
            ("StatefulSet", 1, json!([])),
            ("Deployment", 1, set("ns", two)),
        ] {
            let findings = left_behind(owner, ordinal, sets);
            assert_eq!(findings.len(), 1, "{owner} {ordinal}: {findings:?}");
        }
    }
}
