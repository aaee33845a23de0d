//! What was asked, what came, and what is claimed of it.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::Api;
use orbweaver_api::endpoint::SpiderEndpoint;
use serde::Serialize;
use serde_json::Value;

use crate::kubelet::{Answer, Sandbox};
use crate::metrics::Samples;
use crate::simulation::Simulation;

/// The stages of an ADD, in order.
pub(super) const STAGES: [&str; 7] = [
    "admission",
    "pod",
    "selection",
    "claim",
    "parent_nic",
    "provider",
    "endpoint",
];

/// What was asked.
pub(super) struct Asked<'a> {
    pub(super) title: &'a str,
    pub(super) node: &'a str,
    pub(super) pool: &'a str,
    pub(super) sandbox: &'a Sandbox,
}

/// A statement about a step, and whether it is true.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Claim {
    pub(super) text: String,
    pub(super) holds: bool,
}

/// One ADD of the demo.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) title: String,
    pub(super) node: String,
    pub(super) pool: String,
    pub(super) success: bool,
    pub(super) address: Option<String>,
    pub(super) mac: Option<String>,
    pub(super) vlan: Option<i64>,
    pub(super) provider_calls: usize,
    pub(super) api_requests: u64,
    /// Milliseconds by stage, as the agent measured them.
    pub(super) stages_ms: BTreeMap<String, f64>,
    /// Milliseconds of the plugin's process.
    pub(super) took_ms: f64,
    pub(super) claims: Vec<Claim>,
    /// What the plugin printed.
    pub(super) plugin: Value,
    #[serde(skip)]
    pub(super) text: String,
    #[serde(skip)]
    pub(super) sandbox: Sandbox,
}

impl Step {
    pub(super) fn new(
        asked: &Asked<'_>,
        answer: &Answer,
        before: &Samples,
        after: &Samples,
        provider_calls: usize,
    ) -> Self {
        let change = |name: &str, labels: &[&str]| after.sum(name, labels) - before.sum(name, labels);
        let stage = |stage: &&str| {
            let label = format!("stage=\"{stage}\"");
            let seconds = change("orbweaver_stage_duration_seconds_sum", &["verb=\"add\"", &label]);
            ((*stage).to_owned(), seconds * 1000.0)
        };
        let watches = change("orbweaver_api_requests_total", &["verb=\"watch\""]);
        let requests = change("orbweaver_api_requests_total", &[]) - watches;
        Self {
            title: asked.title.to_owned(),
            node: asked.node.to_owned(),
            pool: asked.pool.to_owned(),
            success: answer.success,
            address: answer.address(),
            mac: None,
            vlan: None,
            provider_calls,
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
            api_requests: requests.max(0.0).round() as u64,
            stages_ms: STAGES.iter().map(stage).collect(),
            took_ms: answer.took.as_secs_f64() * 1000.0,
            claims: Vec::new(),
            plugin: answer.json.clone(),
            text: answer.text(),
            sandbox: asked.sandbox.clone(),
        }
    }

    /// MAC and VLAN are not in a CNI result: the VLAN plugin reads them from the endpoint.
    pub(super) async fn with_endpoint(mut self, simulation: &Simulation, sandbox: &Sandbox) -> Result<Self> {
        let api: Api<SpiderEndpoint> = Api::namespaced(simulation.client.clone(), &sandbox.namespace);
        if let Some(endpoint) = api.get_opt(&sandbox.name).await? {
            let nic = endpoint
                .status
                .current
                .ips
                .into_iter()
                .find(|nic| nic.interface == "eth0");
            (self.mac, self.vlan) = nic.map(|nic| (nic.mac, nic.vlan)).unwrap_or_default();
        }
        Ok(self)
    }

    pub(super) fn claim(&mut self, text: &str, holds: bool) {
        println!("   {} {text}", if holds { "true: " } else { "FALSE:" });
        self.claims.push(Claim {
            text: text.to_owned(),
            holds,
        });
    }

    pub(super) fn is(&self, address: &str) -> bool {
        self.address.as_deref() == Some(address)
    }

    pub(super) fn broken(&self) -> impl Iterator<Item = String> + '_ {
        let broken = self.claims.iter().filter(|claim| !claim.holds);
        broken.map(|claim| format!("{}: {}", self.title, claim.text))
    }
}
