//! A cloud, a client, and a cluster where one is wanted.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use orbweaver_api::ledger::{Expectation, Ledger};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::provider::{ALLOCATE_PATH, AllocateResponse, RELEASE_PATH, SubEniResponse};
use orbweaver_cloud_sim::call_time::CallTime;
use orbweaver_cloud_sim::{Cloud, CloudOptions};
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use serde_json::{Value, json};

/// Far more than a working test needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const PARENT_1: &str = "fa:16:3e:00:00:01";
pub(crate) const PARENT_2: &str = "fa:16:3e:00:00:02";

/// Seconds pass as milliseconds, and the cloud takes 100 of them.
pub(crate) fn options() -> CloudOptions {
    CloudOptions {
        time_scale: 0.001,
        call_time: CallTime::Fixed(Duration::from_secs(10)),
        pools: false,
        rate: 1000.0,
        burst: 1000,
        ..CloudOptions::default()
    }
}

pub(crate) async fn cloud(options: CloudOptions) -> Cloud {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
    Cloud::start(options, Client::try_from(nowhere).unwrap())
        .await
        .unwrap()
}

pub(crate) fn item(address: &str, parent: &str) -> Value {
    json!({ "parentNicMac": parent, "subnet": "10.0.0.0/24", "ipv4Address": address })
}

pub(crate) fn ask(node: &str, items: &[Value]) -> Value {
    json!({ "podName": "p", "podNamespace": "ns", "nodeName": node, "subEniRequests": items })
}

pub(crate) async fn post(
    cloud: &Cloud,
    path: &str,
    budget: Option<&str>,
    body: &Value,
) -> reqwest::Result<reqwest::Response> {
    let mut request = reqwest::Client::new()
        .post(format!("{}{path}", cloud.url()))
        .json(body);
    if let Some(budget) = budget {
        request = request.header("X-Request-Timeout-Ms", budget);
    }
    request.timeout(PATIENCE).send().await
}

/// Status and text of an allocate call with a good budget.
pub(crate) async fn allocate(cloud: &Cloud, body: &Value) -> (u16, String) {
    let response = post(cloud, ALLOCATE_PATH, Some("50000"), body).await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// The one sub-ENI of an allocate call that works.
pub(crate) async fn bind(cloud: &Cloud, node: &str, item: Value) -> SubEniResponse {
    let (status, text) = allocate(cloud, &ask(node, &[item])).await;
    assert_eq!(status, 200, "{text}");
    let mut response: AllocateResponse = serde_json::from_str(&text).unwrap();
    response.sub_eni_responses.remove(0)
}

pub(crate) async fn release(cloud: &Cloud, node: &str, address: &str) -> u16 {
    let body = json!({ "nodeName": node, "subnet": "10.0.0.0/24", "ipAddress": address });
    let response = post(cloud, RELEASE_PATH, Some("50000"), &body).await;
    response.unwrap().status().as_u16()
}

/// Waits until a condition gives something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, condition: impl Fn() -> F) -> T {
    let poll = async {
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, poll).await;
    found.unwrap_or_else(|_| panic!("in vain waited for: {what}"))
}

/// A cluster with the definition of pools.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) cloud: Cloud,
    pub(crate) pools: Api<SpiderIPPool>,
}

impl Scene {
    pub(crate) async fn start(options: CloudOptions) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in orbweaver_api::crd::all().unwrap() {
            definitions
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
        }
        let options = CloudOptions {
            pools: true,
            ..options
        };
        let cloud = Cloud::start(options, client.clone()).await.unwrap();
        Self {
            cluster,
            cloud,
            pools: Api::all(client),
        }
    }

    pub(crate) async fn create(&self, name: &str, annotations: Value, spec: Value) {
        let mut annotations = annotations;
        annotations["ipam.spidernet.io/iaas-provider"] = json!("test");
        let pool: SpiderIPPool = serde_json::from_value(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": { "name": name, "annotations": annotations }, "spec": spec,
        }))
        .unwrap();
        self.pools.create(&PostParams::default(), &pool).await.unwrap();
    }

    /// What agents do: a merge patch of the status.
    pub(crate) async fn patch_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.pools
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn claim(&self, name: &str, addresses: &[&str]) {
        let claims: serde_json::Map<_, _> = addresses
            .iter()
            .map(|address| ((*address).to_owned(), json!({ "pod": "ns/p", "podUid": address })))
            .collect();
        let text = Value::Object(claims).to_string();
        let status = json!({ "allocatedIPs": text, "allocatedIPCount": addresses.len() });
        self.patch_status(name, status).await;
    }

    /// The pool and its ledger, as an agent reads it, when it fits.
    pub(crate) async fn ledger_where(
        &self,
        name: &str,
        what: &str,
        fits: impl Fn(&Ledger) -> bool,
    ) -> (SpiderIPPool, Ledger) {
        until(what, || async {
            let pool = self.pools.get(name).await.unwrap();
            let ledger = read(&pool)?;
            fits(&ledger).then_some((pool, ledger))
        })
        .await
    }

    pub(crate) async fn finish(self) {
        self.cloud.shutdown().await;
        self.cluster.shutdown().await;
    }
}

/// The ledger of a pool if an agent would use it.
pub(crate) fn read(pool: &SpiderIPPool) -> Option<Ledger> {
    let written = pool.status.as_ref()?.ip_meta_data.as_ref()?;
    let expect = Expectation {
        generation: pool.metadata.generation?,
        node_name: pool.spec.node_name.first().map(String::as_str),
    };
    let ledger = Ledger::decode(written.metadata.as_deref(), written.observed_generation, expect).ok()?;
    assert_eq!(ledger.skipped().count(), 0, "{written:?}");
    Some(ledger)
}
