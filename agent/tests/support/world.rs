//! A simulated cluster with Orbweaver's resources, and ways to wait for what should come.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use orbweaver_agent::cluster::{self, Cluster};
use orbweaver_agent::host::{ActorHost, io_runtime};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_cluster_sim::faults::{Fault, Rule};
use orbweaver_cluster_sim::{Cluster as Simulated, ClusterOptions};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

pub(crate) const NODE: &str = "node-1";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a test starts from.
pub(crate) struct World {
    pub(crate) simulated: Simulated,
    pub(crate) access: Cluster,
    pub(crate) client: Client,
    pub(crate) host: ActorHost,
    pub(crate) folder: tempfile::TempDir,
}

/// Runs a test in a world of its own, on a runtime that its actors share.
pub(crate) fn run<F>(test: impl FnOnce(Arc<World>) -> F)
where
    F: Future<Output = ()>,
{
    let _ = rustls::crypto::ring::default_provider().install_default();
    let io = io_runtime().unwrap();
    let host = ActorHost::start(io.clone(), 1).unwrap();
    let world = io.block_on(async {
        let world = Arc::new(World::start(host).await);
        test(world.clone()).await;
        world.simulated.shutdown().await;
        world
    });
    if let Some(world) = Arc::into_inner(world) {
        world.host.stop();
    }
    if let Some(io) = Arc::into_inner(io) {
        io.shutdown_timeout(Duration::from_secs(1));
    }
}

impl World {
    async fn start(host: ActorHost) -> Self {
        let simulated = Simulated::start(ClusterOptions::default()).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&simulated.kubeconfig()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let access = Cluster::Config(Box::new(config));
        let client = cluster::connect(&access).await.unwrap();
        Self {
            simulated,
            access,
            client,
            host,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Defines the resources. `strict`: with their schemas; else anything goes in.
    pub(crate) async fn define(&self, strict: bool, but: Option<&str>) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for mut definition in orbweaver_api::crd::all().unwrap() {
            if but.is_some_and(|plural| plural == definition.spec.names.plural) {
                continue;
            }
            if !strict {
                for version in &mut definition.spec.versions {
                    let any = json!({ "x-kubernetes-preserve-unknown-fields": true });
                    let anything = json!({ "openAPIV3Schema": {
                        "type": "object", "properties": { "spec": any, "status": any },
                    }});
                    version.schema = Some(serde_json::from_value(anything).unwrap());
                }
            }
            api.create(&PostParams::default(), &definition).await.unwrap();
        }
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": NODE } })).unwrap();
        Api::all(self.client.clone())
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
    }

    pub(crate) fn pools(&self) -> Api<SpiderIPPool> {
        Api::all(self.client.clone())
    }

    pub(crate) fn endpoints(&self) -> Api<SpiderEndpoint> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a pool from its spec and metadata.
    pub(crate) async fn pool(&self, name: &str, metadata: Value, spec: Value) -> SpiderIPPool {
        let mut pool = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": metadata, "spec": spec,
        });
        pool["metadata"]["name"] = json!(name);
        let pool = serde_json::from_value(pool).unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap()
    }

    pub(crate) async fn plain_pool(&self, name: &str) -> SpiderIPPool {
        let spec = json!({ "subnet": "10.6.0.0/16", "ips": ["10.6.0.10-10.6.0.20"], "default": true });
        self.pool(name, json!({}), spec).await
    }

    /// Creates any object, whatever is in it, in the namespace that it names.
    pub(crate) async fn raw(&self, kind: &str, plural: &str, mut object: Value) {
        let version = "spiderpool.spidernet.io/v2beta1".to_owned();
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        let resource = ApiResource {
            group: "spiderpool.spidernet.io".to_owned(),
            version: "v2beta1".to_owned(),
            api_version: version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates a pod that runs on [`NODE`].
    pub(crate) async fn pod(&self, name: &str) -> Pod {
        let pod = json!({
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "nodeName": NODE, "containers": [{ "name": "c", "image": "i" }] },
        });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap()
    }

    pub(crate) fn fault(&self, verb: &str, resource: &str, times: u64, fault: Fault) {
        self.simulated.faults().add(Rule {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            times,
            fault,
        });
    }

    pub(crate) fn requests(&self, verb: &str, resource: &str) -> u64 {
        self.simulated
            .counters()
            .count(|asked| asked.verb == verb && asked.resource == resource)
    }
}

/// Waits until `probe` gives something.
pub(crate) async fn until<T, F>(what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let waited = timeout(PATIENCE, async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never came: {what}"))
}
