//! A cluster, a pod in it, and the question which pools its NIC may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_actors::error::IpamError;
use orbweaver_actors::store::Marks;
use orbweaver_actors::supervisor::selection::{Question, Selection, select, select_all};
use orbweaver_api::pool::SpiderIPPool;
use serde_json::{Value, json};

/// A cluster, a pod in it, and what the CNI configuration says.
pub(crate) struct Scene {
    pub(crate) pools: Vec<Arc<SpiderIPPool>>,
    pub(crate) pod: Pod,
    pub(crate) node: Marks,
    pub(crate) namespace: Marks,
    pub(crate) configured: (Vec<String>, Vec<String>),
    pub(crate) enabled: (bool, bool),
    pub(crate) network: Option<&'static str>,
    pub(crate) nic: &'static str,
    pub(crate) further_networks: Vec<String>,
}

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Scene {
    pub(crate) fn new(pools: &[Value]) -> Self {
        Self {
            pools: pools
                .iter()
                .map(|pool| Arc::new(serde_json::from_value(pool.clone()).unwrap()))
                .collect(),
            pod: serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "shop" } })).unwrap(),
            node: Marks::default(),
            namespace: Marks::default(),
            configured: (Vec::new(), Vec::new()),
            enabled: (true, true),
            network: None,
            nic: "eth0",
            further_networks: Vec::new(),
        }
    }

    pub(crate) fn configured(mut self, ipv4: &[&str], ipv6: &[&str]) -> Self {
        self.configured = (names(ipv4), names(ipv6));
        self
    }

    pub(crate) fn annotated(mut self, key: &str, value: &str) -> Self {
        let annotations = self.pod.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            pod: &self.pod,
            nic: self.nic,
            node_name: "n1",
            node: &self.node,
            namespace: &self.namespace,
            pools: &self.pools,
            configured: (&self.configured.0, &self.configured.1),
            enabled: self.enabled,
            network: self.network,
            further_networks: &self.further_networks,
            agent_namespace: "kube-system",
        }
    }

    pub(crate) fn select(&self) -> Result<Selection, IpamError> {
        select(&self.question())
    }

    /// One selection for each item of a nameless `ippools`.
    pub(crate) fn select_all(&self) -> Result<Vec<Selection>, IpamError> {
        select_all(&self.question())
    }

    /// Names of the candidates of all families, in order.
    pub(crate) fn order(&self) -> Vec<String> {
        order_of(&self.select().unwrap())
    }

    pub(crate) fn refusal(&self) -> String {
        self.select().unwrap_err().to_string()
    }
}

pub(crate) fn pool(name: &str, spec: Value) -> Value {
    let mut pool = json!({ "metadata": { "name": name }, "spec": { "subnet": "10.0.0.0/24" } });
    for (key, value) in spec.as_object().unwrap() {
        pool["spec"][key] = value.clone();
    }
    pool
}

pub(crate) fn marked(name: &str, spec: Value) -> Value {
    let mut pool = pool(name, spec);
    pool["metadata"]["annotations"] = json!({ "ipam.spidernet.io/iaas-provider": "c" });
    pool
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Names of the candidates of all families, in order.
pub(crate) fn order_of(selection: &Selection) -> Vec<String> {
    let pools = selection.families.iter().flat_map(|candidates| &candidates.pools);
    pools.map(|pool| pool.metadata.name.clone().unwrap()).collect()
}
