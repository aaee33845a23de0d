//! Checks the invariants of design §8 that can be seen from outside, over pools, endpoints and pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
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
}

impl Picture {
    /// Reads the cluster: pools named in `pools`, and what is in `namespace`.
    pub async fn take(client: &Client, pools: &[String], namespace: &str) -> Result<Self> {
        let mut found = Vec::new();
        for name in pools {
            found.extend(Api::<SpiderIPPool>::all(client.clone()).get_opt(name).await?);
        }
        let all = ListParams::default();
        Ok(Self {
            pools: found,
            endpoints: Api::namespaced(client.clone(), namespace).list(&all).await?.items,
            pods: Api::namespaced(client.clone(), namespace).list(&all).await?.items,
        })
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
            if !alive.contains_key(uid) {
                findings.push(format!(
                    "{address} of pool {pool} is claimed by {uid}, which is no pod"
                ));
            }
        }
        self.audit_endpoints(&claims, &mut findings);
        self.audit_counts(&mut findings);
        Ok(findings)
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
